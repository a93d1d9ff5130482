// resize: one axis after another, each as a weighted sum of gathered slices.
#include "ir/composites/common.h"
#include "ir/composites/resize_taps.h"

namespace transmuter::ir {
namespace {

using Coordinates = ResizeAttributes::Coordinates;
using Mode = ResizeAttributes::Mode;
using Nearest = ResizeAttributes::Nearest;

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& resize = ctx.as<ResizeAttributes>();
  const Type& x = ctx.operands[0];
  const size_t rank = x.shape.size(), rois = resize.coordinates == Coordinates::tf_crop_and_resize ? rank : 0;
  ctx.check(resize.sizes.size() == rank && resize.scales.size() == rank, "C1", "takes a size and a scale for each of ",
            rank, " axes");
  ctx.check(resize.roi_start.size() == rois && resize.roi_end.size() == rois, "C2", "takes ", rois, " regions");
  ctx.check(resize.mode == Mode::nearest || is_integer(x.dtype) || computes(x.dtype), "C3", "does not interpolate ",
            name(x.dtype));
  for (size_t i = 0; i < rank; ++i) {
    ctx.check(resize.scales[i].hint() > 0, "C4", "scales must be > 0");
    require(less_equal(0, resize.sizes[i]), "resize: C5 sizes must be >= 0");
    if (!provably_le(1, x.shape[i]))
      require(max(less(0, x.shape[i]), equal(resize.sizes[i], 0)), "resize: C6 nothing can be resized to something");
  }
  return {{x.dtype, resize.sizes}};
}

// ---- evaluation

std::vector<ResizeTaps> tables(const EvaluateContext& ctx, const Shape& in, const Shape& out) {
  const auto& resize = ctx.as<ResizeAttributes>();
  const bool crops = resize.coordinates == Coordinates::tf_crop_and_resize;
  std::vector<ResizeTaps> all;
  for (size_t i = 0; i < in.size(); ++i) {
    const auto real = [&](const std::vector<Real>& values) { return static_cast<float>(ctx.value(values[i])); };
    if (is_left_alone(resize, in[i], out[i], ctx.value(resize.scales[i]))) {
      ResizeTaps same;
      for (int64_t o = 0; o < out[i]; ++o) same.index.push_back(o);
      same.weight.assign(same.index.size(), 1);
      all.push_back(std::move(same));
    } else {
      all.push_back(resize_taps(resize, in[i], out[i], real(resize.scales), crops ? real(resize.roi_start) : 0,
                                crops ? real(resize.roi_end) : 0));
    }
  }
  return all;
}

void evaluate_nearest(const Tensor& x, const std::vector<ResizeTaps>& taps, Tensor& result) {
  const auto strides = row_major_strides(x.shape());
  dispatch_width(x.dtype(), "resize", [&]<class T>(TypeTag<T>) {
    const T* from = elements<T>(x);
    T* to = mutable_elements<T>(result);
    for_each_index(result.shape(), [&](const std::vector<int64_t>& index) {
      int64_t at = 0;
      for (size_t i = 0; i < index.size(); ++i) at += taps[i].index[index[i]] * strides[i];
      *to++ = from[at];
    });
  });
}

// [outer, extent, inner] -> [outer, result extent, inner]
std::vector<double> resize_axis(const std::vector<double>& x, int64_t outer, int64_t extent, int64_t inner,
                                const ResizeTaps& taps) {
  const int64_t out = static_cast<int64_t>(taps.index.size()) / taps.taps;
  std::vector<double> y(static_cast<size_t>(outer * out * inner), 0);
  for (int64_t a = 0; a < outer; ++a) {
    for (int64_t o = 0; o < out; ++o) {
      double* to = y.data() + (a * out + o) * inner;
      for (int64_t t = o * taps.taps; t < (o + 1) * taps.taps; ++t) {
        const double* from = x.data() + (a * extent + taps.index[t]) * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += static_cast<double>(taps.weight[t]) * from[i];
      }
    }
  }
  return y;
}

void evaluate(EvaluateContext& ctx) {
  const auto& resize = ctx.as<ResizeAttributes>();
  const Tensor& x = ctx.operands[0];
  Tensor& result = ctx.make_result();
  if (result.size() == 0) return;
  const std::vector<ResizeTaps> taps = tables(ctx, x.shape(), result.shape());
  if (resize.mode == Mode::nearest && resize.coordinates != Coordinates::tf_crop_and_resize)
    return evaluate_nearest(x, taps, result);
  std::vector<double> values = elements_as<double>(x);
  Shape shape = x.shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t outer = element_count(Shape(shape.begin(), shape.begin() + static_cast<int64_t>(i)));
    const int64_t inner = element_count(Shape(shape.begin() + static_cast<int64_t>(i) + 1, shape.end()));
    values = resize_axis(values, outer, shape[i], inner, taps[i]);
    shape[i] = result.shape()[i];
  }
  double* to = values.data();
  for_each_index(shape, [&](const std::vector<int64_t>& index) {
    for (size_t i = 0; i < index.size(); ++i) {
      if (!taps[i].outside.empty() && taps[i].outside[index[i]]) *to = resize.extrapolation_value;
    }
    ++to;
  });
  store_elements(values, result);
}

