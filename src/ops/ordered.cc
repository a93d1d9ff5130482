// com.microsoft's QOrdered operators: int8 tensors of one scale each. What needs other orders than rows and columns of
// the products (tiles that some GPUs read) is refused by name.
#include "ops/ordered.h"

#include <limits>

#include "ir/composites/composites.h"
#include "onnx/tensor_proto.h"
#include "ops/attention_parts.h"
#include "ops/contrib_attention.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

constexpr int64_t kStrip = 32;

Value scale_of(OpContext& op, size_t i) {
  return one_or_vector(op.build(), op.build().convert(op.input(i), DType::f32));
}

void require_int8(OpContext& op, size_t i) {
  op.check(op.dtype(i) == DType::i8, "input ", i, " must be int8, is ", name(op.dtype(i)));
}

// [matrices, strips, rows, 32] or, by rows, [matrices, rows, strips, 32] of x's shape.
Dims strips_of(const Dims& shape, bool by_rows) {
  const size_t rank = shape.size();
  const Dim columns = shape[rank - 1], rows = shape[rank - 2], strips = ceil_div(columns, kStrip);
  require_eq(strips * kStrip, columns, "columns that lie by 32");
  const Dim matrices = product(Dims(shape.begin(), shape.end() - 2));
  return by_rows ? Dims{matrices, rows, strips, kStrip} : Dims{matrices, strips, rows, kStrip};
}

}  // namespace

Order order_attribute(OpContext& op, const char* name, std::initializer_list<Order> allowed) {
  const int64_t given = op.attribute_int(name);
  op.check(given >= 0 && given <= 4, name, " must be from 0 to 4, is ", given);
  for (const Order order : allowed)
    if (given == static_cast<int64_t>(order)) return order;
  op.unsupported(name, " ", given);
}

Value by_rows(Builder& b, Value x, Order order) {
  const Dims shape = b.shape(x);
  if (order == Order::rows || shape.size() < 2) return x;
  if (order == Order::columns_32)
    return b.reshape(b.transpose(b.reshape(x, strips_of(shape, false)), {0, 2, 1, 3}), shape);
  Dims lying = shape;
  std::swap(lying[shape.size() - 1], lying[shape.size() - 2]);
  return swap_last_axes(b, b.reshape(x, lying));
}

Value from_rows(Builder& b, Value x, Order order) {
  const Dims shape = b.shape(x);
  if (order == Order::rows || shape.size() < 2) return x;
  if (order == Order::columns_32)
    return b.reshape(b.transpose(b.reshape(x, strips_of(shape, true)), {0, 2, 1, 3}), shape);
  return b.reshape(swap_last_axes(b, x), shape);
}

Value to_int8(Builder& b, Value x) {
  return b.convert(b.clamp(b.scalar(DType::f32, -128), b.round_nearest_even(x), b.scalar(DType::f32, 127)), DType::i8);
}

Value quantized_by(OpContext& op, Value x, size_t i) {
  ir::QuantizeAttributes attributes;
  attributes.dtype = DType::i8;
  return ir::quantize_linear(op.build(), x, scale_of(op, i), {}, attributes);
}

Value dequantized_by(OpContext& op, Value x, size_t i) {
  Builder& b = op.build();
  const Value wide = b.convert(x, DType::f32);
  return b.multiply(wide, b.broadcast_to(scale_of(op, i), b.shape(wide)));
}

Value ordered_product(OpContext& op, Value a, size_t a_scale, Value b_rows, size_t b_scale, Value bias, size_t result) {
  Builder& b = op.build();
  const Value sums = b.convert(matmul(b, a, b_rows, DType::i32), DType::f32);
  const Dims shape = b.shape(sums);
  const auto wide = [&](Value v) { return b.broadcast_to(v, shape); };
  const Value scale = scale_of(op, result);
  Value factor = scale_of(op, b_scale);
  factor = b.multiply(b.broadcast_to(scale_of(op, a_scale), b.shape(factor)), factor);
  factor = b.divide(factor, b.broadcast_to(scale, b.shape(factor)));
  Value y = b.multiply(sums, wide(factor));
  if (bias) y = b.add(y, wide(b.divide(bias, b.broadcast_to(scale, b.shape(bias)))));
  return y;
}

namespace {

// x, scale.
void quantize_with_order(OpContext& op) {
  const Order from = order_attribute(op, "order_input", {Order::rows, Order::columns, Order::columns_32});
  const Order to = order_attribute(op, "order_output", {Order::rows, Order::columns, Order::columns_32});
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = b.convert(by_rows(b, op.input(0), from), DType::f32);
  op.output(0, from_rows(b, quantized_by(op, x, 1), to));
}

void dequantize_with_order(OpContext& op) {
  const Order from = order_attribute(op, "order_input", {Order::rows, Order::columns, Order::columns_32});
  const Order to = order_attribute(op, "order_output", {Order::rows, Order::columns, Order::columns_32});
  const DType dtype = onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("to")));
  op.check(dtype == DType::f32 || dtype == DType::f16, "to must be float32 or float16, is ", name(dtype));
  require_int8(op, 0);
  Builder& b = op.build();
  op.output(0, from_rows(b, b.convert(dequantized_by(op, by_rows(b, op.input(0), from), 1), dtype), to));
}

