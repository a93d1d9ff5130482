#include "ops/support.h"

#include <algorithm>

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

// The least and greatest index, where constants or intervals tell.
struct Range {
  int64_t low = INT64_MAX;
  int64_t high = INT64_MIN;
  bool exact = true;  // of constants: both are attained

  void include(Dim dim) {
    const Interval span = interval(dim);
    low = std::min(low, span.low);
    high = std::max(high, span.high);
    exact = exact && dim.is_constant();
  }
  bool empty() const { return low > high; }
};

void check_range(OpContext& op, const Range& range, Dim extent) {
  if (!extent.is_constant() || !range.exact || range.empty()) return;
  const int64_t size = extent.hint();
  op.check(range.low >= -size, "index ", range.low, " is out of range for extent ", size);
  op.check(range.high < size, "index ", range.high, " is out of range for extent ", size);
}

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
    for (size_t k = 0; k < values.size(); ++k) ranges[k % depth].include(values[k]);
  }
  return ranges;
}

// index < 0 ? index + extent : index
Value wrap_negative(ir::Builder& b, Value indices, Value extent) {
  const Value negative = b.compare(indices, b.like(indices, 0), ir::CompareDirection::lt);
  return b.select(negative, b.add(indices, b.broadcast_to(extent, b.shape(indices))), indices);
}

}  // namespace

Value wrapped_indices(OpContext& op, size_t i, Dim extent) {
  ir::Builder& b = op.build();
  const Range range = index_ranges(op, i, 1)[0];
  check_range(op, range, extent);
  const Value indices = op.input(i);
  if (!range.empty() && range.low >= 0) return indices;
  return wrap_negative(b, indices, b.dim_value(extent, b.dtype(indices)));
}

Value wrapped_points(OpContext& op, size_t i, const Dims& extents) {
  ir::Builder& b = op.build();
  const std::vector<Range> ranges = index_ranges(op, i, extents.size());
  bool nonnegative = true;
  for (size_t k = 0; k < extents.size(); ++k) {
    check_range(op, ranges[k], extents[k]);
    nonnegative = nonnegative && !ranges[k].empty() && ranges[k].low >= 0;
  }
  const Value indices = op.input(i);
  if (nonnegative) return indices;
  return wrap_negative(b, indices, materialise(b, Known::vector(b.dtype(indices), extents)));
}

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
