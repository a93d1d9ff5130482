// QuantizeLinear, DequantizeLinear (also of com.microsoft), DynamicQuantizeLinear. Scale and zero point: one for the
// tensor, one for each place along `axis`, or from opset 21 one for each block.
#include "ops/quantize.h"

#include "ir/composites/composites.h"
#include "onnx/tensor_proto.h"
#include "ops/cast.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

Value one_or_vector(Builder& b, Value parameter) {
  const Dims& shape = b.shape(parameter);
  if (shape.size() == 1 && provably_eq(shape[0], 1)) return b.reshape(parameter, {});
  return parameter;
}

namespace {

struct Parameters {
  Value scale, zero_point;
  ir::QuantizeAttributes attributes;
};

Parameters read_parameters(OpContext& op) {
  Builder& b = op.build();
  Parameters p;
  const int64_t rank = op.rank(0), given = op.attribute_int("axis", 1);
  const int64_t block = op.version() >= 21 || op.has_attribute("block_size") ? op.attribute_int("block_size", 0) : 0;
  op.check(block >= 0, "block_size must not be negative, is ", block);
  const bool blocked = op.rank(1) > 1;  // a block size of 0 then follows from the shapes
  p.scale = blocked ? op.input(1) : one_or_vector(b, op.input(1));
  if (b.rank(p.scale) > 0) p.attributes.axis = op.axis(given, rank);
  if (blocked) {
    op.check(b.rank(p.scale) == rank, "the scale must have rank 0, 1 or ", rank, ", has ", b.rank(p.scale));
    p.attributes.block = block;
    op.check(block > 0, "a scale of rank ", b.rank(p.scale), " needs a block_size");
  }
  if (op.has_input(2)) {
    const DType dtype = op.dtype(2);
    op.check(is_integer(dtype) || (is_float(dtype) && bit_width(dtype) <= 8),
             "the zero point must be an integer or a float of 8 bits or less, is ", name(dtype));
    require_eq(product(op.shape(2)), product(b.shape(p.scale)), str(op.node().op_type, ": zero points and scales"));
    p.zero_point = b.reshape(op.input(2), b.shape(p.scale));
    p.attributes.has_zero_point = true;
  }
  return p;
}

// The attribute of that name as a dtype; 0 and absent: none.
DType dtype_attribute(OpContext& op, const char* name) {
  const int64_t number = op.attribute_int(name, 0);
  return number == 0 ? DType::invalid : onnx::dtype_of_number(static_cast<int32_t>(number));
}

void quantize(OpContext& op) {
  const bool saturate = op.attribute_int("saturate", 1) != 0;
  const DType precision = dtype_attribute(op, "precision");
  Parameters p = read_parameters(op);
  const DType wanted = dtype_attribute(op, "output_dtype");
  Builder& b = op.build();
  DType& dtype = p.attributes.dtype;
  dtype = op.has_input(2) ? op.dtype(2) : wanted == DType::invalid ? DType::u8 : wanted;
  op.check(wanted == DType::invalid || wanted == dtype, "output_dtype ", name(wanted), " is not the zero point's, ",
           name(dtype));
  Value x = op.input(0);
  if (is_integer(b.dtype(p.scale))) p.scale = b.convert(p.scale, DType::f32);
  if (precision != DType::invalid && is_float(precision) && bit_width(precision) >= 16) {
    x = b.convert(x, precision);
    p.scale = b.convert(p.scale, precision);
  }
  if (is_float(dtype) && !saturate) {
    const DType inner = b.dtype(x) == DType::f64 ? DType::f64 : DType::f32;
    const auto spread = [&](Value parameter) {
      return ir::spread_parameter(b, b.convert(parameter, inner), b.shape(x), p.attributes.axis, p.attributes.block);
    };
    Value scaled = b.divide(b.convert(x, inner), spread(p.scale));
    if (p.zero_point) scaled = b.add(scaled, spread(p.zero_point));
    return op.output(0, convert_float8(b, scaled, dtype, false));
  }
  op.output(0, ir::quantize_linear(b, x, p.scale, p.zero_point, p.attributes));
}

void dequantize(OpContext& op) {
  Parameters p = read_parameters(op);
  const DType wanted = dtype_attribute(op, "output_dtype");
  const DType scale = op.dtype(1);
  p.attributes.dtype = wanted != DType::invalid                    ? wanted
                       : is_float(scale) && bit_width(scale) >= 16 ? scale
                                                                   : DType::f32;
  op.output(0, ir::dequantize_linear(op.build(), op.input(0), p.scale, p.zero_point, p.attributes));
}

}  // namespace

DynamicallyQuantized quantize_dynamically(Builder& b, Value x, DType dtype) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.rank(x); ++i) axes.push_back(i);
  const Value zero = b.scalar(DType::f32, 0);
  const Value high = b.maximum(axes.empty() ? x : b.reduce(x, ir::ReduceKind::max, axes), zero);
  const Value low = b.minimum(axes.empty() ? x : b.reduce(x, ir::ReduceKind::min, axes), zero);
  const bool is_signed = dtype == DType::i8;
  DynamicallyQuantized q;
  // All zeros: a scale of 1 leaves them alone.
  const Value span = b.divide(b.subtract(high, low), b.scalar(DType::f32, 255));
  q.scale = b.select(b.compare(span, zero, ir::CompareDirection::eq), b.scalar(DType::f32, 1), span);
  const Value least = b.scalar(DType::f32, is_signed ? -128 : 0),
              greatest = b.scalar(DType::f32, is_signed ? 127 : 255);
  const Value place = b.subtract(least, b.divide(low, q.scale));
  q.zero_point = b.convert(b.round_nearest_even(b.clamp(least, place, greatest)), dtype);
  ir::QuantizeAttributes attributes;
  attributes.dtype = dtype;
  q.y = ir::quantize_linear(b, x, q.scale, q.zero_point, attributes);
  return q;
}

namespace {

void dynamic_quantize(OpContext& op) {
  op.check(op.dtype(0) == DType::f32, "the input must be float32, is ", name(op.dtype(0)));
  const DynamicallyQuantized q = quantize_dynamically(op.build(), op.input(0), DType::u8);
  op.output(0, q.y);
  op.output(1, q.scale);
  op.output(2, q.zero_point);
}

}  // namespace

void register_quantize(Registry& r) {
  r.add("QuantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}, quantize);
  r.add("DequantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}, dequantize);
  r.add("DynamicQuantizeLinear", {11}, dynamic_quantize);
  r.add("QuantizeLinear", {1}, quantize, kMicrosoft);
  r.add("DequantizeLinear", {1}, dequantize, kMicrosoft);
}

}  // namespace transmuter::ops
