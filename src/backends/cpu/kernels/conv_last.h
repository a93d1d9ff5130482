// Convolution and pooling in f32 over images stored channels last: x[n, h, w, c], every pixel's channels dense. What
// convolutional networks are computed in between their ends: lanes are channels, so that windows of any stride, edges
// and narrow images cost no shuffles, and a pixel of 1x1 is a row of a product.
//
// Filters are packed once. Windows are read in place: a tile of pixels has a pointer for each of them and each tap, to
// zeros where the window leaves the image, and taps that leave it for the whole tile are left out. Where zeros lie
// between an image's elements (a transposed convolution) results that see the same taps are a convolution of their own.
// An image of very few channels is copied with its padding first, so that the taps of a row of the window are one run.
// Square windows of three with unit strides are computed by Winograd's F(2x2, 3x3) where that pays: as accurate, but an
// infinity or NaN spreads to its neighbours within two pixels. Results are the same for any number of threads. Plain
// functions on memory the caller owns: nothing is checked, allocated or thrown.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv.h"

namespace transmuter::cpu {

// How a convolution is computed.
enum class ConvLastWay : uint8_t { none, direct, depthwise, winograd, transposed };

struct ConvLastArgs {
  ConvLastWay way = ConvLastWay::none;  // what conv_last_way said; all else needs it
  Windows windows = {};                 // of depth 1
  int64_t images = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // of all groups
  const float* x = nullptr;
  // Strides. x_channel is 1, or anything where conv_last_copies.
  int64_t x_image = 0, x_row = 0, x_pixel = 0, x_channel = 1;
  const void* packed_filters = nullptr;  // what conv_last_pack wrote
  // Zeros lie between the elements along an axis, so that they are so far apart: a transposed convolution. `windows`
  // counts elements without them.
  int64_t spread[3] = {1, 1, 1};
  float* y = nullptr;                           // [images, h, w, out_channels]
  int64_t y_image = 0, y_row = 0, y_pixel = 0;  // strides, for the direct way only; y_pixel 0: dense
  // column_bias: per output channel. The residual lies as y does, but not in y's memory; its strides are not used.
  Epilogue epilogue = {};
};

// none: not here, or not well. Reads the windows, images, groups and channels only.
ConvLastWay conv_last_way(const ConvLastArgs& args);
// Images of so few channels that they are copied: x may lie anyhow.
bool conv_last_copies(const ConvLastArgs& args);

// Filters are [out_channels, in_channels / groups, taps], dense. `out` is 64-byte aligned; valid for the instruction
// set in use. Depends on the way, channels, groups, kernel and stride, not on the sizes of images.
size_t conv_last_packed_bytes(const ConvLastArgs& args);
void conv_last_pack(const ConvLastArgs& args, const float* filters, void* out, ThreadPool& pool);

size_t conv_last_scratch_bytes(const ConvLastArgs& args, int threads);
void conv_last(const ConvLastArgs& args, void* scratch, ThreadPool& pool);

struct PoolLastArgs {
  Windows windows = {};  // of depth 1
  int64_t images = 1, channels = 1;
  bool maximum = true;       // else the sum
  const float* x = nullptr;  // channels dense
  int64_t x_image = 0, x_row = 0, x_pixel = 0;
  float* y = nullptr;  // dense
};

// Padding takes no part; a window of padding alone gives -infinity or 0.
void pool_last(const PoolLastArgs& args, ThreadPool& pool);

}  // namespace transmuter::cpu
