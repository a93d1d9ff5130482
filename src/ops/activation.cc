// Activations: Relu and its kin, Softplus, Softsign, Gelu, Swish, PRelu, Clip, Shrink.
#include "ops/activation.h"

#include <limits>

#include "ir/composites/composites.h"
#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

Value scaled(Builder& b, Value x, double factor) { return b.multiply(x, b.like(x, factor)); }
Value is_below_zero(Builder& b, Value x) { return b.compare(x, b.like(x, 0), CompareDirection::lt); }

}  // namespace

Value elu_like(Builder& b, Value x, double alpha, double width, double scale) {
  return in_single(b, x, [&](Value v) {
    const Value grown = b.exponential_minus_one(width == 1 ? v : b.divide(v, b.like(v, width)));
    const Value y = b.select(is_below_zero(b, v), alpha == 1 ? grown : scaled(b, grown, alpha), v);
    return scale == 1 ? y : scaled(b, y, scale);
  });
}

Value softplus_of(Builder& b, Value x) {
  const Value tail = b.log_plus_one(b.exponential(b.negate(b.abs(x))));
  return b.add(b.maximum(x, b.like(x, 0)), tail);
}

Value hard_sigmoid_of(Builder& b, Value x, double alpha, double beta) {
  const DType dtype = b.dtype(x);
  return b.clamp(b.scalar(dtype, 0), b.add(scaled(b, x, alpha), b.like(x, beta)), b.scalar(dtype, 1));
}

namespace {

void relu(OpContext& op) {
  require_numeric(op, 0);
  if (is_unsigned_integer(op.dtype(0))) return op.output(0, op.traced(0));
  const Value x = op.input(0);
  op.output(0, op.build().maximum(x, op.build().like(x, 0)));
}

void leaky_relu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 0.01F);
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  op.output(0, b.select(is_below_zero(b, x), scaled(b, x, alpha), x));
}

void elu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  require_float(op, 0);
  op.output(0, elu_like(op.build(), op.input(0), alpha, 1, 1));
}

void selu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.67326319217681884765625F);
  const float gamma = op.attribute_float("gamma", 1.05070102214813232421875F);
  require_float(op, 0);
  op.output(0, elu_like(op.build(), op.input(0), alpha, 1, gamma));
}

void celu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  require_float(op, 0);
  op.output(0, elu_like(op.build(), op.input(0), alpha, alpha, 1));
}

void thresholded_relu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  op.output(0, b.select(b.compare(x, b.like(x, alpha), CompareDirection::gt), x, b.like(x, 0)));
}

void softplus(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return softplus_of(b, x); }));
}

void softsign(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return b.divide(x, b.add(b.abs(x), b.like(x, 1))); }));
}

void mish(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return b.multiply(x, b.tanh(softplus_of(b, x))); }));
}

void hard_sigmoid(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 0.2F);
  const float beta = op.attribute_float("beta", 0.5F);
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return hard_sigmoid_of(b, x, alpha, beta); }));
}

void hard_swish(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return b.multiply(x, hard_sigmoid_of(b, x, 1.0 / 6, 0.5)); }));
}

void swish(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  require_float(op, 0);
  op.output(0, ir::silu(op.build(), op.input(0), alpha));
}

void swiglu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& b = op.build();
  const Value gate = ir::silu(b, op.input(0), alpha), value = op.input(1);
  op.output(0, b.multiply(gate, b.broadcast_to(value, b.shape(gate))));
}

void gelu(OpContext& op) {
  const std::string approximate = op.attribute_string("approximate", "none");
  op.check(approximate == "none" || approximate == "tanh", "approximate must be none or tanh, is ", approximate);
  require_float(op, 0);
  op.output(0, ir::gelu(op.build(), op.input(0), approximate == "tanh" ? ir::GeluKind::tanh : ir::GeluKind::erf));
}

// The slope broadcasts one way, to the input's shape; before opset 7 it had one element a channel.
void prelu(OpContext& op) {
  op.ignore_attributes({"consumed_inputs"});  // a hint to runtimes of opset 1
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& b = op.build();
  const Value x = op.input(0);
  Value slope = op.input(1);
  if (op.version() < 7 && op.rank(1) == 1 && op.rank(0) > 2) {
    Dims shape(static_cast<size_t>(op.rank(0) - 1), Dim(1));
    shape[0] = op.shape(1)[0];
    slope = b.reshape(slope, shape);
  }
  slope = b.broadcast_to(slope, op.shape(0));
  if (is_unsigned_integer(op.dtype(0))) return op.output(0, op.traced(0));
  op.output(0, b.select(is_below_zero(b, x), b.multiply(x, slope), x));
}

