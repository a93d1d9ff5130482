// GridSample over any number of spatial axes, and AffineGrid, which makes its grids.
#include "ops/registry.h"
#include "ops/sampling.h"
#include "ops/support.h"
#include "ops/windows.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

SampleMode mode_of(OpContext& op) {
  const std::string mode = op.attribute_string("mode", "linear");
  if (mode == "linear" || mode == "bilinear") return SampleMode::linear;
  if (mode == "nearest") return SampleMode::nearest;
  op.check(mode == "cubic" || mode == "bicubic", "mode ", mode, " is not one of the operator's");
  return SampleMode::cubic;
}

SamplePadding padding_of(OpContext& op) {
  const std::string mode = op.attribute_string("padding_mode", "zeros");
  if (mode == "zeros") return SamplePadding::zeros;
  if (mode == "border") return SamplePadding::border;
  op.check(mode == "reflection", "padding_mode ", mode, " is not one of the operator's");
  return SamplePadding::reflection;
}

// From [-1, 1] to elements.
Value position_of(Builder& b, Value x, Dim extent, bool align_corners) {
  const Value size = b.broadcast_in_dim(b.dim_value(align_corners ? extent - 1 : extent, b.dtype(x)), b.shape(x), {});
  const Value scaled = b.multiply(b.multiply(b.add(x, b.like(x, 1)), size), b.like(x, 0.5));
  return align_corners ? scaled : b.subtract(scaled, b.like(x, 0.5));
}

// X [n, c, spatial...], grid [n, out..., k] with the last axis of the input first.
void grid_sample(OpContext& op) {
  const Sampling how{mode_of(op), padding_of(op), op.attribute_int("align_corners", 0) != 0};
  require_float(op, 1);
  const int64_t rank = op.rank(0);
  op.check(rank >= 3 && op.rank(1) == rank, "X and grid must have one rank of 3 or more, have ", rank, " and ",
           op.rank(1));
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  // What is only picked needs no arithmetic.
  const Value x = how.mode == SampleMode::nearest ? op.input(0) : b.convert(op.input(0), inner);
  const Value grid = b.convert(op.input(1), inner);
  const Dims input = spatial_extents(op.shape(0)), grid_shape = op.shape(1);
  const size_t n = input.size();
  require_eq(grid_shape.back(), static_cast<int64_t>(n), "GridSample: coordinates of a point and spatial axes");
  require_eq(grid_shape[0], op.shape(0)[0], "GridSample: batches of X and grid");
  const Dims out(grid_shape.begin() + 1, grid_shape.end() - 1), points{grid_shape[0], product(out)};
  std::vector<Value> positions;
  for (size_t i = 0; i < n; ++i) {
    require(less(0, input[i]), "GridSample: an empty axis has nothing to sample");
    const int64_t at = static_cast<int64_t>(n - 1 - i);
    const Value coordinate = b.reshape(b.slice_axis(grid, rank - 1, at, at + 1), points);
    positions.push_back(position_of(b, coordinate, input[i], how.align_corners));
  }
  const Value flat = b.reshape(x, {points[0], op.shape(0)[1], product(input)});
  const Value y = sample_points(b, flat, input, positions, how);
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
