// BatchNormalization. Training: attribute training_mode from opset 14; before, running statistics among the outputs.
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

struct Statistics {
  Value mean, variance;
};

bool is_training(OpContext& op) {
  if (op.version() >= 14) return op.attribute_int("training_mode", 0) != 0;
  const bool test = op.version() < 7 && op.attribute_int("is_test", 0) != 0;
  return !test && op.wants_output(1);
}

// Over everything but the channels; the variance is the population's.
Statistics batch_statistics(Builder& b, Value x, const std::vector<int64_t>& axes, const std::vector<int64_t>& kept) {
  Dim count = 1;
  for (int64_t axis : axes) count = count * b.shape(x)[static_cast<size_t>(axis)];
  const auto mean_of = [&](Value v) {
    const Value sum = b.reduce(v, ir::ReduceKind::add, axes);
    return b.divide(sum, b.broadcast_to(b.dim_value(count, b.dtype(v)), b.shape(sum)));
  };
  const Value mean = mean_of(x);
  const Value centred = b.subtract(x, b.broadcast_in_dim(mean, b.shape(x), kept));
  return {mean, mean_of(b.multiply(centred, centred))};
}

// Parameters have one element a channel; with spatial = 0 (opsets before 9) one for each element of a sample.
void batch_norm(OpContext& op) {
  const float epsilon = op.attribute_float("epsilon", 1e-5F), momentum = op.attribute_float("momentum", 0.9F);
  const bool spatial = op.version() >= 9 || op.attribute_int("spatial", 1) != 0;
  op.ignore_attributes({"consumed_inputs"});  // a hint to runtimes of opset 1
  const bool training = is_training(op);
  require_float(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Value x = b.convert(op.input(0), inner);
  const Dims shape = b.shape(x);
  std::vector<int64_t> kept, reduced;  // axes that the parameters have; a 1-D input is one channel
  const int64_t rank = b.rank(x);
  op.check(rank >= 1, "the input must have an axis");
  for (int64_t i = 0; i < rank; ++i) (rank > 1 && (spatial ? i == 1 : i >= 1) ? kept : reduced).push_back(i);
  Dims own;
  for (int64_t axis : kept) own.push_back(shape[static_cast<size_t>(axis)]);
  const auto parameter = [&](size_t i) { return b.reshape(b.convert(op.input(i), inner), own); };
  Statistics used{parameter(3), parameter(4)};
  if (training) {
    const Statistics running = used;
    used = batch_statistics(b, x, reduced, kept);
    const auto blend = [&](Value old, Value now, size_t like) {
      const Value sum = b.add(b.multiply(old, b.like(old, momentum)), b.multiply(now, b.like(now, 1.0 - momentum)));
      return b.convert(b.reshape(sum, op.shape(like)), op.dtype(like));
    };
    if (op.wants_output(1)) op.output(1, blend(running.mean, used.mean, 3));
    if (op.wants_output(2)) op.output(2, blend(running.variance, used.variance, 4));
    if (op.wants_output(3)) op.output(3, b.convert(used.mean, op.dtype(3)));
    if (op.wants_output(4)) op.output(4, b.convert(used.variance, op.dtype(4)));
  }
  const Value inverse = b.rsqrt(b.add(used.variance, b.like(used.variance, epsilon)));
  const Value factor = b.multiply(parameter(1), inverse);
  const Value offset = b.subtract(parameter(2), b.multiply(used.mean, factor));
  const Value scaled = b.multiply(x, b.broadcast_in_dim(factor, shape, kept));
  op.output(0, b.convert(b.add(scaled, b.broadcast_in_dim(offset, shape, kept)), dtype));
}

}  // namespace

void register_batch_norm(Registry& r) { r.add("BatchNormalization", {1, 6, 7, 9, 14, 15}, batch_norm); }

}  // namespace transmuter::ops