// A, scale, B (by columns), scale, the result's scale, bias, C, its scale.
void ordered_matmul(OpContext& op) {
  order_attribute(op, "order_A", {Order::rows});
  order_attribute(op, "order_Y", {Order::rows});
  const Order order = order_attribute(op, "order_B", {Order::columns});
  for (const size_t i : {0, 2}) require_int8(op, i);
  op.check(op.rank(0) >= 2 && op.rank(2) >= 2, "A and B must be matrices");
  Builder& b = op.build();
  const Value bias = op.has_input(5) ? b.convert(op.input(5), DType::f32) : Value();
  Value y = ordered_product(op, op.input(0), 1, by_rows(b, op.input(2), order), 3, bias, 4);
  if (op.has_input(6)) {
    const Dims shape = b.shape(y);
    const Value factor = b.divide(b.reshape(scale_of(op, 7), {}), b.reshape(scale_of(op, 4), {}));
    const Value c = b.broadcast_to(b.convert(op.input(6), DType::f32), shape);
    y = b.add(y, b.multiply(c, b.broadcast_to(factor, shape)));
  }
  op.output(0, to_int8(b, y));
}

// x, scale, the result's scale. Elementwise, so the order is no matter.
void ordered_gelu(OpContext& op) {
  op.ignore_attributes({"order_X", "order_Y"});
  require_int8(op, 0);
  op.output(0, quantized_by(op, ir::gelu(op.build(), dequantized_by(op, op.input(0), 1)), 2));
}

// x, scale, gamma, beta, the result's scale.
void ordered_layer_norm(OpContext& op) {
  const int64_t axis = op.axis(op.attribute_int("axis", -1), op.rank(0));
  for (const char* name : {"order_X", "order_Y"})
    if (op.has_attribute(name)) order_attribute(op, name, {Order::rows});
  require_int8(op, 0);
  Builder& b = op.build();
  Normalisation n;
  n.axis = axis;
  n.epsilon = op.attribute_float("epsilon", 1e-5F);
  const auto parameter = [&](size_t i) { return b.convert(op.input(i), DType::f32); };
  const Value beta = op.has_input(3) ? parameter(3) : Value();
  op.output(0, quantized_by(op, normalise(b, n, dequantized_by(op, op.input(0), 1), parameter(2), beta)[0], 4));
}

// x, its scale, scales of q, k, v, their weights, their scales, biases, scales of the scores, of the softmax, of the
// result, mask. Every step is rounded to int8.
void ordered_attention(OpContext& op) {
  order_attribute(op, "order_input", {Order::rows});
  order_attribute(op, "order_output", {Order::rows});
  const Order order = order_attribute(op, "order_weight", {Order::columns});
  op.ignore_attributes({"qkv_hidden_sizes"});  // the weights say it
  if (op.attribute_int("unidirectional", 0) != 0) op.unsupported("unidirectional");
  if (op.has_input(18)) op.unsupported("past");
  if (op.has_input(19)) op.unsupported("attention_bias");
  const int64_t heads = op.attribute_int("num_heads");
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  op.check(op.rank(0) == 3, "the input must have rank 3, has ", op.rank(0));
  for (const size_t i : {0, 5, 6, 7}) require_int8(op, i);
  Builder& b = op.build();
  std::vector<Value> parts;
  for (size_t i = 0; i < 3; ++i) {
    op.check(op.rank(5 + i) == 2, "the weights must be matrices");
    const Value weight = by_rows(b, op.input(5 + i), order), bias = b.convert(op.input(11 + i), DType::f32);
    parts.push_back(split_heads(b, to_int8(b, ordered_product(op, op.input(0), 1, weight, 8 + i, bias, 2 + i)), heads));
  }
  const Value q = parts[0], k = parts[1], v = parts[2];
  const Value scores = dequantized_by(op, to_int8(b, ordered_product(op, q, 2, swap_last_axes(b, k), 3, {}, 14)), 14);
  const Dims shape = b.shape(scores);
  Value scaled = b.multiply(scores, b.broadcast_to(b.real_value(inverse_root(b.shape(q)[3]), DType::f32), shape));
  if (op.has_input(17)) {
    const Value allowed = b.broadcast_to(key_mask(op, 17, {shape[0], shape[2], shape[3]}), shape);
    scaled = b.select(allowed, scaled, b.like(scaled, -std::numeric_limits<double>::infinity()));
  }
  const Value weights = quantized_by(op, ir::softmax(b, scaled, 3), 15);
  op.output(0, merge_heads(b, to_int8(b, ordered_product(op, weights, 15, v, 4, {}, 16))));
}

}  // namespace

void register_ordered(Registry& r) {
  const char* const notes = "matrices by rows, weights by columns";
  r.add("QuantizeWithOrder", {1}, quantize_with_order, kMicrosoft, "by rows, columns, 32 columns");
  r.add("DequantizeWithOrder", {1}, dequantize_with_order, kMicrosoft, "by rows, columns, 32 columns");
  r.add("QOrderedMatMul", {1}, ordered_matmul, kMicrosoft, notes);
  r.add("QOrderedGelu", {1}, ordered_gelu, kMicrosoft);
  r.add("QOrderedLayerNormalization", {1}, ordered_layer_norm, kMicrosoft, "by rows");
  r.add("QOrderedAttention", {1}, ordered_attention, kMicrosoft, notes);
}

}  // namespace transmuter::ops
