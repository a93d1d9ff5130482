// MaxPool, AveragePool, LpPool and the global ones.
#include "ops/pool.h"

#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::ReduceKind;
using ir::Value;

PoolWindows read_pool(OpContext& op, const Dims& shape) {
  op.check(shape.size() >= 3, "the input must have a spatial axis, has rank ", shape.size());
  PoolWindows w;
  w.input = spatial_extents(shape);
  const std::vector<int64_t> kernel = op.attribute_ints("kernel_shape");
  for (int64_t extent : kernel) op.check(extent >= 1, "kernel_shape has ", extent, ", below 1");
  static_cast<Windows&>(w) = read_windows(op, w.input, Dims(kernel.begin(), kernel.end()));
  const bool ceil = op.attribute_int("ceil_mode", 0) != 0 && !w.same && !w.valid;
  for (size_t i = 0; i < w.size(); ++i) {
    const Dim room = w.input[i] + w.low[i] + w.high[i] - w.reach(i), stride = w.strides[i];
    if (!ceil) {  // a window larger than the padded input fits nowhere
      w.out.push_back(max(floor_div(room, stride) + 1, 0));
      w.reduced_high.push_back(w.high[i]);
      continue;
    }
    const Dim steps = ceil_div(room, stride);
    const Dim dropped = less_equal(w.input[i] + w.low[i], steps * stride);
    w.out.push_back(max(steps + 1 - dropped, 0));
    w.reduced_high.push_back(max((w.out[i] - 1) * stride + w.reach(i) - w.input[i] - w.low[i], 0));
  }
  return w;
}

Value pool_windows(Builder& b, Value x, ReduceKind kind, const PoolWindows& w) {
  ir::ReduceWindowAttributes attributes;
  attributes.kind = kind;
  attributes.window = {1, 1};
  attributes.strides = attributes.base_dilation = attributes.window_dilation = {1, 1};
  attributes.pad_low = attributes.pad_high = {0, 0};
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(attributes.window, w.kernel);
  append(attributes.strides, w.strides);
  append(attributes.window_dilation, w.dilations);
  append(attributes.pad_low, w.low);
  append(attributes.pad_high, w.reduced_high);
  attributes.base_dilation.resize(w.size() + 2, 1);
  return b.reduce_window(x, std::move(attributes));
}

namespace {

bool all_zero(Dim a, Dim b) { return provably_eq(a, 0) && provably_eq(b, 0); }

// How many of a window's positions along an axis lie in [low, high), by its number: a vector of i64.
Value positions_inside(Builder& b, const PoolWindows& w, size_t axis, Dim low, Dim high) {
  const Dims shape{w.out[axis]};
  const auto number = [&](Dim value) { return b.broadcast_in_dim(b.dim_value(value, DType::i64), shape, {}); };
  const Value start =
      b.subtract(b.multiply(b.iota(DType::i64, shape, 0), number(w.strides[axis])), number(w.low[axis]));
  // ceil((bound - start) / dilation): negative ones are clamped below
  const auto steps_to = [&](Dim bound) {
    const int64_t dilation = w.dilations[axis];
    const Value distance = b.subtract(number(bound + (dilation - 1)), start);
    return dilation == 1 ? distance : b.divide(distance, number(dilation));
  };
  const Value first = b.maximum(steps_to(low), number(0));
  const Value last = b.minimum(steps_to(high), number(w.kernel[axis]));
  return b.subtract(last, first);
}

}  // namespace