void shrink(OpContext& op) {
  const float lambda = op.attribute_float("lambd", 0.5F);
  const float bias = op.attribute_float("bias", 0.0F);
  require_numeric(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  Value x = op.input(0);
  // lambd and bias are floats whatever the input is.
  if (is_integer(dtype)) x = b.convert(x, bit_width(dtype) <= 16 ? DType::f32 : DType::f64);
  const Value low = b.compare(x, b.like(x, -lambda), CompareDirection::lt);
  const Value high = b.compare(x, b.like(x, lambda), CompareDirection::gt);
  const Value shrunk = b.select(high, b.subtract(x, b.like(x, bias)), b.like(x, 0));
  op.output(0, b.convert(b.select(low, b.add(x, b.like(x, bias)), shrunk), dtype));
}

// A bound as a 0-d value. An absent bound of floats is the largest finite value, as the specification's default.
Value bound_of(OpContext& op, size_t i, bool upper) {
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  if (op.version() >= 11 && op.has_input(i)) {
    require_same_dtype(op, 0, i);
    return b.reshape(op.input(i), {});
  }
  const double greatest = dtype == DType::f16    ? 65504.0
                          : dtype == DType::bf16 ? 0x1.fep127
                          : dtype == DType::f64  ? std::numeric_limits<double>::max()
                                                 : static_cast<double>(std::numeric_limits<float>::max());
  return b.scalar(dtype, upper ? greatest : -greatest);
}

void clip(OpContext& op) {
  require_numeric(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  if (op.version() < 11) {
    op.ignore_attributes({"consumed_inputs"});
    constexpr float kGreatest = std::numeric_limits<float>::max();
    const float low = op.attribute_float("min", -kGreatest), high = op.attribute_float("max", kGreatest);
    require_float(op, 0);
    const bool narrow = dtype == DType::f16;  // whose greatest value is not the attributes' default
    const Value lower = narrow && low == -kGreatest ? bound_of(op, 1, false) : b.scalar(dtype, low);
    const Value upper = narrow && high == kGreatest ? bound_of(op, 2, true) : b.scalar(dtype, high);
    return op.output(0, b.clamp(lower, op.input(0), upper));
  }
  const bool has_low = op.has_input(1), has_high = op.has_input(2);
  Known known = is_float(dtype) && !(has_low && has_high) ? Known() : op.known(0);
  if (known && has_low) known = zip_known(known, reshape_known(op.known(1), {}), dtype, maximum_scalars);
  if (known && has_high) known = zip_known(known, reshape_known(op.known(2), {}), dtype, minimum_scalars);
  output_known_or(op, 0, std::move(known), [&]() -> Value {
    const Value x = op.input(0);
    if (is_float(dtype) || (has_low && has_high)) return b.clamp(bound_of(op, 1, false), x, bound_of(op, 2, true));
    if (has_low) return b.maximum(x, b.broadcast_to(bound_of(op, 1, false), op.shape(0)));
    return has_high ? b.minimum(x, b.broadcast_to(bound_of(op, 2, true), op.shape(0))) : x;
  });
}

}  // namespace

void register_activation(Registry& r) {
  r.add("Relu", {6, 13, 14}, relu);
  r.add("LeakyRelu", {6, 16}, leaky_relu);
  r.add("Elu", {6, 22}, elu);
  r.add("Selu", {6, 22}, selu);
  r.add("Celu", {12, 28}, celu);
  r.add("ThresholdedRelu", {10, 22}, thresholded_relu);
  r.add("Softplus", {1, 22}, softplus);
  r.add("Softsign", {1, 22}, softsign);
  r.add("HardSigmoid", {6, 22}, hard_sigmoid);
  r.add("HardSwish", {14, 22}, hard_swish);
  r.add("Mish", {18, 22}, mish);
  r.add("Gelu", {20}, gelu);
  r.add("Swish", {24}, swish);
  r.add("SwiGLU", {28}, swiglu);
  r.add("PRelu", {1, 6, 7, 9, 16}, prelu);
  r.add("Clip", {6, 11, 12, 13}, clip);
  r.add("Shrink", {9}, shrink);
}

}  // namespace transmuter::ops
