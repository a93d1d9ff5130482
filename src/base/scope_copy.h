// A scope that other threads evaluate in must not grow: what makes expressions for a listing does so in a copy.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/dim.h"

namespace transmuter {

// Has the same tag: Dims of the original are at home in the copy as well.
std::shared_ptr<ShapeScope> copy_of(const ShapeScope& scope);
// The same as if it had been traced with these values of symbols: they are the hints, and so are those of expressions;
// counts among them may be decided on (as after ShapeScope::settle). Dims and Reals made before keep their old hints:
// refreshed() gives the new ones.
std::shared_ptr<ShapeScope> copy_of(const ShapeScope& scope, const std::vector<std::pair<int32_t, int64_t>>& values);

}  // namespace transmuter
