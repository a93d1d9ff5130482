// quantize_linear, dequantize_linear, quantized_dot, table_dot.
#include "ir/composites/common.h"
#include "ir/composites/table_dot.h"

namespace transmuter::ir {
namespace {

// Scale and zero point fit x: 0-d, 1-D along the axis, or blocked.
void check_granularity(const InferContext& ctx, const Type& parameter) {
  const auto& quantize = ctx.as<QuantizeAttributes>();
  const Type& x = ctx.operands[0];
  if (parameter.shape.empty()) return;
  check_axes(ctx, {quantize.axis}, x.rank(), "C2", "axis");
  const Dim extent = x.shape[quantize.axis];
  if (quantize.block == 0) {
    ctx.check(parameter.rank() == 1, "C3", "scale and zero point are 0-d or 1-D");
    check_same_extent(ctx, parameter.shape[0], extent, "C3", "scales and the extent along the axis");
    return;
  }
  ctx.check(parameter.rank() == x.rank(), "C4", "blocked scales have x's rank");
  for (size_t i = 0; i < x.shape.size(); ++i) {
    const Dim wanted = static_cast<int64_t>(i) == quantize.axis ? ceil_div(extent, quantize.block) : x.shape[i];
    check_same_extent(ctx, parameter.shape[i], wanted, "C4", "blocked scales");
  }
}

void check_quantization(const InferContext& ctx) {
  const auto& quantize = ctx.as<QuantizeAttributes>();
  check_operand_count(ctx, 2u + quantize.has_zero_point);
  ctx.check(quantize.block >= 0, "C1", "block must be >= 0");
  ctx.check(computes(ctx.operands[1].dtype) || ctx.operands[1].dtype == DType::f8e8m0, "C5", "the scale is a float");
  for (const Type& parameter : ctx.operands.subspan(1)) check_granularity(ctx, parameter);
  if (quantize.has_zero_point) check_same_shape(ctx, ctx.operands[1], ctx.operands[2], "C6");
}

bool is_narrow(DType dtype) { return is_integer(dtype) || (is_float(dtype) && bit_width(dtype) <= 8); }

std::vector<Type> infer_quantize(const InferContext& ctx) {
  const auto& quantize = ctx.as<QuantizeAttributes>();
  check_quantization(ctx);
  const DType x = ctx.operands[0].dtype;
  ctx.check(computes(x) || x == DType::i32, "C7", "does not quantize ", name(x));
  ctx.check(is_narrow(quantize.dtype) && bit_width(quantize.dtype) <= 16, "C8", "does not quantize to ",
            name(quantize.dtype));
  if (quantize.has_zero_point)
    ctx.check(ctx.operands[2].dtype == quantize.dtype, "C9", "the zero point has the result's dtype");
  return {{quantize.dtype, ctx.operands[0].shape}};
}

std::vector<Type> infer_dequantize(const InferContext& ctx) {
  const auto& quantize = ctx.as<QuantizeAttributes>();
  check_quantization(ctx);
  const DType x = ctx.operands[0].dtype;
  ctx.check(is_narrow(x) && bit_width(x) <= 32, "C7", "does not dequantize ", name(x));
  ctx.check(computes(quantize.dtype), "C8", "does not dequantize to ", name(quantize.dtype));
  if (quantize.has_zero_point) ctx.check(ctx.operands[2].dtype == x, "C9", "the zero point has x's dtype");
  return {{quantize.dtype, ctx.operands[0].shape}};
}

std::vector<Value> decompose_quantize(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& quantize = static_cast<const QuantizeAttributes&>(*attributes);
  const Dims shape = build.shape(operands[0]);
  const DType given = build.dtype(operands[0]), dtype = is_float(given) ? wide(given) : DType::f32;
  const auto parameter = [&](Value value) {
    return spread_parameter(build, build.convert(value, dtype), shape, quantize.axis, quantize.block);
  };
  Value y = build.divide(build.convert(operands[0], dtype), parameter(operands[1]));
  if (!is_integer(quantize.dtype)) {
    if (quantize.has_zero_point) y = build.add(y, parameter(operands[2]));
    return {build.convert(y, quantize.dtype)};
  }
  y = build.round_nearest_even(y);
  if (quantize.has_zero_point) y = build.add(y, parameter(operands[2]));
  const int width = bit_width(quantize.dtype);
  const bool is_signed = is_signed_integer(quantize.dtype);
  const double values = static_cast<double>(int64_t{1} << width);
  const double low = is_signed ? -values / 2 : 0;
  // NaN gives the least value, as the runtimes have it.
  const Value least = build.like(y, low);
  const Value bounded = build.minimum(y, build.like(y, low + values - 1));
  y = build.select(build.compare(y, least, CompareDirection::ge), bounded, least);
  return {build.convert(y, quantize.dtype)};
}

std::vector<Value> decompose_dequantize(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& quantize = static_cast<const QuantizeAttributes&>(*attributes);
  const Dims shape = build.shape(operands[0]);
  const DType dtype = wide(quantize.dtype);
  const bool integer = is_integer(build.dtype(operands[0]));
  const auto parameter = [&](Value value, DType as) {
    return spread_parameter(build, build.convert(value, as), shape, quantize.axis, quantize.block);
  };
  // Exact in f32 up to 16 bits, and one type throughout.
  const DType difference = integer && bit_width(build.dtype(operands[0])) > 16 ? DType::i32 : dtype;
  Value x = build.convert(operands[0], difference);
  if (quantize.has_zero_point) x = build.subtract(x, parameter(operands[2], difference));
  const Value y = build.multiply(build.convert(x, dtype), parameter(operands[1], dtype));
  return {build.convert(y, quantize.dtype)};
}

std::vector<Type> infer_quantized_dot(const InferContext& ctx) {
  const auto& dot = ctx.as<QuantizedDotAttributes>();
  check_operand_count(ctx, 3u + dot.has_zero_points);
  const Type &a = ctx.operands[0], &w = ctx.operands[1], &scales = ctx.operands[2];
  check_float(ctx, a, "C1");
  ctx.check(a.rank() >= 1 && w.rank() == 2 && scales.rank() == 2, "C2",
            "takes a [..., k], w [n, k], scales [n, blocks]");
  ctx.check(is_narrow(w.dtype) && bit_width(w.dtype) <= 8, "C3", "does not take weights of ", name(w.dtype));
  ctx.check(dot.block > 0, "C4", "block must be > 0");
  check_float(ctx, scales, "C5");
  check_same_extent(ctx, a.shape.back(), w.shape[1], "C6", "inner extents");
  check_same_extent(ctx, scales.shape[0], w.shape[0], "C7", "scales and weights");
  check_same_extent(ctx, scales.shape[1], ceil_div(w.shape[1], dot.block), "C7", "scales and blocks");
  if (dot.has_zero_points) {
    const Type& zeros = ctx.operands[3];
    check_same_shape(ctx, zeros, scales, "C8");
    ctx.check(zeros.dtype == w.dtype || computes(zeros.dtype), "C8",
              "zero points have the weights' dtype or a float's");
  }
  Dims shape = a.shape;
  shape.back() = w.shape[0];
  return {{a.dtype, std::move(shape)}};
}

std::vector<Value> decompose_quantized_dot(Builder& build, std::span<const Value> operands,
                                           const Attributes* attributes) {
  const auto& quantized = static_cast<const QuantizedDotAttributes&>(*attributes);
  const Value a = operands[0], w = operands[1];
  const Dims shape = build.shape(w);
  const DType dtype = wide(build.dtype(a));
  const auto blocked = [&](Value value) {
    return spread_parameter(build, build.convert(value, dtype), shape, 1, quantized.block);
  };
  Value weight = build.convert(w, dtype);
  if (quantized.has_zero_points)
    weight = build.subtract(weight, blocked(operands[3]));
  else if (quantized.zero_point != 0)
    weight = build.subtract(weight, build.like(weight, quantized.zero_point));
  weight = build.multiply(weight, blocked(operands[2]));
  DotGeneralAttributes dot;
  dot.lhs_contracting = {build.rank(a) - 1};
  dot.rhs_contracting = {1};
  dot.dtype = build.dtype(a);
  return {build.dot_general(a, weight, dot)};
}

std::vector<Type> infer_table_dot(const InferContext& ctx) {
  const auto& dot = ctx.as<TableDotAttributes>();
  check_operand_count(ctx, 4);
  const Type &a = ctx.operands[0], &codes = ctx.operands[1], &scales = ctx.operands[2], &table = ctx.operands[3];
  check_float(ctx, a, "C1");
  ctx.check(a.rank() >= 1 && codes.rank() == 2 && scales.rank() == 2 && table.rank() == 1, "C2",
            "takes a [..., k], codes [n, k], scales [n, blocks], a table");
  ctx.check(codes.dtype == DType::u2 || codes.dtype == DType::u4 || codes.dtype == DType::u8, "C3",
            "does not take codes of ", name(codes.dtype));
  ctx.check(dot.block > 0, "C4", "block must be > 0");
  check_float(ctx, scales, "C5");
  check_same_extent(ctx, a.shape.back(), codes.shape[1], "C6", "inner extents");
  check_same_extent(ctx, scales.shape[0], codes.shape[0], "C7", "scales and weights");
  check_same_extent(ctx, scales.shape[1], ceil_div(codes.shape[1], dot.block), "C7", "scales and blocks");
  ctx.check(table.dtype == DType::f32, "C8", "the table must be f32, is ", name(table.dtype));
  check_same_extent(ctx, table.shape[0], Dim(int64_t{1} << bit_width(codes.dtype)), "C8", "the table and codes");
  Dims shape = a.shape;
  shape.back() = codes.shape[0];
  return {{a.dtype, std::move(shape)}};
}

std::vector<Value> decompose_table_dot(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& looked_up = static_cast<const TableDotAttributes&>(*attributes);
  const Value a = operands[0];
  const Dims shape = build.shape(operands[1]);
  const DType dtype = wide(build.dtype(a));
  Value codes = operands[1];
  if (looked_up.swapped) {
    const Value pairs = build.reshape(codes, {shape[0], floor_div(shape[1], 2), 2});
    codes = build.concatenate({build.slice_axis(pairs, 2, 1, 2), build.slice_axis(pairs, 2, 0, 1)}, 2);
  }
  const Value places = build.reshape(build.convert(codes, DType::i32), {product(shape)});
  const Value values = build.reshape(take(build, build.convert(operands[3], dtype), places, 0), shape);
  const Value scales = spread_parameter(build, build.convert(operands[2], dtype), shape, 1, looked_up.block);
  DotGeneralAttributes dot;
  dot.lhs_contracting = {build.rank(a) - 1};
  dot.rhs_contracting = {1};
  dot.dtype = build.dtype(a);
  return {build.dot_general(a, build.multiply(values, scales), dot)};
}

Value emit_quantize(Builder& build, const Primitive& primitive, Value x, Value scale, Value zero_point,
                    QuantizeAttributes attributes) {
  attributes.has_zero_point = static_cast<bool>(zero_point);
  return build.emit1(primitive, present({x, scale, zero_point}), std::make_shared<QuantizeAttributes>(attributes));
}

}  // namespace

const Primitive composite::quantize_linear{
    .name = "quantize_linear", .infer = infer_quantize, .decompose = decompose_quantize};
const Primitive composite::dequantize_linear{
    .name = "dequantize_linear", .infer = infer_dequantize, .decompose = decompose_dequantize};
const Primitive composite::quantized_dot{
    .name = "quantized_dot", .infer = infer_quantized_dot, .decompose = decompose_quantized_dot};
const Primitive composite::table_dot{.name = "table_dot", .infer = infer_table_dot, .decompose = decompose_table_dot};

Value spread_parameter(Builder& build, Value parameter, const Dims& shape, int64_t axis, int64_t block) {
  if (build.rank(parameter) == 0) return build.broadcast_in_dim(parameter, shape, {});
  if (block == 0) return build.broadcast_in_dim(parameter, shape, {axis});
  const Dims blocks = build.shape(parameter);
  Dims split = blocks, merged = blocks;
  split.insert(split.begin() + axis + 1, block);
  merged[axis] = blocks[axis] * block;
  std::vector<int64_t> dimensions = axes_from(0, static_cast<int64_t>(split.size()));
  dimensions.erase(dimensions.begin() + axis + 1);
  const Value repeated = build.reshape(build.broadcast_in_dim(parameter, split, dimensions), merged);
  return build.slice_axis(repeated, axis, 0, shape[axis]);
}

Value quantize_linear(Builder& build, Value x, Value scale, Value zero_point, QuantizeAttributes attributes) {
  return emit_quantize(build, composite::quantize_linear, x, scale, zero_point, std::move(attributes));
}

Value dequantize_linear(Builder& build, Value x, Value scale, Value zero_point, QuantizeAttributes attributes) {
  return emit_quantize(build, composite::dequantize_linear, x, scale, zero_point, std::move(attributes));
}

Value quantized_dot(Builder& build, Value a, Value w, Value scales, Value zero_points,
                    QuantizedDotAttributes attributes) {
  attributes.has_zero_points = static_cast<bool>(zero_points);
  return build.emit1(composite::quantized_dot, present({a, w, scales, zero_points}),
                     std::make_shared<QuantizedDotAttributes>(attributes));
}

Value table_dot(Builder& build, Value a, Value codes, Value scales, Value table, TableDotAttributes attributes) {
  return build.emit1(composite::table_dot, {a, codes, scales, table},
                     std::make_shared<TableDotAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
