// com.microsoft's operators on eight-bit tensors with one scale and zero point each: QLinearAdd, QLinearMul,
// QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax, QLinearConcat, QLinearWhere, QLinearReduceMean, QLinearAveragePool,
// QLinearGlobalAveragePool. Where ONNX Runtime rounds otherwise than quantise(f(dequantise(x))), so do these.
#include <algorithm>

#include "ir/composites/composites.h"
#include "ops/conv.h"
#include "ops/integer_product.h"
#include "ops/pool.h"
#include "ops/quantize.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// Input i as a 0-d f32.
Value scale_of(OpContext& op, size_t i) {
  Builder& b = op.build();
  require_eq(product(op.shape(i)), 1, str(op.node().op_type, ": elements of scale input ", i));
  return b.reshape(b.convert(op.input(i), DType::f32), {});
}

// Input i as 0-d; zero when absent.
Value zero_of(OpContext& op, size_t i, DType dtype) {
  Builder& b = op.build();
  if (!op.has_input(i)) return b.integer(dtype, 0);
  op.check(op.dtype(i) == dtype, "zero point input ", i, " must be ", name(dtype), ", is ", name(op.dtype(i)));
  require_eq(product(op.shape(i)), 1, str(op.node().op_type, ": elements of zero point input ", i));
  return b.reshape(op.input(i), {});
}

DType eight_bit(OpContext& op, size_t i) {
  const DType dtype = op.dtype(i);
  op.check(dtype == DType::u8 || dtype == DType::i8, "input ", i, " must be int8 or uint8, is ", name(dtype));
  return dtype;
}

// Inputs i, i + 1, i + 2 (elements, scale, zero point) as f32.
Value dequantised(OpContext& op, size_t i) {
  ir::QuantizeAttributes attributes;
  attributes.dtype = DType::f32;
  const Value zero = op.has_input(i + 2) ? zero_of(op, i + 2, op.dtype(i)) : Value();
  return ir::dequantize_linear(op.build(), op.input(i), scale_of(op, i + 1), zero, attributes);
}

// x by the scale and zero point of inputs i and i + 1.
Value quantised(OpContext& op, Value x, size_t i, DType dtype) {
  ir::QuantizeAttributes attributes;
  attributes.dtype = dtype;
  const Value zero = op.has_input(i + 1) ? zero_of(op, i + 1, dtype) : Value();
  return ir::quantize_linear(op.build(), x, scale_of(op, i), zero, attributes);
}

Value to_eight_bits(Builder& b, Value x, DType dtype) {
  const double low = dtype == DType::i8 ? -128 : 0;
  return b.convert(b.clamp(b.scalar(DType::f32, low), b.round_nearest_even(x), b.scalar(DType::f32, low + 255)), dtype);
}

// Inputs: a, its scale and zero point, b, its, the result's. The result's zero point is in the sum that is rounded.
void qlinear_add(OpContext& op) {
  const DType dtype = eight_bit(op, 0);
  require_same_dtype(op, 0, 3);
  Builder& b = op.build();
  const Value result_scale = scale_of(op, 6);
  const Value a_ratio = b.divide(scale_of(op, 1), result_scale), c_ratio = b.divide(scale_of(op, 4), result_scale);
  const auto zero = [&](size_t i) { return b.convert(zero_of(op, i, dtype), DType::f32); };
  const Value shift = b.add(b.multiply(a_ratio, zero(2)), b.multiply(c_ratio, zero(5)));
  const Value fixed = b.subtract(zero(7), shift);
  const auto [x, y] = b.numpy_broadcast(op.input(0), op.input(3));
  const Dims shape = b.shape(x);
  const auto scaled = [&](Value v, Value ratio) {
    return b.multiply(b.convert(v, DType::f32), b.broadcast_to(ratio, shape));
  };
  const Value sum = b.add(b.add(scaled(x, a_ratio), b.broadcast_to(fixed, shape)), scaled(y, c_ratio));
  op.output(0, to_eight_bits(b, sum, dtype));
}

