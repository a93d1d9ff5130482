// Order along the middle of a dense [outer, reduce, inner] block.
#pragma once

#include "backends/cpu/kernels/reduce.h"

namespace transmuter::cpu {

// The k greatest (or least), in order, into dense [outer, k, inner] values and positions (either may be null): a stable
// sort when k == reduce. NaN counts as the greatest, -0 equals 0, equal elements come in the order of their positions.
// bool, integers, f16, bf16, f32, f64. 0 <= k <= reduce.
void top_k(bool largest, DType dtype, const void* in, const ReduceShape& shape, int64_t k, void* values,
           int64_t* positions, ThreadPool* pool);

}  // namespace transmuter::cpu
