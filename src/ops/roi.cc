// RoiAlign, MaxRoiPool, CropAndResize.
#include <limits>

#include "ops/registry.h"
#include "ops/sampling.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// Everything a sample needs, outside or inside a loop's body.
struct Align {
  Value x;                     // [n, c, h, w]
  Value batch;                 // [r] i64
  Value start_y, start_x;      // [r], where each region starts
  Value bin_y, bin_x;          // [r], extents of its bins
  Value samples_y, samples_x;  // [r], samples along each axis of a bin, as floats
  int64_t out_y = 1, out_x = 1;
  bool maximum = false;
};

// One axis of a sample in each bin: the two elements around it.
struct Pair {
  Value low, high;                // [r, bins] i64
  Value low_weight, high_weight;  // 0 for both where the sample lies outside
};

Pair pair_of(Builder& b, Value start, Value bin, Value samples, Value at, int64_t bins, Dim extent) {
  const DType dtype = b.dtype(start);
  const Dims shape{b.shape(start)[0], bins};
  const auto rows = [&](Value v) { return b.broadcast_in_dim(v, shape, {0}); };
  const Value step = b.divide(b.multiply(b.add(at, b.like(at, 0.5)), bin), samples);  // inside the bin
  const Value y = b.add(rows(b.add(start, step)), b.multiply(b.iota(dtype, shape, 1), rows(bin)));
  const Value zero = b.like(y, 0);
  const Value size = b.broadcast_in_dim(b.dim_value(extent, dtype), shape, {});
  const Value last = b.subtract(size, b.like(y, 1));
  const Value inside =
      b.logical_and(b.compare(y, b.like(y, -1), CompareDirection::ge), b.compare(y, size, CompareDirection::le));
  const Value clamped = b.minimum(b.maximum(y, zero), last);
  const Value floor = b.floor(clamped);
  const Value after = b.subtract(clamped, floor);
  Pair pair;
  pair.low = b.convert(floor, DType::i64);
  pair.high = b.convert(b.minimum(b.add(floor, b.like(floor, 1)), last), DType::i64);
  pair.low_weight = b.select(inside, b.subtract(b.like(after, 1), after), zero);
  pair.high_weight = b.select(inside, after, zero);
  return pair;
}

// Sample (sy, sx) of each bin, [r, c, out_y, out_x]: the weighted sum of four elements, or the greatest of the four.
Value sample(Builder& b, const Align& a, Value sy, Value sx) {
  const Dims x = b.shape(a.x);
  const Dim regions = b.shape(a.batch)[0];
  const Pair ys = pair_of(b, a.start_y, a.bin_y, a.samples_y, sy, a.out_y, x[2]);
  const Pair xs = pair_of(b, a.start_x, a.bin_x, a.samples_x, sx, a.out_x, x[3]);
  const Dims point{regions, a.out_y, a.out_x, 1}, result{regions, x[1], a.out_y, a.out_x};
  ir::GatherAttributes gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0, 2, 3};
  gather.start_index_map = {0, 2, 3};
  gather.index_vector_dim = 3;
  gather.slice_sizes = {1, x[1], 1, 1};
  Value total;
  for (const auto& [y, wy] : {std::pair{ys.low, ys.low_weight}, std::pair{ys.high, ys.high_weight}}) {
    for (const auto& [column, wx] : {std::pair{xs.low, xs.low_weight}, std::pair{xs.high, xs.high_weight}}) {
      const Value place = b.concatenate({b.broadcast_in_dim(a.batch, point, {0}), b.broadcast_in_dim(y, point, {0, 1}),
                                         b.broadcast_in_dim(column, point, {0, 2})},
                                        3);
      const Value weight = b.multiply(b.broadcast_in_dim(wy, result, {0, 2}), b.broadcast_in_dim(wx, result, {0, 3}));
      const Value part = b.multiply(b.gather(a.x, place, gather), weight);
      total = !total ? part : a.maximum ? b.maximum(total, part) : b.add(total, part);
    }
  }
  return total;
}

Value collected(Builder& b, const Align& a, Value total, Value part) {
  return a.maximum ? b.maximum(total, part) : b.add(total, part);
}

