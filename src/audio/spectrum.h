// What spectra are made of, in double.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transmuter/audio.h"

namespace transmuter::audio {

using Complex = std::complex<double>;

// Longer frames or more filters are no features of sound any more.
inline constexpr int64_t kLongestFrame = 1 << 14;

// Throws Error(invalid_input).
void check_frames(const StftOptions& options);

// Each windowed frame's transform, length / 2 + 1 bins, in order. Throws as stft().
void each_frame(std::span<const float> samples, const StftOptions& options,
                const std::function<void(int64_t frame, const Complex* bins)>& take);

// The bins that one filter gathers: `weights` from bin `first` on.
struct MelFilter {
  int64_t first = 0;
  std::vector<double> weights;
};
// Throws as mel_filters().
std::vector<MelFilter> make_mel_filters(int64_t mels, int64_t length, int64_t rate, double lowest, double highest);

}  // namespace transmuter::audio
