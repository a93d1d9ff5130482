// The windows of a convolution as rows of a matrix, for images of bytes with the channels last.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv.h"
#include "base/thread_pool.h"

namespace transmuter::cpu {

struct BytePatches {
  Windows windows;  // up to two spatial axes
  int64_t images = 1, channels = 1;
  uint8_t outside = 0;  // what padding is
};

// x [images, rows, pixels, channels] dense; out [images * out pixels, kernel rows * kernel columns * channels].
void byte_patches(const BytePatches& patches, const uint8_t* x, uint8_t* out, ThreadPool& pool);

}  // namespace transmuter::cpu
