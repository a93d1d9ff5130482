// What a traced sequence is as one tensor.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ops/context.h"

namespace transmuter::ops {

// All items along a new first axis; none where their types differ, some lie end to end (Stack) or are out of sight, or
// there is no item. `in_program` gives the value of an item, which must be a tensor.
std::optional<ir::Value> stacked_items(ir::Builder& build, const std::vector<TracedPtr>& items,
                                       const std::function<ir::Value(Traced&)>& in_program);

}  // namespace transmuter::ops
