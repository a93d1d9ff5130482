// Resizing that only picks elements.
#pragma once

#include <cstdint>

#include "transmuter/tensor.h"

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

struct NearestAxis {
  int64_t in = 1, out = 1;
  const int32_t* index = nullptr;  // out: which elements of the operand, all valid; null: the axis stays (in == out)
};

// Element (i, j, ...) of a dense result is element (index[i], index[j], ...) of a dense operand. Any dtype of
// whole bytes. 1 <= rank <= 8. Neighbouring equal lines are copied, not picked again. pool may be null.
void resize_nearest(DType dtype, const void* in, void* out, int rank, const NearestAxis* axes, ThreadPool* pool);

}  // namespace transmuter::cpu
