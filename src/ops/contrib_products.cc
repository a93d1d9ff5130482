// com.microsoft products that ONNX Runtime runs on GPUs or through DirectML: GemmFloat8, GemmFastGelu, MulInteger,
// ReduceSumInteger; and what stands beside them there: IsAllFinite, TorchEmbedding, GemmaRotaryEmbedding.
#include "ir/composites/composites.h"
#include "onnx/tensor_proto.h"
#include "ops/attention_parts.h"
#include "ops/integer_product.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// activation(alpha (scaleA A) (scaleB B) + beta C), times scaleY, as the attribute dtype: all in f32.
void gemm_float8(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F), beta = op.attribute_float("beta", 0.0F);
  const bool trans_a = op.attribute_int("transA", 0) != 0, trans_b = op.attribute_int("transB", 0) != 0;
  const DType dtype = onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("dtype", 1)));
  const std::string activation = op.attribute_string("activation", "NONE");
  op.check(op.rank(0) == 2 && op.rank(1) == 2, "A and B must have rank 2, have ", op.rank(0), " and ", op.rank(1));
  op.check(is_float(dtype), "dtype must be a float, is ", name(dtype));
  require_float(op, 0);
  require_float(op, 1);
  Builder& b = op.build();
  const auto number = [&](size_t i) { return b.reshape(b.convert(op.input(i), DType::f32), {}); };
  const auto side = [&](size_t i, bool transposed, size_t scale) {
    Value x = b.convert(op.input(i), DType::f32);
    if (op.has_input(scale)) x = b.multiply(x, b.broadcast_to(number(scale), b.shape(x)));
    return transposed ? swap_last_axes(b, x) : x;
  };
  Value y = matmul(b, side(0, trans_a, 3), side(1, trans_b, 4), DType::f32);
  if (alpha != 1) y = b.multiply(y, b.like(y, alpha));
  if (op.has_input(2) && beta != 0) {
    const Value c = b.broadcast_to(b.convert(op.input(2), DType::f32), b.shape(y));
    y = b.add(y, b.multiply(c, b.like(c, beta)));
  }
  if (activation == "RELU")
    y = b.maximum(y, b.like(y, 0));
  else if (activation != "NONE" && !activation.empty())
    op.unsupported("activation ", activation);
  if (op.has_input(5)) y = b.multiply(y, b.broadcast_to(number(5), b.shape(y)));
  op.output(0, b.convert(y, dtype));
}

void gemm_fast_gelu(OpContext& op) {
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& b = op.build();
  Value y = matmul(b, op.input(0), op.input(1), op.dtype(0));
  if (op.has_input(2)) y = b.add(y, b.broadcast_to(op.input(2), b.shape(y)));
  op.output(0, ir::gelu(b, y, ir::GeluKind::tanh));
}

// (A - its zero point) (B - its zero point), i32.
void mul_integer(OpContext& op) {
  for (const size_t i : {0, 2})
    op.check(is_integer(op.dtype(i)) && bit_width(op.dtype(i)) == 8, "input ", i, " must have eight bits, is ",
             name(op.dtype(i)));
  Builder& b = op.build();
  const auto side = [&](size_t i) {
    const Value x = b.convert(op.input(i), DType::i32), zero = zero_point_of(op, i + 1, i);
    return zero ? b.subtract(x, b.broadcast_to(b.reshape(zero, {}), b.shape(x))) : x;
  };
  const auto [left, right] = b.numpy_broadcast(side(0), side(2));
  op.output(0, b.multiply(left, right));
}

void reduce_sum_integer(OpContext& op) {
  const bool keep = op.attribute_int("keepdims") != 0;
  const DType dtype = op.dtype(0);
  op.check(dtype == DType::i8 || dtype == DType::u8, "the data must have eight bits, are ", name(dtype));
  const std::vector<int64_t> axes = normalised_axes(op, op.attribute_ints("axes"), op.rank(0));
  Builder& b = op.build();
  const Value x = b.convert(op.input(0), dtype == DType::i8 ? DType::i32 : DType::u32);
  op.output(0, keep ? b.reduce_keep(x, ir::ReduceKind::add, axes) : b.reduce(x, ir::ReduceKind::add, axes));
}

// Over all inputs, 0-d; of the two attributes one may ask for NaN or for infinities alone.
void is_all_finite(OpContext& op) {
  const bool nan_only = op.attribute_int("isnan_only", 0) != 0, inf_only = op.attribute_int("isinf_only", 0) != 0;
  op.check(!(nan_only && inf_only), "isnan_only and isinf_only exclude each other");
  op.check(op.input_count() > 0, "needs an input");
  Builder& b = op.build();
  Value all = b.splat(DType::boolean, 1, {});
  for (size_t i = 0; i < op.input_count(); ++i) {
    require_float(op, i);
    const Value x = op.input(i);
    const Value is_number = b.compare(x, x, CompareDirection::eq), finite = b.is_finite(x);
    const Value good = nan_only ? is_number : inf_only ? b.logical_or(finite, b.logical_not(is_number)) : finite;
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < op.rank(i); ++axis) axes.push_back(axis);
    all = b.logical_and(all, axes.empty() ? good : b.reduce(good, ir::ReduceKind::logical_and, axes));
  }
  op.output(0, all);
}

// Rows of a table; the other inputs are for its gradient.
void torch_embedding(OpContext& op) {
  op.check(op.rank(0) == 2, "the weight must have rank 2, has ", op.rank(0));
  require_index(op, 1);
  op.has_input(3);
  op.output(0, take_rows(op.build(), op.input(0), checked_indices(op, 1, op.shape(0)[0])));
}

// q cos(emb) + q_rot sin(emb), and k likewise: emb [b, s, d], the others [b, heads, s, d]; cosines rounded to their
// dtype.
void gemma_rotary_embedding(OpContext& op) {
  op.check(op.rank(0) == 3, "emb must have rank 3, has ", op.rank(0));
  for (size_t i = 1; i < 5; ++i) op.check(op.rank(i) == 4, "input ", i, " must have rank 4, has ", op.rank(i));
  Builder& b = op.build();
  const DType dtype = op.dtype(1);
  const auto factor = [&](Value x) { return b.expand_dims(b.convert(x, dtype), {1}); };
  const Value cos = factor(b.cosine(op.input(0))), sin = factor(b.sine(op.input(0)));
  const auto turned = [&](size_t i) {
    const Dims shape = op.shape(i);
    return b.add(b.multiply(op.input(i), b.broadcast_to(cos, shape)),
                 b.multiply(op.input(i + 1), b.broadcast_to(sin, shape)));
  };
  op.output(0, turned(1));
  op.output(1, turned(3));
}

}  // namespace

void register_contrib_products(Registry& r) {
  r.add("GemmFloat8", {1}, gemm_float8, kMicrosoft);
  r.add("GemmFastGelu", {1}, gemm_fast_gelu, kMicrosoft);
  r.add("MulInteger", {1}, mul_integer, kMicrosoft);
  r.add("ReduceSumInteger", {1}, reduce_sum_integer, kMicrosoft);
  r.add("IsAllFinite", {1}, is_all_finite, kMicrosoft);
  r.add("TorchEmbedding", {1}, torch_embedding, kMicrosoft);
  r.add("GemmaRotaryEmbedding", {1}, gemma_rotary_embedding, kMicrosoft);
}

}  // namespace transmuter::ops
