#include "backends/cpu/kernels/conv_last.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/conv_last_parts.h"
#include "backends/cpu/kernels/gemm_ops.h"

namespace transmuter::cpu {
namespace {

// Images of fewer channels are copied.
constexpr int64_t kFewChannels = 8;

}  // namespace

bool in_registers(const Epilogue& e) {
  const bool clamps =
      e.activation == Activation::none || e.activation == Activation::relu || e.activation == Activation::clip;
  return clamps && e.alpha == 1 && (!e.residual || (e.combine == Combine::add_before && e.residual_scale == 1));
}

Bounds bounds_of(const Epilogue& e) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (e.activation == Activation::clip) return {e.first, e.second};
  return {e.activation == Activation::relu ? 0 : -kInfinity, kInfinity};
}

void finish_pixels(const Epilogue& epilogue, float* y, int64_t pixels, int64_t distance, int64_t channel,
                   int64_t columns, const float* residual) {
  Epilogue e = epilogue;
  e.residual_row = distance;
  e.residual_column = 1;
  gemm_ops().finish({.tile = y,
                     .tile_stride = distance,
                     .rows = pixels,
                     .columns = columns,
                     .c = y,
                     .c_row = distance,
                     .c_column = 1,
                     .epilogue = &e,
                     .column_bias = e.column_bias ? e.column_bias + channel : nullptr,
                     .row_bias = nullptr,
                     .row_bias_step = 0,
                     .residual = residual});
}

bool conv_last_copies(const ConvLastArgs& c) { return c.groups == 1 && c.in_channels < kFewChannels; }

ConvLastWay conv_last_way(const ConvLastArgs& c) {
  const Windows& w = c.windows;
  if (w.in[0] != 1 || w.out[0] != 1 || w.kernel[0] != 1 || w.pad[0] != 0) return ConvLastWay::none;
  if (c.images * c.in_channels * c.out_channels * w.in_pixels() * w.out_pixels() * w.taps() <= 0) {
    return ConvLastWay::none;
  }
  const bool spread = c.spread[0] * c.spread[1] * c.spread[2] > 1;
  if (c.groups > 1 && c.in_channels == c.groups && c.out_channels == c.groups && !spread) {
    return depthwise_takes(c) ? ConvLastWay::depthwise : ConvLastWay::none;
  }
  // Lanes are output channels: few of them would leave most lanes idle.
  if (c.out_channels / c.groups * 2 <= last_ops().lanes) return ConvLastWay::none;
  if (c.groups > 1 && c.in_channels / c.groups < kFewChannels) return ConvLastWay::none;
  if (spread) return transposed_takes(c) ? ConvLastWay::transposed : ConvLastWay::none;
  return winograd_takes(c) ? ConvLastWay::winograd : ConvLastWay::direct;
}

size_t conv_last_packed_bytes(const ConvLastArgs& c) {
  switch (c.way) {
    case ConvLastWay::depthwise:
      return depthwise_packed_bytes(c);
    case ConvLastWay::winograd:
      return winograd_packed_bytes(c);
    case ConvLastWay::transposed:
      return transposed_packed_bytes(c);
    default:
      return direct_packed_bytes(c);
  }
}

void conv_last_pack(const ConvLastArgs& c, const float* filters, void* out, ThreadPool& pool) {
  switch (c.way) {
    case ConvLastWay::depthwise:
      return depthwise_pack(c, filters, out);
    case ConvLastWay::winograd:
      return winograd_pack(c, filters, out, pool);
    case ConvLastWay::transposed:
      return transposed_pack(c, filters, out, pool);
    default:
      return direct_pack(c, filters, {{0, 0}, {1, 1}, c.windows.kernel[2], c.windows.taps()}, out, pool);
  }
}

size_t conv_last_scratch_bytes(const ConvLastArgs& c, int threads) {
  switch (c.way) {
    case ConvLastWay::depthwise:
      return depthwise_scratch_bytes(c, threads);
    case ConvLastWay::winograd:
      return winograd_scratch_bytes(c, threads);
    case ConvLastWay::transposed:
      return transposed_scratch_bytes(c, threads);
    default:
      return direct_scratch_bytes(c, threads);
  }
}

void conv_last(const ConvLastArgs& c, void* scratch, ThreadPool& pool) {
  auto* memory = static_cast<std::byte*>(scratch);
  switch (c.way) {
    case ConvLastWay::depthwise:
      return conv_depthwise(c, memory, pool);
    case ConvLastWay::winograd:
      return conv_winograd(c, memory, pool);
    case ConvLastWay::transposed:
      return conv_transposed(c, memory, pool);
    default:
      return conv_direct(c, memory, pool);
  }
}

void pool_last(const PoolLastArgs& p, ThreadPool& pool) {
  const Windows& w = p.windows;
  constexpr int64_t kMostTaps = 64;
  const LastOps& ops = last_ops();
  const auto reduce = p.maximum ? ops.max_pixels : ops.sum_pixels;
  const int64_t work = w.out[2] * p.channels * w.taps();
  pool.parallel_for(p.images * w.out[1], std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    const float* at[kMostTaps];
    for (int64_t line = begin; line < end; ++line) {
      const float* image = p.x + line / w.out[1] * p.x_image;
      const int64_t top = line % w.out[1] * w.stride[1] - w.pad[1];
      for (int64_t x = 0; x < w.out[2]; ++x) {
        const int64_t left = x * w.stride[2] - w.pad[2];
        float* y = p.y + (line * w.out[2] + x) * p.channels;
        int64_t count = 0;
        for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
          const int64_t row = top + kh * w.dilation[1];
          if (row < 0 || row >= w.in[1]) continue;
          for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
            const int64_t column = left + kw * w.dilation[2];
            if (column < 0 || column >= w.in[2]) continue;
            if (count == kMostTaps) {
              reduce(at, count, p.channels, y);
              at[0] = y;
              count = 1;
            }
            at[count++] = image + row * p.x_row + column * p.x_pixel;
          }
        }
        if (count > 0) {
          reduce(at, count, p.channels, y);
        } else {
          std::fill_n(y, p.channels, p.maximum ? -std::numeric_limits<float>::infinity() : 0.0f);
        }
      }
    }
  });
}

}  // namespace transmuter::cpu
