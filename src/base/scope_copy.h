// A scope that other threads evaluate in must not grow: what makes expressions for a listing does so in a copy.
#pragma once

#include <memory>

#include "base/dim.h"

namespace transmuter {

// Has the same tag: Dims of the original are at home in the copy as well.
std::shared_ptr<ShapeScope> copy_of(const ShapeScope& scope);

}  // namespace transmuter
