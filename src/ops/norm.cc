// LayerNormalization, RMSNormalization and their older names, InstanceNormalization, GroupNormalization,
// MeanVarianceNormalization, LpNormalization, LRN.
#include "ops/norm.h"

#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

// The composites take a scale of exactly the normalised shape in x's dtype.
bool fits(Builder& b, Value parameter, Value x, int64_t axis) {
  return !parameter || (b.dtype(parameter) == b.dtype(x) && b.rank(parameter) <= b.rank(x) - axis);
}

Value to_normalised_shape(Builder& b, Value parameter, Value x, int64_t axis) {
  if (!parameter) return {};
  const Dims& shape = b.shape(x);
  return b.broadcast_to(parameter, Dims(shape.begin() + axis, shape.end()));
}

}  // namespace

std::vector<Value> normalise(Builder& b, const Normalisation& n, Value x, Value scale, Value bias) {
  if (n.axis < 0 || n.axis >= b.rank(x))
    throw Error(ErrorCode::invalid_model,
                str("an input of rank ", b.rank(x), " has no axis ", n.axis, " to normalise"));
  const auto core = [&](Value v, Value own_scale, Value own_bias) {
    return n.centred ? ir::layer_norm(b, v, own_scale, own_bias, n.axis, n.epsilon, n.statistics)
                     : ir::rms_norm(b, v, own_scale, n.axis, n.epsilon, n.statistics);
  };
  std::vector<Value> results;
  const bool inside = fits(b, scale, x, n.axis) && fits(b, bias, x, n.axis);
  if (inside && (n.centred || !bias)) {
    results = core(x, to_normalised_shape(b, scale, x, n.axis), to_normalised_shape(b, bias, x, n.axis));
  } else {
    const DType inner = b.dtype(x) == DType::f64 ? DType::f64 : DType::f32;
    results = core(b.convert(x, inner), {}, {});
    const Dims shape = b.shape(x);
    Value y = results[0];
    if (scale) y = b.multiply(y, b.broadcast_to(b.convert(scale, inner), shape));
    if (bias) y = b.add(y, b.broadcast_to(b.convert(bias, inner), shape));
    results[0] = b.convert(y, scale ? b.dtype(scale) : b.dtype(x));
  }
  return results;
}

namespace {

// Both as of opset 17 and, in the default domain of models before it, as ONNX Runtime had them: there the scale may
// have another float dtype, which is then the result's.
template <bool centred>
void layer_norm(OpContext& op) {
  Normalisation n;
  n.centred = centred;
  n.axis = op.axis(op.attribute_int("axis", -1), op.rank(0));
  n.epsilon = op.attribute_float("epsilon", 1e-5F);
  op.ignore_attributes({"stash_type"});  // statistics are taken in f32, or f64 for f64
  for (size_t i = 0; i < 3; ++i)
    if (op.has_input(i)) require_float(op, i);
  const size_t first_statistic = 1, last_statistic = centred ? 2 : 1;
  n.statistics = op.wants_output(first_statistic) || op.wants_output(last_statistic);
  const Value bias = op.has_input(2) ? op.input(2) : Value();
  const Value scale = op.has_input(1) ? op.input(1) : Value();
  Builder& b = op.build();
  const std::vector<Value> results = normalise(b, n, op.input(0), scale, bias);
  op.output(0, results[0]);
  for (size_t i = first_statistic; i <= last_statistic; ++i)
    if (op.wants_output(i)) op.output(i, b.convert(results[i], DType::f32));
}

void instance_norm(OpContext& op) {
  op.ignore_attributes({"consumed_inputs"});  // a hint to runtimes of opset 1
  const float epsilon = op.attribute_float("epsilon", 1e-5F);
  require_float(op, 0);
  op.check(op.rank(0) >= 2, "the input must have rank 2 or more, has ", op.rank(0));
  Builder& b = op.build();
  const Value x = op.input(0);
  op.output(0, ir::group_norm(b, x, op.input(1), op.input(2), op.shape(0)[1], epsilon));
}

// Opset 18 has one scale and bias a group, 21 one a channel.
void group_norm(OpContext& op) {
  const float epsilon = op.attribute_float("epsilon", 1e-5F);
  const int64_t groups = op.attribute_int("num_groups");
  op.ignore_attributes({"stash_type"});  // statistics are taken in f32, or f64 for f64
  require_float(op, 0);
  op.check(op.rank(0) >= 2, "the input must have rank 2 or more, has ", op.rank(0));
  op.check(groups >= 1, "num_groups must be positive, is ", groups);
  Builder& b = op.build();
  const Value x = op.input(0);
  const Dim channels = op.shape(0)[1];
  const auto parameter = [&](size_t i) {
    const Value v = b.convert(op.input(i), op.dtype(0));
    if (op.version() >= 21) return v;
    const Dims shape{groups, floor_div(channels, groups)};
    return b.reshape(b.broadcast_in_dim(v, shape, {0}), {channels});
  };
  op.output(0, ir::group_norm(b, x, parameter(1), parameter(2), groups, epsilon));
}

Value mean_keep(Builder& b, Value x, const std::vector<int64_t>& axes) {
  Dim count = 1;
  for (int64_t axis : axes) count = count * b.shape(x)[static_cast<size_t>(axis)];
  const Value sum = b.reduce_keep(x, ir::ReduceKind::add, axes);
  return b.divide(sum, b.broadcast_to(b.dim_value(count, b.dtype(x)), b.shape(sum)));
}

void mean_variance(OpContext& op) {
  std::vector<int64_t> axes = op.attribute_ints_optional("axes").value_or(std::vector<int64_t>{0, 2, 3});
  require_float(op, 0);
  axes = normalised_axes(op, std::move(axes), op.rank(0));
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) {
              const Dims& shape = b.shape(x);
              const Value centred = b.subtract(x, b.broadcast_to(mean_keep(b, x, axes), shape));
              const Value deviation = b.sqrt(mean_keep(b, b.multiply(centred, centred), axes));
              return b.divide(centred, b.broadcast_to(b.add(deviation, b.like(deviation, 1e-9)), shape));
            }));
}

