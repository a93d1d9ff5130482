// Operators that ONNX had as experiments and took back; old models and ONNX Runtime still have them.
#include "ops/activation.h"
#include "ops/conv.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

Value scaled(Builder& b, Value x, float factor) { return b.multiply(x, b.like(x, factor)); }

// alpha * x + beta
void affine(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F), beta = op.attribute_float("beta", 0.0F);
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return b.add(scaled(b, x, alpha), b.like(x, beta)); }));
}

void scale(OpContext& op) {
  const float factor = op.attribute_float("scale", 1.0F);
  require_float(op, 0);
  op.output(0, scaled(op.build(), op.input(0), factor));
}

// alpha * softplus(beta * x)
void parametric_softplus(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F), beta = op.attribute_float("beta", 1.0F);
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0,
            in_single(b, op.input(0), [&](Value x) { return scaled(b, softplus_of(b, scaled(b, x, beta)), alpha); }));
}

// alpha * tanh(beta * x)
void scaled_tanh(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F), beta = op.attribute_float("beta", 1.0F);
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) { return scaled(b, b.tanh(scaled(b, x, beta)), alpha); }));
}

// x * scale + bias[channel]
void image_scaler(OpContext& op) {
  const float factor = op.attribute_float("scale", 1.0F);
  const std::vector<float> bias = op.attribute_floats("bias", {});
  require_float(op, 0);
  Builder& b = op.build();
  op.check(op.rank(0) == 4, "the input must have rank 4, has ", op.rank(0));
  const Value y = scaled(b, op.input(0), factor);
  if (bias.empty()) return op.output(0, y);
  const Shape shape{static_cast<int64_t>(bias.size())};
  op.output(0, add_channels(b, y, b.constant(Tensor(bias, shape).cast(op.dtype(0)))));
}

// border: left, top, right, bottom; with `scale` (height, width) the extents are those, from the left top border.
void crop(OpContext& op) {
  const std::vector<int64_t> border = op.attribute_ints("border");
  const std::vector<int64_t> extents = op.attribute_ints_optional("scale").value_or(std::vector<int64_t>{});
  op.check(border.size() == 4, "border must have 4 entries, has ", border.size());
  op.check(extents.empty() || extents.size() == 2, "scale must have 2 entries, has ", extents.size());
  op.check(op.rank(0) == 4, "the input must have rank 4, has ", op.rank(0));
  Builder& b = op.build();
  const Dims shape = op.shape(0);
  const Dim bottom = extents.empty() ? shape[2] - border[3] : Dim(border[1]) + extents[0];
  const Dim right = extents.empty() ? shape[3] - border[2] : Dim(border[0]) + extents[1];
  op.output(0, b.slice_axis(b.slice_axis(op.input(0), 2, border[1], bottom), 3, border[0], right));
}

// A constant in attributes: `values` in `shape`.
void given_tensor_fill(OpContext& op) {
  const std::vector<float> values = op.attribute_floats("values", {});
  std::vector<int64_t> shape = op.attribute_ints_optional("shape").value_or(std::vector<int64_t>{});
  const std::vector<int64_t> extra = op.attribute_ints_optional("extra_shape").value_or(std::vector<int64_t>{});
  if (op.has_input(0)) {
    const bool is_shape = op.attribute_int("input_as_shape", 0) != 0;
    shape = is_shape ? op.require_ints(0) : hints(op.shape(0));
    if (!is_shape)
      for (const Dim& dim : op.shape(0)) specialize(dim, "GivenTensorFill: the shape of what is given");
  }
  shape.insert(shape.end(), extra.begin(), extra.end());
  op.output_constant(0, Tensor(values, shape));
}

}  // namespace

void register_legacy(Registry& r) {
  r.add("Affine", {1}, affine);
  r.add("Scale", {1}, scale);
  r.add("ParametricSoftplus", {1}, parametric_softplus);
  r.add("ScaledTanh", {1}, scaled_tanh);
  r.add("ImageScaler", {1}, image_scaler);
  r.add("Crop", {1}, crop);
  r.add("GivenTensorFill", {1}, given_tensor_fill);
}

}  // namespace transmuter::ops
