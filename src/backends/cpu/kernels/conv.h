// Convolution and pooling in f32 over images stored channels first: x[n, c, d, h, w], every channel dense. One- and
// two-dimensional ones have leading extents of 1.
//
// A convolution is a product of the filters with pixels that are read in place from a zero-padded copy of a few images
// (nothing like im2col is ever stored); 1x1 needs no copy, depthwise has a loop of its own. Results are the same for
// any number of threads. Plain functions on memory the caller owns: nothing is checked, allocated or thrown.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/epilogue.h"
#include "base/thread_pool.h"

namespace transmuter::cpu {

// Windows over the three spatial axes d, h, w. out may be what any rounding mode gives: padding past the end is as
// large as it takes.
struct Windows {
  int64_t in[3] = {1, 1, 1};
  int64_t out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t pad[3] = {0, 0, 0};  // before the first element; may be negative

  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

struct ConvArgs {
  Windows windows = {};
  int64_t images = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // of all groups
  const float* x = nullptr;
  int64_t x_image = 0, x_channel = 0;    // strides; x_channel >= in_pixels
  const float* filters = nullptr;        // [out_channels, in_channels / groups, taps], dense
  const void* packed_filters = nullptr;  // what conv_pack wrote, or null; read instead of `filters`
  float* y = nullptr;
  int64_t y_image = 0, y_channel = 0;
  // row_bias: per output channel. The residual has result rows = channels, columns = pixels: residual_row is its
  // channel stride, residual_column 1. column_bias is not used.
  Epilogue epilogue = {};
  int64_t residual_image = 0;
};

// Small images are computed pixel by pixel against filters packed once: the bytes that takes, 0 where it does not pay.
// Reads the windows, groups and channels only. `out` is 64-byte aligned; valid for the instruction set in use.
size_t conv_packed_bytes(const ConvArgs& args);
void conv_pack(const ConvArgs& args, void* out, ThreadPool& pool);

// Takes notice of whether packed_filters is null.
size_t conv_scratch_bytes(const ConvArgs& args, int threads);
void conv(const ConvArgs& args, void* scratch, ThreadPool& pool);
// As plainly as it can be said, in double.
void conv_reference(const ConvArgs& args);

struct PoolArgs {
  Windows windows = {};
  int64_t planes = 1;   // images x channels, dense
  bool maximum = true;  // else the sum; padding takes part in neither
  const float* x = nullptr;
  float* y = nullptr;
};

size_t pool_scratch_bytes(const PoolArgs& args, int threads);
void pool_windows(const PoolArgs& args, void* scratch, ThreadPool& pool);
void pool_reference(const PoolArgs& args);

// y[plane] = mean (or maximum) of a plane of n elements.
void pool_global(int64_t planes, int64_t n, bool maximum, const float* x, float* y, ThreadPool& pool);

}  // namespace transmuter::cpu