// x / norm along an axis; a zero norm gives zeros.
void lp_norm(OpContext& op) {
  const int64_t p = op.attribute_int("p", 2);
  op.check(p == 1 || p == 2, "p must be 1 or 2, is ", p);
  require_float(op, 0);
  const int64_t axis = op.axis(op.attribute_int("axis", -1), op.rank(0));
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) {
              Value norm = b.reduce_keep(p == 1 ? b.abs(x) : b.multiply(x, x), ir::ReduceKind::add, {axis});
              if (p == 2) norm = b.sqrt(norm);
              const Value nonzero = b.compare(norm, b.like(norm, 0), ir::CompareDirection::ne);
              return b.divide(x, b.broadcast_to(b.select(nonzero, norm, b.like(norm, 1)), b.shape(x)));
            }));
}

// x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta; an even size has the odd one after.
void lrn(OpContext& op) {
  const int64_t size = op.attribute_int("size");
  const float alpha = op.attribute_float("alpha", 1e-4F), beta = op.attribute_float("beta", 0.75F);
  const float bias = op.attribute_float("bias", 1.0F);
  require_float(op, 0);
  op.check(op.rank(0) >= 2, "the input must have rank 2 or more, has ", op.rank(0));
  op.check(size >= 1, "size must be positive, is ", size);
  Builder& b = op.build();
  op.output(0, in_single(b, op.input(0), [&](Value x) {
              const size_t rank = static_cast<size_t>(b.rank(x));
              ir::ReduceWindowAttributes window;
              window.window.assign(rank, 1);
              window.strides.assign(rank, 1);
              window.base_dilation.assign(rank, 1);
              window.window_dilation.assign(rank, 1);
              window.pad_low.assign(rank, 0);
              window.pad_high.assign(rank, 0);
              // A window that reaches beyond all channels holds no more of them.
              const Dim channels = b.shape(x)[1];
              window.pad_low[1] = min(Dim((size - 1) / 2), channels);
              window.pad_high[1] = min(Dim(size - 1 - (size - 1) / 2), channels);
              window.window[1] = window.pad_low[1] + window.pad_high[1] + 1;
              const Value squares = b.reduce_window(b.multiply(x, x), std::move(window));
              const Value base =
                  b.add(b.multiply(squares, b.like(x, static_cast<double>(alpha) / size)), b.like(x, bias));
              return b.divide(x, b.power(base, b.like(x, beta)));
            }));
}

}  // namespace

void register_norm(Registry& r) {
  r.add("LayerNormalization", {1, 17}, layer_norm<true>);
  r.add("SimplifiedLayerNormalization", {1}, layer_norm<false>);
  r.add("RMSNormalization", {23}, layer_norm<false>);
  r.add("InstanceNormalization", {1, 6, 22}, instance_norm);
  r.add("GroupNormalization", {18, 21}, group_norm);
  r.add("MeanVarianceNormalization", {9, 13}, mean_variance);
  r.add("LpNormalization", {1, 22}, lp_norm);
  r.add("LRN", {1, 13}, lrn);
}

}  // namespace transmuter::ops
