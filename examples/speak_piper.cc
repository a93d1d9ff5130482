// Phonemes to speech by a voice of Piper (VITS), into a WAV file.
//
//   speak_piper VOICE.onnx VOICE.onnx.json OUT.wav PHONEMES
//
// PHONEMES are IPA, such as `espeak-ng -q --ipa -v en-us "Hello world."` prints. The voice's rate, its noises and the
// ids of its phonemes come from its json. scripts/fetch_models.py build/models --only piper-voice brings one.
#include <transmuter/transmuter.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "phonemes.h"

namespace {

// Start, then each phoneme with a pause for the model to stretch, then the end.
std::vector<int64_t> ids_of(const std::string& phonemes, const nlohmann::json& known) {
  std::vector<int64_t> ids;
  const auto put = [&](const std::string& phoneme) {
    if (!known.contains(phoneme)) throw std::runtime_error("the voice knows no phoneme \"" + phoneme + '"');
    for (const int64_t id : known.at(phoneme)) ids.push_back(id);
  };
  put("^"), put("_");
  for (const std::string& phoneme : characters(phonemes)) put(phoneme), put("_");
  put("$");
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: speak_piper VOICE.onnx VOICE.onnx.json OUT.wav PHONEMES\n");
    return 2;
  }
  namespace tm = transmuter;  // here, where <ctime>'s struct would be meant as well
  try {
    std::ifstream file(argv[2]);
    const auto config = nlohmann::json::parse(file);
    const auto& manner = config.at("inference");
    const std::vector<float> scales{manner.at("noise_scale"), manner.at("length_scale"), manner.at("noise_w")};
    const std::vector<int64_t> ids = ids_of(argv[4], config.at("phoneme_id_map"));
    const int64_t length = static_cast<int64_t>(ids.size()), rate = config.at("audio").at("sample_rate");

    // The noise is drawn in the graph; the same seed gives the same voice.
    const auto run = tm::Model::load(argv[1]).compile({.seed = 1});
    const auto outputs = run({{"input", tm::Tensor(ids, {1, length})},
                              {"input_lengths", tm::Tensor(std::vector<int64_t>{length}, {1})},
                              {"scales", tm::Tensor(scales, {3})}});
    const std::vector<float> sound = outputs.at("output").tensor.to_vector<float>();
    tm::write_wav(argv[3], sound, rate);
    std::printf("%s: %.2f s\n", argv[3], static_cast<double>(sound.size()) / static_cast<double>(rate));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