// sampling_ratio 0: as many samples as a bin has elements, which the regions say. One loop over the most that any
// region has; a region sits out the rounds that it does not need.
Value adaptive(Builder& b, const Align& a, DType dtype) {
  const std::vector<Value> fixed{a.x, a.batch, a.start_y, a.start_x, a.bin_y, a.bin_x, a.samples_y, a.samples_x};
  const Value counts = b.multiply(a.samples_y, a.samples_x);  // [r]
  const Value rounds = b.convert(b.reduce(counts, ir::ReduceKind::max, {0}), DType::i64);
  const Dims result{b.shape(a.batch)[0], b.shape(a.x)[1], a.out_y, a.out_x};
  const Value first = b.splat(dtype, a.maximum ? -std::numeric_limits<double>::infinity() : 0, result);
  std::vector<Value> state{b.integer(DType::i64, 0), rounds, first};
  state.insert(state.end(), fixed.begin(), fixed.end());

  const auto region = [&](Builder& inner, std::vector<Value>& values) {
    for (const Value value : state) values.push_back(inner.input(b.type(value), "state"));
  };
  Builder test(b.scope());
  std::vector<Value> t;
  region(test, t);
  const Value more = test.compare(t[0], t[1], CompareDirection::lt);
  const auto condition = std::make_shared<const ir::Program>(test.finish({more}));

  Builder body(b.scope());
  std::vector<Value> v;
  region(body, v);
  Align own = a;
  own.x = v[3];
  own.batch = v[4];
  own.start_y = v[5];
  own.start_x = v[6];
  own.bin_y = v[7];
  own.bin_x = v[8];
  own.samples_y = v[9];
  own.samples_x = v[10];
  const Dims per_region = body.shape(own.samples_x);
  const Value round = body.broadcast_in_dim(body.convert(v[0], dtype), per_region, {});
  const Value width = body.maximum(own.samples_x, body.like(own.samples_x, 1));
  const Value sy = body.floor(body.divide(round, width));
  const Value sx = body.subtract(round, body.multiply(sy, width));
  const Value takes_part = body.compare(sy, own.samples_y, CompareDirection::lt);
  const Value next = collected(body, own, v[2], sample(body, own, sy, sx));
  std::vector<Value> results = v;
  results[0] = body.add(v[0], body.integer(DType::i64, 1));
  results[2] = body.select(body.broadcast_in_dim(takes_part, result, {0}), next, v[2]);
  const auto program = std::make_shared<const ir::Program>(body.finish(std::move(results)));
  return b.while_loop(std::move(state), condition, program)[2];
}

Value fixed_samples(Builder& b, const Align& a, int64_t ratio) {
  const auto number = [&](int64_t at) { return b.like(a.start_y, static_cast<double>(at)); };
  Value total;
  for (int64_t sy = 0; sy < ratio; ++sy) {
    for (int64_t sx = 0; sx < ratio; ++sx) {
      const Value part = sample(b, a, number(sy), number(sx));
      total = total ? collected(b, a, total, part) : part;
    }
  }
  return total;
}

// Regions are (x1, y1, x2, y2). From opset 16 positions are those of pixel centres (half_pixel) unless told otherwise;
// the older positions also make every region at least one element wide.
void roi_align(OpContext& op) {
  const std::string mode = op.attribute_string("mode", "avg");
  op.check(mode == "avg" || mode == "max", "mode ", mode, " is not one of the operator's");
  const float scale = op.attribute_float("spatial_scale", 1.0F);
  const int64_t ratio = op.attribute_int("sampling_ratio", 0);
  const std::string coordinates =
      op.version() < 16 ? "output_half_pixel" : op.attribute_string("coordinate_transformation_mode", "half_pixel");
  op.check(coordinates == "half_pixel" || coordinates == "output_half_pixel", "coordinate_transformation_mode ",
           coordinates, " is not one of the operator's");
  const bool centres = coordinates == "half_pixel";
  Align a;
  a.out_y = op.attribute_int("output_height", 1);
  a.out_x = op.attribute_int("output_width", 1);
  a.maximum = mode == "max";
  op.check(a.out_y > 0 && a.out_x > 0, "output_height and output_width must be positive");
  op.check(ratio >= 0 && ratio <= 64, "sampling_ratio must be in [0, 64], is ", ratio);
  require_float(op, 0);
  op.check(op.rank(0) == 4 && op.rank(1) == 2 && op.rank(2) == 1, "X, rois, batch_indices must have rank 4, 2, 1");
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  a.x = b.convert(op.input(0), inner);
  a.batch = b.convert(op.input(2), DType::i64);
  const Value rois = b.convert(op.input(1), inner);
  const Dims regions{op.shape(1)[0]};
  require_eq(regions[0], op.shape(2)[0], "RoiAlign: rois and batch_indices");
  const auto edge = [&](int64_t i) {
    const Value scaled =
        b.multiply(b.reshape(b.slice_axis(rois, 1, i, i + 1), regions), b.splat(inner, scale, regions));
    return centres ? b.subtract(scaled, b.like(scaled, 0.5)) : scaled;
  };
  const auto extent = [&](Value start, Value end) {
    const Value size = b.subtract(end, start);
    return centres ? size : b.maximum(size, b.like(size, 1));
  };
  a.start_x = edge(0);
  a.start_y = edge(1);
  a.bin_x = b.divide(extent(a.start_x, edge(2)), b.splat(inner, static_cast<double>(a.out_x), regions));
  a.bin_y = b.divide(extent(a.start_y, edge(3)), b.splat(inner, static_cast<double>(a.out_y), regions));
  const auto samples = [&](Value bin) {
    if (ratio > 0) return b.splat(inner, static_cast<double>(ratio), regions);
    return b.maximum(b.ceil(bin), b.like(bin, 0));
  };
  a.samples_x = samples(a.bin_x);
  a.samples_y = samples(a.bin_y);
  Value y = ratio > 0 ? fixed_samples(b, a, ratio) : adaptive(b, a, inner);
  if (a.maximum) {
    // A region without any sample gives 0.
    y = b.select(b.is_finite(y), y, b.like(y, 0));
  } else {
    const Value count = b.multiply(a.samples_y, a.samples_x);
    y = b.divide(y, b.broadcast_in_dim(b.maximum(count, b.like(count, 1)), b.shape(y), {0}));
  }
  op.output(0, b.convert(y, dtype));
}

