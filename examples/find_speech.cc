// Where does somebody speak? Runs the voice detector Silero VAD over sound files, a thirtieth of a second at a time.
//
//   find_speech MODEL.onnx FILE…               sound files of any kind and rate
//   find_speech MODEL.onnx FILE --svg OUT.svg  and draws the sound with the chance of speech
//
// scripts/fetch_models.py build/models --only silero_vad_op18_ifless brings the model. It keeps a state between
// windows: each run takes what the one before gave.
#include <transmuter/transmuter.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int kRate = 16000;
constexpr size_t kWindow = 512;  // samples a run
constexpr size_t kContext = 64;  // samples of the window before, put in front
constexpr float kSpeech = 0.5f;

// The chance of speech in each window.
std::vector<float> listen(const transmuter::CompiledModel& run, const std::vector<float>& sound) {
  namespace tm = transmuter;
  std::vector<float> chances, heard(kContext + kWindow);
  tm::Value state = tm::Tensor::zeros(tm::DType::f32, {2, 1, 128});
  for (size_t at = 0; at + kWindow <= sound.size(); at += kWindow) {
    std::memmove(heard.data(), heard.data() + kWindow, kContext * sizeof(float));
    std::memcpy(heard.data() + kContext, sound.data() + at, kWindow * sizeof(float));
    tm::TensorMap out = run({{"input", tm::Tensor(heard, {1, kContext + kWindow})},
                             {"state", std::move(state)},
                             {"sr", tm::Tensor::scalar(int64_t{kRate})}});
    chances.push_back(out.at("output").tensor.data<float>()[0]);
    state = std::move(out.at("stateN"));
  }
  return chances;
}

// Above the middle and below it how loud the sound is, in front of it the chance of speech.
void draw(const std::string& path, const std::vector<float>& sound, const std::vector<float>& chances) {
  constexpr size_t kWidth = 800, kHeight = 200;
  std::ofstream file(path);
  file << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << kWidth << ' ' << kHeight << "'>\n"
       << "<rect width='100%' height='100%' fill='white'/>\n<path stroke='#9ab' d='";
  for (size_t x = 0; x < kWidth; ++x) {
    const size_t begin = x * sound.size() / kWidth, end = std::max(begin + 1, (x + 1) * sound.size() / kWidth);
    float loudest = 0;
    for (size_t i = begin; i < std::min(end, sound.size()); ++i) loudest = std::max(loudest, std::abs(sound[i]));
    const auto half = std::lround(loudest * kHeight / 2);
    file << 'M' << x << ' ' << static_cast<long>(kHeight / 2) - half << 'v' << 2 * half + 1;
  }
  file << "'/>\n<polyline fill='none' stroke='#c22' stroke-width='2' points='";
  const double step = static_cast<double>(kWidth * kWindow) / static_cast<double>(std::max<size_t>(sound.size(), 1));
  for (size_t i = 0; i < chances.size(); ++i)
    file << std::lround((static_cast<double>(i) + 0.5) * step) << ','
         << std::lround((1 - chances[i]) * (kHeight - 4) + 2) << ' ';
  file << "'/>\n</svg>\n";
}

void print_speech(const std::string& path, const std::vector<float>& chances) {
  std::printf("%s:", path.substr(path.rfind('/') + 1).c_str());
  const double seconds = static_cast<double>(kWindow) / kRate;
  bool any = false;
  for (size_t begin = 0; begin < chances.size(); ++begin) {
    if (chances[begin] < kSpeech) continue;
    size_t end = begin;
    while (end < chances.size() && chances[end] >= kSpeech) ++end;
    std::printf("%s speech from %.2f to %.2f s", any ? "," : "", static_cast<double>(begin) * seconds,
                static_cast<double>(end) * seconds);
    any = true;
    begin = end;
  }
  std::printf(any ? "\n" : " no speech\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool drawn = argc == 5 && std::string(argv[3]) == "--svg";
  if (argc < 3) {
    std::fprintf(stderr, "usage: find_speech MODEL.onnx FILE… | find_speech MODEL.onnx FILE --svg OUT.svg\n");
    return 2;
  }
  try {
    const auto run = transmuter::Model::load(argv[1]).compile();
    for (int i = 2; i < (drawn ? 3 : argc); ++i) {
      const std::vector<float> sound = transmuter::read_speech(argv[i], kRate), chances = listen(run, sound);
      print_speech(argv[i], chances);
      if (drawn) draw(argv[4], sound, chances);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
