// Spectra of sound: the transform of its frames, and mel filters.
#include "audio/spectrum.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/fft.h"
#include "base/strings.h"
#include "transmuter/audio.h"
#include "transmuter/error.h"

namespace transmuter {
namespace audio {
namespace {

// Slaney's scale: even up to 1 kHz, logarithmic above.
constexpr double kEvenUntil = 1000, kHertzAMel = 200.0 / 3, kFirstLogMel = kEvenUntil / kHertzAMel;
const double kLogStep = std::log(6.4) / 27;

double mel_of(double hertz) {
  return hertz < kEvenUntil ? hertz / kHertzAMel : kFirstLogMel + std::log(hertz / kEvenUntil) / kLogStep;
}
double hertz_of(double mel) {
  return mel < kFirstLogMel ? mel * kHertzAMel : kEvenUntil * std::exp(kLogStep * (mel - kFirstLogMel));
}

}  // namespace

void check_frames(const StftOptions& options) {
  if (options.length < 2 || options.length > kLongestFrame || options.hop < 1)
    throw Error(ErrorCode::invalid_input,
                str("frames of ", options.length, " samples every ", options.hop, " samples: a frame has 2 to ",
                    kLongestFrame, " samples, a hop at least one"));
}

void each_frame(std::span<const float> samples, const StftOptions& options,
                const std::function<void(int64_t frame, const Complex* bins)>& take) {
  check_frames(options);
  const int64_t size = static_cast<int64_t>(samples.size()), length = options.length,
                border = options.centered ? length / 2 : 0;
  // Mirrored without repeating the end, a border needs one sample more than it has.
  if (options.centered && size <= border)
    throw Error(ErrorCode::invalid_input, str("a sound of ", size, " samples is too short for centered frames of ",
                                              length, ": they need at least ", border + 1));
  const int64_t span = size + 2 * border, frames = span < length ? 0 : 1 + (span - length) / options.hop;
  std::vector<double> window(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i)
    window[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length));
  const Fft fft(length);
  // Two frames at a time, as the parts of complex numbers: the transform of a real frame is its own mirror, conjugated,
  // and that parts the two again.
  std::vector<Complex> both(window.size()), mixed(window.size()), first(window.size() / 2 + 1), second(first.size());
  const auto sample = [&](int64_t frame, int64_t i) -> double {
    int64_t at = frame * options.hop - border + i;
    if (at < 0) at = -at;
    if (at >= size) at = 2 * (size - 1) - at;
    return samples[at];
  };
  for (int64_t frame = 0; frame < frames; frame += 2) {
    const bool is_last = frame + 1 == frames;
    for (int64_t i = 0; i < length; ++i)
      both[i] = window[i] * Complex(sample(frame, i), is_last ? 0 : sample(frame + 1, i));
    fft(both.data(), mixed.data());
    for (size_t k = 0; k < first.size(); ++k) {
      const Complex& x = mixed[k];
      const Complex mirror = std::conj(mixed[(mixed.size() - k) % mixed.size()]);
      first[k] = (x + mirror) / 2.0;
      const Complex turned = (x - mirror) / 2.0;  // i times the second's
      second[k] = {turned.imag(), -turned.real()};
    }
    take(frame, first.data());
    if (!is_last) take(frame + 1, second.data());
  }
}

std::vector<MelFilter> make_mel_filters(int64_t mels, int64_t length, int64_t rate, double lowest, double highest) {
  if (mels < 1 || mels > kLongestFrame || length < 2 || length > kLongestFrame || rate < 1)
    throw Error(ErrorCode::invalid_input, str(mels, " mel filters over frames of ", length, " samples at ", rate,
                                              " a second: all must be positive, and at most ", kLongestFrame));
  if (!(lowest >= 0) || !(highest > lowest) || !std::isfinite(highest))
    throw Error(ErrorCode::invalid_input,
                str("mel filters from ", lowest, " to ", highest, " Hz: the edges are out of order"));
  std::vector<double> edges(static_cast<size_t>(mels) + 2);
  const double from = mel_of(lowest), step = (mel_of(highest) - from) / static_cast<double>(mels + 1);
  for (size_t i = 0; i < edges.size(); ++i) edges[i] = hertz_of(from + step * static_cast<double>(i));
  const int64_t bins = length / 2 + 1;
  // As the references have it: half the rate, whole, in equal steps.
  const int64_t half_rate = rate / 2;
  const double width = static_cast<double>(half_rate) / static_cast<double>(bins - 1);
  std::vector<MelFilter> filters(static_cast<size_t>(mels));
  for (size_t m = 0; m < filters.size(); ++m) {
    const double low = edges[m], middle = edges[m + 1], high = edges[m + 2];
    for (int64_t bin = 0; bin < bins; ++bin) {
      const double hertz = width * static_cast<double>(bin);
      const double weight = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      if (weight <= 0) continue;
      if (filters[m].weights.empty()) filters[m].first = bin;
      filters[m].weights.push_back(weight * 2 / (high - low));
    }
  }
  return filters;
}

}  // namespace audio

Tensor stft(std::span<const float> samples, const StftOptions& options) {
  audio::check_frames(options);
  std::vector<std::vector<float>> frames;
  const int64_t bins = options.length / 2 + 1;
  audio::each_frame(samples, options, [&](int64_t, const audio::Complex* values) {
    std::vector<float>& frame = frames.emplace_back();
    for (int64_t k = 0; k < bins; ++k) {
      frame.push_back(static_cast<float>(values[k].real()));
      frame.push_back(static_cast<float>(values[k].imag()));
    }
  });
  const int64_t count = static_cast<int64_t>(frames.size());
  Tensor spectrum(DType::c64, {bins, count});
  float* to = reinterpret_cast<float*>(spectrum.mutable_bytes());
  for (int64_t k = 0; k < bins; ++k) {
    for (int64_t f = 0; f < count; ++f) {
      *to++ = frames[f][2 * k];
      *to++ = frames[f][2 * k + 1];
    }
  }
  return spectrum;
}

Tensor mel_filters(int64_t mels, int64_t length, int64_t rate, double lowest, double highest) {
  const auto filters = audio::make_mel_filters(mels, length, rate, lowest, highest);
  const int64_t bins = length / 2 + 1;
  Tensor table = Tensor::zeros(DType::f32, {mels, bins});
  float* to = table.mutable_data<float>();
  for (int64_t m = 0; m < mels; ++m) {
    const audio::MelFilter& filter = filters[m];
    std::transform(filter.weights.begin(), filter.weights.end(), to + m * bins + filter.first,
                   [](double weight) { return static_cast<float>(weight); });
  }
  return table;
}

}  // namespace transmuter
