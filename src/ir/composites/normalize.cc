// softmax, layer_norm, rms_norm, group_norm.
#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer_softmax(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  check_float(ctx, ctx.operands[0], "C1");
  check_axes(ctx, {ctx.as<SoftmaxAttributes>().axis}, ctx.operands[0].rank(), "C2", "axis");
  return {ctx.operands[0]};
}

std::vector<Value> decompose_softmax(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& softmax = static_cast<const SoftmaxAttributes&>(*attributes);
  const Value x = widened(build, operands[0]);
  const Value greatest = build.reduce_keep(x, ReduceKind::max, {softmax.axis});
  const Value shifted = broadcast_apply(build, &Builder::subtract, x, greatest);
  const Value powers = build.exponential(shifted);
  const Value sum = build.reduce_keep(powers, ReduceKind::add, {softmax.axis});
  const Value y = softmax.log ? broadcast_apply(build, &Builder::subtract, shifted, build.log(sum))
                              : broadcast_apply(build, &Builder::divide, powers, sum);
  return {build.convert(y, build.dtype(operands[0]))};
}

// Scale and bias of shape x.shape[axis:].
void check_parameters(const InferContext& ctx, int64_t axis) {
  const auto& norm = ctx.as<NormAttributes>();
  const Type& x = ctx.operands[0];
  check_float(ctx, x, "C1");
  ctx.check(axis >= 0 && axis <= x.rank(), "C2", "axis ", axis, " must lie in [0, ", x.rank(), "]");
  check_operand_count(ctx, 1u + norm.has_scale + norm.has_bias);
  const Type wanted{x.dtype, Dims(x.shape.begin() + axis, x.shape.end())};
  for (const Type& type : ctx.operands.subspan(1)) {
    check_same_dtype(ctx, type, wanted, "C3");
    check_same_shape(ctx, type, wanted, "C4");
  }
}

Type statistics_type(const InferContext& ctx, int64_t axis) {
  Type type{wide(ctx.operands[0].dtype), ctx.operands[0].shape};
  for (size_t i = static_cast<size_t>(axis); i < type.shape.size(); ++i) type.shape[i] = 1;
  return type;
}

std::vector<Type> infer_layer_norm(const InferContext& ctx) {
  const auto& norm = ctx.as<NormAttributes>();
  check_parameters(ctx, norm.axis);
  std::vector<Type> types{ctx.operands[0]};
  if (norm.statistics) types.resize(3, statistics_type(ctx, norm.axis));
  return types;
}

std::vector<Type> infer_rms_norm(const InferContext& ctx) {
  const auto& norm = ctx.as<NormAttributes>();
  ctx.check(!norm.has_bias, "C5", "takes no bias");
  check_parameters(ctx, norm.axis);
  std::vector<Type> types{ctx.operands[0]};
  if (norm.statistics) types.push_back(statistics_type(ctx, norm.axis));
  return types;
}

Value mean_keep(Builder& build, Value x, const std::vector<int64_t>& axes) {
  const Value sum = build.reduce_keep(x, ReduceKind::add, axes);
  const Value count = build.dim_value(product(pick(build.shape(x), axes)), build.dtype(x));
  return broadcast_apply(build, &Builder::divide, sum, count);
}

// 1 / sqrt(mean of x^2 over the axes + epsilon)
Value inverse_deviation(Builder& build, Value x, const std::vector<int64_t>& axes, double epsilon) {
  const Value variance = mean_keep(build, build.multiply(x, x), axes);
  return build.rsqrt(build.add(variance, build.like(variance, epsilon)));
}

Value scaled(Builder& build, Value x, Value scale, Value bias, const std::vector<int64_t>& axes) {
  const auto spread = [&](Value parameter) {
    return build.broadcast_in_dim(build.convert(parameter, build.dtype(x)), build.shape(x), axes);
  };
  if (scale) x = build.multiply(x, spread(scale));
  if (bias) x = build.add(x, spread(bias));
  return x;
}

std::vector<Value> decompose_norm(Builder& build, std::span<const Value> operands, const NormAttributes& norm,
                                  bool centred) {
  OperandReader<Value> reader(operands);
  const Value x = widened(build, reader.next());
  const Value scale = reader.next_if(norm.has_scale), bias = reader.next_if(norm.has_bias);
  const auto axes = axes_from(norm.axis, build.rank(x));
  const Value mean = centred ? mean_keep(build, x, axes) : Value{};
  const Value offset = centred ? broadcast_apply(build, &Builder::subtract, x, mean) : x;
  const Value inverse = inverse_deviation(build, offset, axes, norm.epsilon);
  const Value y = scaled(build, broadcast_apply(build, &Builder::multiply, offset, inverse), scale, bias, axes);
  std::vector<Value> results{build.convert(y, build.dtype(operands[0]))};
  if (norm.statistics && centred) results.push_back(mean);
  if (norm.statistics) results.push_back(inverse);
  return results;
}

