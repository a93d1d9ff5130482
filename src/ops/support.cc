#include "ops/support.h"

#include <algorithm>

#include "ir/composites/composites.h"

namespace transmuter::ops {

using ir::Value;

std::vector<int64_t> normalised_axes(const OpContext& op, std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = op.axis(axis, rank);
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  op.check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "axes ", axes, " repeat one");
  return axes;
}

namespace {

// The least and greatest index, where constants or known values tell.
struct Range {
  std::optional<Dim> low, high;
  void include(Dim dim) {
    low = low ? min(*low, dim) : dim;
    high = high ? max(*high, dim) : dim;
  }
};

// One range for each place in a point of `depth` indices; empty ranges where nothing is known.
std::vector<Range> index_ranges(OpContext& op, size_t i, size_t depth) {
  std::vector<Range> ranges(depth);
  if (const Known& known = op.known(i); known.fully_known()) {
    if (known.kind == Known::Kind::elements) {
      for (size_t k = 0; k < known.elements.size(); ++k) ranges[k % depth].include(known.elements[k].dim);
    } else {
      for (Range& range : ranges) {
        range.include(known.value.dim);
        if (known.kind == Known::Kind::iota)
          range.include(known.value.dim + known.step * (known.shape[static_cast<size_t>(known.axis)] - 1));
      }
    }
  } else if (const Tensor* constant = op.constant(i)) {
    const std::vector<int64_t> values = constant->aligned().cast(DType::i64).to_vector<int64_t>();
    std::vector<std::pair<int64_t, int64_t>> ends(depth, {INT64_MAX, INT64_MIN});
    for (size_t k = 0; k < values.size(); ++k) {
      auto& [low, high] = ends[k % depth];
      low = std::min(low, values[k]);
      high = std::max(high, values[k]);
    }
    for (size_t k = 0; k < depth && !values.empty(); ++k) {
      ranges[k].include(ends[k].first);
      ranges[k].include(ends[k].second);
    }
  }
  return ranges;
}

}  // namespace

Value checked_points(OpContext& op, size_t i, const Dims& extents) {
  const std::vector<Range> ranges = index_ranges(op, i, extents.size());
  bool inside = true;
  for (size_t k = 0; k < extents.size(); ++k) {
    const Range& range = ranges[k];
    // A large bound never enters arithmetic.
    if (range.high && range.high->is_constant() && provably_le(extents[k], *range.high))
      op.invalid("index ", range.high->hint(), " is out of range for extent ", extents[k].hint());
    if (range.low && range.low->is_constant() &&
        (range.low->hint() < -INT32_MAX || provably_lt(*range.low, -extents[k])))
      op.invalid("index ", range.low->hint(), " is out of range for extent ", extents[k].hint());
    const bool settled = range.low && provably_ge(*range.low, 0);
    inside = inside && settled;
    if (settled) require(less(*range.high, extents[k]), str(op.node().op_type, ": index out of range"));
  }
  const Value indices = op.input(i);
  if (inside) return indices;
  return ir::checked_indices(op.build(), indices, extents, true, op.node().op_type + ": index");
}

Value checked_indices(OpContext& op, size_t i, Dim extent) { return checked_points(op, i, {extent}); }

Value take(ir::Builder& b, Value x, int64_t axis, Value positions) {
  ir::GatherAttributes attributes;
  const int64_t rank = b.rank(x);
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) attributes.offset_dims.push_back(i);
  attributes.collapsed_slice_dims = {axis};
  attributes.start_index_map = {axis};
  attributes.index_vector_dim = 1;
  attributes.slice_sizes = b.shape(x);
  attributes.slice_sizes[static_cast<size_t>(axis)] = 1;
  return b.gather(x, positions, std::move(attributes));
}

}  // namespace transmuter::ops
