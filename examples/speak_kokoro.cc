// Phonemes to speech by Kokoro-82M, into a WAV file.
//
//   speak_kokoro MODEL.onnx VOCAB.json VOICE.npy OUT.wav PHONEMES
//
// PHONEMES are IPA, such as `espeak-ng -q --ipa -v en-us "Hello world."` prints; the model knows no letters. VOICE.npy
// has one style a length of text, f32 [lengths, 1, 256]. scripts/fetch_models.py build/models --only kokoro brings all
// three.
#include <transmuter/transmuter.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "phonemes.h"

namespace {

namespace tm = transmuter;

constexpr int64_t kRate = 24000;
constexpr size_t kLongest = 510;  // phonemes

std::vector<int64_t> tokens_of(const std::string& phonemes, const char* vocabulary) {
  std::ifstream file(vocabulary);
  const auto ids = nlohmann::json::parse(file).at("vocab");
  std::vector<int64_t> tokens{0};  // one at each end
  for (const std::string& phoneme : characters(phonemes)) {
    if (!ids.contains(phoneme)) throw std::runtime_error("the model knows no phoneme \"" + phoneme + '"');
    tokens.push_back(ids.at(phoneme));
  }
  if (tokens.size() == 1 || tokens.size() > kLongest + 1)
    throw std::runtime_error("1 to " + std::to_string(kLongest) + " phonemes are possible at a time");
  tokens.push_back(0);
  return tokens;
}

// The vocoder takes the angle of a spectrum, atan2(imaginary, real), which the exporter spells out with `imaginary > 0`
// to tell pi from -pi. Where the imaginary part is exactly zero, as it is in a spectrum's first and last bin, that
// gives -pi for negative numbers; atan2, with which the model was trained, gives pi.
tm::Graph with_whole_angles(const tm::Graph& graph) {
  tm::GraphEdit edit = graph.edit();
  const auto nodes = edit.find(tm::where::all({tm::where::op_type("Greater"), tm::where::name("*/generator/Greater")}));
  if (nodes.size() != 1) throw std::runtime_error("the model has no angle that is spelled out");
  edit.set_operator(nodes[0].id, "GreaterOrEqual");
  return edit.commit();
}

// The voice for so many tokens, f32 [1, 256].
tm::Tensor style_of(const char* voice, size_t tokens) {
  const tm::Tensor styles = tm::read_value(voice).tensor;
  if (styles.rank() != 3 || styles.dim(0) < 1) throw std::runtime_error("a voice has one style for each length");
  const int64_t row = std::min(static_cast<int64_t>(tokens), styles.dim(0)) - 1, width = styles.dim(2);
  const float* first = styles.data<float>() + row * width;
  return tm::Tensor(std::vector<float>(first, first + width), {1, width});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: speak_kokoro MODEL.onnx VOCAB.json VOICE.npy OUT.wav PHONEMES\n");
    return 2;
  }
  namespace tm = transmuter;  // here, where <ctime>'s struct would be meant as well
  try {
    const std::vector<int64_t> tokens = tokens_of(argv[5], argv[2]);
    const auto run = tm::Model::from_graph(with_whole_angles(tm::Graph::load(argv[1]))).compile();
    const auto outputs = run({{"tokens", tm::Tensor(tokens, {1, static_cast<int64_t>(tokens.size())})},
                              {"style", style_of(argv[3], tokens.size() - 2)},
                              {"speed", tm::Tensor(std::vector<float>{1}, {1})}});
    const std::vector<float> sound = outputs.at("audio").tensor.to_vector<float>();
    tm::write_wav(argv[4], sound, kRate);
    std::printf("%s: %.2f s\n", argv[4], static_cast<double>(sound.size()) / kRate);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