// ---- decomposition

// The same tables as IR over one axis: f32 [out], so that extents and scales may be symbolic.
struct AxisBody {
  Builder& b;
  const ResizeAttributes& resize;
  Dim in, out;
  Real scale, roi_start, roi_end;
  Dims places{out};  // the shape of what is computed: all result positions

  Value spread(Value scalar) { return b.broadcast_in_dim(scalar, places, {}); }
  Value number(double value) { return b.splat(DType::f32, value, places); }
  Value extent(Dim dim) { return spread(b.dim_value(dim, DType::f32)); }
  Value real(Real value) { return spread(b.real_value(value, DType::f32)); }
  Value several() { return b.dim_value(less(1, out), DType::boolean); }  // 0-d: more than one result position

  Value coordinate() {
    const Value o = b.convert(b.iota(DType::i64, {out}, 0), DType::f32);
    const auto half_pixel = [&] { return b.subtract(b.divide(b.add(o, number(0.5)), real(scale)), number(0.5)); };
    switch (resize.coordinates) {
      case Coordinates::half_pixel:
        return half_pixel();
      case Coordinates::half_pixel_symmetric: {
        const Value adjustment = b.divide(extent(out), b.multiply(real(scale), extent(in)));
        const Value centre = b.divide(extent(in), number(2));
        return b.add(b.multiply(centre, b.subtract(number(1), adjustment)), half_pixel());
      }
      case Coordinates::pytorch_half_pixel:
        return b.select(several(), half_pixel(), number(0));
      case Coordinates::align_corners:
        return b.divide(b.multiply(o, extent(in - 1)), extent(max(out - 1, 1)));
      case Coordinates::asymmetric:
        return b.divide(o, real(scale));
      case Coordinates::tf_half_pixel_for_nn:
        return b.divide(b.add(o, number(0.5)), real(scale));
      default: {
        const Value start = real(roi_start), end = real(roi_end), last = extent(in - 1);
        const Value step = b.divide(b.multiply(b.multiply(o, b.subtract(end, start)), last), extent(max(out - 1, 1)));
        const Value middle = b.multiply(b.multiply(number(0.5), b.add(start, end)), last);
        return b.select(several(), b.add(b.multiply(start, last), step), middle);
      }
    }
  }

  Value nearest_position(Value x) {
    const Value below = b.floor(x), above = b.add(below, number(1));
    const auto above_if = [&](CompareDirection direction) {
      return b.select(b.compare(b.subtract(x, below), number(0.5), direction), above, below);
    };
    switch (resize.nearest) {
      case Nearest::round_prefer_floor:
        return above_if(CompareDirection::gt);
      case Nearest::round_prefer_ceil:
        return above_if(CompareDirection::ge);
      case Nearest::floor:
        return below;
      case Nearest::ceil:
        return b.ceil(x);
      default:
        return b.select(b.compare(real(scale), number(1), CompareDirection::lt), b.ceil(x), below);
    }
  }

  Value filter(Value distance) {
    const Value x = b.abs(distance);
    if (resize.mode == Mode::linear) return b.maximum(number(0), b.subtract(number(1), x));
    const auto polynomial = [&](double c3, double c2, double c1, double c0) {
      Value y = b.add(b.multiply(number(c3), x), number(c2));
      y = b.add(b.multiply(y, x), number(c1));
      return b.add(b.multiply(y, x), number(c0));
    };
    const double a = resize.cubic_a;
    const Value near = polynomial(a + 2, -(a + 3), 0, 1), far = polynomial(a, -5 * a, 8 * a, -4 * a);
    const Value beyond = b.select(b.compare(x, number(2), CompareDirection::lt), far, number(0));
    return b.select(b.compare(x, number(1), CompareDirection::le), near, beyond);
  }

  Value index(Value position) {  // inside the operand
    const Value last = b.dim_value(in - 1, DType::i64);
    return b.clamp(b.integer(DType::i64, 0), b.convert(position, DType::i64), last);
  }

  Value outside(Value x) {
    return b.logical_or(b.compare(x, number(0), CompareDirection::lt),
                        b.compare(x, extent(in - 1), CompareDirection::gt));
  }

