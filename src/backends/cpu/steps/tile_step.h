// Clusters of elementwise ops, each computed in f32, f64 or an integer type.
#pragma once

namespace transmuter::cpu {

class Planner;

// Forms clusters of all ops that no other step has taken, last op first.
void plan_tile_clusters(Planner& planner);

}  // namespace transmuter::cpu
