// Quantisation inside operators that hold more than that.
#pragma once

#include "ir/builder.h"

namespace transmuter::ops {

struct DynamicallyQuantized {
  ir::Value y, scale, zero_point;  // scale and zero point are 0-d
};
// x (f32) to u8 or i8 by its own range, 0 included.
DynamicallyQuantized quantize_dynamically(ir::Builder& build, ir::Value x, DType dtype);

// A scale or zero point of one element as 0-d; others as they are.
ir::Value one_or_vector(ir::Builder& build, ir::Value parameter);

}  // namespace transmuter::ops
