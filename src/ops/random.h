// Random draws that lowerings share.
#pragma once

#include <cstdint>

#include "ir/builder.h"

namespace transmuter::ops {

// A seed that no other trace has.
uint64_t fresh_seed();
// f32 in [0, 1), new ones each run.
ir::Value uniform_draws(ir::Builder& b, Dims shape, uint64_t seed);

}  // namespace transmuter::ops
