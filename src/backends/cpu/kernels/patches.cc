#include "backends/cpu/kernels/patches.h"

#include <cstring>

namespace transmuter::cpu {

void byte_patch(const BytePatches& p, const uint8_t* x, int64_t index, uint8_t* out) {
  const Windows& w = p.windows;
  const int64_t row_bytes = w.in[2] * p.channels, taps_bytes = w.kernel[2] * p.channels;
  const int64_t ox = index % w.out[2], oy = index / w.out[2] % w.out[1], image = index / w.out[2] / w.out[1];
  const uint8_t* const from = x + image * w.in[1] * row_bytes;
  const int64_t first = ox * w.stride[2] - w.pad[2];
  const bool whole = w.dilation[2] == 1 && first >= 0 && first + w.kernel[2] <= w.in[2];
  for (int64_t ky = 0; ky < w.kernel[1]; ++ky, out += taps_bytes) {
    const int64_t y = oy * w.stride[1] + ky * w.dilation[1] - w.pad[1];
    if (y < 0 || y >= w.in[1]) {
      std::memset(out, p.outside, static_cast<size_t>(taps_bytes));
      continue;
    }
    const uint8_t* const row = from + y * row_bytes;
    if (whole) {
      std::memcpy(out, row + first * p.channels, static_cast<size_t>(taps_bytes));
      continue;
    }
    for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
      const int64_t column = first + kx * w.dilation[2];
      uint8_t* const tap = out + kx * p.channels;
      if (column >= 0 && column < w.in[2]) {
        std::memcpy(tap, row + column * p.channels, static_cast<size_t>(p.channels));
      } else {
        std::memset(tap, p.outside, static_cast<size_t>(p.channels));
      }
    }
  }
}

}  // namespace transmuter::cpu
