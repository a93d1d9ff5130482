// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv.
#include "ops/integer_product.h"

#include <algorithm>

#include "ir/composites/composites.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "ops/quantize.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "ops/windows.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

bool all_zero(const Tensor& tensor) {
  const std::byte* bytes = tensor.bytes();
  return std::all_of(bytes, bytes + tensor.nbytes(), [](std::byte b) { return b == std::byte{0}; });
}

// A zero point or scale against the product's rows (axis -2) or columns (axis -1).
Value against(Builder& b, Value parameter, bool rows) {
  parameter = one_or_vector(b, parameter);
  if (b.rank(parameter) == 1 && rows) return b.expand_dims(parameter, {1});
  return parameter;
}

Value multiply(Builder& b, Value x, Value y) {
  const auto [wide_x, wide_y] = b.numpy_broadcast(x, y);
  return b.multiply(wide_x, wide_y);
}

Value subtract_from(Builder& b, Value from, Value x) { return b.subtract(from, b.broadcast_to(x, b.shape(from))); }

}  // namespace

Value zero_point_of(OpContext& op, size_t i, size_t of) {
  if (!op.has_input(i)) return {};
  op.check(op.dtype(i) == op.dtype(of), "the zero point (input ", i, ") must have the dtype of input ", of, ", ",
           name(op.dtype(of)), ", is ", name(op.dtype(i)));
  if (const Tensor* constant = op.constant(i); constant && all_zero(*constant)) return {};
  return op.build().convert(op.input(i), DType::i32);
}

Value integer_matmul(Builder& b, Value a, Value a_zero, Value c, Value c_zero) {
  if (b.rank(a) == 0 || b.rank(c) == 0)
    throw Error(ErrorCode::invalid_model, "a product takes matrices or vectors, not scalars");
  const bool a_vector = b.rank(a) == 1, c_vector = b.rank(c) == 1;
  if (a_vector) a = b.expand_dims(a, {0});
  if (c_vector) c = b.expand_dims(c, {1});
  const Dim inner = b.shape(a).back();
  Value y = matmul(b, a, c, DType::i32);
  if (a_zero) {
    a_zero = against(b, a_zero, true);
    const Value sums = b.reduce_keep(b.convert(c, DType::i32), ir::ReduceKind::add, {b.rank(c) - 2});
    y = subtract_from(b, y, multiply(b, a_zero, sums));
  }
  if (c_zero) {
    c_zero = against(b, c_zero, false);
    Value sums = b.reduce_keep(b.convert(a, DType::i32), ir::ReduceKind::add, {b.rank(a) - 1});
    if (a_zero) sums = subtract_from(b, sums, multiply(b, a_zero, b.dim_value(inner, DType::i32)));
    y = subtract_from(b, y, multiply(b, sums, c_zero));
  }
  std::vector<int64_t> drop;
  if (a_vector) drop.push_back(b.rank(y) - 2);
  if (c_vector) drop.push_back(b.rank(y) - 1);
  return drop.empty() ? y : b.squeeze(y, drop);
}

Value integer_convolve(OpContext& op, Value x, Value x_zero, Value kernel, Value kernel_zero) {
  Builder& b = op.build();
  const Dims kernel_shape = b.shape(kernel);
  op.check(kernel_shape.size() >= 2, "the kernel must have rank 2 or more, has ", kernel_shape.size());
  if (kernel_zero) {
    kernel_zero = b.convert(one_or_vector(b, kernel_zero), DType::i16);
    const std::vector<int64_t> axes = b.rank(kernel_zero) == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{0};
    kernel = b.subtract(b.convert(kernel, DType::i16), b.broadcast_in_dim(kernel_zero, kernel_shape, axes));
  }
  if (!x_zero) return convolve(op, x, kernel, DType::i32);
  // The padding stands for zeros, which are x_zero here.
  const Value own_zero = b.convert(b.reshape(x_zero, {}), b.dtype(x));
  Value y = convolve(op, x, kernel, DType::i32, own_zero);
  std::vector<int64_t> axes;
  for (int64_t i = 1; i < static_cast<int64_t>(kernel_shape.size()); ++i) axes.push_back(i);
  const Value sums = b.reduce(b.convert(kernel, DType::i32), ir::ReduceKind::add, axes);
  const Value shift = b.multiply(sums, b.broadcast_to(b.reshape(x_zero, {}), b.shape(sums)));
  return b.subtract(y, b.broadcast_in_dim(shift, b.shape(y), {1}));
}

