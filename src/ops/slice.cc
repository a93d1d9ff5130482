// Slice. Bounds of INT32_MAX and beyond (INT64_MAX) mean the end, the like below the beginning: they never enter
// arithmetic.
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Value;

constexpr int64_t kEnd = INT32_MAX;

// A bound in [0, extent], counted from the end where negative.
Dim clamped(Dim bound, Dim extent) {
  if (bound.is_constant()) {
    if (bound.hint() >= kEnd) return extent;
    if (bound.hint() <= -kEnd) return 0;
    return bound.hint() >= 0 ? min(bound, extent) : max(extent + bound, 0);
  }
  const Interval range = interval(bound);
  if (range.low >= 0) return min(bound, extent);
  if (range.high < 0) return max(extent + bound, 0);
  return min(max(select(less(bound, 0), bound + extent, bound), 0), extent);
}

// A bound as a position in the reversed axis, where a negative step walks upward.
Dim mirrored_start(Dim bound, Dim extent) {
  if (bound.is_constant() && bound.hint() >= kEnd) return 0;
  const Dim last = max(extent - 1, 0);
  if (bound.is_constant() && bound.hint() <= -kEnd) return last;
  const Dim index = select(less(bound, 0), bound + extent, bound);
  return min(max(extent - 1 - index, 0), last);
}
Dim mirrored_end(Dim bound, Dim extent) {
  if (bound.is_constant() && bound.hint() >= kEnd) return 0;
  if (bound.is_constant() && bound.hint() <= -kEnd) return extent;
  const Dim index = select(less(bound, 0), bound + extent, bound);
  return min(max(extent - 1 - index, 0), extent);
}

// A bound read from an input may be anything: whether it is one of the ends is a guard.
Dim without_ends(Dim bound) {
  if (bound.is_constant()) return bound;
  // One that the run computes decides nothing: no extent reaches the ends.
  if (depends_on_data(bound)) return min(max(bound, -kEnd), kEnd);
  const Interval range = interval(bound);
  if (range.high >= kEnd && !decide_lt(bound, kEnd, "Slice: a bound at the end")) return kEnd;
  if (range.low <= -kEnd && !decide_lt(-kEnd, bound, "Slice: a bound at the beginning")) return -kEnd;
  return bound;
}

struct Bounds {
  Dims starts, ends;
  std::vector<int64_t> axes, steps;
};

Bounds read_bounds(OpContext& op) {
  Bounds bounds;
  std::optional<std::vector<int64_t>> axes, steps;
  if (op.version() < 10 && op.node().op_type != "DynamicSlice") {
    const std::vector<int64_t> starts = op.attribute_ints("starts"), ends = op.attribute_ints("ends");
    bounds.starts.assign(starts.begin(), starts.end());
    bounds.ends.assign(ends.begin(), ends.end());
    axes = op.attribute_ints_optional("axes");
  } else {
    bounds.starts = op.require_dims(1);
    bounds.ends = op.require_dims(2);
    if (op.has_input(3)) axes = op.require_ints(3);
    if (op.has_input(4)) steps = op.require_ints(4);
  }
  const size_t count = bounds.starts.size();
  op.check(bounds.ends.size() == count, count, " starts and ", bounds.ends.size(), " ends");
  if (axes) {
    bounds.axes = normalised_axes(op, *axes, op.rank(0));
  } else {
    for (size_t i = 0; i < count; ++i) bounds.axes.push_back(static_cast<int64_t>(i));
  }
  op.check(bounds.axes.size() == count, count, " starts and ", bounds.axes.size(), " axes");
  op.check(axes || count <= op.shape(0).size(), count, " starts for rank ", op.rank(0));
  bounds.steps = steps.value_or(std::vector<int64_t>(count, 1));
  op.check(bounds.steps.size() == count, count, " starts and ", bounds.steps.size(), " steps");
  for (int64_t step : bounds.steps) op.check(step != 0, "a step is 0");
  return bounds;
}

void slice(OpContext& op) {
  const Bounds bounds = read_bounds(op);
  const Dims extents = op.shape(0);
  const size_t rank = extents.size();
  Dims start(rank, Dim(0)), limit = extents, stride(rank, Dim(1)), shape = extents;
  std::vector<int64_t> reversed;
  bool whole = true;
  for (size_t i = 0; i < bounds.axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(bounds.axes[i]);
    const Dim extent = extents[axis];
    const int64_t step = bounds.steps[i];
    const Dim from = without_ends(bounds.starts[i]), to = without_ends(bounds.ends[i]);
    Dim first, end;
    if (step > 0) {
      first = clamped(from, extent);
      end = clamped(to, extent);
    } else {
      reversed.push_back(bounds.axes[i]);
      first = mirrored_start(from, extent);
      end = mirrored_end(to, extent);
    }
    start[axis] = first;
    limit[axis] = max(first, end);
    // A step beyond any extent takes one element; its magnitude must fit.
    const int64_t pace = step > 0 ? std::min(step, kEnd) : -std::max(step, -kEnd);
    stride[axis] = pace;
    shape[axis] = pace == 1 ? limit[axis] - first : ceil_div(limit[axis] - first, pace);
    whole = whole && step == 1 && provably_eq(first, 0) && provably_eq(limit[axis], extent);
  }
  if (whole) return op.output(0, op.traced(0));
  Known known = op.known(0);
  for (int64_t axis : reversed) known = reverse_known(known, axis);
  output_known_or(op, 0, slice_known(known, start, limit, stride, shape), [&] {
    Value x = op.input(0);
    if (!reversed.empty()) x = op.build().reverse(x, reversed);
    return op.build().slice(x, start, limit, stride);
  });
}

}  // namespace

void register_slice(Registry& r) {
  r.add("Slice", {1, 10, 11, 13}, slice);
  r.add("DynamicSlice", {1}, slice);  // of exporters before opset 10: the bounds are inputs
}

}  // namespace transmuter::ops
