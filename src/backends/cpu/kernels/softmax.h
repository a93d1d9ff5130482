// Softmax and log-softmax, f32.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce.h"

namespace transmuter::cpu {

// A mask of any broadcast: row r of the input has the coordinates of r in dims[0..4) (their product is the number of
// rows; leading dims are 1), and meets mask[sum of coordinate * strides + column * column_stride].
struct SoftmaxMask {
  const float* data = nullptr;
  int64_t dims[4] = {1, 1, 1, 1};
  int64_t strides[4] = {0, 0, 0, 0};
  int64_t column_stride = 1;
};

// Over the middle axis of a dense [outer, reduce, inner] block. In place is allowed.
void softmax(const float* in, float* out, const ReduceShape& shape, ThreadPool* pool);
void log_softmax(const float* in, float* out, const ReduceShape& shape, ThreadPool* pool);

// softmax(in * scale + mask) over rows of `cols`. A row that is -infinity throughout becomes NaN, as by the formula.
void masked_softmax(const float* in, float* out, int64_t rows, int64_t cols, float scale, const SoftmaxMask& mask,
                    ThreadPool* pool);

}  // namespace transmuter::cpu
