// Which ops run on tiles, and clusters of them.
#pragma once

#include <optional>

#include "backends/cpu/kernels/tile.h"
#include "ir/program.h"

namespace transmuter::cpu {

class Planner;

// The op can be a member of a tile cluster.
bool tile_takes(const Planner& planner, const ir::Op& op);
// Forms clusters of all ops that no other step has taken, last op first.
void plan_tile_clusters(Planner& planner);

}  // namespace transmuter::cpu
