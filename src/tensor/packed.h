// Packed dtypes (two or four elements a byte, low bits first, as ONNX stores them) to and from one byte an element.
#pragma once

#include "transmuter/tensor.h"

namespace transmuter {

// i8 for i2/i4 (sign-extended), u8 for u2/u4, the four bits in a byte for f4e2m1.
DType unpacked_dtype(DType packed);
// One element a byte, dtype unpacked_dtype(). A tensor that is not packed comes back as it is.
Tensor unpack(const Tensor& tensor);
// The reverse: keeps the low bits of each byte.
Tensor pack(const Tensor& bytes, DType packed);

}  // namespace transmuter
