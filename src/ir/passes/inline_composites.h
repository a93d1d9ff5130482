// Replaces composites by their decompositions, in regions too, until only primitives and kept composites are left.
#pragma once

#include <functional>

#include "ir/program.h"

namespace transmuter::ir {

// `keep(op)`: this composite stays (its attributes and types suit a kernel). Without it all go.
Program inline_composites(Program program, const std::function<bool(const Program& program, const Op& op)>& keep = {});

}  // namespace transmuter::ir
