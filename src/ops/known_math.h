// Arithmetic on known scalars, as the ONNX operators do it on elements of a dtype. Integers are Dims (bools 0/1),
// floats Reals. Constants wrap around as the dtype does; a symbolic value that may not fit its dtype is unknown (int32
// is trusted: shape arithmetic does not wrap). Nothing here records a guard.
#pragma once

#include "ops/known.h"

namespace transmuter::ops {

Scalar fit(Dim value, DType dtype);

// Both operands of one kind; `dtype` is the result's and, but for comparisons, the operands'.
Scalar add_scalars(const Scalar& a, const Scalar& b, DType dtype);
Scalar subtract_scalars(const Scalar& a, const Scalar& b, DType dtype);
Scalar multiply_scalars(const Scalar& a, const Scalar& b, DType dtype);
Scalar divide_scalars(const Scalar& a, const Scalar& b, DType dtype);     // integers truncate; x / 0 = -1
Scalar floor_mod_scalars(const Scalar& a, const Scalar& b, DType dtype);  // integers only; sign of b; x mod 0 = x
Scalar remainder_scalars(const Scalar& a, const Scalar& b, DType dtype);  // integers only; sign of a
Scalar power_scalars(const Scalar& a, const Scalar& b, DType dtype);      // b of any kind
Scalar minimum_scalars(const Scalar& a, const Scalar& b, DType dtype);
Scalar maximum_scalars(const Scalar& a, const Scalar& b, DType dtype);
// Truth values.
Scalar equal_scalars(const Scalar& a, const Scalar& b, DType);
Scalar less_scalars(const Scalar& a, const Scalar& b, DType);
Scalar less_equal_scalars(const Scalar& a, const Scalar& b, DType);
Scalar greater_scalars(const Scalar& a, const Scalar& b, DType);
Scalar greater_equal_scalars(const Scalar& a, const Scalar& b, DType);
Scalar and_scalars(const Scalar& a, const Scalar& b, DType);
Scalar or_scalars(const Scalar& a, const Scalar& b, DType);
Scalar xor_scalars(const Scalar& a, const Scalar& b, DType);
Scalar not_scalar(const Scalar& a);
// condition ? a : b; reals only where the condition is settled.
Scalar select_scalars(const Scalar& condition, const Scalar& a, const Scalar& b);

Scalar negate_scalar(const Scalar& a, DType dtype);
Scalar abs_scalar(const Scalar& a, DType dtype);
Scalar cast_scalar(const Scalar& a, DType to);  // unknown where `to` is not knowable

// Same value whatever the symbols are.
bool same_scalar(const Scalar& a, const Scalar& b);

}  // namespace transmuter::ops
