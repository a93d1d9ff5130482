// Transposes, reshapes, broadcasts, slices and reversals: another view of the same memory.
#include "backends/cpu/plan/planner.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class ViewStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const ir::Value result = op_.results[0];
    const View x = bind.view(op_.operands[0]);
    const ir::Primitive* p = op_.primitive;
    if (p == &ir::prim::transpose) {
      bind.alias(result, transposed(x, op_.as<ir::AxesAttributes>().axes));
    } else if (p == &ir::prim::broadcast_in_dim) {
      bind.alias(result, broadcast(x, bind.shape(result), op_.as<ir::BroadcastInDimAttributes>().dimensions));
    } else if (p == &ir::prim::reverse) {
      bind.alias(result, reversed(x, op_.as<ir::AxesAttributes>().axes));
    } else if (p == &ir::prim::slice) {
      const auto& a = op_.as<ir::SliceAttributes>();
      bind.alias(result, sliced(x, bind.values(a.start), bind.values(a.limit), bind.values(a.stride)));
    } else {
      View view;
      if (!reshaped(x, bind.shape(result), view)) {
        const bool possible = reshaped(bind.dense(op_.operands[0]), bind.shape(result), view);
        if (!possible) throw Error(ErrorCode::internal, "a dense value could not be reshaped");
      }
      bind.alias(result, view);
    }
    bind.untouch();
  }
};

}  // namespace

std::unique_ptr<Step> plan_view(Planner& planner, const ir::Op& op) {
  const ir::Primitive* p = op.primitive;
  if (p != &ir::prim::transpose && p != &ir::prim::broadcast_in_dim && p != &ir::prim::reverse &&
      p != &ir::prim::slice && p != &ir::prim::reshape) {
    return nullptr;
  }
  if (is_packed(planner.type(op.operands[0]).dtype)) {
    planner.refuse(op, "view", "elements of less than a byte have no address");
    return nullptr;
  }
  return std::make_unique<ViewStep>(op);
}

}  // namespace transmuter::cpu
