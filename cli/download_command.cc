// `transmuter download`: files of a repository on the Hugging Face hub, into the cache that its Python client uses too.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hub_progress.h"
#include "transmuter/hub.h"

namespace transmuter::cli {

namespace {

struct DownloadOptions {
  std::string repo;
  std::vector<std::string> files;
  std::string dtype;
  HubOptions hub;
  bool list = false;
  bool quiet = false;
  bool as_json = false;
};

constexpr const char* kFooter =
    R"(Without FILES it takes what a model needs: the graph (see --dtype), the files that hold its weights,
configuration and tokenizer; the snapshot's folder is printed. With FILES each one's path is printed.

The cache, the endpoint and the token are those of the official client: HF_HUB_CACHE, HF_HOME, HF_ENDPOINT, HF_TOKEN or
the file that its login wrote, HF_HUB_OFFLINE. Interrupted downloads go on where they stopped.

Examples:
  transmuter download Xenova/all-MiniLM-L6-v2
  transmuter download onnx-community/Qwen3-0.6B-ONNX --dtype q4
  transmuter download Xenova/all-MiniLM-L6-v2 onnx/model_fp16.onnx config.json --revision main
  transmuter run hf:ORG/NAME/onnx/model.onnx -i x=input.npy)";

void download(const DownloadOptions& options) {
  const HubOptions hub = options.quiet ? options.hub : with_progress(options.hub);
  if (options.list) {
    for (const std::string& file : hf_files(options.repo, hub)) std::printf("%s\n", file.c_str());
    return;
  }
  if (!options.files.empty()) {
    if (!options.dtype.empty()) throw Error(ErrorCode::invalid_input, "--dtype chooses files; name none then");
    for (const std::string& file : options.files) std::printf("%s\n", hf(options.repo, file, hub).c_str());
    return;
  }
  const HubModel model = hf_model(options.repo, options.dtype, hub);
  if (options.as_json) {
    std::printf(
        "%s\n",
        nlohmann::json{{"folder", model.folder}, {"graph", model.graph}, {"files", model.files}}.dump().c_str());
  } else {
    std::printf("%s\n", model.folder.c_str());
  }
}

}  // namespace

void add_download(CLI::App& app) {
  auto options = std::make_shared<DownloadOptions>();
  CLI::App* command = app.add_subcommand("download", "Download a model from the Hugging Face hub");
  command->footer(kFooter);
  command->add_option("repo", options->repo, "ORG/NAME")->required();
  command->add_option("files", options->files, "files of the repository");
  command->add_option("--revision", options->hub.revision, "a branch, tag or commit")->capture_default_str();
  command->add_option("--dtype", options->dtype,
                      "which variant of the graph: fp32, fp16, bf16, q4, q4f16, int8, uint8, q8, bnb4; full precision "
                      "without it");
  command->add_option("--cache-dir", options->hub.cache, "the cache, if not the environment's");
  command->add_flag("--list", options->list, "print the names of all files instead");
  command->add_flag("--force", options->hub.force, "download again what is cached");
  command->add_flag("--offline", options->hub.offline, "look in the cache only, as HF_HUB_OFFLINE=1");
  command->add_option("--retries", options->hub.retries, "tries in a row that bring nothing new")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command->add_flag("-q,--quiet", options->quiet, "no progress bar");
  command->add_flag("--json", options->as_json, "folder, graph and files as a JSON object");
  command->callback([options] { download(*options); });
}

}  // namespace transmuter::cli
