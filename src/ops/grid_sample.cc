// GridSample (also of com.microsoft), AffineGrid.
#include <cmath>

#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

enum class Mode { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

struct Sampling {
  Mode mode;
  Padding padding;
  bool align;
};

Sampling read_sampling(OpContext& op) {
  Sampling s;
  const std::string mode = op.attribute_string("mode", "linear"),
                    padding = op.attribute_string("padding_mode", "zeros");
  s.align = op.attribute_int("align_corners", 0) != 0;
  if (mode == "nearest") {
    s.mode = Mode::nearest;
  } else if (mode == "linear" || mode == "bilinear") {
    s.mode = Mode::linear;
  } else {
    op.check(mode == "cubic" || mode == "bicubic", "mode ", mode, " is not one of the operator's");
    s.mode = Mode::cubic;
  }
  if (padding == "zeros") {
    s.padding = Padding::zeros;
  } else if (padding == "border") {
    s.padding = Padding::border;
  } else {
    op.check(padding == "reflection", "padding_mode ", padding, " is not one of the operator's");
    s.padding = Padding::reflection;
  }
  return s;
}

// One spatial axis of the operand, with everything in the coordinates' dtype.
class Axis {
 public:
  Axis(Builder& b, const Sampling& s, Dim extent, Value grid) : b_(b), s_(s), extent_(extent), shape_(b.shape(grid)) {
    const Value one_more = b.add(grid, number(1)), length = sized(extent);
    x_ = s.align ? b.multiply(b.divide(one_more, number(2)), b.subtract(length, number(1)))
                 : b.divide(b.subtract(b.multiply(one_more, length), number(1)), number(2));
    low_ = number(s.align ? 0 : -0.5);
    high_ = b.subtract(length, number(s.align ? 1 : 0.5));
    if (s.mode == Mode::nearest) x_ = b.round_nearest_even(x_);
    outside_ = b.logical_or(b.compare(x_, low_, CompareDirection::lt), b.compare(x_, high_, CompareDirection::gt));
  }

  Value outside() const { return outside_; }

  // Brings the coordinate back to the operand; `any`: where some axis is outside.
  void fold(Value any) {
    if (s_.padding == Padding::border) {
      x_ = b_.select(any, clamped(x_), x_);
    } else if (s_.padding == Padding::reflection) {
      x_ = reflected(x_);
    }
    base_ = s_.mode == Mode::nearest ? x_ : b_.floor(x_);
    part_ = b_.subtract(x_, base_);
  }

  int64_t taps() const { return s_.mode == Mode::nearest ? 1 : s_.mode == Mode::linear ? 2 : 4; }

  struct Tap {
    Value index;   // i64, inside
    Value inside;  // padding of zeros only
    Value weight;  // absent for nearest
  };
  Tap tap(int64_t i) {
    const int64_t offset = s_.mode == Mode::cubic ? i - 1 : i;
    Value at = offset == 0 ? base_ : b_.add(base_, number(static_cast<double>(offset)));
    Tap tap;
    if (s_.padding == Padding::zeros) {
      tap.inside = b_.logical_and(b_.compare(at, number(0), CompareDirection::ge),
                                  b_.compare(at, sized(extent_ - 1), CompareDirection::le));
    } else if (s_.padding == Padding::reflection) {
      at = reflected(at);
    }
    tap.index = b_.convert(clamped(at), DType::i64);
    if (s_.mode == Mode::linear) tap.weight = i == 0 ? b_.subtract(number(1), part_) : part_;
    if (s_.mode == Mode::cubic) tap.weight = cubic_weight(i);
    return tap;
  }

 private:
  Value number(double value) { return b_.broadcast_to(b_.scalar(dtype(), value), shape_); }
  Value sized(Dim value) { return b_.broadcast_to(b_.dim_value(value, dtype()), shape_); }
  DType dtype() { return x_ ? b_.dtype(x_) : DType::f32; }
  Value clamped(Value x) { return b_.minimum(b_.maximum(x, number(0)), sized(extent_ - 1)); }

