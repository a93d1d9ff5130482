// The windows of a convolution as rows of a matrix, for images of bytes with the channels last.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv.h"

namespace transmuter::cpu {

struct BytePatches {
  Windows windows;  // up to two spatial axes
  int64_t images = 1, channels = 1;
  uint8_t outside = 0;  // what padding is
};

// Row `index` of [images * out pixels, kernel rows * kernel columns * channels]; x [images, rows, pixels, channels] is
// dense.
void byte_patch(const BytePatches& patches, const uint8_t* x, int64_t index, uint8_t* out);

}  // namespace transmuter::cpu
