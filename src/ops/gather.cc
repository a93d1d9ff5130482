// Gather, GatherElements, GatherND. Negative indices count from the end; out of range is an error. (A backend without a
// check clamps to the nearest element.)
#include <numeric>

#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

std::vector<int64_t> consecutive(int64_t first, int64_t end) {
  std::vector<int64_t> list(static_cast<size_t>(std::max<int64_t>(end - first, 0)));
  std::iota(list.begin(), list.end(), first);
  return list;
}

Dims gathered_shape(const Dims& data, const Dims& indices, int64_t axis) {
  Dims shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  return shape;
}

// Known elements of data at known constant indices; an iota at any known index.
Known gather_known(const Known& data, const Known& indices, int64_t axis, const Dims& shape) {
  if (!data || !indices.fully_known()) return {};
  if (data.kind == Known::Kind::splat) return Known::splat(data.dtype, shape, data.value);
  const std::optional<std::vector<Scalar>> at = listed(indices);
  if (!at) return {};
  const Dim extent = data.shape[static_cast<size_t>(axis)];
  if (data.kind == Known::Kind::iota) {
    if (data.axis != axis || data.shape.size() != 1) return {};
    std::vector<Scalar> elements;
    for (const Scalar& s : *at) {
      const Dim index = select(less(s.dim, 0), s.dim + extent, s.dim);
      elements.push_back(fit(data.value.dim + data.step * index, data.dtype));
    }
    return Known::of(data.dtype, shape, std::move(elements));
  }
  if (!small_constant_shape(shape)) return {};
  const int64_t length = extent.hint();
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < data.shape.size(); ++i) {
    if (static_cast<int64_t>(i) < axis) outer *= data.shape[i].hint();
    if (static_cast<int64_t>(i) > axis) inner *= data.shape[i].hint();
  }
  std::vector<int64_t> positions;
  for (int64_t o = 0; o < outer; ++o) {
    for (const Scalar& s : *at) {
      if (!s.dim.is_constant()) return {};
      const int64_t index = s.dim.hint() < 0 ? s.dim.hint() + length : s.dim.hint();
      if (index < 0 || index >= length) return {};  // refused below, where the program reads it
      for (int64_t i = 0; i < inner; ++i) positions.push_back((o * length + index) * inner + i);
    }
  }
  return pick_known(data, *constant_shape(shape), positions);
}

// One known index, or known indices one after the other: a slice.
std::optional<Value> gather_by_slice(OpContext& op, int64_t axis, const Dims& shape) {
  const Known& indices = op.known(1);
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  Dim first, count = 1;
  if (indices.kind == Known::Kind::iota && indices.shape.size() == 1 && provably_eq(indices.step, 1)) {
    first = indices.value.dim;
    count = indices.shape[0];
    if (!provably_ge(first, 0) || !provably_le(first + count, extent)) return std::nullopt;
  } else if (indices.kind == Known::Kind::elements && !indices.elements.empty() && indices.fully_known()) {
    first = indices.elements[0].dim;
    count = indices.size();
    if (!provably_ge(first, 0)) {
      if (!provably_lt(first, 0) || indices.size() != 1) return std::nullopt;
      first = first + extent;
    }
    for (int64_t i = 1; i < indices.size(); ++i)
      if (!provably_eq(indices.elements[static_cast<size_t>(i)].dim, first + Dim(i))) return std::nullopt;
    if (!extent.is_constant() || !first.is_constant()) {
      require(less_equal(0, first), "Gather: index out of range");
      require(less_equal(first + count, extent), "Gather: index out of range");
    } else if (first.hint() < 0 || first.hint() > extent.hint() - count.hint()) {
      op.invalid("index ", indices.elements[0].dim.hint(), " is out of range for extent ", extent.hint());
    }
  } else {
    return std::nullopt;
  }
  return op.build().reshape(op.build().slice_axis(op.input(0), axis, first, first + count), shape);
}

