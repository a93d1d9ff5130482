// Reductions over the middle of a dense [outer, reduce, inner] block, giving [outer, inner].
#pragma once

#include <cstdint>

#include "transmuter/tensor.h"

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

enum class ReduceKind : uint8_t { sum, max, min, mul };

struct ReduceShape {
  int64_t outer = 1, reduce = 1, inner = 1;
};

// All numeric dtypes, and bool with max (or) and min (and). f16, bf16 and f32 sums and products are kept in short f32
// runs that are added up in double; integers wrap; maximum and minimum propagate NaN. An empty reduction gives 0, 1, or
// the dtype's lowest or highest value (infinities for floats). Same answer for any number of threads; pool may be null.
void reduce(ReduceKind kind, DType dtype, const void* in, void* out, const ReduceShape& shape, ThreadPool* pool);

// Index of the largest (or smallest) element, the first or last of equals. NaN beats every number; the first NaN wins,
// or the last.
// f16, bf16, f32, f64 and integers. reduce >= 1.
void arg_reduce(bool largest, bool last, DType dtype, const void* in, int64_t* out, const ReduceShape& shape,
                ThreadPool* pool);

}  // namespace transmuter::cpu
