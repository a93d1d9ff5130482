// Caches by rows of the batch or by tokens, on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "transmuter/tensor.h"
#include "transmuter/value_spec.h"

namespace transmuter::runtime {

// `from` with the rows `rows` along `axis`, in that order; shares its elements where those are all of them in order.
// Throws Error(invalid_input) for a row that isn't there.
Tensor rows_of(const Tensor& from, int64_t axis, const std::vector<int64_t>& rows);

// What happens to a cache's tokens before it is joined: the first `skip` go, `zeros` come in front.
struct Shift {
  int64_t skip = 0, zeros = 0;
};

// The rows (`rows` is their axis) of `b` behind those of `a`, whose other extents are the same once both are shifted
// along `axis`. Throws Error(unsupported) for packed elements.
Tensor joined(const Tensor& a, Shift a_shift, const Tensor& b, Shift b_shift, int64_t rows, int64_t axis);

// The axis of a cache that counts the texts of a batch: the one whose symbol is that of the tokens' first axis, else
// the first (the second where keys and values are stacked in the first).
int64_t batch_axis(const ValueSpec& cache, const std::vector<ValueSpec>& inputs);

}  // namespace transmuter::runtime
