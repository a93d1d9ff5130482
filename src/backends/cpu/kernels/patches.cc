#include "backends/cpu/kernels/patches.h"

#include <algorithm>
#include <cstring>

namespace transmuter::cpu {

void byte_patches(const BytePatches& p, const uint8_t* x, uint8_t* out, ThreadPool& pool) {
  const Windows& w = p.windows;
  const int64_t row_bytes = w.in[2] * p.channels, taps_bytes = w.kernel[2] * p.channels;
  const int64_t patch = w.kernel[1] * taps_bytes;
  const int64_t grain = std::max<int64_t>(1, 64 * 1024 / std::max<int64_t>(1, w.out[2] * patch));
  pool.parallel_for(p.images * w.out[1], grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t image = index / w.out[1], oy = index % w.out[1];
      const uint8_t* const from = x + image * w.in[1] * row_bytes;
      uint8_t* const to = out + index * w.out[2] * patch;
      for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
        const int64_t y = oy * w.stride[1] + ky * w.dilation[1] - w.pad[1];
        const bool row_inside = y >= 0 && y < w.in[1];
        const uint8_t* const row = from + y * row_bytes;
        for (int64_t ox = 0; ox < w.out[2]; ++ox) {
          uint8_t* const taps = to + ox * patch + ky * taps_bytes;
          const int64_t first = ox * w.stride[2] - w.pad[2];
          if (row_inside && w.dilation[2] == 1 && first >= 0 && first + w.kernel[2] <= w.in[2]) {
            std::memcpy(taps, row + first * p.channels, static_cast<size_t>(taps_bytes));
            continue;
          }
          for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
            const int64_t column = first + kx * w.dilation[2];
            uint8_t* const tap = taps + kx * p.channels;
            if (row_inside && column >= 0 && column < w.in[2]) {
              std::memcpy(tap, row + column * p.channels, static_cast<size_t>(p.channels));
            } else {
              std::memset(tap, p.outside, static_cast<size_t>(p.channels));
            }
          }
        }
      }
    }
  });
}

}  // namespace transmuter::cpu
