// Concatenation into slices of the result.
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/copy.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class ConcatenateStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const size_t axis = static_cast<size_t>(op_.as<ir::AxisAttributes>().axis);
    // As the first operand lies: images with their channels last stay so.
    const AxisOrder order = axis_order(bind.view(op_.operands[0]));
    bind.untouch();
    View to = bind.allocate(op_.results[0], order);
    int64_t at = 0;
    for (ir::Value v : op_.operands) {
      const View from = bind.view(v);
      View part = to;
      part.shape[axis] = from.shape[axis];
      part.offset += at * to.strides[axis] * (bit_width(to.dtype) / 8);
      at += from.shape[axis];
      bind.touch_again(to.buffer);
      launch_copy(bind, from, part);
    }
  }
};

// The result lies where the first operand does, which has room: only what is new is written.
class AppendStep : public Step {
 public:
  explicit AppendStep(const Append& append) : append_(append) {
    reads = append.op->operands;
    writes = append.op->results;
  }

  void bind(Binder& bind) const override {
    const View past = bind.home(append_.past), now = bind.view(append_.op->operands[1]);
    View present = past, part = past;
    present.shape = bind.shape(append_.present);
    bind.grow(append_.present, present);
    part.shape = now.shape;
    part.offset += past.dim(append_.axis) * past.stride(append_.axis) * (bit_width(past.dtype) / 8);
    launch_copy(bind, now, part);
  }

 private:
  Append append_;
};

}  // namespace

std::unique_ptr<Step> plan_concatenate(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::prim::concatenate) return nullptr;
  if (is_packed(planner.type(op.results[0]).dtype)) {
    planner.refuse(op, "concatenate", "elements of less than a byte");
    return nullptr;
  }
  if (const Append* append = planner.append(op)) return std::make_unique<AppendStep>(*append);
  return std::make_unique<ConcatenateStep>(op);
}

}  // namespace transmuter::cpu
