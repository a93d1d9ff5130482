// Concatenation into slices of the result, and gathers that take whole rows.
#include "backends/cpu/kernels/move.h"
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

// result[outer, indices..., inner] = x[outer, index, inner]; indices are clamped, negative ones to 0, as StableHLO
// says.
class TakeStep : public OpStep {
 public:
  TakeStep(const ir::Op& op, int64_t axis) : OpStep(op), axis_(axis) { any_address = op.operands[0]; }

  void bind(Binder& bind) const override {
    bind.dense(op_.operands[0]);
    bind.dense(op_.operands[1]);
    const View x = bind.view(op_.operands[0]), indices = bind.view(op_.operands[1]);
    const View to = bind.allocate(op_.results[0]);
    const int width = bit_width(x.dtype) / 8;
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < axis_; ++i) outer *= x.dim(i);
    for (int64_t i = axis_ + 1; i < x.rank(); ++i) inner *= x.dim(i);
    const int64_t extent = x.dim(axis_), count = indices.size();
    if (to.size() == 0) return bind.untouch();
    bind.launch("take", 0,
                [outer, extent, inner, count, width, x = Place(x), indices = Place(indices),
                 to = Place(to)](const RunContext& run) {
                  // Tables of weights may lie at any address: they are not worth a copy, their rows go as bytes.
                  const bool aligned =
                      reinterpret_cast<uintptr_t>(run.at<void>(x)) % static_cast<uintptr_t>(width) == 0;
                  gather_rows(aligned ? width : 1, run.at<void>(x), outer, extent, aligned ? inner : inner * width,
                              indices.dtype, run.at<void>(indices), count, false, run.at<void>(to), &run.pool);
                });
  }

 private:
  int64_t axis_;
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

std::unique_ptr<Step> plan_gather(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::prim::gather) return nullptr;
  const auto& a = op.as<ir::GatherAttributes>();
  const ir::Type& x = planner.type(op.operands[0]);
  const ir::Type& indices = planner.type(op.operands[1]);
  const char* reason = nullptr;
  if (is_packed(x.dtype)) reason = "elements of less than a byte";
  if (indices.dtype != DType::i64 && indices.dtype != DType::i32) reason = "indices are neither i32 nor i64";
  if (a.start_index_map.size() != 1 || a.collapsed_slice_dims != a.start_index_map ||
      !a.operand_batching_dims.empty()) {
    reason = "more than whole rows along one axis";
  }
  if (!reason) {
    const int64_t axis = a.start_index_map[0];
    int64_t index_rank = indices.rank();
    if (a.index_vector_dim < index_rank) {
      // A trailing axis of extent 1 holds the index.
      if (a.index_vector_dim != index_rank - 1 || !provably_eq(indices.shape.back(), 1)) reason = "index vectors";
      --index_rank;
    }
    int64_t expected = 0;
    for (size_t i = 0; !reason && i < x.shape.size(); ++i) {
      if (static_cast<int64_t>(i) == axis) {
        expected += index_rank;
        continue;
      }
      const size_t which = i - (static_cast<int64_t>(i) > axis ? 1 : 0);
      if (!provably_eq(a.slice_sizes[i], x.shape[i]) || a.offset_dims[which] != expected)
        reason = "slices of rows, or other result axes";
      ++expected;
    }
    if (!reason) return std::make_unique<TakeStep>(op, axis);
  }
  planner.refuse(op, "take", reason);
  return nullptr;
}

}  // namespace transmuter::cpu