  // Mirrored at the ends as often as it takes.
  Value reflected(Value x) {
    const Value range = b_.subtract(high_, low_);
    const auto from = [&](Value distance, Value near, Value far, bool below) {
      const Value turns = b_.floor(b_.divide(distance, range));
      const Value rest = b_.subtract(distance, b_.multiply(turns, range));
      const Value half = b_.multiply(turns, number(0.5));
      const Value even = b_.compare(half, b_.floor(half), CompareDirection::eq);
      const Value forward = below ? b_.add(near, rest) : b_.subtract(near, rest);
      const Value backward = below ? b_.subtract(far, rest) : b_.add(far, rest);
      return b_.select(even, forward, backward);
    };
    const Value below = from(b_.subtract(low_, x), low_, high_, true);
    const Value above = from(b_.subtract(x, high_), high_, low_, false);
    return b_.select(b_.compare(x, low_, CompareDirection::lt), below,
                     b_.select(b_.compare(x, high_, CompareDirection::gt), above, x));
  }

  Value cubic_weight(int64_t i) {
    constexpr double kA = -0.75;
    const double shift[] = {1, 0, -1, -2};
    Value d = b_.add(part_, number(shift[i]));
    if (i >= 2) d = b_.negate(d);
    // c3 d^3 + c2 d^2 + c1 d + c0
    const bool near = i == 1 || i == 2;
    const double c[] = {near ? 1 : -4 * kA, near ? 0 : 8 * kA, near ? -(kA + 3) : -5 * kA, near ? kA + 2 : kA};
    Value w = number(c[3]);
    for (int64_t k = 2; k >= 0; --k) w = b_.add(b_.multiply(w, d), number(c[k]));
    return w;
  }

