// The parts of audio.h that need a library; each has a stand-in for builds without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transmuter/audio.h"

namespace transmuter::audio {

// As decode_sound().
Sound decode(std::span<const std::byte> file);

// `size` samples of the sound at another rate; the rates are positive and differ, there are samples.
std::vector<float> resample_to(std::span<const float> samples, double from, double to, size_t size);

}  // namespace transmuter::audio
