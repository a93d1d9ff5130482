// Elements of fewer than eight bits in bytes, low bits first.
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

// Input i (uint8, any shape) as unsigned integers of `bits` (2, 4, 8) in `shape`. A constant becomes a weight of the
// narrow type over the same bytes; other values stay uint8.
ir::Value unpack_bits(OpContext& op, size_t i, int64_t bits, const Dims& shape);
// The same of entry `first` along the first axis of input i, without it.
ir::Value unpack_bits_of(OpContext& op, size_t i, int64_t bits, int64_t first, const Dims& shape);
// The same of computed bytes; the elements stay uint8.
ir::Value unpack_bytes(ir::Builder& build, ir::Value bytes, int64_t bits, const Dims& shape);

}  // namespace transmuter::ops
