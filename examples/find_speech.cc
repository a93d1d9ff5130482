// Where does somebody speak? Runs the voice detector Silero VAD over sound files, a thirtieth of a second at a time.
//
//   find_speech MODEL.onnx FILE.wav…      16-bit mono PCM at 16 or 48 kHz
//
// scripts/fetch_models.py build/models --only silero_vad_op18_ifless brings the model. It keeps a state between
// windows: each run takes what the one before gave.
#include <transmuter/transmuter.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kRate = 16000;
constexpr size_t kWindow = 512;  // samples a run
constexpr size_t kContext = 64;  // samples of the window before, put in front
constexpr float kSpeech = 0.5f;

uint32_t little_endian(const std::string& bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes.at(at + i))) << (8 * i);
  return value;
}

struct Sound {
  uint32_t rate = 0;
  std::vector<float> samples;  // in [-1, 1)
};

// The chunks `fmt ` and `data` of a RIFF file.
Sound read_wav(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 12 || bytes.compare(0, 4, "RIFF") != 0) throw std::runtime_error(path + " is not a WAV file");
  Sound sound;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const size_t size = little_endian(bytes, at + 4, 4), begin = at + 8;
    if (bytes.compare(at, 4, "fmt ") == 0) {
      const bool pcm = little_endian(bytes, begin, 2) == 1, mono = little_endian(bytes, begin + 2, 2) == 1;
      if (!pcm || !mono || little_endian(bytes, begin + 14, 2) != 16)
        throw std::runtime_error(path + " is not 16-bit mono PCM");
      sound.rate = little_endian(bytes, begin + 4, 4);
    } else if (bytes.compare(at, 4, "data") == 0) {
      for (size_t i = begin; i + 2 <= std::min(begin + size, bytes.size()); i += 2)
        sound.samples.push_back(static_cast<float>(static_cast<int16_t>(little_endian(bytes, i, 2))) / 32768);
    }
    at = begin + size + size % 2;
  }
  return sound;
}

// Every third sample of 48 kHz, after a low pass (a windowed sinc) that takes away what 16 kHz can't hold.
std::vector<float> third_of(const std::vector<float>& in) {
  constexpr int kHalf = 24;
  std::vector<double> filter;
  double sum = 0;
  for (int n = -kHalf; n <= kHalf; ++n) {
    const double x = std::numbers::pi * n / 3;
    const double window = 0.54 + 0.46 * std::cos(std::numbers::pi * n / kHalf);
    filter.push_back((n == 0 ? 1 : std::sin(x) / x) * window);
    sum += filter.back();
  }
  std::vector<float> out;
  const int64_t length = static_cast<int64_t>(in.size());
  for (int64_t centre = 0; centre < length; centre += 3) {
    double value = 0;
    for (int64_t n = -kHalf; n <= kHalf; ++n)
      if (centre + n >= 0 && centre + n < length)
        value += filter[static_cast<size_t>(n + kHalf)] * in[static_cast<size_t>(centre + n)];
    out.push_back(static_cast<float>(value / sum));
  }
  return out;
}

std::vector<float> at_16_khz(const Sound& sound) {
  if (sound.rate == kRate) return sound.samples;
  if (sound.rate == 3 * kRate) return third_of(sound.samples);
  throw std::runtime_error("the sound has " + std::to_string(sound.rate) +
                           " samples a second; 16000 or 48000 are known");
}

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
  if (argc < 3) {
    std::fprintf(stderr, "usage: find_speech MODEL.onnx FILE.wav…\n");
    return 2;
  }
  try {
    const auto run = transmuter::Model::load(argv[1]).compile();
    for (int i = 2; i < argc; ++i) print_speech(argv[i], listen(run, at_16_khz(read_wav(argv[i]))));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
