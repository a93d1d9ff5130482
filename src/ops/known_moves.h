// What is known of a tensor after its elements moved: reshaped, broadcast, transposed, sliced, joined. Each gives kind
// none where the result cannot be expressed; none in gives none out. No guards.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ops/context.h"

namespace transmuter::ops {

std::optional<Shape> constant_shape(const Dims& dims);  // when every extent is a constant
// At most kKnownLimit elements of a constant shape.
bool small_constant_shape(const Dims& dims);
bool provably_equal(const Dims& a, const Dims& b);

Known reshape_known(const Known& known, const Dims& shape);    // equal counts are the caller's concern
Known broadcast_known(const Known& known, const Dims& shape);  // NumPy alignment
Known transpose_known(const Known& known, const std::vector<int64_t>& permutation);
Known slice_known(const Known& known, const Dims& start, const Dims& limit, const Dims& stride, const Dims& shape);
Known reverse_known(const Known& known, int64_t axis);
// `shapes` are those of the parts; a part of which nothing is known counts as unknown elements.
Known concat_known(const std::vector<Known>& parts, const std::vector<Dims>& shapes, int64_t axis, const Dims& shape);

// Elements by their positions in `known` (row-major), which must be elements.
Known pick_known(const Known& known, const Shape& shape, const std::vector<int64_t>& positions);
// The value of a known tensor with one element: elements or splat.
std::optional<Scalar> single_value(const Known& known);
// Elements or splat as a list in row-major order, when small and constant.
std::optional<std::vector<Scalar>> listed(const Known& known);

// Sets output i: no IR when every element is known, else the value that `emit` writes beside what is known.
template <class Emit>
void output_known_or(OpContext& op, size_t i, Known known, Emit emit) {
  if (known && known.fully_known()) return op.output(i, std::move(known));
  const ir::Value value = emit();
  if (known)
    op.output(i, value, std::move(known));
  else
    op.output(i, value);
}

}  // namespace transmuter::ops