std::vector<Value> decompose_layer_norm(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  return decompose_norm(build, operands, static_cast<const NormAttributes&>(*attributes), true);
}
std::vector<Value> decompose_rms_norm(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  return decompose_norm(build, operands, static_cast<const NormAttributes&>(*attributes), false);
}

std::vector<Type> infer_group_norm(const InferContext& ctx) {
  const auto& norm = ctx.as<GroupNormAttributes>();
  check_operand_count(ctx, 1u + norm.has_scale + norm.has_bias);
  const Type& x = ctx.operands[0];
  check_float(ctx, x, "C1");
  ctx.check(x.rank() >= 2, "C2", "takes rank 2 or more");
  require(less(0, norm.groups), "group_norm: C3 groups must be > 0");
  require(equal(mod(x.shape[1], norm.groups), 0), "group_norm: C3 channels divide by the groups");
  for (const Type& type : ctx.operands.subspan(1)) {
    check_same_dtype(ctx, type, x, "C4");
    check_same_shape(ctx, type, {x.dtype, {x.shape[1]}}, "C5");
  }
  return {x};
}

std::vector<Value> decompose_group_norm(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& norm = static_cast<const GroupNormAttributes&>(*attributes);
  OperandReader<Value> reader(operands);
  const Value x = widened(build, reader.next());
  const Value scale = reader.next_if(norm.has_scale), bias = reader.next_if(norm.has_bias);
  const Dims shape = build.shape(x);
  const Dim inner = floor_div(product(Dims(shape.begin() + 1, shape.end())), norm.groups);
  const Value grouped = build.reshape(x, {shape[0], norm.groups, inner});
  const Value offset = broadcast_apply(build, &Builder::subtract, grouped, mean_keep(build, grouped, {2}));
  const Value inverse = inverse_deviation(build, offset, {2}, norm.epsilon);
  const Value y = build.reshape(broadcast_apply(build, &Builder::multiply, offset, inverse), shape);
  return {build.convert(scaled(build, y, scale, bias, {1}), build.dtype(operands[0]))};
}

}  // namespace

const Primitive composite::softmax{.name = "softmax", .infer = infer_softmax, .decompose = decompose_softmax};
const Primitive composite::layer_norm{
    .name = "layer_norm", .infer = infer_layer_norm, .decompose = decompose_layer_norm};
const Primitive composite::rms_norm{.name = "rms_norm", .infer = infer_rms_norm, .decompose = decompose_rms_norm};
const Primitive composite::group_norm{
    .name = "group_norm", .infer = infer_group_norm, .decompose = decompose_group_norm};

Value softmax(Builder& build, Value x, int64_t axis) {
  return build.emit1(composite::softmax, {x}, std::make_shared<SoftmaxAttributes>(axis, false));
}

Value log_softmax(Builder& build, Value x, int64_t axis) {
  return build.emit1(composite::softmax, {x}, std::make_shared<SoftmaxAttributes>(axis, true));
}

std::vector<Value> layer_norm(Builder& build, Value x, Value scale, Value bias, int64_t axis, double epsilon,
                              bool statistics) {
  auto norm = std::make_shared<NormAttributes>();
  norm->axis = axis;
  norm->epsilon = epsilon;
  norm->has_scale = static_cast<bool>(scale);
  norm->has_bias = static_cast<bool>(bias);
  norm->statistics = statistics;
  return build.emit(composite::layer_norm, present({x, scale, bias}), std::move(norm));
}

std::vector<Value> rms_norm(Builder& build, Value x, Value scale, int64_t axis, double epsilon, bool statistics) {
  auto norm = std::make_shared<NormAttributes>();
  norm->axis = axis;
  norm->epsilon = epsilon;
  norm->has_scale = static_cast<bool>(scale);
  norm->statistics = statistics;
  return build.emit(composite::rms_norm, present({x, scale}), std::move(norm));
}

Value group_norm(Builder& build, Value x, Value scale, Value bias, Dim groups, double epsilon) {
  auto norm = std::make_shared<GroupNormAttributes>();
  norm->groups = groups;
  norm->epsilon = epsilon;
  norm->has_scale = static_cast<bool>(scale);
  norm->has_bias = static_cast<bool>(bias);
  return build.emit1(composite::group_norm, present({x, scale, bias}), std::move(norm));
}

}  // namespace transmuter::ir
