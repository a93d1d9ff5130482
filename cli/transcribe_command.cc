// `transmuter transcribe`: what is said in sound files.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "generation_options.h"
#include "hub_progress.h"
#include "text_input.h"

namespace transmuter::cli {

namespace {

struct TranscribeCommand {
  EngineOptions engine;
  SettingOptions settings;
  TranscribeOptions transcribe;
  std::string folder, dtype;
  std::vector<std::string> files;
  bool as_json = false;
};

void transcribe(const TranscribeCommand& command) {
  const auto recognizer = SpeechRecognizer::load(local_folder(command.folder, command.dtype),
                                                 command.engine.compile_options(), command.dtype);
  GenerationConfig config = recognizer.config();
  command.settings.apply(config, command.engine.seed);
  for (const std::string& file : command.files) {
    const Transcript heard = recognizer(read_speech(file, recognizer.rate()), command.transcribe, config);
    if (command.as_json) {
      Json line = {{"file", file}, {"text", heard.text}};
      if (!heard.language.empty()) line["language"] = heard.language;
      print_json(line);
    } else {
      std::printf("%s\n", heard.text.c_str());
    }
  }
}

}  // namespace

void add_transcribe(CLI::App& app) {
  auto options = std::make_shared<TranscribeCommand>();
  CLI::App* command = app.add_subcommand("transcribe", "What is said in sound files, by models of Whisper's kind");
  command
      ->add_option("model", options->folder,
                   "folder with encoder_model.onnx, its decoder, tokenizer.json and preprocessor_config.json, or "
                   "hf:REPO[@REVISION]")
      ->required();
  command->add_option("file", options->files, "sound files: WAV, FLAC, Ogg")->required();
  command->add_option("--language", options->transcribe.language,
                      "what is spoken, for models of several languages (en); else what the model hears");
  command->add_flag("--translate", options->transcribe.translate, "into English");
  add_dtype(*command, options->dtype);
  command->add_flag("--json", options->as_json, "a JSON object a file, with file, text and language");
  options->settings.add_to(*command);
  options->engine.add_to(*command);
  command->callback([options] { transcribe(*options); });
}

}  // namespace transmuter::cli
