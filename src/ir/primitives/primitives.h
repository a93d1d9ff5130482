// The primitive records, each defined in the file of its family.
#pragma once

#include "ir/primitive.h"

namespace transmuter::ir::prim {

// elementwise.cc
extern const Primitive abs, negate, sign, exponential, exponential_minus_one, log, log_plus_one, logistic, tanh, sine,
    cosine, tan, sqrt, rsqrt, cbrt, ceil, floor, round_nearest_even, is_finite, logical_not, popcnt, real, imag;
extern const Primitive add, subtract, multiply, divide, remainder, power, maximum, minimum, logical_and, logical_or,
    logical_xor, shift_left, shift_right_logical, shift_right_arithmetic, atan2, complex;
// select.cc
extern const Primitive compare, select, clamp;
// convert.cc
extern const Primitive convert, bitcast_convert;
// constant.cc
extern const Primitive constant, dim_value, iota;
// shape.cc
extern const Primitive broadcast_in_dim, reshape, transpose, concatenate, slice, pad, reverse;
// dynamic.cc
extern const Primitive dynamic_slice, dynamic_update_slice;
// gather.cc, scatter.cc
extern const Primitive gather, scatter;
// dot.cc, convolution.cc, reduce.cc, window.cc, sort.cc, fft.cc, control.cc
extern const Primitive dot_general, convolution, reduce, reduce_window, sort, fft, while_loop, case_of;
// composites/math.cc
extern const Primitive erf, asin, acos, atan, sinh, cosh, asinh, acosh, atanh;

}  // namespace transmuter::ir::prim
