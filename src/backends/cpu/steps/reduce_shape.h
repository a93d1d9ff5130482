// Views as the kernels of reduce.h, softmax.h, sort.h and scan.h take them.
#pragma once

#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/run/view.h"

namespace transmuter::cpu {

// x, dense, as [outer, reduce, inner]: `count` axes from `first` on are the middle.
inline ReduceShape reduce_shape(const View& x, int64_t first, int64_t count = 1) {
  ReduceShape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    (i < first ? shape.outer : i < first + count ? shape.reduce : shape.inner) *= x.dim(i);
  }
  return shape;
}

}  // namespace transmuter::cpu
