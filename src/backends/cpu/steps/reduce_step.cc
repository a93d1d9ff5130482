// Reductions over [outer, reduce, inner].
#include "backends/cpu/kernels/reduce.h"

#include <algorithm>

#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/reduce_shape.h"
#include "ir/composites/composites.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

ReduceKind kind_of(ir::ReduceKind kind) {
  switch (kind) {
    case ir::ReduceKind::add:
      return ReduceKind::sum;
    case ir::ReduceKind::mul:
      return ReduceKind::mul;
    case ir::ReduceKind::min:
    case ir::ReduceKind::logical_and:
      return ReduceKind::min;
    default:
      return ReduceKind::max;
  }
}

class ReduceStep : public OpStep {
 public:
  explicit ReduceStep(const ir::Op& op) : OpStep(op), axes_(op.as<ir::ReduceAttributes>().axes) {
    std::sort(axes_.begin(), axes_.end());
  }

  void bind(Binder& bind) const override {
    View x = bind.view(op_.operands[0]);
    const bool together = axes_.empty() || axes_.back() - axes_.front() + 1 == static_cast<int64_t>(axes_.size());
    size_t first = axes_.empty() ? x.shape.size() : static_cast<size_t>(axes_.front()), count = axes_.size();
    if (in_stored_order(x, first, count)) {
      // As it lies.
    } else if (!together) {
      // The reduced axes go to the end first.
      std::vector<int64_t> order;
      for (int64_t i = 0; i < x.rank(); ++i) {
        if (std::find(axes_.begin(), axes_.end(), i) == axes_.end()) order.push_back(i);
      }
      first = order.size();
      order.insert(order.end(), axes_.begin(), axes_.end());
      bind.untouch();
      x = bind.dense_copy(transposed(x, order));
    } else if (!x.is_dense()) {
      bind.untouch();
      x = bind.dense(op_.operands[0]);
    }
    const View to = bind.allocate(op_.results[0]);
    const ReduceShape shape = reduce_shape(x, static_cast<int64_t>(first), static_cast<int64_t>(count));
    const ReduceKind kind = kind_of(op_.as<ir::ReduceAttributes>().kind);
    bind.launch("reduce", static_cast<double>(x.size()),
                [kind, shape, x = Place(x), to = Place(to)](const RunContext& run) {
                  reduce(kind, x.dtype, run.at<void>(x), run.at<void>(to), shape, &run.pool);
                });
  }

 private:
  // Where x is dense in another order of its axes, the reduced ones lie together in it and the others in their own
  // order: turns x so; they are then `count` axes from `first` on.
  bool in_stored_order(View& x, size_t& first, size_t& count) const {
    const AxisOrder order = axis_order(x);
    const View stored = in_order(x, order);
    if (order.empty() || !stored.is_dense()) return false;
    size_t begin = order.size(), end = begin;
    int64_t last_kept = -1;
    for (size_t i = 0; i < order.size(); ++i) {
      if (x.dim(order[i]) == 1) continue;
      if (std::binary_search(axes_.begin(), axes_.end(), order[i])) {
        begin = std::min(begin, i);
        end = i + 1;
        continue;
      }
      if (order[i] < last_kept) return false;
      last_kept = order[i];
    }
    for (size_t i = begin; i < end; ++i) {
      if (!std::binary_search(axes_.begin(), axes_.end(), order[i])) return false;
    }
    x = stored;
    first = begin;
    count = end - begin;
    return true;
  }

  std::vector<int64_t> axes_;
};

class ArgExtremeStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::ArgExtremeAttributes>();
    const View x = bind.dense(op_.operands[0]);
    const View to = bind.allocate(op_.results[0]);
    const ReduceShape shape = reduce_shape(x, a.axis);
    if (shape.reduce < 1)
      throw Error(ErrorCode::invalid_input, "arg_extreme: an axis without elements has no greatest one");
    bind.launch("arg_extreme", static_cast<double>(x.size()),
                [greatest = a.greatest, last = a.last, shape, x = Place(x), to = Place(to)](const RunContext& run) {
                  arg_reduce(greatest, last, x.dtype, run.at<void>(x), run.at<int64_t>(to), shape, &run.pool);
                });
  }
};

}  // namespace

std::unique_ptr<Step> plan_reduce(Planner& planner, const ir::Op& op) {
  if (op.primitive == &ir::prim::reduce) {
    const DType dtype = planner.type(op.operands[0]).dtype;
    const bool logical = dtype == DType::boolean;
    if (is_packed(dtype) || is_complex(dtype) || bit_width(dtype) < 8 || (is_float(dtype) && bit_width(dtype) == 8)) {
      planner.refuse(op, "reduce", "dtype");
      return nullptr;
    }
    const ir::ReduceKind kind = op.as<ir::ReduceAttributes>().kind;
    if (logical && (kind == ir::ReduceKind::add || kind == ir::ReduceKind::mul)) return nullptr;
    if (!logical && (kind == ir::ReduceKind::logical_and || kind == ir::ReduceKind::logical_or)) return nullptr;
    return std::make_unique<ReduceStep>(op);
  }
  if (op.primitive == &ir::composite::arg_extreme) {
    const DType dtype = planner.type(op.operands[0]).dtype;
    if (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 ||
        dtype == DType::f16) {
      return std::make_unique<ArgExtremeStep>(op);
    }
  }
  return nullptr;
}

}  // namespace transmuter::cpu
