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

}  // namespace

void register_contrib_activation(Registry& r) {
  r.add("Gelu", {1}, gelu<ir::GeluKind::erf>, kMicrosoft);
  r.add("BiasGelu", {1}, gelu<ir::GeluKind::erf>, kMicrosoft);
  r.add("FastGelu", {1}, gelu<ir::GeluKind::tanh>, kMicrosoft);
  r.add("QuickGelu", {1}, quick_gelu, kMicrosoft);
  r.add("ScaledSiLU", {1}, scaled_silu, kMicrosoft);
}

}  // namespace transmuter::ops
