// Checks a program that a pass made: every operand defined before its use, every op's types as its primitive infers
// them. Throws Error(internal) naming the op. For debugging: inference may add assertions, and a fresh symbol for an op
// with a data-dependent extent.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

void verify(const Program& program);

}  // namespace transmuter::ir
