#include <algorithm>

#include "backends/cpu/kernels/conv_last_parts.h"
#include "backends/cpu/kernels/slots.h"

namespace transmuter::cpu {
namespace {

// Images of fewer floats are in the second-level cache.
constexpr int64_t kNearFloats = 192 * 1024;

// The kernels' index of a window's width; -1: none.
int depthwise_kernel(const Windows& w) {
  const bool known = w.kernel[2] == 3 || w.kernel[2] == 5 || w.kernel[2] == 7;
  return known && w.dilation[2] == 1 && w.stride[2] <= 2 ? static_cast<int>(w.kernel[2] - 3) / 2 : -1;
}

// Tiles of a row of depthwise windows: the number of pixels that leaves least to do twice.
int depthwise_choice(int64_t width) {
  if (width >= 8) return width % 7 == 0 && width % 8 != 0 ? 1 : 0;
  return width == 7 ? 1 : width >= 4 ? 2 : 3;
}

// The rows that the next line of windows reads first, between two columns: from far away the processor would not see
// the many short runs coming.
void fetch_ahead(const ConvLastArgs& c, const float* image, int64_t top, int64_t begin, int64_t end) {
  const Windows& w = c.windows;
  begin = std::max<int64_t>(begin, 0), end = std::min(end, w.in[2]);
  for (int64_t i = 1; i <= w.stride[1]; ++i) {
    const int64_t y = top + (w.kernel[1] - 1) * w.dilation[1] + i;
    if (y < 0 || y >= w.in[1]) continue;
    const float* row = image + y * c.x_row;
    for (const float* at = row + begin * c.x_pixel; at < row + end * c.x_pixel; at += 16) __builtin_prefetch(at, 0, 2);
  }
}

struct DepthwiseScratch {
  int64_t zeros, slot;
  DepthwiseScratch(const ConvLastArgs& c, int64_t columns)
      : zeros(round_up(c.in_channels * 4, 64)), slot(round_up(c.windows.kernel[1] * columns * 8, 64)) {}
};

int64_t depthwise_columns(const Windows& w, int choice) {
  return (LastOps::kDepthwisePixels[choice] - 1) * w.stride[2] + w.kernel[2];
}

}  // namespace

void conv_depthwise(const ConvLastArgs& c, std::byte* scratch, ThreadPool& pool) {
  const Windows& w = c.windows;
  const int choice = depthwise_choice(w.out[2]);
  const int64_t pixels = LastOps::kDepthwisePixels[choice], columns = depthwise_columns(w, choice);
  const DepthwiseScratch sizes(c, columns);
  const auto kernel = last_ops().depthwise[depthwise_kernel(w)][w.stride[2] - 1][choice];
  auto* zeros = reinterpret_cast<float*>(scratch);
  std::fill_n(zeros, c.in_channels, 0.0f);
  Slots slots(scratch + sizes.zeros, static_cast<size_t>(sizes.slot), slot_count(pool.threads()));
  const Epilogue& e = c.epilogue;
  const bool in_row = in_registers(e) && !e.residual;
  const Bounds bounds = bounds_of(in_row ? e : Epilogue());
  const bool far = w.in_pixels() * c.x_pixel > kNearFloats;
  const int64_t channels = c.in_channels, row_work = w.out[2] * channels * w.taps();
  pool.parallel_for(
      c.images * w.out[1], std::max<int64_t>(1, kConvParallelWork / row_work), [&](int64_t begin, int64_t end) {
        const Slots::Lease lease(slots);
        auto* at = reinterpret_cast<const float**>(lease.memory());
        for (int64_t line = begin; line < end; ++line) {
          const float* image = c.x + line / w.out[1] * c.x_image;
          const int64_t top = line % w.out[1] * w.stride[1] - w.pad[1];
          // Rows of the window inside the image: they are neighbours.
          int64_t first = 0, rows = 0;
          for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
            const int64_t y = top + kh * w.dilation[1];
            if (y < 0 || y >= w.in[1]) continue;
            if (rows++ == 0) first = kh;
          }
          for (int64_t x = 0; x < w.out[2];) {
            // The last tile does again what does not fill it.
            const int64_t from = std::min(x, w.out[2] - pixels), left = from * w.stride[2] - w.pad[2];
            for (int64_t h = 0; h < rows; ++h) {
              const float* row = image + (top + (first + h) * w.dilation[1]) * c.x_row;
              for (int64_t i = 0; i < columns; ++i) {
                const int64_t column = left + i;
                at[h * columns + i] = column >= 0 && column < w.in[2] ? row + column * c.x_pixel : zeros;
              }
            }
            if (far) fetch_ahead(c, image, top, left, left + columns);
            float* y = c.y + (line * w.out[2] + from) * channels;
            DepthwiseLast tile{.at = at,
                               .rows = rows,
                               .weights = static_cast<const float*>(c.packed_filters) + first * w.kernel[2] * channels,
                               .bias = in_row ? e.column_bias : nullptr,
                               .channels = channels,
                               .y = y,
                               .y_pixel = channels,
                               .low = bounds.low,
                               .high = bounds.high};
            kernel(tile);
            x = from + pixels;
          }
          if (in_row) continue;
          const int64_t at = line * w.out[2] * channels;
          finish_pixels(e, c.y + at, w.out[2], channels, 0, channels, e.residual ? e.residual + at : nullptr);
        }
      });
}

bool depthwise_takes(const ConvLastArgs& c) { return depthwise_kernel(c.windows) >= 0; }

size_t depthwise_packed_bytes(const ConvLastArgs& c) {
  return static_cast<size_t>(round_up(c.windows.taps() * c.in_channels * 4, 64));
}

void depthwise_pack(const ConvLastArgs& c, const float* filters, void* out) {
  auto* packed = static_cast<float*>(out);
  const int64_t taps = c.windows.taps();
  for (int64_t channel = 0; channel < c.in_channels; ++channel) {
    for (int64_t tap = 0; tap < taps; ++tap) packed[tap * c.in_channels + channel] = filters[channel * taps + tap];
  }
}

size_t depthwise_scratch_bytes(const ConvLastArgs& c, int threads) {
  const DepthwiseScratch sizes(c, depthwise_columns(c.windows, depthwise_choice(c.windows.out[2])));
  return static_cast<size_t>(sizes.zeros + slot_count(threads) * sizes.slot);
}

}  // namespace transmuter::cpu
