// GridSample over any number of spatial axes, and AffineGrid, which makes its grids. Taps (the elements that a point
// reads) are mapped into the input one by one: dropped (zeros), clamped (border) or reflected.
#include <cmath>

#include "ops/registry.h"
#include "ops/support.h"
#include "ops/windows.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

enum class Mode : uint8_t { linear, nearest, cubic };
enum class Padding : uint8_t { zeros, border, reflection };

Mode mode_of(OpContext& op) {
  const std::string mode = op.attribute_string("mode", "linear");
  if (mode == "linear" || mode == "bilinear") return Mode::linear;
  if (mode == "nearest") return Mode::nearest;
  op.check(mode == "cubic" || mode == "bicubic", "mode ", mode, " is not one of the operator's");
  return Mode::cubic;
}

Padding padding_of(OpContext& op) {
  const std::string mode = op.attribute_string("padding_mode", "zeros");
  if (mode == "zeros") return Padding::zeros;
  if (mode == "border") return Padding::border;
  op.check(mode == "reflection", "padding_mode ", mode, " is not one of the operator's");
  return Padding::reflection;
}

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
  Padding padding;
  Dims points;

  Value number(Value like, double value) { return b.like(like, value); }
  Value wide(Dim dim, DType dtype) { return b.broadcast_in_dim(b.dim_value(dim, dtype), points, {}); }

  // From [-1, 1] to positions.
  Value position(Value x) {
    const Value size = wide(align_corners ? extent - 1 : extent, b.dtype(x));
    const Value scaled = b.multiply(b.multiply(b.add(x, number(x, 1)), size), number(x, 0.5));
    return align_corners ? scaled : b.subtract(scaled, number(x, 0.5));
  }

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
    if (padding == Padding::reflection) {
      tap.index = reflected(index);
      return tap;
    }
    const Value last = b.dim_value(extent - 1, DType::i64);
    tap.index = b.clamp(b.integer(DType::i64, 0), index, last);
    if (padding == Padding::zeros) tap.inside = b.compare(tap.index, index, CompareDirection::eq);
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

std::vector<Tap> taps_of(Axis& axis, Value x, Mode mode) {
  Builder& b = axis.b;
  const Value position = axis.position(x);
  const auto at = [&](Value index, int64_t shift) {
    return shift == 0 ? index : b.add(index, axis.wide(shift, DType::i64));
  };
  if (mode == Mode::nearest) return {axis.mapped(axis.whole(b.round_nearest_even(position)), {})};
  const Value floor = b.floor(position), index = axis.whole(floor);
  const Value after = b.subtract(position, floor), before = b.subtract(b.like(after, 1), after);
  if (mode == Mode::linear) return {axis.mapped(index, before), axis.mapped(at(index, 1), after)};
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

// X [n, c, spatial...], grid [n, out..., k] with the last axis of the input first.
void grid_sample(OpContext& op) {
  const Mode mode = mode_of(op);
  const Padding padding = padding_of(op);
  const bool align = op.attribute_int("align_corners", 0) != 0;
  require_float(op, 1);
  const int64_t rank = op.rank(0);
  op.check(rank >= 3 && op.rank(1) == rank, "X and grid must have one rank of 3 or more, have ", rank, " and ",
           op.rank(1));
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  // What is only picked needs no arithmetic.
  const Value x = mode == Mode::nearest ? op.input(0) : b.convert(op.input(0), inner);
  const Value grid = b.convert(op.input(1), inner);
  const Dims input = spatial_extents(op.shape(0)), grid_shape = op.shape(1);
  const size_t n = input.size();
  require_eq(grid_shape.back(), static_cast<int64_t>(n), "GridSample: coordinates of a point and spatial axes");
  require_eq(grid_shape[0], op.shape(0)[0], "GridSample: batches of X and grid");
  const Dims out(grid_shape.begin() + 1, grid_shape.end() - 1), points{grid_shape[0], product(out)};
  std::vector<std::vector<Tap>> axes;
  for (size_t i = 0; i < n; ++i) {
    require(less(0, input[i]), "GridSample: an empty axis has nothing to sample");
    const int64_t at = static_cast<int64_t>(n - 1 - i);
    const Value coordinate = b.reshape(b.slice_axis(grid, rank - 1, at, at + 1), points);
    Axis axis{b, input[i], align, padding, points};
    axes.push_back(taps_of(axis, coordinate, mode));
  }
  const Value flat = b.reshape(x, {points[0], op.shape(0)[1], product(input)});
  const Value y = sample(b, flat, axes, input, points);
  Dims shape{points[0], op.shape(0)[1]};
  shape.insert(shape.end(), out.begin(), out.end());
  op.output(0, b.convert(b.reshape(y, shape), dtype));
}

// theta [n, k, k + 1] times (x, y, [z,] 1) at the centres (or with align_corners the corners) of an even grid.
void affine_grid(OpContext& op) {
  const bool align = op.attribute_int("align_corners", 0) != 0;
  require_float(op, 0);
  Builder& b = op.build();
  const Dims size = op.require_dims(1);
  op.check(size.size() == 4 || size.size() == 5, "size must have 4 or 5 entries, has ", size.size());
  const size_t n = size.size() - 2;
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Dims out = spatial_extents(size);
  std::vector<Value> coordinates;  // x first
  Dims wide = out;
  wide.emplace_back(1);
  for (size_t i = n; i-- > 0;) {
    const Dims shape{out[i]};
    const auto number = [&](Dim dim) { return b.broadcast_in_dim(b.dim_value(dim, inner), shape, {}); };
    const Value index = b.iota(inner, shape, 0);
    // (2 i + 1) / extent - 1, or 2 i / (extent - 1) - 1
    const Value doubled = b.multiply(index, number(2));
    const Value scaled =
        align ? b.divide(doubled, number(max(out[i] - 1, 1))) : b.divide(b.add(doubled, number(1)), number(out[i]));
    coordinates.push_back(b.broadcast_in_dim(b.subtract(scaled, number(1)), wide, {static_cast<int64_t>(i)}));
  }
  coordinates.push_back(b.splat(inner, 1, wide));
  const Value points = b.concatenate(std::move(coordinates), static_cast<int64_t>(n));
  const Value flat = b.reshape(points, {product(out), static_cast<int64_t>(n + 1)});
  ir::DotGeneralAttributes dot;
  dot.dtype = inner;
  dot.lhs_contracting = {2};
  dot.rhs_contracting = {1};
  const Value product_of = b.dot_general(b.convert(op.input(0), inner), flat, std::move(dot));  // [n, k, points]
  Dims shape{size[0]};
  shape.insert(shape.end(), out.begin(), out.end());
  shape.emplace_back(static_cast<int64_t>(n));
  op.output(0, b.convert(b.reshape(b.transpose(product_of, {0, 2, 1}), shape), dtype));
}

}  // namespace

void register_grid_sample(Registry& r) {
  r.add("GridSample", {16, 20, 22}, grid_sample);
  r.add("AffineGrid", {20}, affine_grid);
  r.add("GridSample", {1}, grid_sample, kMicrosoft);
}

}  // namespace transmuter::ops
