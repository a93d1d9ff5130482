// compute_type f32: every intermediate of type f16 or bf16 becomes f32, and conversions to such a type do nothing. The
// inputs and results of the program keep their types, weights stay stored as they are and are widened where they are
// read: by the product itself where they are its operand, else by a conversion. Caches of a half type stay so, too:
// what is put behind them is rounded, as the model says. A program without half inputs or weights stays as it is: where
// it converts to a half type it wants the rounding.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

Program widen_halves(const Program& program);

}  // namespace transmuter::ir
