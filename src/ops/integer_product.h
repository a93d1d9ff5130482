// Products of quantised integers, exact in int32, and the way back to eight bits.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

// Zero point input i, of input `of` and so of its dtype, as int32; invalid when absent or a constant of zeros.
ir::Value zero_point_of(OpContext& op, size_t i, size_t of);

// matmul(a - a_zero, b - b_zero). The zero points (int32, invalid: 0) are 0-d, a vector of one a row (a) or column (b),
// or of the operand's rank with 1 for the inner extent. The product itself takes the eight-bit operands; sums of rows
// and columns put the zero points right.
ir::Value integer_matmul(ir::Builder& build, ir::Value a, ir::Value a_zero, ir::Value b, ir::Value b_zero);
// convolution(x - x_zero, kernel - kernel_zero), attributes as Conv's; kernel_zero 0-d or one an output channel.
ir::Value integer_convolve(OpContext& op, ir::Value x, ir::Value x_zero, ir::Value kernel, ir::Value kernel_zero);

// saturate(round(x * factor) + zero_point): x is int32 or f32; factor (f32) broadcasts to x, zero_point is 0-d or
// broadcasts and has the result's dtype.
ir::Value requantize(ir::Builder& build, ir::Value x, ir::Value factor, ir::Value zero_point);

}  // namespace transmuter::ops
