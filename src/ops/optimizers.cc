// Momentum, Adagrad, Adam of ai.onnx.preview.training: one step for any number of tensors. Inputs: the rate R, the
// update count T, then all tensors, all gradients, all of each state; outputs: the tensors, then the states.
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

constexpr const char* kTraining = "ai.onnx.preview.training";

struct Step {
  OpContext& op;
  Builder& b;
  size_t count;  // of tensors
  Value rate, updates;

  Value tensor(size_t part, size_t i) { return op.input(2 + part * count + i); }
  Value scaled(Value x, double factor) { return b.multiply(x, b.like(x, factor)); }
  // A 0-d value against x.
  Value spread(Value scalar, Value x) { return b.broadcast_in_dim(b.convert(scalar, b.dtype(x)), b.shape(x), {}); }
  // The gradient with that of 0.5 * coefficient * |x|^2.
  Value gradient(size_t i, double coefficient) {
    const Value g = tensor(1, i);
    return coefficient == 0 ? g : b.add(g, scaled(tensor(0, i), coefficient));
  }
  void output(size_t part, size_t i, Value value) { op.output(part * count + i, value); }
  Value later() { return b.compare(updates, b.like(updates, 0), CompareDirection::gt); }  // not the first update
};

Step read_step(OpContext& op, size_t parts) {
  op.check(op.input_count() > 2 && (op.input_count() - 2) % parts == 0, "inputs after R and T must come in ", parts,
           " equal parts, are ", op.input_count() - 2);
  const size_t count = (op.input_count() - 2) / parts;
  for (size_t i = 2; i < op.input_count(); ++i) require_float(op, i);
  Builder& b = op.build();
  return {op, b, count, b.reshape(op.input(0), {}), b.reshape(op.input(1), {})};
}

void momentum(OpContext& op) {
  const std::string mode = op.attribute_string("mode");
  op.check(mode == "standard" || mode == "nesterov", "mode ", mode, " is not one of the operator's");
  const float alpha = op.attribute_float("alpha"), beta = op.attribute_float("beta");
  const float norm = op.attribute_float("norm_coefficient");
  Step step = read_step(op, 3);
  Builder& b = step.b;
  for (size_t i = 0; i < step.count; ++i) {
    const Value x = step.tensor(0, i), g = step.gradient(i, norm), decayed = step.scaled(step.tensor(2, i), alpha);
    const Value factor = b.select(step.later(), b.scalar(b.dtype(x), beta), b.scalar(b.dtype(x), 1));
    const Value v = b.add(decayed, b.multiply(g, step.spread(factor, x)));
    const Value move = mode == "standard" ? v : b.add(g, step.scaled(v, alpha));
    step.output(0, i, b.subtract(x, b.multiply(step.spread(step.rate, x), move)));
    step.output(1, i, v);
  }
}

void adagrad(OpContext& op) {
  const float decay = op.attribute_float("decay_factor", 0.0F), epsilon = op.attribute_float("epsilon", 1e-6F);
  const float norm = op.attribute_float("norm_coefficient", 0.0F);
  Step step = read_step(op, 3);
  Builder& b = step.b;
  const DType dtype = b.dtype(step.rate);
  const Value rounds = b.convert(step.updates, dtype);
  const Value rate = b.divide(step.rate, b.add(b.multiply(rounds, b.scalar(dtype, decay)), b.scalar(dtype, 1)));
  for (size_t i = 0; i < step.count; ++i) {
    const Value x = step.tensor(0, i), g = step.gradient(i, norm);
    const Value h = b.add(step.tensor(2, i), b.multiply(g, g));
    const Value root = b.add(b.sqrt(h), b.like(h, epsilon));
    step.output(0, i, b.subtract(x, b.divide(b.multiply(step.spread(rate, x), g), root)));
    step.output(1, i, h);
  }
}

void adam(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 0.9F), beta = op.attribute_float("beta", 0.999F);
  const float epsilon = op.attribute_float("epsilon", 1e-6F), norm = op.attribute_float("norm_coefficient", 0.0F);
  const float norm_after = op.attribute_float("norm_coefficient_post", 0.0F);
  Step step = read_step(op, 4);
  Builder& b = step.b;
  const DType dtype = b.dtype(step.rate);
  const Value rounds = b.convert(step.updates, dtype), one = b.scalar(dtype, 1);
  const auto remaining = [&](float factor) { return b.subtract(one, b.power(b.scalar(dtype, factor), rounds)); };
  const Value corrected = b.divide(b.multiply(step.rate, b.sqrt(remaining(beta))), remaining(alpha));
  const Value rate = b.select(step.later(), corrected, step.rate);
  for (size_t i = 0; i < step.count; ++i) {
    const Value x = step.tensor(0, i), g = step.gradient(i, norm);
    const Value v = b.add(step.scaled(step.tensor(2, i), alpha), step.scaled(g, 1.0 - alpha));
    const Value h = b.add(step.scaled(step.tensor(3, i), beta), step.scaled(b.multiply(g, g), 1.0 - beta));
    const Value root = b.add(b.sqrt(h), b.like(h, epsilon));
    const Value moved = b.subtract(x, b.divide(b.multiply(step.spread(rate, x), v), root));
    step.output(0, i, norm_after == 0 ? moved : step.scaled(moved, 1.0 - norm_after));
    step.output(1, i, v);
    step.output(2, i, h);
  }
}

}  // namespace

void register_optimizers(Registry& r) {
  r.add("Momentum", {1}, momentum, kTraining);
  r.add("Adagrad", {1}, adagrad, kTraining);
  r.add("Adam", {1}, adam, kTraining);
}

}  // namespace transmuter::ops
