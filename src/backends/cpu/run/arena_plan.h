// Where the buffers of a plan lie in its arena.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/run/bound_plan.h"

namespace transmuter::cpu {

// Gives each arena buffer that a launch touches its offset: buffers whose launches overlap share no byte, freed memory
// is taken again, best fit first. Returns the bytes of the arena. `launches`: how many there are.
int64_t place_buffers(std::vector<BoundBuffer>& buffers, size_t launches);

}  // namespace transmuter::cpu
