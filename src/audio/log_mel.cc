// Whisper's features, and the file that says which.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "audio/spectrum.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "transmuter/audio.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

constexpr double kHighest = 8000;  // Hz
constexpr double kFloor = 1e-10;
constexpr int64_t kMostSamples = int64_t{1} << 29;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::invalid_model, what).in("file " + file);
}

// A positive whole number; `fallback` where there is none.
int64_t size_of(const nlohmann::json& json, const char* key, int64_t fallback, const std::string& file) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return fallback;
  if (!found->is_number_integer() || found->get<int64_t>() < 1 || found->get<int64_t>() > kMostSamples)
    refuse(file, str("\"", key, "\" is no positive number of a sensible size"));
  return found->get<int64_t>();
}

}  // namespace

LogMelOptions LogMelOptions::load(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / "preprocessor_config.json").string();
  const auto text = MappedFile::open(file, /*map=*/false);
  const auto json = nlohmann::json::parse(text->view(), nullptr, false);
  if (!json.is_object()) refuse(file, "the file is no JSON object");
  LogMelOptions options;
  options.rate = size_of(json, "sampling_rate", options.rate, file);
  options.mels = size_of(json, "feature_size", options.mels, file);
  options.frames.length = size_of(json, "n_fft", options.frames.length, file);
  options.frames.hop = size_of(json, "hop_length", options.frames.hop, file);
  const int64_t seconds = size_of(json, "chunk_length", 30, file);
  if (seconds > kMostSamples / options.rate) refuse(file, "\"chunk_length\" is no sensible number of seconds");
  options.samples = seconds * options.rate;
  return options;
}

Tensor log_mel(std::span<const float> samples, const LogMelOptions& options) {
  audio::check_frames(options.frames);
  if (options.samples < 1 || options.samples > kMostSamples)
    throw Error(ErrorCode::invalid_input,
                str("features of ", options.samples, " samples: 1 to ", kMostSamples, " are possible"));
  const auto filters = audio::make_mel_filters(options.mels, options.frames.length, options.rate, 0, kHighest);
  std::vector<float> filled(
      samples.begin(),
      samples.begin() + static_cast<std::ptrdiff_t>(std::min(samples.size(), static_cast<size_t>(options.samples))));
  filled.resize(static_cast<size_t>(options.samples), 0.0f);

  const int64_t frames = options.samples / options.frames.hop;
  if (frames > kMostSamples / options.mels)
    throw Error(ErrorCode::limit, str("features of ", options.mels, " x ", frames, " numbers are too large"));
  Tensor features(DType::f32, {1, options.mels, frames});
  float* to = features.mutable_data<float>();
  std::vector<double> power(static_cast<size_t>(options.frames.length / 2 + 1));
  float largest = -INFINITY;
  audio::each_frame(filled, options.frames, [&](int64_t frame, const audio::Complex* bins) {
    if (frame >= frames) return;  // the one whose middle is the sound's end
    for (size_t k = 0; k < power.size(); ++k) power[k] = std::norm(bins[k]);
    for (int64_t m = 0; m < options.mels; ++m) {
      double sum = 0;
      for (size_t k = 0; k < filters[m].weights.size(); ++k) sum += filters[m].weights[k] * power[filters[m].first + k];
      const float value = static_cast<float>(std::log10(std::max(sum, kFloor)));
      to[m * frames + frame] = value;
      largest = std::max(largest, value);
    }
  });
  for (int64_t i = 0; i < features.size(); ++i) to[i] = (std::max(to[i], largest - 8) + 4) / 4;
  return features;
}

}  // namespace transmuter
