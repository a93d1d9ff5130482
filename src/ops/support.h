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

// The dtype of a TensorProto.DataType number; Error for one that does not exist.
DType dtype_from_onnx(OpContext& op, int64_t number);

// A bool tensor of `shape`: its coordinates along two axes compared.
ir::Value compare_axes(ir::Builder& b, const Dims& shape, int64_t axis_a, ir::Value offset_a, int64_t axis_b,
                       ir::CompareDirection direction);

// index < 0 counts from the end: index + extent there. `extent` broadcasts against the indices.
ir::Value wrap_negative(ir::Builder& b, ir::Value indices, ir::Value extent);

}  // namespace transmuter::ops