// Where positions of an axis lie in each bin of each region: [r, bins, extent]. Bins start at floor and end at ceil.
Value in_bins(Builder& b, Value start, Value end, int64_t bins, Dim extent) {
  const Dims shape{b.shape(start)[0], bins};
  const auto rows = [&](Value v) { return b.broadcast_in_dim(v, shape, {0}); };
  const Value length = b.maximum(b.add(b.subtract(end, start), b.like(start, 1)), b.like(start, 1));
  const Value bin = rows(b.divide(length, b.like(length, static_cast<double>(bins))));
  const Value index = b.iota(b.dtype(start), shape, 1);
  const auto bound = [&](Value v) {
    const Value moved = b.add(v, rows(start));
    const Value limit = b.broadcast_in_dim(b.dim_value(extent, b.dtype(start)), shape, {});
    return b.minimum(b.maximum(moved, b.like(moved, 0)), limit);
  };
  const Value low = bound(b.floor(b.multiply(index, bin)));
  const Value high = bound(b.ceil(b.multiply(b.add(index, b.like(index, 1)), bin)));
  const Dims wide{shape[0], bins, extent};
  const Value place = b.iota(b.dtype(start), wide, 2);
  return b.logical_and(b.compare(place, b.broadcast_in_dim(low, wide, {0, 1}), CompareDirection::ge),
                       b.compare(place, b.broadcast_in_dim(high, wide, {0, 1}), CompareDirection::lt));
}

// Regions are (batch, x1, y1, x2, y2), rounded to whole elements, both ends included; an empty bin gives 0.
void max_roi_pool(OpContext& op) {
  const std::vector<int64_t> pooled = op.attribute_ints("pooled_shape");
  const float scale = op.attribute_float("spatial_scale", 1.0F);
  op.check(pooled.size() == 2 && pooled[0] > 0 && pooled[1] > 0, "pooled_shape must have two positive entries");
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  op.check(op.rank(0) == 4 && op.rank(1) == 2, "X and rois must have rank 4 and 2");
  Builder& b = op.build();
  const Value x = op.input(0), rois = op.input(1);
  const Dims shape = op.shape(0), regions{op.shape(1)[0]};
  const auto column = [&](int64_t i) { return b.reshape(b.slice_axis(rois, 1, i, i + 1), regions); };
  // Halves are rounded away from zero.
  const auto edge = [&](int64_t i) {
    const Value scaled = b.multiply(column(i), b.splat(op.dtype(0), scale, regions));
    return b.multiply(b.sign(scaled), b.floor(b.add(b.abs(scaled), b.like(scaled, 0.5))));
  };
  ir::GatherAttributes gather;
  gather.offset_dims = {1, 2, 3};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, shape[1], shape[2], shape[3]};
  const Value images = b.gather(x, b.convert(column(0), DType::i64), std::move(gather));  // [r, c, h, w]
  const Value rows = in_bins(b, edge(2), edge(4), pooled[0], shape[2]);
  const Value columns = in_bins(b, edge(1), edge(3), pooled[1], shape[3]);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const Dims by_row{regions[0], shape[1], pooled[0], shape[2], shape[3]};
  Value y = b.broadcast_in_dim(images, by_row, {0, 1, 3, 4});
  y = b.reduce(b.select(b.broadcast_in_dim(rows, by_row, {0, 2, 3}), y, b.like(y, kNone)), ir::ReduceKind::max, {3});
  const Dims by_column{regions[0], shape[1], pooled[0], pooled[1], shape[3]};
  y = b.broadcast_in_dim(y, by_column, {0, 1, 2, 4});
  y = b.reduce(b.select(b.broadcast_in_dim(columns, by_column, {0, 3, 4}), y, b.like(y, kNone)), ir::ReduceKind::max,
               {4});
  op.output(0, b.select(b.compare(y, b.like(y, kNone), CompareDirection::eq), b.like(y, 0), y));
}