Value average_windows(Builder& b, Value x, const PoolWindows& w, bool include_pad) {
  return in_single(b, x, [&](Value v) {
    const Value sum = pool_windows(b, v, ReduceKind::add, w);
    const DType dtype = b.dtype(sum);
    Dim whole = 1;  // of the axes where every window is complete
    Value count;
    for (size_t i = 0; i < w.size(); ++i) {
      const Dim over = w.reduced_high[i] - w.high[i];
      if (include_pad ? provably_le(over, 0) : all_zero(w.low[i], w.reduced_high[i])) {
        whole = whole * w.kernel[i];
        continue;
      }
      const Dim low = include_pad ? -w.low[i] : Dim(0), high = include_pad ? w.input[i] + w.high[i] : w.input[i];
      const Value along = b.convert(positions_inside(b, w, i, low, high), dtype);
      const Value wide = b.broadcast_in_dim(along, w.out, {static_cast<int64_t>(i)});
      count = count ? b.multiply(count, wide) : wide;
    }
    const Value complete = b.dim_value(whole, dtype);
    if (!count) return b.divide(sum, b.broadcast_to(complete, b.shape(sum)));
    return b.divide(sum, b.broadcast_to(b.multiply(count, b.broadcast_to(complete, w.out)), b.shape(sum)));
  });
}

namespace {

void max_pool(OpContext& op) {
  const bool column_major = op.version() >= 8 && op.attribute_int("storage_order", 0) != 0;
  require_numeric(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  const PoolWindows w = read_pool(op, b.shape(x));
  op.output(0, pool_windows(b, x, ReduceKind::max, w));
  if (op.wants_output(1)) op.output(1, greatest_positions(b, x, w, column_major));
}

void average_pool(OpContext& op) {
  const bool include_pad = op.version() >= 7 && op.attribute_int("count_include_pad", 0) != 0;
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  op.output(0, average_windows(b, x, read_pool(op, b.shape(x)), include_pad));
}

// An integer attribute; a float in the operator's first version.
double power_of(OpContext& op) {
  const double p = op.version() < 2 ? op.attribute_float("p", 2.0F) : static_cast<double>(op.attribute_int("p", 2));
  op.check(p > 0, "p must be positive, is ", p);
  return p;
}

// (sum |x|^p)^(1/p), the sum by `gather`.
template <class Gather>
Value lp(Builder& b, Value x, double p, Gather gather) {
  return in_single(b, x, [&](Value v) {
    const Value size = b.abs(v);
    const Value sum = gather(p == 1 ? size : p == 2 ? b.multiply(v, v) : b.power(size, b.like(v, p)));
    return p == 1 ? sum : p == 2 ? b.sqrt(sum) : b.power(sum, b.like(sum, 1 / p));
  });
}

void lp_pool(OpContext& op) {
  const double p = power_of(op);
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  const PoolWindows w = read_pool(op, b.shape(x));
  op.output(0, lp(b, x, p, [&](Value powers) { return pool_windows(b, powers, ReduceKind::add, w); }));
}

std::vector<int64_t> global_axes(OpContext& op) {
  require_float(op, 0);
  op.check(op.rank(0) >= 2, "the input must have rank 2 or more, has ", op.rank(0));
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < op.rank(0); ++i) axes.push_back(i);
  return axes;
}

void global_max_pool(OpContext& op) {
  const auto axes = global_axes(op);
  op.output(0, op.build().reduce_keep(op.input(0), ReduceKind::max, axes));
}

void global_average_pool(OpContext& op) {
  const auto axes = global_axes(op);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) {
              const Value sum = b.reduce_keep(x, ReduceKind::add, axes);
              const Dim count = product(spatial_extents(b.shape(x)));
              return b.divide(sum, b.broadcast_to(b.dim_value(count, b.dtype(sum)), b.shape(sum)));
            }));
}

void global_lp_pool(OpContext& op) {
  const double p = power_of(op);
  const auto axes = global_axes(op);
  Builder& b = op.build();
  op.output(0, lp(b, op.input(0), p, [&](Value powers) { return b.reduce_keep(powers, ReduceKind::add, axes); }));
}

}  // namespace

void register_pool(Registry& r) {
  r.add("MaxPool", {1, 8, 10, 11, 12, 22}, max_pool);
  r.add("AveragePool", {1, 7, 10, 11, 19, 22}, average_pool);
  r.add("LpPool", {1, 2, 11, 18, 22}, lp_pool);
  r.add("GlobalMaxPool", {1, 22}, global_max_pool);
  r.add("GlobalAveragePool", {1, 22}, global_average_pool);
  r.add("GlobalLpPool", {1, 2, 22}, global_lp_pool);
}

}  // namespace transmuter::ops
