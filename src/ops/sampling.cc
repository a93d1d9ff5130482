#include "ops/sampling.h"

#include "ir/primitives/attributes.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

namespace {

// One tap along one axis, for all points.
struct Tap {
  Value index;   // i64, inside the input
  Value inside;  // bool; invalid: all are
  Value weight;  // invalid: 1
};

struct Axis {
  Builder& b;
  Dim extent;
  bool align_corners;
  SamplePadding padding;
  Dims points;

  Value wide(Dim dim, DType dtype) { return b.broadcast_in_dim(b.dim_value(dim, dtype), points, {}); }

  // About the first and last element, or about the borders half an element outside.
  Value reflected(Value index) {
    const Value zero = wide(0, DType::i64);
    const Dim period = align_corners ? max(extent * 2 - 2, 1) : extent * 2;
    const Value length = wide(period, DType::i64);
    Value rest = b.remainder(index, length);
    rest = b.select(b.compare(rest, zero, CompareDirection::lt), b.add(rest, length), rest);
    const Value mirrored = b.subtract(wide(align_corners ? period : period - 1, DType::i64), rest);
    return b.minimum(rest, mirrored);
  }

  Tap mapped(Value index, Value weight) {
    Tap tap;
    tap.weight = weight;
    if (padding == SamplePadding::reflection) {
      tap.index = reflected(index);
      return tap;
    }
    const Value last = b.dim_value(extent - 1, DType::i64);
    tap.index = b.clamp(b.integer(DType::i64, 0), index, last);
    if (padding == SamplePadding::zeros) tap.inside = b.compare(tap.index, index, CompareDirection::eq);
    return tap;
  }

  // The whole part of a position; what is far outside stays so without overflow.
  Value whole(Value floor) {
    const DType dtype = b.dtype(floor);
    return b.convert(b.clamp(b.scalar(dtype, -1e9), floor, b.scalar(dtype, 1e9)), DType::i64);
  }
};

// Keys' kernel with a = -0.75, at a distance below 1 and between 1 and 2.
Value cubic_near(Builder& b, Value d) {
  const Value inner = b.subtract(b.multiply(d, b.like(d, 1.25)), b.like(d, 2.25));
  return b.add(b.multiply(b.multiply(inner, d), d), b.like(d, 1));
}
Value cubic_far(Builder& b, Value d) {
  constexpr double kA = -0.75;
  Value sum = b.subtract(b.multiply(d, b.like(d, kA)), b.like(d, 5 * kA));
  sum = b.add(b.multiply(sum, d), b.like(d, 8 * kA));
  return b.subtract(b.multiply(sum, d), b.like(d, 4 * kA));
}

std::vector<Tap> taps_of(Axis& axis, Value position, SampleMode mode) {
  Builder& b = axis.b;
  const auto at = [&](Value index, int64_t shift) {
    return shift == 0 ? index : b.add(index, axis.wide(shift, DType::i64));
  };
  if (mode == SampleMode::nearest) return {axis.mapped(axis.whole(b.round_nearest_even(position)), {})};
  const Value floor = b.floor(position), index = axis.whole(floor);
  const Value after = b.subtract(position, floor), before = b.subtract(b.like(after, 1), after);
  if (mode == SampleMode::linear) return {axis.mapped(index, before), axis.mapped(at(index, 1), after)};
  const Value one = b.like(after, 1);
  return {axis.mapped(at(index, -1), cubic_far(b, b.add(after, one))), axis.mapped(index, cubic_near(b, after)),
          axis.mapped(at(index, 1), cubic_near(b, before)),
          axis.mapped(at(index, 2), cubic_far(b, b.add(before, one)))};
}

// x [n, c, elements] at indices [n, points]: [n, c, points].
Value pick(Builder& b, Value x, Value indices) {
  ir::GatherAttributes gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {2};
  gather.operand_batching_dims = {0};
  gather.start_indices_batching_dims = {0};
  gather.start_index_map = {2};
  gather.index_vector_dim = 2;
  gather.slice_sizes = {1, b.shape(x)[1], 1};
  return b.gather(x, indices, std::move(gather));
}

// The sum over all choices of one tap an axis.
Value sample(Builder& b, Value x, const std::vector<std::vector<Tap>>& axes, const Dims& input, const Dims& points) {
  const Dims result{points[0], b.shape(x)[1], points[1]};
  std::vector<size_t> choice(axes.size(), 0);
  const auto combine = [&](Value (Builder::*fn)(Value, Value), Value p, Value q) {
    return !p ? q : !q ? p : (b.*fn)(p, q);
  };
  const auto across = [&](Value v) { return b.broadcast_in_dim(v, result, {0, 2}); };
  Value sum;
  for (;;) {
    Value index, inside, weight;
    for (size_t i = 0; i < axes.size(); ++i) {
      const Tap& tap = axes[i][choice[i]];
      if (index) index = b.multiply(index, b.broadcast_in_dim(b.dim_value(input[i], DType::i64), points, {}));
      index = combine(&Builder::add, index, tap.index);
      inside = combine(&Builder::logical_and, inside, tap.inside);
      weight = combine(&Builder::multiply, weight, tap.weight);
    }
    Value value = pick(b, x, index);
    if (inside) value = b.select(across(inside), value, b.like(value, 0));
    if (weight) value = b.multiply(value, across(weight));
    sum = sum ? b.add(sum, value) : value;
    size_t i = axes.size();
    while (i > 0 && ++choice[i - 1] == axes[i - 1].size()) choice[--i] = 0;
    if (i == 0) return sum;
  }
}

}  // namespace

Value sample_points(Builder& b, Value x, const Dims& input, const std::vector<Value>& positions, const Sampling& how) {
  const Dims points = b.shape(positions[0]);
  std::vector<std::vector<Tap>> axes;
  for (size_t i = 0; i < input.size(); ++i) {
    Axis axis{b, input[i], how.align_corners, how.padding, points};
    axes.push_back(taps_of(axis, positions[i], how.mode));
  }
  return sample(b, x, axes, input, points);
}

}  // namespace transmuter::ops