void qlinear_mul(OpContext& op) {
  const DType dtype = eight_bit(op, 0);
  require_same_dtype(op, 0, 3);
  Builder& b = op.build();
  const auto centred = [&](size_t i) {
    const Value x = b.convert(op.input(i), DType::i32);
    return b.subtract(x, b.broadcast_to(b.convert(zero_of(op, i + 2, dtype), DType::i32), b.shape(x)));
  };
  const auto [x, y] = b.numpy_broadcast(centred(0), centred(3));
  const Value factor = b.divide(b.multiply(scale_of(op, 1), scale_of(op, 4)), scale_of(op, 6));
  op.output(0, requantize(b, b.multiply(x, y), factor, zero_of(op, 7, dtype)));
}

void qlinear_sigmoid(OpContext& op) {
  const DType dtype = eight_bit(op, 0);
  op.output(0, quantised(op, op.build().logistic(dequantised(op, 0)), 3, dtype));
}

void qlinear_leaky_relu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 0.01F);
  const DType dtype = eight_bit(op, 0);
  Builder& b = op.build();
  const Value x = dequantised(op, 0);
  const Value negative = b.compare(x, b.like(x, 0), ir::CompareDirection::lt);
  op.output(0, quantised(op, b.select(negative, b.multiply(x, b.like(x, alpha)), x), 3, dtype));
}

// Steps of the result are whole parts of 1: floor(1 / scale) of them.
void qlinear_softmax(OpContext& op) {
  const int64_t opset = op.attribute_int("opset"), rank = op.rank(0);
  const bool single = opset >= 13;
  const int64_t axis = op.axis(op.attribute_int("axis", single ? -1 : 1), rank);
  const DType dtype = eight_bit(op, 0);
  Builder& b = op.build();
  const Value x = dequantised(op, 0);
  const Dims shape = b.shape(x);
  Value y;
  if (single || axis == rank - 1) {
    y = ir::softmax(b, x, axis);
  } else {
    const Dims rows(shape.begin(), shape.begin() + axis), columns(shape.begin() + axis, shape.end());
    y = b.reshape(ir::softmax(b, b.reshape(x, {product(rows), product(columns)}), 1), shape);
  }
  const Value steps = b.floor(b.divide(b.scalar(DType::f32, 1), scale_of(op, 3)));
  op.output(0, requantize(b, y, steps, zero_of(op, 4, dtype)));
}

// The result's scale and zero point, then three inputs a part.
void qlinear_concat(OpContext& op) {
  op.check(op.input_count() >= 5 && op.input_count() % 3 == 2, "takes 2 + 3 n inputs, has ", op.input_count());
  const DType dtype = eight_bit(op, 2);
  const int64_t axis = op.axis(op.attribute_int("axis"), op.rank(2));
  std::vector<Value> parts;
  for (size_t i = 2; i < op.input_count(); i += 3) {
    require_same_dtype(op, 2, i);
    parts.push_back(quantised(op, dequantised(op, i), 0, dtype));
  }
  op.output(0, op.build().concatenate(std::move(parts), axis));
}

void qlinear_where(OpContext& op) {
  require_bool(op, 0);
  const DType dtype = eight_bit(op, 1);
  require_same_dtype(op, 1, 4);
  Builder& b = op.build();
  const Value x = quantised(op, dequantised(op, 1), 7, dtype), y = quantised(op, dequantised(op, 4), 7, dtype);
  const Dims shape =
      ir::broadcast_shapes(op.shape(0), ir::broadcast_shapes(b.shape(x), b.shape(y), "QLinearWhere"), "QLinearWhere");
  op.output(0, b.select(b.broadcast_to(op.input(0), shape), b.broadcast_to(x, shape), b.broadcast_to(y, shape)));
}

