// Small things that many lowerings say.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// A formula of several steps keeps more than a half type's eleven bits between them: it runs in f32 and rounds once.
template <class Formula>
ir::Value in_single(ir::Builder& b, ir::Value x, Formula formula) {
  const DType dtype = b.dtype(x);
  return is_half(dtype) ? b.convert(formula(b.convert(x, DType::f32)), dtype) : formula(x);
}

inline void require_float(OpContext& op, size_t i) {
  op.check(is_float(op.dtype(i)), "input ", i, " must be floating point, is ", name(op.dtype(i)));
}
inline void require_numeric(OpContext& op, size_t i) {
  const DType dtype = op.dtype(i);
  op.check(is_float(dtype) || is_integer(dtype), "input ", i, " must be numeric, is ", name(dtype));
}
inline void require_bool(OpContext& op, size_t i) {
  op.check(op.dtype(i) == DType::boolean, "input ", i, " must be bool, is ", name(op.dtype(i)));
}
inline void require_same_dtype(OpContext& op, size_t i, size_t j) {
  op.check(op.dtype(i) == op.dtype(j), "inputs ", i, " and ", j, " must have one dtype, are ", name(op.dtype(i)),
           " and ", name(op.dtype(j)));
}
inline void require_index(OpContext& op, size_t i) {
  op.check(op.dtype(i) == DType::i64 || op.dtype(i) == DType::i32, "input ", i, " must be int32 or int64, is ",
           name(op.dtype(i)));
}

// Axes in [-rank, rank) made nonnegative; Error when one is out of range or repeated.
std::vector<int64_t> normalised_axes(const OpContext& op, std::vector<int64_t> axes, int64_t rank);

// Input i as positions in [0, extent): a negative index counts from the end. Out of range is an Error, now where the
// indices are constants, else in the run.
ir::Value checked_indices(OpContext& op, size_t i, Dim extent);
// The same for points: the last axis of input i holds one index for each of `extents`.
ir::Value checked_points(OpContext& op, size_t i, const Dims& extents);

// Elements along an axis by a 1-D vector of positions in [0, extent).
ir::Value take(ir::Builder& b, ir::Value x, int64_t axis, ir::Value positions);

}  // namespace transmuter::ops
