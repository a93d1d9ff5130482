// What is known of a sum, product, maximum or minimum along axes.
#pragma once

#include <vector>

#include "ir/primitives/attributes.h"
#include "ops/known.h"

namespace transmuter::ops {

// `axes` ascending, not empty. None where it cannot be said.
Known reduce_known(const Known& known, ir::ReduceKind kind, const std::vector<int64_t>& axes, bool keep);

}  // namespace transmuter::ops
