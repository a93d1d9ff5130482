// Products of small integers for compilers that are slow at them.
#pragma once

#include "ir/program.h"

namespace transmuter::pjrt {

// Convolutions and dots of integers whose sums float32 holds exactly become products of floats, in pieces of the
// contracted axis where the whole is too long: no bit changes. (XLA for CPUs takes tens of times longer for integers.)
ir::Program products_in_floats(const ir::Program& program);

}  // namespace transmuter::pjrt
