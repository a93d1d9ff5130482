// The value of something in a half-built program when it depends on constants alone.
#pragma once

#include <optional>

#include "ir/builder.h"

namespace transmuter::runtime {

// Evaluates the ops that `value` depends on; none when a leaf is an input, a trainable weight or a symbol, or when
// there are too many.
std::optional<Tensor> constant_slice(const ir::Builder& build, ir::Value value);

}  // namespace transmuter::runtime
