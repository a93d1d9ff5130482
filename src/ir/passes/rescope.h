// A program that runs in other threads, for a pass or a listing that makes new expressions of sizes: the scope of a
// running program must not grow.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

// The same program, regions included, in a copy of its scope.
Program with_own_scope(const Program& program);

}  // namespace transmuter::ir
