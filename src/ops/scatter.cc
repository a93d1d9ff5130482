// Scatter, ScatterElements, ScatterND with reductions. Negative indices count from the end; out of range is an error.
// (A backend without a check drops the update.)
#include <numeric>

#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;
using Kind = ir::ScatterAttributes::Kind;

Kind read_reduction(OpContext& op) {
  if (op.version() < 16) return Kind::set;
  const std::string reduction = op.attribute_string("reduction", "none");
  if (reduction == "none") return Kind::set;
  if (reduction == "add") return Kind::add;
  if (reduction == "mul") return Kind::mul;
  op.check((reduction == "max" || reduction == "min") && op.version() >= 18, "reduction ", reduction,
           " is not one of this opset");
  return reduction == "max" ? Kind::max : Kind::min;
}

// Where every other axis is whole, the other axes are batch axes; else each update says all of its coordinates.
Value scatter_along(OpContext& op, Value x, Value indices, Value updates, int64_t axis, Kind kind) {
  Builder& b = op.build();
  const Dims data = b.shape(x), shape = b.shape(indices);
  const int64_t rank = static_cast<int64_t>(data.size());
  ir::ScatterAttributes attributes;
  attributes.kind = kind;
  attributes.index_vector_dim = rank;
  bool whole = true;
  for (int64_t i = 0; i < rank; ++i)
    whole = whole && (i == axis || provably_eq(data[static_cast<size_t>(i)], shape[static_cast<size_t>(i)]));
  if (whole) {
    attributes.inserted_window_dims = {axis};
    attributes.scatter_dims_to_operand_dims = {axis};
    for (int64_t i = 0; i < rank; ++i)
      if (i != axis) attributes.input_batching_dims.push_back(i);
    attributes.scatter_indices_batching_dims = attributes.input_batching_dims;
    return b.scatter(x, indices, updates, std::move(attributes));
  }
  Dims column = shape;
  column.emplace_back(1);
  std::vector<Value> coordinates;
  for (int64_t i = 0; i < rank; ++i) {
    attributes.inserted_window_dims.push_back(i);
    attributes.scatter_dims_to_operand_dims.push_back(i);
    coordinates.push_back(b.reshape(i == axis ? indices : b.iota(b.dtype(indices), shape, i), column));
  }
  return b.scatter(x, b.concatenate(std::move(coordinates), rank), updates, std::move(attributes));
}

void scatter_elements(OpContext& op) {
  const Kind kind = read_reduction(op);
  const int64_t rank = op.rank(0);
  const int64_t axis = op.axis(op.attribute_int("axis", 0), rank);
  require_index(op, 1);
  require_same_dtype(op, 0, 2);
  op.check(op.rank(1) == rank && op.rank(2) == rank, "data, indices and updates have ranks ", rank, ", ", op.rank(1),
           " and ", op.rank(2));
  for (int64_t i = 0; i < rank; ++i) {
    const size_t at = static_cast<size_t>(i);
    require_eq(op.shape(1)[at], op.shape(2)[at], str("ScatterElements: extents of indices and updates, axis ", i));
    if (i != axis)
      require(less_equal(op.shape(1)[at], op.shape(0)[at]),
              str("ScatterElements: indices are longer than data along axis ", i));
  }
  const Value indices = checked_indices(op, 1, op.shape(0)[static_cast<size_t>(axis)]);
  op.output(0, scatter_along(op, op.input(0), indices, op.input(2), axis, kind));
}

// Known elements replaced at known places.
Known scatter_nd_known(const Known& data, const Known& indices, const Known& updates, int64_t depth) {
  if (data.kind != Known::Kind::elements || indices.kind != Known::Kind::elements) return {};
  const std::optional<std::vector<Scalar>> values = listed(updates);
  if (!values) return {};
  Known out = data;
  const Shape shape = *constant_shape(data.shape);
  int64_t window = 1;
  for (size_t i = static_cast<size_t>(depth); i < shape.size(); ++i) window *= shape[i];
  const int64_t points = indices.size() / depth;
  if (points * window != static_cast<int64_t>(values->size())) return {};
  for (int64_t p = 0; p < points; ++p) {
    int64_t position = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const Scalar& s = indices.elements[static_cast<size_t>(p * depth + k)];
      if (!s.known() || !s.dim.is_constant()) return {};
      const int64_t extent = shape[static_cast<size_t>(k)];
      const int64_t index = s.dim.hint() < 0 ? s.dim.hint() + extent : s.dim.hint();
      if (index < 0 || index >= extent) return {};  // refused where the program reads it
      position = position * extent + index;
    }
    for (int64_t i = 0; i < window; ++i)
      out.elements[static_cast<size_t>(position * window + i)] = (*values)[static_cast<size_t>(p * window + i)];
  }
  return out;
}

void scatter_nd(OpContext& op) {
  const Kind kind = read_reduction(op);
  op.check(op.dtype(1) == DType::i64, "indices must be int64, are ", name(op.dtype(1)));
  require_same_dtype(op, 0, 2);
  const Dims data = op.shape(0), indices = op.shape(1), updates = op.shape(2);
  const int64_t rank = op.rank(0), last = op.rank(1) - 1;
  op.check(last >= 0, "indices must have an axis");
  const int64_t depth = specialize(indices[static_cast<size_t>(last)], "ScatterND: indices a point");
  op.check(depth >= 1 && depth <= rank, depth, " indices a point for rank ", rank);
  op.check(op.rank(2) == last + rank - depth, "updates have rank ", op.rank(2), ", not ", last + rank - depth);
  for (size_t i = 0; i < updates.size(); ++i) {
    const size_t from = static_cast<size_t>(last);
    require_eq(updates[i], i < from ? indices[i] : data[i - from + static_cast<size_t>(depth)],
               str("ScatterND: extent of updates, axis ", i));
  }
  Known known;
  if (kind == Kind::set) known = scatter_nd_known(op.known(0), op.known(1), op.known(2), depth);
  output_known_or(op, 0, std::move(known), [&] {
    ir::ScatterAttributes attributes;
    attributes.kind = kind;
    attributes.index_vector_dim = last;
    for (int64_t i = 0; i < depth; ++i) attributes.scatter_dims_to_operand_dims.push_back(i);
    attributes.inserted_window_dims = attributes.scatter_dims_to_operand_dims;
    for (int64_t i = last; i < op.rank(2); ++i) attributes.update_window_dims.push_back(i);
    const Value at = checked_points(op, 1, Dims(data.begin(), data.begin() + depth));
    return op.build().scatter(op.input(0), at, op.input(2), std::move(attributes));
  });
}

}  // namespace

void register_scatter(Registry& r) {
  r.add("Scatter", {9, 11}, scatter_elements);
  r.add("ScatterElements", {11, 13, 16, 18}, scatter_elements);
  r.add("ScatterND", {11, 13, 16, 18}, scatter_nd);
}

}  // namespace transmuter::ops