  // y along `axis`, from x of wide floats (nearest: any dtype).
  Value apply(Value x, int64_t axis) {
    const Value at = coordinate();
    const Value y =
        resize.mode == Mode::nearest ? take(b, x, index(nearest_position(at)), axis) : interpolate(x, at, axis);
    if (resize.coordinates != Coordinates::tf_crop_and_resize) return y;
    const Value beyond = b.broadcast_in_dim(outside(at), b.shape(y), {axis});
    return b.select(beyond, b.like(y, resize.extrapolation_value), y);
  }

  // How many positions count is no constant: every position has a weight, most of them 0, and a product sums.
  Value multiply_all(Value x, Value at, int64_t axis) {
    const double radius = resize.mode == Mode::linear ? 1 : 2;
    const Real shrink = real_binary(RealOp::min, scale, 1.0, RealDType::f32);
    const Real reach = real_binary(RealOp::div, radius, shrink, RealDType::f32);
    // Those on either side, for which the border stands.
    const Dim beyond = dim_from(real_unary(RealOp::ceil, reach, RealDType::f32)) + 1;
    AxisBody table = *this;
    table.places = {out, in + beyond * 2};
    const Value counted = b.convert(b.iota(DType::i64, {table.places[1]}, 0), DType::f32);
    const Value first = b.broadcast_in_dim(b.dim_value(beyond, DType::f32), {table.places[1]}, {});
    const Value positions = b.subtract(counted, first);
    const Value position = b.broadcast_in_dim(positions, table.places, {1});
    const Value distance = b.subtract(position, b.broadcast_in_dim(at, table.places, {0}));
    Value weight = table.filter(b.multiply(distance, table.real(shrink)));
    if (resize.exclude_outside) weight = b.select(table.outside(position), table.number(0), weight);
    const Value sum = b.reduce(weight, ReduceKind::add, {1});
    weight = b.divide(weight, b.broadcast_in_dim(sum, table.places, {0}));
    DotGeneralAttributes product;
    product.lhs_contracting = {axis};
    product.rhs_contracting = {1};
    product.dtype = b.dtype(x);
    const Value y =
        b.dot_general(take(b, x, index(positions), axis), b.convert(weight, b.dtype(x)), std::move(product));
    std::vector<int64_t> order;  // the new axis is the last
    for (int64_t i = 0; i + 1 < b.rank(y); ++i) order.push_back(i);
    order.insert(order.begin() + axis, b.rank(y) - 1);
    return b.transpose(y, std::move(order));
  }

  Value interpolate(Value x, Value at, int64_t axis) {
    if (resize.antialias && !scale.is_constant()) return multiply_all(x, at, axis);
    const TapRange range = tap_range(resize, scale.hint());
    const double shrink = resize.antialias ? std::min(scale.hint(), 1.0) : 1;
    const Value below = b.floor(at);
    std::vector<Value> positions, weights;
    Value sum;
    for (int64_t t = range.first; t < range.first + range.count; ++t) {
      const Value position = b.add(below, number(static_cast<double>(t)));
      Value weight = filter(b.multiply(b.subtract(position, at), number(shrink)));
      if (resize.exclude_outside) weight = b.select(outside(position), number(0), weight);
      positions.push_back(position);
      weights.push_back(weight);
      sum = sum ? b.add(sum, weight) : weight;
    }
    Value y;
    for (size_t t = 0; t < weights.size(); ++t) {
      const Value slices = take(b, x, index(positions[t]), axis);
      const Value weight = b.convert(b.divide(weights[t], sum), b.dtype(x));
      const Value part = b.multiply(slices, b.broadcast_in_dim(weight, b.shape(slices), {axis}));
      y = y ? b.add(y, part) : part;
    }
    return y;
  }
};

std::vector<Value> decompose(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& resize = static_cast<const ResizeAttributes&>(*attributes);
  const bool crops = resize.coordinates == Coordinates::tf_crop_and_resize;
  const DType dtype = build.dtype(operands[0]);
  Value x = operands[0];
  if (resize.mode != Mode::nearest) x = build.convert(x, is_float(dtype) ? wide(dtype) : DType::f32);
  for (int64_t axis = 0; axis < build.rank(x); ++axis) {
    const size_t i = static_cast<size_t>(axis);
    const Dim in = build.shape(x)[i], out = resize.sizes[i];
    const Real scale = resize.scales[i];
    if (provably_eq(in, out) && scale.is_constant() && is_left_alone(resize, 0, 0, scale.hint())) continue;
    AxisBody body{build, resize, in, out, scale, crops ? resize.roi_start[i] : 0.0, crops ? resize.roi_end[i] : 0.0};
    x = body.apply(x, axis);
  }
  return {build.convert(x, dtype)};
}

}  // namespace

const Primitive composite::resize{.name = "resize", .infer = infer, .evaluate = evaluate, .decompose = decompose};

Value resize(Builder& build, Value x, ResizeAttributes attributes) {
  return build.emit1(composite::resize, {x}, std::make_shared<ResizeAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
