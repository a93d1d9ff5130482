// `transmuter export --stablehlo` and `transmuter ops`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hub_progress.h"
#include "inputs.h"

namespace transmuter::cli {

namespace {

struct ExportOptions {
  EngineOptions engine;
  std::string model;
  std::vector<std::string> extents;
  std::string data_set;
  std::vector<std::string> inputs;
  std::string output;
  std::string weights;  // a folder
  bool stablehlo = false;
  StableHloOptions text;
};

// What @main of each module takes that no run gives: MODULE.N.npy for its argument N.
void write_weights(const std::vector<StableHloModule>& modules, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorCode::io, "cannot make the folder " + folder.string() + ": " + error.message());
  for (const StableHloModule& module : modules) {
    for (size_t i = 0; i < module.arguments.size(); ++i)
      if (module.arguments[i].weight)
        write_npy((folder / (module.name + "." + std::to_string(i) + ".npy")).string(), module.arguments[i].weight);
  }
}

void export_model(const ExportOptions& options) {
  const Model model = Model::load(local_path(options.model));
  CompileOptions compile = options.engine.compile_options();
  compile.backend = "reference";
  const CompiledModel traced = model.compile(compile);
  TensorMap inputs = options.inputs.empty() ? TensorMap() : read_inputs(model, options.inputs);
  if (!options.data_set.empty()) {
    inputs = read_data_set(model, options.data_set);
  } else if (inputs.empty()) {
    inputs = generated_inputs(model, parse_extents(options.extents), 100);
  }
  traced.trace(inputs);
  const std::vector<StableHloModule> modules = traced.stablehlo_modules(options.text);
  if (!options.weights.empty()) write_weights(modules, options.weights);
  std::string text;
  for (const StableHloModule& module : modules) text += module.text;
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  std::ofstream file(options.output, std::ios::binary);
  if (!file) throw Error(ErrorCode::io, "cannot write " + options.output);
  file << text;
  file.close();
  if (!file) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(options.output, ignored)) std::filesystem::remove(options.output, ignored);
    throw Error(ErrorCode::io, "cannot write " + options.output);
  }
}

std::string versions_of(const OperatorInfo& op) {
  std::string text;
  for (int64_t v : op.versions) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return text;
}

// The whole of guides/supported_operators.md.
void print_guide(const std::vector<OperatorInfo>& operators) {
  std::printf(
      "# Supported operators\n\n"
      "Written by `transmuter ops --markdown` from the registrations; `scripts/test.sh` checks that it is current. "
      "Versions\n"
      "are those at which an operator's meaning changes; a model of any opset between or after them runs. Dtypes, "
      "kinds of\n"
      "inputs and limits are the specification's where nothing is said. What proves each of them: "
      "[conformance.md](conformance.md).\n");
  for (size_t i = 0; i < operators.size();) {
    size_t end = i;
    while (end < operators.size() && operators[end].domain == operators[i].domain) ++end;
    const char* domain = operators[i].domain.empty() ? "ai.onnx" : operators[i].domain.c_str();
    std::printf("\n## %s: %zu\n\n| Operator | Versions | Notes |\n|---|---|---|\n", domain, end - i);
    for (; i < end; ++i)
      std::printf("| %s | %s | %s |\n", operators[i].name.c_str(), versions_of(operators[i]).c_str(),
                  operators[i].notes.c_str());
  }
}

void print_ops(bool as_json, bool markdown) {
  const std::vector<OperatorInfo> operators = supported_operators();
  if (as_json) {
    nlohmann::json out = nlohmann::json::array();
    for (const OperatorInfo& op : operators) {
      out.push_back({{"domain", op.domain}, {"name", op.name}, {"versions", op.versions}, {"notes", op.notes}});
    }
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  if (markdown) return print_guide(operators);
  for (const OperatorInfo& op : operators) {
    const char* domain = op.domain.empty() ? "ai.onnx" : op.domain.c_str();
    std::printf("%-14s %-32s %-24s %s\n", domain, op.name.c_str(), versions_of(op).c_str(), op.notes.c_str());
  }
}

}  // namespace

void add_export(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Write the traced program as StableHLO text");
  command->add_option("model", options->model, "an ONNX file, or hf:REPO[@REVISION][/FILE]")->required();
  command->add_flag("--stablehlo", options->stablehlo, "the text form of the program")->required();
  command->add_option("--dim", options->extents, "NAME=VALUE for each symbolic extent");
  command->add_option("--from-case", options->data_set, "a test_data_set_N folder whose inputs give the extents");
  command->add_option("-i,--input", options->inputs, "NAME=FILE.npy, NAME=FILE.pb or NAME=JSON, in place of --dim")
      ->allow_extra_args(false);
  command->add_option("-o,--output", options->output, "file to write; standard output without it");
  CLI::Option* embed = command->add_flag("--embed-weights", options->text.embed_weights,
                                         "weights as constants of the text; for small models");
  command
      ->add_option("--weights", options->weights,
                   "folder for the weights: MODULE.N.npy is argument N of that module's @main")
      ->excludes(embed);
  command->add_flag("--no-passes", options->engine.no_passes, "leave the program as traced");
  command->callback([options] { export_model(*options); });
}

void add_ops(CLI::App& app) {
  struct Flags {
    bool as_json = false, markdown = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("ops", "List the supported operators");
  command->add_flag("--json", flags->as_json, "a JSON list");
  command->add_flag("--markdown", flags->markdown, "guides/supported_operators.md");
  command->callback([flags] { print_ops(flags->as_json, flags->markdown); });
}

}  // namespace transmuter::cli