Value requantize(Builder& b, Value x, Value factor, Value zero_point) {
  const DType dtype = b.dtype(zero_point);
  const Dims shape = b.shape(x);
  const Value scaled = b.multiply(b.convert(x, DType::f32), b.broadcast_to(factor, shape));
  const Value zero = b.broadcast_to(b.convert(zero_point, DType::f32), shape);
  if (!is_integer(dtype)) return b.convert(b.add(scaled, zero), dtype);
  if (bit_width(dtype) > 16)
    throw Error(ErrorCode::invalid_model,
                str("results cannot be quantized to ", name(dtype), ", its zero point's dtype"));
  const bool is_signed = is_signed_integer(dtype);
  const double count = static_cast<double>(int64_t{1} << bit_width(dtype)), low = is_signed ? -count / 2 : 0;
  const Value y = b.clamp(b.scalar(DType::f32, low), b.add(b.round_nearest_even(scaled), zero),
                          b.scalar(DType::f32, low + count - 1));
  return b.convert(y, dtype);
}

namespace {

void require_matrices(OpContext& op, size_t i, size_t j) {
  op.check(op.rank(i) >= 1 && op.rank(j) >= 1, "takes matrices or vectors, not ranks ", op.rank(i), " and ",
           op.rank(j));
}

void matmul_integer(OpContext& op) {
  require_matrices(op, 0, 1);
  Builder& b = op.build();
  op.output(0, integer_matmul(b, op.input(0), zero_point_of(op, 2, 0), op.input(1), zero_point_of(op, 3, 1)));
}

void conv_integer(OpContext& op) {
  op.output(0, integer_convolve(op, op.input(0), zero_point_of(op, 2, 0), op.input(1), zero_point_of(op, 3, 1)));
}

Value scale_of(OpContext& op, size_t i) {
  return one_or_vector(op.build(), op.build().convert(op.input(i), DType::f32));
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero. Scales as the zero points of integer_matmul.
void qlinear_matmul(OpContext& op) {
  require_matrices(op, 0, 3);
  Builder& b = op.build();
  const DType a = op.dtype(0), c = op.dtype(3);
  const auto without_zero = [&](size_t i, bool rows) {
    const Value x = b.convert(op.input(i), DType::f32);
    return subtract_from(b, x, b.convert(against(b, op.input(i + 2), rows), DType::f32));
  };
  const Value product =
      is_integer(a) && is_integer(c)
          ? integer_matmul(b, op.input(0), zero_point_of(op, 2, 0), op.input(3), zero_point_of(op, 5, 3))
          : matmul(b, without_zero(0, true), without_zero(3, false), DType::f32);
  Value factor = multiply(b, against(b, scale_of(op, 1), true), against(b, scale_of(op, 4), false));
  const Value y_scale = against(b, scale_of(op, 6), true);
  const auto [wide_factor, wide_scale] = b.numpy_broadcast(factor, y_scale);
  op.output(0, requantize(b, product, b.divide(wide_factor, wide_scale), against(b, op.input(7), true)));
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (int32, of scale x_scale * w_scale).
void qlinear_conv(OpContext& op, bool last) {
  Builder& b = op.build();
  op.check(op.rank(3) >= 2, "the kernel must have rank 2 or more, has ", op.rank(3));
  for (const size_t i : {4, 5}) {
    const Dim count = product(op.shape(i));
    if (!provably_eq(count, 1))
      require_eq(count, op.shape(3)[0], str("QLinearConv: scales or zero points (input ", i, ") and output channels"));
  }
  if (op.has_input(8))
    op.check(op.dtype(8) == DType::i32, "the bias must be int32 (of the product's scale), is ", name(op.dtype(8)));
  const Value x = last ? channels_second(b, op.input(0)) : op.input(0);
  Value y = integer_convolve(op, x, zero_point_of(op, 2, 0), op.input(3), zero_point_of(op, 5, 3));
  if (op.has_input(8)) y = add_channels(b, y, op.input(8));
  const Value product = multiply(b, scale_of(op, 1), scale_of(op, 4));
  const Value factor = b.divide(product, b.broadcast_to(scale_of(op, 6), b.shape(product)));
  const std::vector<int64_t> axes = b.rank(factor) == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{1};
  y = requantize(b, y, b.broadcast_in_dim(factor, b.shape(y), axes), b.reshape(op.input(7), {}));
  op.output(0, last ? channels_last(b, y) : y);
}

void qlinear_conv_first(OpContext& op) { qlinear_conv(op, false); }

// com.microsoft's takes images with the channels last too; the weight stays as it is.
void qlinear_conv_either(OpContext& op) { qlinear_conv(op, op.attribute_int("channels_last", 0) != 0); }

}  // namespace

void register_integer_product(Registry& r) {
  r.add("MatMulInteger", {10}, matmul_integer);
  r.add("ConvInteger", {10}, conv_integer);
  r.add("QLinearMatMul", {10, 21}, qlinear_matmul);
  r.add("QLinearConv", {10}, qlinear_conv_first);
  r.add("QLinearConv", {1}, qlinear_conv_either, kMicrosoft);
}

}  // namespace transmuter::ops
