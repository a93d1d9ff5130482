// Which ops find sizes only when they run.
#pragma once

#include "ir/program.h"

namespace transmuter::ir {

// The op may define data-dependent symbols: extents of its results, values that it reads, what its regions find.
bool defines_symbols(const Op& op);

}  // namespace transmuter::ir
