// Says in StableHLO's ops what our primitives allow beyond them; the printer runs it after inlining the composites.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

// Operands of products get one dtype by `convert`; conversions of floats to small dtypes say what becomes of numbers
// out of range. Regions too. What is left is one op each, or a custom_call (ops whose extents depend on data).
Program stablehlo_form(const Program& program);

// Weights become constants of the program.
Program with_embedded_weights(const Program& program);

}  // namespace transmuter::ir