// com.microsoft CropAndResize: regions (y1, x1, y2, x2) in [0, 1], corners at corners, of images by number.
void crop_and_resize(OpContext& op) {
  const std::string mode = op.attribute_string("mode", "bilinear");
  op.check(mode == "bilinear" || mode == "nearest", "mode ", mode, " is not one of the operator's");
  const float outside = op.attribute_float("extrapolation_value", 0.0F);
  require_float(op, 0);
  op.check(op.rank(0) == 4 && op.rank(1) == 2, "X and rois must have rank 4 and 2");
  Builder& b = op.build();
  const Dims size = op.require_dims(3);
  op.check(size.size() == 2, "crop_size must have 2 entries, has ", size.size());
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Dims shape = op.shape(0), regions{op.shape(1)[0]}, grid{regions[0], size[0], size[1]};
  const Value rois = b.convert(op.input(1), inner);
  std::vector<Value> positions;
  Value inside;
  for (int64_t axis = 0; axis < 2; ++axis) {
    const size_t at = static_cast<size_t>(axis);
    const auto edge = [&](int64_t i) {
      const Value part = b.reshape(b.slice_axis(rois, 1, i, i + 1), regions);
      return b.broadcast_in_dim(part, grid, {0});
    };
    const auto number = [&](Dim dim) { return b.broadcast_in_dim(b.dim_value(dim, inner), grid, {}); };
    const Value low = edge(axis), high = edge(axis + 2), last = number(shape[at + 2] - 1);
    const Value step = b.divide(b.multiply(b.subtract(high, low), last), number(max(size[at] - 1, 1)));
    const Value spread = b.add(b.multiply(low, last), b.multiply(b.iota(inner, grid, axis + 1), step));
    const Value middle = b.multiply(b.multiply(b.add(low, high), b.like(low, 0.5)), last);
    const Value position = b.select(b.dim_value(less(1, size[at]), DType::boolean), spread, middle);
    const Value within = b.logical_and(b.compare(position, b.like(position, 0), CompareDirection::ge),
                                       b.compare(position, last, CompareDirection::le));
    inside = inside ? b.logical_and(inside, within) : within;
    positions.push_back(b.reshape(position, {regions[0], size[0] * size[1]}));
  }
  ir::GatherAttributes gather;
  gather.offset_dims = {1, 2};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, shape[1], shape[2] * shape[3]};
  const Value flat = b.reshape(b.convert(op.input(0), inner), {shape[0], shape[1], shape[2] * shape[3]});
  const Value images = b.gather(flat, b.convert(op.input(2), DType::i64), std::move(gather));
  Sampling how;
  if (mode == "nearest") how.mode = SampleMode::nearest;
  const Dims result{regions[0], shape[1], size[0], size[1]};
  const Value y = b.reshape(sample_points(b, images, {shape[2], shape[3]}, positions, how), result);
  const Value wide = b.broadcast_in_dim(inside, result, {0, 2, 3});
  op.output(0, b.convert(b.select(wide, y, b.like(y, outside)), dtype));
}

}  // namespace

void register_roi(Registry& r) {
  r.add("RoiAlign", {10, 16, 22}, roi_align);
  r.add("MaxRoiPool", {1, 22}, max_roi_pool);
  r.add("CropAndResize", {1}, crop_and_resize, kMicrosoft);
}

}  // namespace transmuter::ops
