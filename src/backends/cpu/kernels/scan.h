// Running sums and products along the middle of a dense [outer, reduce, inner] block.
#pragma once

#include "backends/cpu/kernels/reduce.h"

namespace transmuter::cpu {

// kind: sum or mul. exclusive: without the element itself; reverse: from the end. All numeric dtypes; f16, bf16 and f32
// run in double and round each element once, integers wrap. In place is allowed.
void cumulative(ReduceKind kind, DType dtype, const void* in, void* out, const ReduceShape& shape, bool exclusive,
                bool reverse, ThreadPool* pool);

}  // namespace transmuter::cpu
