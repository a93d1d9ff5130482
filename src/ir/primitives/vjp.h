// The gradient rules of the elementwise and shape families (the *_vjp.cc files), for their records.
#pragma once

#include "ir/builder.h"

namespace transmuter::ir::vjp {

using Rule = std::vector<Value>(VjpContext&);

Rule abs, negate, exponential, exponential_minus_one, log, log_plus_one, logistic, tanh, sine, cosine, tan, sqrt, rsqrt,
    cbrt, real, imag;
Rule add, subtract, multiply, divide, remainder, power, maximum, minimum, atan2, complex;
Rule none;  // the derivative is zero (almost) everywhere
Rule select, clamp, convert;
Rule broadcast_in_dim, reshape, transpose, concatenate, slice, pad, reverse;
Rule erf, asin, acos, atan, sinh, cosh, asinh, acosh, atanh;

Rule while_loop, case_of;  // control_vjp.cc

}  // namespace transmuter::ir::vjp
