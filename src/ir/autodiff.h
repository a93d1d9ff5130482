// Reverse-mode differentiation of whole programs by the primitives' vjp rules. The gradient is a program again, so
// passes, backends and second derivatives apply to it.
#pragma once

#include <span>
#include <vector>

#include "ir/program.h"

namespace transmuter::ir {

// The program, with the gradients of result `loss` (a 0-d float) with respect to `parameters` (indices into
// program.parameters()) as further results, in that order and of the parameters' types; zeros where the loss does not
// depend on one. Composites without a gradient rule of their own are inlined first. Throws Error(unsupported) naming an
// op that cannot be differentiated and where it came from.
Program with_gradients(const Program& program, size_t loss, std::span<const size_t> parameters);

// The same for any float result and a gradient that is handed in: the program gets one more input, "gradient", of the
// result's type.
Program with_vjp(const Program& program, size_t result, std::span<const size_t> parameters);

// The same for several float results together: one "gradient" input for each, in order.
Program with_vjp(const Program& program, std::span<const size_t> results, std::span<const size_t> parameters);

}  // namespace transmuter::ir
