// What is said in a sound file? Runs a model of Whisper's kind, half a minute at a time.
//
//   transcribe FOLDER FILE…
//
// FOLDER holds what exporters write: encoder_model.onnx and decoder_model_merged.onnx (or in onnx/), tokenizer.json,
// preprocessor_config.json (which features the model takes) and generation_config.json (how an answer begins, which
// tokens it may not have). scripts/fetch_whisper.py build/models/whisper-tiny.en brings a trained one.
#include <transmuter/transmuter.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace {

namespace tm = transmuter;

// The first tokens of an answer: its start; of a model of many languages which one (English here) and that no
// translation is wanted; that there shall be no time stamps.
std::vector<int64_t> first_tokens(const std::filesystem::path& folder) {
  std::ifstream file(folder / "generation_config.json");
  const auto json = nlohmann::json::parse(file);
  std::vector<int64_t> ids{json.at("decoder_start_token_id")};
  if (const auto languages = json.find("lang_to_id"); languages != json.end()) ids.push_back(languages->at("<|en|>"));
  if (const auto tasks = json.find("task_to_id"); tasks != json.end()) ids.push_back(tasks->at("transcribe"));
  ids.push_back(json.at("no_timestamps_token_id"));
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: transcribe FOLDER FILE…\n");
    return 2;
  }
  try {
    const std::string folder = argv[1];
    const auto features = tm::LogMelOptions::load(folder);
    const auto tokenizer = tm::Tokenizer::load(folder + "/tokenizer.json");
    auto models = tm::GenerationModels::load(folder);
    const std::string hears = models.encoder ? models.encoder->inputs().front().name : "";
    const tm::TokenGenerator generate(std::move(models), tm::GenerationConfig::load(folder));
    const std::vector<int64_t> first = first_tokens(folder);

    for (int i = 2; i < argc; ++i) {
      const std::vector<float> sound = tm::read_speech(argv[i], features.rate);
      std::string text;
      for (size_t at = 0; at < sound.size(); at += static_cast<size_t>(features.samples)) {
        const auto piece =
            std::span(sound).subspan(at, std::min(sound.size() - at, static_cast<size_t>(features.samples)));
        tm::GenerationPrompt prompt;
        prompt.decoder_ids = first;
        prompt.encoder_inputs = {{hears, tm::log_mel(piece, features)}};
        text += tokenizer.decode(generate({&prompt, 1}, generate.config()).front().ids);
      }
      std::printf("%s:%s\n", std::filesystem::path(argv[i]).filename().c_str(), text.c_str());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
