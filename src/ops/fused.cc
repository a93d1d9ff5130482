// com.microsoft FusedConv, NhwcFusedConv and FusedGemm: the product, then an activation by name.
#include "ops/activation.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// Parameters that the model leaves out have the operator's own defaults.
struct Activation {
  std::string name;  // empty: none
  std::vector<float> parameters;

  float parameter(size_t i, float otherwise) const { return i < parameters.size() ? parameters[i] : otherwise; }
};

Value activated(OpContext& op, Value x, const Activation& a) {
  Builder& b = op.build();
  const auto number = [&](double value) { return b.like(x, value); };
  const Value zero = number(0);
  if (a.name.empty()) return x;
  if (a.name == "Relu") return b.maximum(x, zero);
  if (a.name == "Sigmoid") return b.logistic(x);
  if (a.name == "Tanh") return b.tanh(x);
  if (a.name == "Softplus") return softplus_of(b, x);
  if (a.name == "Softsign") return b.divide(x, b.add(b.abs(x), number(1)));
  if (a.name == "Elu") return elu_like(b, x, a.parameter(0, 1), 1, 1);
  if (a.name == "Selu") return elu_like(b, x, a.parameter(0, 1.67326319F), 1, a.parameter(1, 1.05070102F));
  if (a.name == "HardSigmoid") return hard_sigmoid_of(b, x, a.parameter(0, 0.2F), a.parameter(1, 0.5F));
  if (a.name == "LeakyRelu") {
    const Value negative = b.compare(x, zero, CompareDirection::lt);
    return b.select(negative, b.multiply(x, number(a.parameter(0, 0.01F))), x);
  }
  if (a.name == "ThresholdedRelu") {
    const Value above = b.compare(x, number(a.parameter(0, 1)), CompareDirection::gt);
    return b.select(above, x, zero);
  }
  if (a.name == "Clip") {
    op.check(a.parameters.size() == 2, "Clip takes two activation_params, has ", a.parameters.size());
    return b.clamp(b.scalar(b.dtype(x), a.parameters[0]), x, b.scalar(b.dtype(x), a.parameters[1]));
  }
  op.unsupported("activation ", a.name);
}

// A fourth input is added before the activation.
template <bool channels_at_end>
void fused_conv(OpContext& op) {
  const Activation a{op.attribute_string("activation", ""), op.attribute_floats("activation_params", {})};
  Builder& b = op.build();
  Value y = conv(op, channels_at_end);
  if (op.has_input(3)) y = b.add(y, b.broadcast_to(op.input(3), b.shape(y)));
  op.output(0, activated(op, y, a));
}

void fused_gemm(OpContext& op) {
  Activation a{op.attribute_string("activation", ""), {}};
  // Alpha, beta and gamma in this order, those that are there.
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (op.has_attribute(name)) a.parameters.push_back(op.attribute_float(name));
  if (op.has_attribute("leaky_relu_alpha")) a.parameters.push_back(op.attribute_float("leaky_relu_alpha"));
  op.output(0, activated(op, gemm(op), a));
}

}  // namespace

void register_fused(Registry& r) {
  r.add("FusedConv", {1}, fused_conv<false>, kMicrosoft);
  r.add("NhwcFusedConv", {1}, fused_conv<true>, kMicrosoft);
  r.add("FusedGemm", {1}, fused_gemm, kMicrosoft);
}

}  // namespace transmuter::ops
