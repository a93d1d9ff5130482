// Transposes, reshapes, broadcasts, slices and reversals: another view of the same memory.
#include "backends/cpu/plan/planner.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

using Axes = SmallVector<int64_t, 6>;

// A graph has hundreds of these, and a plan for new sizes binds most: they hold all that they need themselves, where
// prefetch() reaches it.
class ViewStep : public Step {
 public:
  explicit ViewStep(const ir::Op& op) : operand_(op.operands[0]), result_(op.results[0]) {
    reads = op.operands;
    writes = op.results;
  }

  void bind(Binder& bind) const final {
    bind.alias(result_, view(bind));
    bind.untouch();
  }

 protected:
  virtual View view(Binder& bind) const = 0;

  ir::Value operand_, result_;
};

class AxesStep : public ViewStep {
 public:
  using OfAxes = View (*)(const View&, std::span<const int64_t>);

  AxesStep(const ir::Op& op, OfAxes of_axes) : ViewStep(op), of_axes_(of_axes) {
    const std::vector<int64_t>& axes = op.as<ir::AxesAttributes>().axes;
    axes_.assign(axes.data(), axes.size());
  }

  View view(Binder& bind) const override { return of_axes_(bind.view(operand_), axes_); }

 private:
  OfAxes of_axes_;
  Axes axes_;
};

class BroadcastStep : public ViewStep {
 public:
  explicit BroadcastStep(const ir::Op& op) : ViewStep(op) {
    const std::vector<int64_t>& dimensions = op.as<ir::BroadcastInDimAttributes>().dimensions;
    dimensions_.assign(dimensions.data(), dimensions.size());
  }

  View view(Binder& bind) const override { return broadcast(bind.view(operand_), bind.shape(result_), dimensions_); }

 private:
  Axes dimensions_;
};

class SliceStep : public ViewStep {
 public:
  explicit SliceStep(const ir::Op& op) : ViewStep(op), attributes_(op.as<ir::SliceAttributes>()) {}

  View view(Binder& bind) const override {
    const ir::SliceAttributes& a = attributes_;
    return sliced(bind.view(operand_), bind.values(a.start), bind.values(a.limit), bind.values(a.stride));
  }

 private:
  const ir::SliceAttributes& attributes_;
};

class ReshapeStep : public ViewStep {
 public:
  using ViewStep::ViewStep;

  View view(Binder& bind) const override {
    const Extents shape = bind.shape(result_);
    View view;
    if (!reshaped(bind.view(operand_), shape, view)) {
      const bool possible = reshaped(bind.dense(operand_), shape, view);
      if (!possible) throw Error(ErrorCode::internal, "a dense value could not be reshaped");
    }
    return view;
  }
};

std::unique_ptr<Step> view_step(const ir::Op& op) {
  const ir::Primitive* p = op.primitive;
  if (p == &ir::prim::transpose) return std::make_unique<AxesStep>(op, &transposed);
  if (p == &ir::prim::reverse) return std::make_unique<AxesStep>(op, &reversed);
  if (p == &ir::prim::broadcast_in_dim) return std::make_unique<BroadcastStep>(op);
  if (p == &ir::prim::slice) return std::make_unique<SliceStep>(op);
  if (p == &ir::prim::reshape) return std::make_unique<ReshapeStep>(op);
  return nullptr;
}

}  // namespace

std::unique_ptr<Step> plan_view(Planner& planner, const ir::Op& op) {
  std::unique_ptr<Step> step = view_step(op);
  if (step && is_packed(planner.type(op.operands[0]).dtype)) {
    planner.refuse(op, "view", "elements of less than a byte have no address");
    return nullptr;
  }
  return step;
}

}  // namespace transmuter::cpu
