// com.microsoft activations: Gelu and its kin.
#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// The input, with the bias of input 1 added where there is one.
Value with_bias(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  return op.has_input(1) ? b.add(x, b.broadcast_to(op.input(1), b.shape(x))) : x;
}

template <ir::GeluKind kind>
void gelu(OpContext& op) {
  op.output(0, ir::gelu(op.build(), with_bias(op), kind));
}

void quick_gelu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.702F);
  require_float(op, 0);
  op.output(0, ir::silu(op.build(), op.input(0), alpha));
}

// z * sigmoid(z) for z = x times the scale (an input, else alpha); z and the sigmoid round to x's dtype.
void scaled_silu(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  require_float(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = is_half(dtype) ? DType::f32 : dtype;
  const Value x = b.convert(op.input(0), inner);
  const Value scale =
      op.has_input(1) ? b.broadcast_to(b.convert(b.reshape(op.input(1), {}), inner), b.shape(x)) : b.like(x, alpha);
  const auto rounded = [&](Value v) { return b.convert(b.convert(v, dtype), inner); };
  const Value z = rounded(b.multiply(x, scale));
  op.output(0, b.convert(b.multiply(z, rounded(b.logistic(z))), dtype));
}

// g * sigmoid(alpha g) * (u + beta), in f32 and rounded once: g and u are two inputs or the halves of one, and bounded
// where `limit` is positive.
void clamped_swiglu(OpContext& op) {
  const float alpha = op.attribute_float("activation_alpha", 1.0F), beta = op.attribute_float("activation_beta", 0.0F);
  const float limit = op.attribute_float("limit", 0.0F);
  const bool rounds = op.attribute_int("round_activation", 0) != 0;
  require_float(op, 0);
  op.check(op.rank(0) >= 1, "gate must not be 0-d");
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  Value gate = b.convert(op.input(0), DType::f32), up;
  if (op.has_input(1)) {
    up = b.convert(op.input(1), DType::f32);
  } else {
    const int64_t last = op.rank(0) - 1;
    const Dim half = floor_div(b.shape(gate).back(), 2);
    require_eq(half * 2, b.shape(gate).back(), "SwiGLU: two halves along the last axis");
    up = b.slice_axis(gate, last, half, half * 2);
    gate = b.slice_axis(gate, last, 0, half);
  }
  if (limit > 0) {
    gate = b.minimum(gate, b.like(gate, limit));
    up = b.clamp(b.scalar(DType::f32, -limit), up, b.scalar(DType::f32, limit));
  }
  Value active = ir::silu(b, gate, alpha);
  if (rounds) active = b.convert(b.convert(active, dtype), DType::f32);
  if (beta != 0) up = b.add(up, b.like(up, beta));
  op.output(0, b.convert(b.multiply(active, b.broadcast_to(up, b.shape(active))), dtype));
}

}  // namespace

void register_contrib_activation(Registry& r) {
  r.add("Gelu", {1}, gelu<ir::GeluKind::erf>, kMicrosoft);
  r.add("BiasGelu", {1}, gelu<ir::GeluKind::erf>, kMicrosoft);
  r.add("FastGelu", {1}, gelu<ir::GeluKind::tanh>, kMicrosoft);
  r.add("QuickGelu", {1}, quick_gelu, kMicrosoft);
  r.add("SwiGLU", {1}, clamped_swiglu, kMicrosoft);
  r.add("ScaledSiLU", {1}, scaled_silu, kMicrosoft);
}

}  // namespace transmuter::ops
