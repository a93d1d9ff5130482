// Encoded pictures to pixels of eight bits: BMP and the portable formats (PNM) by ourselves, JPEG, PNG, TIFF, WebP and
// JPEG 2000 by their libraries where the build has them (cmake/image_formats.cmake). The format is told by the first
// bytes. Samples are taken as stored, without colour profiles or orientation; alpha is dropped; samples of 16 bits keep
// the upper eight; of several pictures (TIFF pages, frames) the first is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace transmuter::image {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;         // 1: grey, 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// No picture may have more; a few bytes of a file can claim billions.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;

// Nothing where the bytes are no picture of a known format, or a damaged one. Throws Error(unsupported) for a format
// that this build lacks, Error(limit) past kMostPixels.
std::optional<Image> decode(std::span<const uint8_t> file);

}  // namespace transmuter::image
