// `transmuter embed`: sentence embeddings of texts, and how alike they are.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hub_progress.h"
#include "transmuter/transmuter.h"

namespace transmuter::cli {

using nlohmann::json;

namespace {

struct EmbedCommand {
  EngineOptions engine;
  std::string folder;
  std::vector<std::string> texts;
  std::string file;
  size_t max_length = 0;
  bool as_json = false;
};

void read_lines(std::istream& in, std::vector<std::string>& lines) {
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
}

std::vector<std::string> all_texts(const EmbedCommand& command) {
  std::vector<std::string> texts = command.texts;
  if (command.file == "-") {
    read_lines(std::cin, texts);
  } else if (!command.file.empty()) {
    std::ifstream in(command.file);
    if (!in) throw Error(ErrorCode::not_found, "cannot read " + command.file);
    read_lines(in, texts);
  }
  if (texts.empty())
    throw Error(ErrorCode::invalid_input, "no text: give --text or a file of lines (- for standard input)");
  return texts;
}

json rows_json(const Tensor& rows) {
  json out = json::array();
  for (int64_t r = 0; r < rows.dim(0); ++r) {
    const float* row = rows.data<float>() + r * rows.dim(1);
    out.push_back(std::vector<float>(row, row + rows.dim(1)));
  }
  return out;
}

void print_table(const std::vector<std::string>& texts, const Tensor& cosines) {
  const int64_t count = cosines.dim(0);
  std::printf("   ");
  for (int64_t c = 0; c < count; ++c) std::printf(" %6" PRId64, c + 1);
  std::printf("\n");
  for (int64_t r = 0; r < count; ++r) {
    std::printf("%3" PRId64, r + 1);
    for (int64_t c = 0; c < count; ++c) std::printf(" %6.3f", cosines.data<float>()[r * count + c]);
    std::printf("  %s\n", texts[static_cast<size_t>(r)].c_str());
  }
}

void embed(const EmbedCommand& command) {
  const std::vector<std::string> texts = all_texts(command);
  EmbedOptions options;
  options.compile = command.engine.compile_options();
  options.max_length = command.max_length;
  const Tensor vectors = TextEmbedder::load(local_folder(command.folder), options)(texts);
  const Tensor cosines = cosine_similarities(vectors);
  if (command.as_json) {
    std::printf("%s\n", json{{"texts", texts}, {"embeddings", rows_json(vectors)}, {"similarities", rows_json(cosines)}}
                            .dump()
                            .c_str());
  } else {
    print_table(texts, cosines);
  }
}

}  // namespace

void add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedCommand>();
  CLI::App* command = app.add_subcommand("embed", "Sentence embeddings: a table of cosine similarities, or JSON");
  command->add_option("model", options->folder, "folder with model.onnx and tokenizer.json, or hf:REPO[@REVISION]")
      ->required();
  command->add_option("file", options->file, "one text a line; - reads standard input");
  command->add_option("-t,--text", options->texts, "a text; may be given again");
  command->add_option("--max-length", options->max_length, "tokens a text may have; 0: as the folder says");
  command->add_flag("--json", options->as_json, "texts, embeddings and similarities as one JSON object");
  options->engine.add_to(*command);
  command->callback([options] { embed(*options); });
}

}  // namespace transmuter::cli
