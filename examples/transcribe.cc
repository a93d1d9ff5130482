// What is said in a sound file? Runs a model of Whisper's kind.
//
//   transcribe FOLDER FILE…
//
// FOLDER holds what exporters write: encoder_model.onnx and decoder_model_merged.onnx (or in onnx/), tokenizer.json,
// preprocessor_config.json (which features the model takes) and generation_config.json (how an answer begins).
// scripts/fetch_whisper.py build/models/whisper-tiny.en brings a trained one. `transmuter transcribe` does more.
#include <transmuter/transmuter.h>

#include <cstdio>
#include <filesystem>

int main(int argc, char** argv) {
  namespace tm = transmuter;
  if (argc < 3) {
    std::fprintf(stderr, "usage: transcribe FOLDER FILE…\n");
    return 2;
  }
  try {
    const auto recognize = tm::SpeechRecognizer::load(argv[1]);
    for (int i = 2; i < argc; ++i) {
      const tm::Transcript heard = recognize(tm::read_speech(argv[i], recognize.rate()));
      std::printf("%s: %s\n", std::filesystem::path(argv[i]).filename().c_str(), heard.text.c_str());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