void qlinear_reduce_mean(OpContext& op) {
  const bool keep = op.attribute_int("keepdims") != 0;
  const DType dtype = eight_bit(op, 0);
  std::vector<int64_t> axes = normalised_axes(op, op.attribute_ints("axes"), op.rank(0));
  if (axes.empty())
    for (int64_t i = 0; i < op.rank(0); ++i) axes.push_back(i);
  std::sort(axes.begin(), axes.end());
  Builder& b = op.build();
  const Value x = dequantised(op, 0);
  Dim count = 1;
  for (int64_t axis : axes) count = count * b.shape(x)[static_cast<size_t>(axis)];
  const Value sum = keep ? b.reduce_keep(x, ir::ReduceKind::add, axes) : b.reduce(x, ir::ReduceKind::add, axes);
  const Value mean = b.divide(sum, b.broadcast_to(b.dim_value(count, DType::f32), b.shape(sum)));
  op.output(0, quantised(op, mean, 3, dtype));
}

void qlinear_average_pool(OpContext& op) {
  const bool last = op.attribute_int("channels_last", 0) != 0;
  const bool include_pad = op.attribute_int("count_include_pad", 0) != 0;
  const DType dtype = eight_bit(op, 0);
  Builder& b = op.build();
  const Value x = last ? channels_second(b, dequantised(op, 0)) : dequantised(op, 0);
  const PoolWindows w = read_pool(op, b.shape(x));
  Value mean;
  if (include_pad) {  // what hangs over in ceil_mode counts too
    const Value sum = pool_windows(b, x, ir::ReduceKind::add, w);
    mean = b.divide(sum, b.broadcast_to(b.dim_value(product(w.kernel), DType::f32), b.shape(sum)));
  } else {
    mean = average_windows(b, x, w, false);
  }
  const Value y = quantised(op, mean, 3, dtype);
  op.output(0, last ? channels_last(b, y) : y);
}

// The sum is of integers.
void qlinear_global_average_pool(OpContext& op) {
  const bool last = op.attribute_int("channels_last", 0) != 0;
  const DType dtype = eight_bit(op, 0);
  const int64_t rank = op.rank(0);
  op.check(rank >= 3, "the input must have a spatial axis, has rank ", rank);
  std::vector<int64_t> axes;
  Dim count = 1;
  for (int64_t i = last ? 1 : 2; i < (last ? rank - 1 : rank); ++i) {
    axes.push_back(i);
    count = count * op.shape(0)[static_cast<size_t>(i)];
  }
  Builder& b = op.build();
  const Value sum = b.reduce_keep(b.convert(op.input(0), DType::i32), ir::ReduceKind::add, axes);
  const Value zeros = b.multiply(b.convert(zero_of(op, 2, dtype), DType::i32), b.dim_value(count, DType::i32));
  const Value factor = b.divide(scale_of(op, 1), b.multiply(scale_of(op, 3), b.dim_value(count, DType::f32)));
  op.output(0, requantize(b, b.subtract(sum, b.broadcast_to(zeros, b.shape(sum))), factor, zero_of(op, 4, dtype)));
}

}  // namespace

void register_qlinear(Registry& r) {
  r.add("QLinearAdd", {1}, qlinear_add, kMicrosoft);
  r.add("QLinearMul", {1}, qlinear_mul, kMicrosoft);
  r.add("QLinearSigmoid", {1}, qlinear_sigmoid, kMicrosoft);
  r.add("QLinearLeakyRelu", {1}, qlinear_leaky_relu, kMicrosoft);
  r.add("QLinearSoftmax", {1}, qlinear_softmax, kMicrosoft);
  r.add("QLinearConcat", {1}, qlinear_concat, kMicrosoft);
  r.add("QLinearWhere", {1}, qlinear_where, kMicrosoft);
  r.add("QLinearReduceMean", {1}, qlinear_reduce_mean, kMicrosoft);
  r.add("QLinearAveragePool", {1}, qlinear_average_pool, kMicrosoft);
  r.add("QLinearGlobalAveragePool", {1}, qlinear_global_average_pool, kMicrosoft);
}

}  // namespace transmuter::ops
