// `transmuter summarize` and `transmuter translate`: what encoder-decoders make of texts.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "generation_options.h"
#include "hub_progress.h"
#include "text_input.h"
#include "transmuter/text_generator.h"

namespace transmuter::cli {

using nlohmann::ordered_json;

namespace {

struct RewriteCommand {
  EngineOptions engine;
  SettingOptions settings;
  std::string folder, dtype, file, from, to;
  std::vector<std::string> texts;
  bool lines = false, as_json = false;
};

void rewrite(const RewriteCommand& command, const std::string& task, const char* field) {
  std::vector<std::string> texts = command.texts;
  if (!command.file.empty()) {
    const bool whole = task == "summarization" && !command.lines;
    const std::vector<std::string> read =
        whole ? std::vector<std::string>{read_all(command.file)} : read_lines(command.file);
    if (read.size() != 1 || !read[0].empty()) texts.insert(texts.end(), read.begin(), read.end());
  }
  if (texts.empty()) throw Error(ErrorCode::invalid_input, "no text: give texts or --file (- for standard input)");
  const TextRewriter rewriter =
      TextRewriter::load(local_folder(command.folder, command.dtype), task, command.engine.compile_options(),
                         command.dtype, command.from, command.to);
  GenerationConfig config = rewriter.config();
  command.settings.apply(config, command.engine.seed);
  const std::vector<GeneratedText> answers = rewriter(texts, config);
  ordered_json all = ordered_json::array();
  for (const GeneratedText& answer : answers) {
    if (command.as_json) {
      all.push_back({{field, answer.text}, {"token_summary", summary_json(answer)}});
    } else {
      std::printf("%s\n", answer.text.c_str());
    }
  }
  if (command.as_json) print_json(all);
}

void add(CLI::App& app, const char* name, const char* text, const std::string& task, const char* field) {
  auto options = std::make_shared<RewriteCommand>();
  CLI::App* command = app.add_subcommand(name, text);
  command
      ->add_option("model", options->folder,
                   "folder with encoder_model.onnx, its decoder and tokenizer.json, or hf:REPO[@REVISION]")
      ->required();
  command->add_option("text", options->texts, "texts; several are run together");
  if (task == "summarization") {
    command->add_option("-f,--file", options->file, "a text; - reads standard input");
    command->add_flag("--lines", options->lines, "each line of the file is a text of its own");
  } else {
    command->add_option("-f,--file", options->file, "one text a line; - reads standard input");
    command->add_option("--from", options->from, "language of the texts, as the tokenizer names it (en, eng_Latn)");
    command->add_option("--to", options->to, "language to write; for models of several languages");
  }
  add_dtype(*command, options->dtype);
  command->add_flag("--json", options->as_json, "all results as one JSON list");
  options->settings.add_to(*command);
  options->engine.add_to(*command);
  command->callback([options, task, field] { rewrite(*options, task, field); });
}

}  // namespace

void add_summarize(CLI::App& app) {
  add(app, "summarize", "Summaries of texts by an encoder-decoder", "summarization", "summary_text");
}

void add_translate(CLI::App& app) {
  add(app, "translate", "Translations of texts by an encoder-decoder", "translation", "translation_text");
}

}  // namespace transmuter::cli
