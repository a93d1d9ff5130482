// Who takes which ops: products take what follows them, then the elementwise ops that are left form clusters.
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/tile_step.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {

void plan_clusters(Planner& planner) {
  for (const ir::Op& op : planner.program().ops()) {
    if (op.primitive == &ir::prim::dot_general) plan_dot_fused(planner, op);
    if (op.primitive == &ir::prim::convolution) plan_convolution_fused(planner, op);
  }
  plan_tile_clusters(planner);
}

}  // namespace transmuter::cpu
