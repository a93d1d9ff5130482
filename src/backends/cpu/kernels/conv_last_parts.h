// The ways of convolution channels last (conv_last.h), each in a file of its own, and how filters are packed.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backends/cpu/kernels/conv_last.h"
#include "backends/cpu/kernels/conv_last_ops.h"
#include "backends/cpu/kernels/rounding.h"

namespace transmuter::cpu {

// Fewer multiply-adds do not pay for waking threads.
inline constexpr int64_t kConvParallelWork = 256 * 1024;

// Whether the epilogue is all done on sums in registers.
bool in_registers(const Epilogue& e);
// What such an epilogue clamps to.
struct Bounds {
  float low, high;
};
Bounds bounds_of(const Epilogue& e);
// The rest of the epilogue on raw sums that lie in y already: `columns` channels from `channel` on of `pixels`
// neighbours, which are `distance` floats apart.
void finish_pixels(const Epilogue& e, float* y, int64_t pixels, int64_t distance, int64_t channel, int64_t columns,
                   const float* residual);

// Floats of the pixels that a tile reads before the next block of channels: they stay in the first-level cache.
inline constexpr int64_t kTileFloats = 14 * 448;

// How filters are cut: blocks of input channels, in each the panels of output channels, in each tap by tap the block's
// rows of a panel's vectors.
struct Filters {
  int64_t in, out, taps;  // of one group
  int64_t block, blocks;  // channels of one, how many
  int64_t lanes, panels;  // two vectors each, the last one perhaps one
  int64_t padded_out;

  explicit Filters(const ConvLastArgs& c)
      : in(c.in_channels / c.groups), out(c.out_channels / c.groups), taps(c.windows.taps()), lanes(last_ops().lanes) {
    const Windows& w = c.windows;
    const int64_t across = kMaxTilePixels * w.stride[2] + w.kernel[2] - w.stride[2];
    const int64_t pixels = w.kernel[1] * std::min(across, kMaxTilePixels * w.kernel[2]);
    blocks = conv_last_copies(c) ? 1 : std::max<int64_t>(1, ceil_div(in * pixels, kTileFloats));
    block = blocks == 1 ? in : std::min(in, round_up(ceil_div(in, blocks), 16));
    blocks = ceil_div(in, block);
    panels = ceil_div(out, 2 * lanes);
    padded_out = round_up(out, lanes);
  }
  int64_t block_in(int64_t b) const { return std::min(block, in - b * block); }
  int64_t vectors(int64_t panel) const { return std::min<int64_t>(2, padded_out / lanes - panel * 2); }
  int64_t columns(int64_t panel) const { return std::min(2 * lanes, out - panel * 2 * lanes); }
  int64_t group_floats() const { return in * taps * padded_out; }
  int64_t at(int64_t group, int64_t b, int64_t panel) const {
    return group * group_floats() + b * block * taps * padded_out + block_in(b) * taps * panel * 2 * lanes;
  }
};

// Which taps of the filters a convolution reads: its tap (h, w) is theirs at (first + step * that).
struct Taps {
  int64_t first[2], step[2];
  int64_t across, all;  // theirs
  int64_t at(int64_t h, int64_t w) const { return (first[0] + step[0] * h) * across + first[1] + step[1] * w; }
};

size_t direct_packed_bytes(const ConvLastArgs& args);
void direct_pack(const ConvLastArgs& args, const float* filters, const Taps& taps, void* out, ThreadPool& pool);
size_t direct_scratch_bytes(const ConvLastArgs& args, int threads);
void conv_direct(const ConvLastArgs& args, std::byte* scratch, ThreadPool& pool);

bool depthwise_takes(const ConvLastArgs& args);
size_t depthwise_packed_bytes(const ConvLastArgs& args);
void depthwise_pack(const ConvLastArgs& args, const float* filters, void* out);
size_t depthwise_scratch_bytes(const ConvLastArgs& args, int threads);
void conv_depthwise(const ConvLastArgs& args, std::byte* scratch, ThreadPool& pool);

bool winograd_takes(const ConvLastArgs& args);
size_t winograd_packed_bytes(const ConvLastArgs& args);
void winograd_pack(const ConvLastArgs& args, const float* filters, void* out, ThreadPool& pool);
size_t winograd_scratch_bytes(const ConvLastArgs& args, int threads);
void conv_winograd(const ConvLastArgs& args, std::byte* scratch, ThreadPool& pool);

bool transposed_takes(const ConvLastArgs& args);
size_t transposed_packed_bytes(const ConvLastArgs& args);
void transposed_pack(const ConvLastArgs& args, const float* filters, void* out, ThreadPool& pool);
size_t transposed_scratch_bytes(const ConvLastArgs& args, int threads);
void conv_transposed(const ConvLastArgs& args, std::byte* scratch, ThreadPool& pool);

}  // namespace transmuter::cpu