void gather(OpContext& op) {
  op.check(op.rank(0) >= 1, "data must have an axis");
  const int64_t axis = op.axis(op.attribute_int("axis", 0), op.rank(0));
  require_index(op, 1);
  const Dims data = op.shape(0), indices = op.shape(1);
  const Dims shape = gathered_shape(data, indices, axis);
  output_known_or(op, 0, gather_known(op.known(0), op.known(1), axis, shape), [&]() -> Value {
    if (const std::optional<Value> sliced = gather_by_slice(op, axis, shape)) return *sliced;
    const int64_t rank = static_cast<int64_t>(data.size()), added = static_cast<int64_t>(indices.size());
    ir::GatherAttributes attributes;
    for (int64_t i = 0; i < rank + added - 1; ++i)
      if (i < axis || i >= axis + added) attributes.offset_dims.push_back(i);
    attributes.collapsed_slice_dims = {axis};
    attributes.start_index_map = {axis};
    attributes.index_vector_dim = added;
    attributes.slice_sizes = data;
    attributes.slice_sizes[static_cast<size_t>(axis)] = 1;
    const Value at = checked_indices(op, 1, data[static_cast<size_t>(axis)]);
    return op.build().gather(op.input(0), at, std::move(attributes));
  });
}

// Every axis but one is a batch axis of the gather; data is cut to the indices' extents there.
void gather_elements(OpContext& op) {
  const int64_t rank = op.rank(0);
  const int64_t axis = op.axis(op.attribute_int("axis", 0), rank);
  require_index(op, 1);
  op.check(op.rank(1) == rank, "indices have rank ", op.rank(1), ", data has rank ", rank);
  Builder& b = op.build();
  const Dims indices = op.shape(1);
  Dims limit = op.shape(0);
  ir::GatherAttributes attributes;
  for (int64_t i = 0; i < rank; ++i) {
    if (i == axis) continue;
    const size_t at = static_cast<size_t>(i);
    require(less_equal(indices[at], limit[at]), str("GatherElements: indices are longer than data along axis ", i));
    limit[at] = indices[at];
    attributes.operand_batching_dims.push_back(i);
  }
  const Value at = checked_indices(op, 1, op.shape(0)[static_cast<size_t>(axis)]);
  const size_t count = static_cast<size_t>(rank);
  Value data = op.input(0);
  if (!provably_equal(limit, op.shape(0))) data = b.slice(data, Dims(count, Dim(0)), limit, Dims(count, Dim(1)));
  attributes.start_indices_batching_dims = attributes.operand_batching_dims;
  attributes.collapsed_slice_dims = {axis};
  attributes.start_index_map = {axis};
  attributes.index_vector_dim = rank;
  attributes.slice_sizes = Dims(count, Dim(1));
  op.output(0, b.gather(data, at, std::move(attributes)));
}

void gather_nd(OpContext& op) {
  const int64_t batch = op.version() >= 12 ? op.attribute_int("batch_dims", 0) : 0;
  if (op.node().domain == kMicrosoft)
    require_index(op, 1);
  else
    op.check(op.dtype(1) == DType::i64, "indices must be int64, are ", name(op.dtype(1)));
  const Dims data = op.shape(0), indices = op.shape(1);
  const int64_t rank = op.rank(0), last = op.rank(1) - 1;
  op.check(last >= 0, "indices must have an axis");
  op.check(batch >= 0 && batch < std::min(rank, last + 1), "batch_dims ", batch, " is out of range");
  for (int64_t i = 0; i < batch; ++i) {
    const size_t at = static_cast<size_t>(i);
    require_eq(data[at], indices[at], str("GatherND: batch extents of axis ", i));
  }
  const int64_t depth = specialize(indices[static_cast<size_t>(last)], "GatherND: indices a point");
  op.check(depth >= 1 && batch + depth <= rank, depth, " indices a point for rank ", rank, " with ", batch,
           " batch axes");
  Builder& b = op.build();
  ir::GatherAttributes attributes;
  attributes.operand_batching_dims = consecutive(0, batch);
  attributes.start_indices_batching_dims = attributes.operand_batching_dims;
  attributes.start_index_map = consecutive(batch, batch + depth);
  attributes.collapsed_slice_dims = attributes.start_index_map;
  attributes.offset_dims = consecutive(last, last + rank - batch - depth);
  attributes.index_vector_dim = last;
  attributes.slice_sizes = data;
  for (int64_t i = 0; i < batch + depth; ++i) attributes.slice_sizes[static_cast<size_t>(i)] = 1;
  const Value at = checked_points(op, 1, Dims(data.begin() + batch, data.begin() + batch + depth));
  op.output(0, b.gather(op.input(0), at, std::move(attributes)));
}

}  // namespace

void register_gather(Registry& r) {
  r.add("Gather", {1, 11, 13}, gather);
  r.add("GatherElements", {11, 13}, gather_elements);
  r.add("GatherND", {11, 12, 13}, gather_nd);
  r.add("GatherND", {1}, gather_nd, kMicrosoft);
}

}  // namespace transmuter::ops
