// checked_indices: positions within extents, or an error that says which is not.
#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer_checked_indices(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& checked = ctx.as<CheckedIndicesAttributes>();
  const Type& x = ctx.operands[0];
  ctx.check(is_integer(x.dtype), "C1", "indices are integers, not ", name(x.dtype));
  ctx.check(!checked.extents.empty(), "C2", "there must be an extent");
  if (checked.extents.size() > 1) {
    ctx.check(x.rank() >= 1, "C2", "several extents need a last axis");
    require_eq(x.shape.back(), static_cast<int64_t>(checked.extents.size()),
               "checked_indices: C2 extents for the last axis");
  }
  return {x};
}

template <class T>
void check_elements(EvaluateContext& c, const CheckedIndicesAttributes& checked, const Shape& extents) {
  const T* from = c.operands[0].data<T>();
  Tensor& result = c.make_result();
  T* to = result.mutable_data<T>();
  size_t column = 0;
  for (int64_t i = 0, count = result.size(); i < count; ++i) {
    const int64_t extent = extents[column];
    if (++column == extents.size()) column = 0;
    const T index = from[i];
    // A value beyond int64 is negative here and out of range all the same.
    const int64_t wide = static_cast<int64_t>(index);
    const bool from_end = checked.from_end && std::is_signed_v<T> && wide < 0;
    const bool inside = from_end ? wide >= -extent : wide >= 0 && wide < extent;
    if (!inside)
      throw Error(ErrorCode::invalid_input, str(checked.what, " ", index, " is out of range for extent ", extent));
    to[i] = static_cast<T>(from_end ? wide + extent : wide);
  }
}

void evaluate_checked_indices(EvaluateContext& c) {
  const auto& checked = c.as<CheckedIndicesAttributes>();
  const Shape extents = c.values(checked.extents);
  dispatch_integer(c.operands[0].dtype(), "checked_indices",
                   [&]<class T>(TypeTag<T>) { check_elements<T>(c, checked, extents); });
}

std::vector<Value> decompose_checked_indices(Builder& build, std::span<const Value> operands,
                                             const Attributes* attributes) {
  const auto& checked = static_cast<const CheckedIndicesAttributes&>(*attributes);
  const Value indices = operands[0];
  const DType dtype = build.dtype(indices);
  if (!checked.from_end || !is_signed_integer(dtype)) return {indices};
  std::vector<Value> columns;
  for (const Dim& extent : checked.extents) columns.push_back(build.reshape(build.dim_value(extent, dtype), {1}));
  Value extents = build.concatenate(std::move(columns), 0);
  if (checked.extents.size() == 1) extents = build.reshape(extents, {});
  const Value negative = build.compare(indices, build.like(indices, 0), CompareDirection::lt);
  return {build.select(negative, build.add(indices, build.broadcast_to(extents, build.shape(indices))), indices)};
}

}  // namespace

const Primitive composite::checked_indices{.name = "checked_indices",
                                           .infer = infer_checked_indices,
                                           .evaluate = evaluate_checked_indices,
                                           .decompose = decompose_checked_indices};

Value checked_indices(Builder& build, Value indices, Dims extents, bool from_end, std::string what) {
  auto attributes = std::make_shared<CheckedIndicesAttributes>();
  attributes->extents = std::move(extents);
  attributes->from_end = from_end;
  attributes->what = std::move(what);
  return build.emit1(composite::checked_indices, {indices}, std::move(attributes));
}

}  // namespace transmuter::ir
