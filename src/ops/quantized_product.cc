// com.microsoft products of integers with a float (or eight-bit) result: MatMulIntegerToFloat, DynamicQuantizeMatMul,
// QGemm, QAttention; MatMulInteger16.
#include "ops/contrib_attention.h"
#include "ops/integer_product.h"
#include "ops/matmul.h"
#include "ops/quantize.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// One scale or one a column.
Value scale_of(OpContext& op, size_t i) {
  return one_or_vector(op.build(), op.build().convert(op.input(i), DType::f32));
}

Value scales_multiplied(Builder& b, Value x, Value y) {
  const auto [wide_x, wide_y] = b.numpy_broadcast(x, y);
  return b.multiply(wide_x, wide_y);
}

// An int32 product in units of `scale`, with the float bias of input i.
Value as_float(OpContext& op, Value product, Value scale, size_t bias) {
  Builder& b = op.build();
  const Dims shape = b.shape(product);
  Value y = b.multiply(b.convert(product, DType::f32), b.broadcast_to(scale, shape));
  if (op.has_input(bias)) y = b.add(y, b.broadcast_to(b.convert(op.input(bias), DType::f32), shape));
  return y;
}

// A, B, scales of both, zero points of both, bias.
void matmul_integer_to_float(OpContext& op) {
  Builder& b = op.build();
  const DType dtype = op.dtype(2);
  const Value product = integer_matmul(b, op.input(0), zero_point_of(op, 4, 0), op.input(1), zero_point_of(op, 5, 1));
  const Value scale = scales_multiplied(b, scale_of(op, 2), scale_of(op, 3));
  op.output(0, b.convert(as_float(op, product, scale, 6), dtype));
}

// A (f32), B, scale and zero point of B, bias.
void dynamic_quantize_matmul(OpContext& op) {
  Builder& b = op.build();
  const DynamicallyQuantized a = quantize_dynamically(b, op.input(0), DType::u8);
  const Value product =
      integer_matmul(b, a.y, b.convert(a.zero_point, DType::i32), op.input(1), zero_point_of(op, 3, 1));
  op.output(0, as_float(op, product, scales_multiplied(b, a.scale, scale_of(op, 2)), 4));
}

// A, scale, zero point, B, scale, zero point, C (int32 in units of the product), scale and zero point of the result:
// float without them.
void qgemm(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  const bool trans_a = op.attribute_int("transA", 0) != 0, trans_b = op.attribute_int("transB", 0) != 0;
  op.check(op.rank(0) == 2 && op.rank(3) == 2, "A and B must have rank 2, have ", op.rank(0), " and ", op.rank(3));
  Builder& b = op.build();
  const Value a = trans_a ? swap_last_axes(b, op.input(0)) : op.input(0);
  const Value c = trans_b ? swap_last_axes(b, op.input(3)) : op.input(3);
  Value y = integer_matmul(b, a, zero_point_of(op, 2, 0), c, zero_point_of(op, 5, 3));
  if (op.has_input(6)) y = b.add(y, b.broadcast_to(op.input(6), b.shape(y)));
  Value scale = scales_multiplied(b, scale_of(op, 1), scale_of(op, 4));
  if (alpha != 1.0F) scale = b.multiply(scale, b.like(scale, alpha));
  if (!op.has_input(8)) return op.output(0, as_float(op, y, scale, 9));
  scale = b.divide(scale, b.broadcast_to(scale_of(op, 7), b.shape(scale)));
  op.output(0, requantize(b, y, scale, b.reshape(op.input(8), {})));
}

// The accumulation wraps in 32 bits.
void matmul_integer_16(OpContext& op) {
  Builder& b = op.build();
  op.check(is_integer(op.dtype(0)) && is_integer(op.dtype(1)), "takes integers");
  op.output(0, matmul(b, b.convert(op.input(0), DType::i32), b.convert(op.input(1), DType::i32), DType::i32));
}

// Attention after a projection of integers: input, weight, bias, scales of both, mask, zero points of both, past.
void qattention(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  if (op.attribute_int("do_rotary", 0) != 0) op.unsupported("do_rotary");
  if (op.attribute_int("past_present_share_buffer", 0) != 0) op.unsupported("past_present_share_buffer");
  require_rank(op, 0, 3);
  require_rank(op, 1, 2);
  Builder& b = op.build();
  const Value product = integer_matmul(b, op.input(0), zero_point_of(op, 6, 0), op.input(1), zero_point_of(op, 7, 1));
  const Value scale = scales_multiplied(b, scale_of(op, 3), scale_of(op, 4));
  finish_attention(op, project_heads(op, as_float(op, product, scale, 2), heads), 5, 8, 9);
}

}  // namespace

void register_quantized_product(Registry& r) {
  r.add("MatMulIntegerToFloat", {1}, matmul_integer_to_float, kMicrosoft);
  r.add("DynamicQuantizeMatMul", {1}, dynamic_quantize_matmul, kMicrosoft);
  r.add("QGemm", {1}, qgemm, kMicrosoft);
  r.add("MatMulInteger16", {1}, matmul_integer_16, kMicrosoft);
  r.add("QAttention", {1}, qattention, kMicrosoft);
}

}  // namespace transmuter::ops
