// Loops in StableHLO's own words.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

// Each `loop`, in regions too, whose states keep their sizes and whose rows are as many as a size says becomes a
// `while` over (t, condition, states, rows so far, what the body reads from outside). Others stay: loops whose states
// grow, and rows that end with a condition.
Program loops_as_while(const Program& program);

}  // namespace transmuter::ir
