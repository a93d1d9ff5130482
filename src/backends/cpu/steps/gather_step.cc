// Gathers that take whole rows, or one element for each index. Where their indices are checked first and nothing else
// reads those, the gather checks as it goes.
#include <optional>

#include "backends/cpu/kernels/move.h"
#include "backends/cpu/plan/planner.h"
#include "base/dispatch.h"
#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// Which indices a step reads, and what holds for them: `check` null: they are clamped, negative ones to 0, as StableHLO
// says.
struct Indices {
  ir::Value value;
  const ir::CheckedIndicesAttributes* check = nullptr;
  bool wrap() const { return check && check->from_end; }
};

// Throws what the check would have thrown.
void refuse(const ir::CheckedIndicesAttributes& check, DType dtype, const void* indices, int64_t count,
            int64_t extent) {
  dispatch_integer(dtype, "gather", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = static_cast<int64_t>(static_cast<const T*>(indices)[i]);
      if (index >= extent || index < (check.from_end ? -extent : 0))
        throw Error(ErrorCode::invalid_input, str(check.what, " ", index, " is out of range for extent ", extent));
    }
  });
}

class GatherStep : public Step {
 public:
  GatherStep(const ir::Op& op, int64_t axis, const Indices& indices)
      : x_(op.operands[0]), result_(op.results[0]), axis_(axis), indices_(indices) {
    reads = {x_, indices.value};
    writes = op.results;
    location = op.location;
  }

 protected:
  // run(context, outside): a gather that clamps where `outside` is null. Without elements to take, indices are checked
  // all the same.
  template <class Run>
  auto checked(const View& indices, int64_t extent, const View& to, const Run& run) const {
    return [run, extent, nothing = to.size() == 0 || extent == 0, count = indices.size(), check = indices_.check,
            indices = Place(indices)](const RunContext& context) {
      bool outside = nothing;
      if (!nothing) run(context, check ? &outside : nullptr);
      if (check && outside) refuse(*check, indices.dtype, context.at<void>(indices), count, extent);
    };
  }

  ir::Value x_, result_;
  int64_t axis_;
  const Indices indices_;
};

// result[outer, indices..., inner] = x[outer, index, inner]
class TakeStep : public GatherStep {
 public:
  TakeStep(const ir::Op& op, int64_t axis, const Indices& indices) : GatherStep(op, axis, indices) { any_address = x_; }

  void bind(Binder& bind) const override {
    bind.dense(x_);
    bind.dense(indices_.value);
    const View x = bind.view(x_), indices = bind.view(indices_.value);
    const View to = bind.allocate(result_);
    const int width = bit_width(x.dtype) / 8;
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < axis_; ++i) outer *= x.dim(i);
    for (int64_t i = axis_ + 1; i < x.rank(); ++i) inner *= x.dim(i);
    const int64_t extent = x.dim(axis_), count = indices.size();
    if (to.size() == 0 && !indices_.check) return bind.untouch();
    bind.launch("take", 0,
                checked(indices, extent, to,
                        [outer, extent, inner, count, width, wrap = indices_.wrap(), x = Place(x),
                         indices = Place(indices), to = Place(to)](const RunContext& run, bool* outside) {
                          // Tables of weights may lie at any address: they are not worth a copy, their rows go as
                          // bytes.
                          const bool aligned =
                              reinterpret_cast<uintptr_t>(run.at<void>(x)) % static_cast<uintptr_t>(width) == 0;
                          gather_rows(aligned ? width : 1, run.at<void>(x), outer, extent,
                                      aligned ? inner : inner * width, indices.dtype, run.at<void>(indices), count,
                                      wrap, run.at<void>(to), &run.pool, outside);
                        }));
  }
};

// result[..., i, ...] = x[..., index[..., i, ...], ...], all of one rank.
class ElementsStep : public GatherStep {
 public:
  using GatherStep::GatherStep;

