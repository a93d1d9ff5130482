// Host tensors cut along an axis and put together again: any dtype, strings and packed ones too.
#pragma once

#include <vector>

#include "transmuter/tensor.h"

namespace transmuter {

// Elements start ... start + count - 1 along an axis in [0, rank); the caller knows that they are there.
Tensor piece_of(const Tensor& x, int64_t axis, int64_t start, int64_t count);
// Element `i` along an axis, which disappears.
Tensor row_of(const Tensor& x, int64_t axis, int64_t i);
// At least one tensor, of one dtype and rank. Throws Error(invalid_input) where they differ elsewhere than along the
// axis, which is in [0, rank).
Tensor joined(const std::vector<Tensor>& pieces, int64_t axis);
// The same along a new axis, in [0, rank].
Tensor stacked(std::vector<Tensor> rows, int64_t axis);

}  // namespace transmuter
