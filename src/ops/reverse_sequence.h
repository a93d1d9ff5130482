// Sequences from their ends.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

// x [time, batch, ...], or [batch, time, ...] with time_axis 1: the first lengths[b] (i64 [batch]) steps of each row
// backwards, the others as they are.
ir::Value reverse_sequences(ir::Builder& build, ir::Value x, ir::Value lengths, int64_t time_axis);

}  // namespace transmuter::ops