  void bind(Binder& bind) const override {
    bind.dense(indices_.value);
    const View x = bind.view(x_), indices = bind.view(indices_.value);
    const View to = bind.allocate(result_);
    if (indices.size() == 0) return bind.untouch();
    bind.launch("gather-elements", 0,
                checked(indices, x.dim(axis_), to,
                        [axis = axis_, extent = x.dim(axis_), width = bit_width(x.dtype) / 8, wrap = indices_.wrap(),
                         shape = indices.shape, strides = x.strides, x = Place(x), indices = Place(indices),
                         to = Place(to)](const RunContext& run, bool* outside) {
                          gather_elements(width, static_cast<int>(shape.size()), shape.data(), run.at<void>(x),
                                          strides.data(), static_cast<int>(axis), extent, indices.dtype,
                                          run.at<void>(indices), wrap, run.at<void>(to), &run.pool, outside);
                        }));
  }
};

bool along(const std::vector<int64_t>& axes, int64_t axis, int64_t rank) {
  if (static_cast<int64_t>(axes.size()) != rank - 1) return false;
  for (int64_t i = 0; i < rank - 1; ++i)
    if (axes[static_cast<size_t>(i)] != i + (i >= axis ? 1 : 0)) return false;
  return true;
}

enum class Form : uint8_t { rows, elements };

// Null reason: the form is one of ours.
const char* form_of(const Planner& planner, const ir::Op& op, Form& form) {
  const auto& a = op.as<ir::GatherAttributes>();
  const ir::Type& x = planner.type(op.operands[0]);
  const ir::Type& indices = planner.type(op.operands[1]);
  if (is_packed(x.dtype)) return "elements of less than a byte";
  if (indices.dtype != DType::i64 && indices.dtype != DType::i32) return "indices are neither i32 nor i64";
  if (a.start_index_map.size() != 1 || a.collapsed_slice_dims != a.start_index_map) return "more than one axis";
  const int64_t axis = a.start_index_map[0];
  if (!a.operand_batching_dims.empty()) {
    form = Form::elements;
    const bool ours = a.index_vector_dim == indices.rank() && indices.rank() == x.rank() && a.offset_dims.empty() &&
                      x.rank() <= kMoveMaxDims && along(a.operand_batching_dims, axis, x.rank()) &&
                      along(a.start_indices_batching_dims, axis, x.rank());
    return ours ? nullptr : "batches of more than elements";
  }
  form = Form::rows;
  int64_t index_rank = indices.rank();
  if (a.index_vector_dim < index_rank) {
    // A trailing axis of extent 1 holds the index.
    if (a.index_vector_dim != index_rank - 1 || !provably_eq(indices.shape.back(), 1)) return "index vectors";
    --index_rank;
  }
  int64_t expected = 0;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (static_cast<int64_t>(i) == axis) {
      expected += index_rank;
      continue;
    }
    const size_t which = i - (static_cast<int64_t>(i) > axis ? 1 : 0);
    if (!provably_eq(a.slice_sizes[i], x.shape[i]) || a.offset_dims[which] != expected)
      return "slices of rows, or other result axes";
    ++expected;
  }
  return nullptr;
}

std::unique_ptr<Step> gather_step(const ir::Op& op, Form form, const Indices& indices) {
  const int64_t axis = op.as<ir::GatherAttributes>().start_index_map[0];
  if (form == Form::rows) return std::make_unique<TakeStep>(op, axis, indices);
  return std::make_unique<ElementsStep>(op, axis, indices);
}

}  // namespace

void plan_checked_gather(Planner& planner, const ir::Op& op) {
  const ir::Op* check = planner.definition(op.operands[1]);
  Form form;
  if (!check || check->primitive != &ir::composite::checked_indices || planner.absorbed(*check) ||
      planner.only_user(check->results[0]) != &op)
    return;
  if (form_of(planner, op, form)) return;
  const auto& checked = check->as<ir::CheckedIndicesAttributes>();
  const Dim extent =
      planner.type(op.operands[0]).shape[static_cast<size_t>(op.as<ir::GatherAttributes>().start_index_map[0])];
  if (checked.extents.size() != 1 || !provably_eq(checked.extents[0], extent)) return;
  planner.absorb(*check);
  planner.absorb(op);
  planner.move_to(gather_step(op, form, {check->operands[0], &checked}), op);
}

std::unique_ptr<Step> plan_gather(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::prim::gather) return nullptr;
  Form form;
  if (const char* reason = form_of(planner, op, form)) {
    planner.refuse(op, "take", reason);
    return nullptr;
  }
  return gather_step(op, form, {op.operands[1]});
}

}  // namespace transmuter::cpu
