// Where and OneHot.
#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// The condition's one truth value for all elements, when it is settled without a guard.
std::optional<bool> uniform_truth(const Known& condition) {
  if (!condition.fully_known() || condition.kind == Known::Kind::iota) return std::nullopt;
  if (condition.kind == Known::Kind::splat) return settled(condition.value.dim);
  std::optional<bool> truth;
  for (const Scalar& s : condition.elements) {
    const std::optional<bool> own = settled(s.dim);
    if (!own || (truth && *truth != *own)) return std::nullopt;
    truth = own;
  }
  return truth;
}

Known where_known(const Known& condition, const Known& x, const Known& y, const Dims& shape, DType dtype) {
  if (!condition || !x || !y) return {};
  const std::optional<Scalar> truth = single_value(condition), one = single_value(x), other = single_value(y);
  if (truth && one && other)
    return truth->known() ? Known::splat(dtype, shape, select_scalars(*truth, *one, *other)) : Known();
  const auto condition_list = listed(broadcast_known(condition, shape));
  const auto x_list = listed(broadcast_known(x, shape)), y_list = listed(broadcast_known(y, shape));
  if (!condition_list || !x_list || !y_list) return {};
  std::vector<Scalar> elements;
  bool any = false;
  for (size_t i = 0; i < condition_list->size(); ++i) {
    const Scalar& truth_here = (*condition_list)[i];
    elements.push_back(truth_here.known() ? select_scalars(truth_here, (*x_list)[i], (*y_list)[i]) : Scalar());
    any = any || elements.back().known();
  }
  return any || elements.empty() ? Known::of(dtype, shape, std::move(elements)) : Known();
}

void where(OpContext& op) {
  require_bool(op, 0);
  require_same_dtype(op, 1, 2);
  const Dims shape =
      ir::broadcast_shapes(op.shape(0), ir::broadcast_shapes(op.shape(1), op.shape(2), "Where"), "Where");
  if (const std::optional<bool> truth = uniform_truth(op.known(0))) {
    const size_t chosen = *truth ? 1 : 2;
    if (provably_equal(op.shape(chosen), shape)) return op.output(0, op.traced(chosen));
    return output_known_or(op, 0, broadcast_known(op.known(chosen), shape),
                           [&] { return op.build().broadcast_to(op.input(chosen), shape); });
  }
  output_known_or(op, 0, where_known(op.known(0), op.known(1), op.known(2), shape, op.dtype(1)), [&] {
    Builder& b = op.build();
    return b.select(b.broadcast_to(op.input(0), shape), b.broadcast_to(op.input(1), shape),
                    b.broadcast_to(op.input(2), shape));
  });
}

// An index outside [-depth, depth) marks nothing. Float indices are truncated.
void one_hot(OpContext& op) {
  const int64_t rank = op.rank(0) + 1;
  const int64_t axis = op.axis(op.attribute_int("axis", -1), rank);
  require_numeric(op, 0);
  op.check(op.rank(2) == 1, "values must be 1-D, have rank ", op.rank(2));
  require_eq(op.shape(2)[0], 2, "OneHot: number of values");
  const Known& depth_known = op.require_known(1);
  const Scalar depth_scalar = cast_scalar(single_value(depth_known).value_or(Scalar()), DType::i64);
  op.check(depth_scalar.known(), "depth must be one number");
  const Dim depth = depth_scalar.dim;
  require(less(0, depth), "OneHot: depth must be positive");
  Builder& b = op.build();
  const Dims indices_shape = op.shape(0);
  Dims shape = indices_shape;
  shape.insert(shape.begin() + axis, depth);
  Value indices = b.convert(op.input(0), DType::i64);
  const Value negative = b.compare(indices, b.like(indices, 0), CompareDirection::lt);
  const Value size = b.broadcast_in_dim(b.dim_value(depth, DType::i64), indices_shape, {});
  indices = b.select(negative, b.add(indices, size), indices);
  std::vector<int64_t> dimensions;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) dimensions.push_back(i);
  const Value hit =
      b.compare(b.broadcast_in_dim(indices, shape, dimensions), b.iota(DType::i64, shape, axis), CompareDirection::eq);
  const auto value_at = [&](int64_t i) {
    return b.broadcast_in_dim(b.reshape(b.slice_axis(op.input(2), 0, i, i + 1), {}), shape, {});
  };
  op.output(0, b.select(hit, value_at(1), value_at(0)));
}

}  // namespace

void register_select(Registry& r) {
  r.add("Where", {9, 16}, where);
  r.add("OneHot", {9, 11, 28}, one_hot);
}

}  // namespace transmuter::ops
