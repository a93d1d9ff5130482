// DeformConv: a convolution whose taps lie where the offsets say, between the elements.
#include "ops/conv.h"
#include "ops/registry.h"
#include "ops/sampling.h"
#include "ops/support.h"
#include "ops/windows.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

struct Geometry {
  Dims input, kernel, out;
  std::vector<int64_t> strides, dilations, pads;
  Dim taps, places;  // products of kernel and out
};

Geometry read_geometry(OpContext& op) {
  Geometry g;
  g.input = spatial_extents(op.shape(0));
  g.kernel = spatial_extents(op.shape(1));
  g.out = spatial_extents(op.shape(2));
  const size_t n = g.input.size();
  op.check(g.kernel.size() == n && g.out.size() == n, "X, W and offset must have one rank");
  if (const auto given = op.attribute_ints_optional("kernel_shape"); given && !given->empty()) {
    op.check(given->size() == n, "kernel_shape has ", given->size(), " entries for ", n, " spatial axes");
    for (size_t i = 0; i < n; ++i) require_eq(g.kernel[i], (*given)[i], "DeformConv: kernel_shape and the weight");
  }
  g.strides = axis_attribute(op, "strides", n, 1, 1);
  g.dilations = axis_attribute(op, "dilations", n, 1, 1);
  g.pads = axis_attribute(op, "pads", 2 * n, 0, 0);
  for (size_t i = 0; i < n; ++i) {
    const Dim room = g.input[i] + g.pads[i] + g.pads[n + i] - (g.kernel[i] - 1) * Dim(g.dilations[i]) - 1;
    require_eq(g.out[i], floor_div(room, g.strides[i]) + 1, "DeformConv: extents of offset and of the result");
  }
  g.taps = product(g.kernel);
  g.places = product(g.out);
  return g;
}

// Where tap positions lie along an axis without offsets, flattened: [kernel..., out...].
Value regular_positions(Builder& b, const Geometry& g, size_t axis, DType dtype) {
  Dims shape = g.kernel;
  shape.insert(shape.end(), g.out.begin(), g.out.end());
  const int64_t at = static_cast<int64_t>(axis), n = static_cast<int64_t>(g.input.size());
  const Value tap = b.iota(dtype, shape, at), place = b.iota(dtype, shape, n + at);
  const Value sum = b.add(b.multiply(tap, b.like(tap, static_cast<double>(g.dilations[axis]))),
                          b.multiply(place, b.like(place, static_cast<double>(g.strides[axis]))));
  const Value moved = b.subtract(sum, b.like(sum, static_cast<double>(g.pads[axis])));
  return b.reshape(moved, {1, g.taps * g.places});
}

// X [n, c, ...], W [o, c / group, ...], offset [n, offset_group * taps * axes, out...], bias [o],
// mask [n, offset_group * taps, out...].
void deform_conv(OpContext& op) {
  const int64_t groups = op.attribute_int("group", 1), offset_groups = op.attribute_int("offset_group", 1);
  op.check(groups >= 1 && offset_groups >= 1, "group and offset_group must be positive");
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  require_same_dtype(op, 0, 2);
  op.check(op.rank(0) >= 3 && op.rank(1) == op.rank(0) && op.rank(2) == op.rank(0),
           "X, W and offset must have one rank");
  Builder& b = op.build();
  const Geometry g = read_geometry(op);
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Dim batch = op.shape(0)[0], channels = op.shape(0)[1], outputs = op.shape(1)[0];
  const int64_t n = static_cast<int64_t>(g.input.size());
  require_eq(op.shape(1)[1] * Dim(groups), channels, "DeformConv: channels of W times groups and of X");
  require(equal(mod(channels, offset_groups), 0), "DeformConv: channels divide by the offset groups");
  require(equal(mod(outputs, groups), 0), "DeformConv: output channels divide by the groups");

  const Dim sheets = batch * Dim(offset_groups), own = floor_div(channels, offset_groups);
  const Value offset = b.reshape(b.convert(op.input(2), inner), {sheets, g.taps, n, g.places});
  const Dims points{sheets, g.taps * g.places};
  std::vector<Value> positions;
  for (int64_t axis = 0; axis < n; ++axis) {
    const Value moved = b.reshape(b.slice_axis(offset, 2, axis, axis + 1), points);
    const Value regular = regular_positions(b, g, static_cast<size_t>(axis), inner);
    positions.push_back(b.add(moved, b.broadcast_to(regular, points)));
  }
  const Value x = b.reshape(b.convert(op.input(0), inner), {sheets, own, product(g.input)});
  Value columns = sample_points(b, x, g.input, positions, {});  // [sheets, own, taps * places]
  if (op.has_input(4)) {
    const Value mask = b.reshape(b.convert(op.input(4), inner), points);
    columns = b.multiply(columns, b.broadcast_in_dim(mask, b.shape(columns), {0, 2}));
  }
  const Dim depth = floor_div(channels, groups) * g.taps;
  columns = b.reshape(columns, {batch, groups, depth, g.places});
  const Value weight = b.reshape(b.convert(op.input(1), inner), {groups, floor_div(outputs, groups), depth});
  ir::DotGeneralAttributes dot;
  dot.dtype = inner;
  dot.lhs_batching = {0};
  dot.rhs_batching = {1};
  dot.lhs_contracting = {2};
  dot.rhs_contracting = {2};
  const Value y = b.transpose(b.dot_general(weight, columns, std::move(dot)), {2, 0, 1, 3});
  Dims shape{batch, outputs};
  shape.insert(shape.end(), g.out.begin(), g.out.end());
  Value result = b.convert(b.reshape(y, shape), dtype);
  if (op.has_input(3)) result = add_channels(b, result, op.input(3));
  op.output(0, result);
}

}  // namespace

void register_deform_conv(Registry& r) { r.add("DeformConv", {19, 22}, deform_conv); }

}  // namespace transmuter::ops
