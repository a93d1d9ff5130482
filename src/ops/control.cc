// If: the branch that the condition chooses is lowered in place. A condition that tracing cannot know ends the segment;
// then it is a value.
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

void if_op(OpContext& op) {
  const onnx::Graph& then_branch = op.attribute_graph("then_branch");
  const onnx::Graph& else_branch = op.attribute_graph("else_branch");
  require_bool(op, 0);
  const Dim condition = op.require_dim(0);
  if (depends_on_data(condition)) {
    // A count of results decides (of NonMaxSuppression, say): as a value of the segment that counts.
    Traced& known = *op.traced(0);
    op.value_of(known);
    known.known = Known();
    throw GraphBreak{&op.node(), 0};
  }
  const bool taken = decide(condition, "If: condition");
  std::vector<TracedPtr> results = op.inline_graph(taken ? then_branch : else_branch, {});
  op.check(results.size() >= op.output_count(), "the branch gives ", results.size(), " outputs, ", op.output_count(),
           " are wanted");
  for (size_t i = 0; i < op.output_count(); ++i)
    if (op.wants_output(i)) op.output(i, results[i]);
}

}  // namespace

void register_control(Registry& r) { r.add("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, if_op); }

}  // namespace transmuter::ops