  Builder& b_;
  Sampling s_;
  Dim extent_;
  Dims shape_;
  Value x_, low_, high_, outside_, base_, part_;
};

// x [n, c, s], positions [n, p] -> [n, c, p]
Value pick(Builder& b, Value x, Value positions) {
  ir::GatherAttributes gather;
  gather.operand_batching_dims = {0};
  gather.start_indices_batching_dims = {0};
  gather.collapsed_slice_dims = {2};
  gather.offset_dims = {1};
  gather.start_index_map = {2};
  gather.index_vector_dim = 2;
  gather.slice_sizes = {1, b.shape(x)[1], 1};
  return b.gather(x, positions, std::move(gather));
}

void grid_sample(OpContext& op) {
  const Sampling sampling = read_sampling(op);
  require_float(op, 1);
  const int64_t rank = op.rank(0), axes = rank - 2;
  op.check(axes >= 1 && op.rank(1) == rank, "operand and grid must have one rank of 3 or more, have ", rank, " and ",
           op.rank(1));
  if (sampling.mode != Mode::nearest) require_float(op, 0);
  Builder& b = op.build();
  const Dims shape = op.shape(0), grid_shape = op.shape(1);
  require_eq(grid_shape[0], shape[0], "GridSample: batch of operand and grid");
  require_eq(grid_shape.back(), axes, "GridSample: coordinates of a point");
  const Dims spatial(shape.begin() + 2, shape.end()), out(grid_shape.begin() + 1, grid_shape.end() - 1);
  const Dim points = product(out);
  const DType inner = op.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  const Value grid = b.reshape(b.convert(op.input(1), DType::f32), {shape[0], points, axes});
  const bool half = is_half(op.dtype(0)) && sampling.mode != Mode::nearest;
  const Value x = b.reshape(half ? b.convert(op.input(0), inner) : op.input(0), {shape[0], shape[1], product(spatial)});
  std::vector<Axis> axis;
  Value any;
  for (int64_t i = 0; i < axes; ++i) {  // a point's first coordinate belongs to the last axis
    const int64_t at = axes - 1 - i;
    axis.emplace_back(b, sampling, spatial[static_cast<size_t>(i)], b.squeeze(b.slice_axis(grid, 2, at, at + 1), {2}));
    any = any ? b.logical_or(any, axis.back().outside()) : axis.back().outside();
  }
  std::vector<std::vector<Axis::Tap>> taps;
  int64_t count = 1;
  for (Axis& a : axis) {
    a.fold(any);
    taps.emplace_back();
    for (int64_t i = 0; i < a.taps(); ++i) taps.back().push_back(a.tap(i));
    count *= a.taps();
  }
  Value sum;
  for (int64_t combination = 0; combination < count; ++combination) {
    Value index, inside, weight;
    int64_t rest = combination;
    for (size_t i = 0; i < taps.size(); ++i) {
      const Axis::Tap& tap = taps[i][static_cast<size_t>(rest % axis[i].taps())];
      rest /= axis[i].taps();
      const Value length = b.broadcast_to(b.dim_value(spatial[i], DType::i64), b.shape(tap.index));
      index = index ? b.add(b.multiply(index, length), tap.index) : tap.index;
      if (tap.inside) inside = inside ? b.logical_and(inside, tap.inside) : tap.inside;
      if (tap.weight) weight = weight ? b.multiply(weight, tap.weight) : tap.weight;
    }
    Value y = pick(b, x, b.expand_dims(index, {2}));
    const auto wide = [&](Value v) { return b.broadcast_in_dim(v, b.shape(y), {0, 2}); };
    if (inside) y = b.select(wide(inside), y, b.like(y, 0));
    if (weight) y = b.multiply(y, wide(b.convert(weight, inner)));
    sum = sum ? b.add(sum, y) : y;
  }
  Dims result{shape[0], shape[1]};
  result.insert(result.end(), out.begin(), out.end());
  op.output(0, b.reshape(b.convert(sum, op.dtype(0)), result));
}

// theta [n, d, d + 1], size [n, c, spatial...] -> [n, spatial..., d]
void affine_grid(OpContext& op) {
  const bool align = op.attribute_int("align_corners", 0) != 0;
  require_float(op, 0);
  const Dims size = op.require_dims(1);
  op.check(size.size() == 4 || size.size() == 5, "size must have 4 or 5 entries, has ", size.size());
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = is_half(dtype) ? DType::f32 : dtype;
  const Dims spatial(size.begin() + 2, size.end());
  const int64_t axes = static_cast<int64_t>(spatial.size());
  const Value ones = b.splat(inner, 1, spatial);
  // Points from -1 to 1: their centres, or with align_corners the outermost at the ends.
  std::vector<Value> columns;
  for (int64_t i = axes - 1; i >= 0; --i) {
    const Dim extent = spatial[static_cast<size_t>(i)];
    const Value place = b.iota(inner, {extent}, 0);
    const auto number = [&](Value v) { return b.broadcast_to(v, {extent}); };
    const Value length = b.dim_value(extent, inner);
    Value x;
    if (align) {
      const Value steps = b.maximum(b.subtract(length, b.scalar(inner, 1)), b.scalar(inner, 1));
      const Value step = b.divide(b.scalar(inner, 2), steps);
      x = b.add(b.multiply(place, number(step)), number(b.scalar(inner, -1)));
    } else {
      const Value doubled = b.add(b.multiply(place, b.like(place, 2)), b.like(place, 1));
      x = b.subtract(b.divide(doubled, number(length)), b.like(place, 1));
    }
    columns.push_back(b.expand_dims(b.broadcast_in_dim(x, spatial, {i}), {axes}));
  }
  columns.push_back(b.expand_dims(ones, {axes}));
  const Dim points = product(spatial);
  const Value grid = b.reshape(b.concatenate(std::move(columns), axes), {points, axes + 1});
  ir::DotGeneralAttributes dot;
  dot.dtype = inner;
  dot.lhs_contracting = {2};
  dot.rhs_contracting = {1};
  const Value y = b.transpose(b.dot_general(b.convert(op.input(0), inner), grid, std::move(dot)), {0, 2, 1});
  Dims shape{op.shape(0)[0]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(axes);
  op.output(0, b.reshape(b.convert(y, dtype), shape));
}

}  // namespace

void register_grid_sample(Registry& r) {
  r.add("GridSample", {16, 20, 22}, grid_sample);
  r.add("GridSample", {1}, grid_sample, kMicrosoft);
  r.add("AffineGrid", {20}, affine_grid);
}

}  // namespace transmuter::ops
