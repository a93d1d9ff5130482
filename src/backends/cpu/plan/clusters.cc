// Who takes which ops: products take what follows them, then the elementwise ops that are left form clusters.
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/dot_step.h"
#include "backends/cpu/steps/integer_product.h"
#include "backends/cpu/steps/tile_step.h"
#include "ir/composites/composites.h"
#include "ir/composites/table_dot.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {

void plan_clusters(Planner& planner) {
  for (const ir::Op& op : planner.program().ops()) {
    if (op.primitive == &ir::prim::reduce) plan_dynamic_quantize(planner, op);
  }
  DotPlanner dots(planner);
  for (const ir::Op& op : planner.program().ops()) {
    if (op.primitive == &ir::prim::dot_general || op.primitive == &ir::composite::quantized_dot ||
        op.primitive == &ir::composite::table_dot)
      dots.add(op);
    if (op.primitive == &ir::prim::convolution && !plan_quantized_convolution(planner, op) &&
        !plan_integer_convolution(planner, op))
      plan_convolution_fused(planner, op);
  }
  dots.finish();
  for (const ir::Op& op : planner.program().ops()) {
    if (op.primitive == &ir::prim::add && !planner.absorbed(op)) plan_add_bytes(planner, op);
    if (op.primitive == &ir::prim::gather && !planner.absorbed(op)) plan_checked_gather(planner, op);
  }
  plan_attention_halves(planner);
  plan_tile_clusters(planner);
}

}  // namespace transmuter::cpu
