// rotary_embedding.
#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 3);
  const Type& x = ctx.operands[0];
  check_float(ctx, x, "C1");
  ctx.check(x.rank() == 4, "C2", "takes x of rank 4");
  for (const Type& angles : ctx.operands.subspan(1)) {
    check_float(ctx, angles, "C1");
    ctx.check(angles.rank() == 3, "C3", "takes cos and sin of rank 3");
    if (!provably_eq(angles.shape[0], 1)) check_same_extent(ctx, angles.shape[0], x.shape[0], "C4", "batch extents");
    check_same_extent(ctx, angles.shape[1], x.shape[2], "C5", "sequence extents");
  }
  check_same_shape(ctx, ctx.operands[1], ctx.operands[2], "C6");
  require(less_equal(ctx.operands[1].shape[2] * 2, x.shape[3]), "rotary_embedding: C7 more angles than elements");
  return {x};
}

std::vector<Value> decompose(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const bool interleaved = static_cast<const RotaryAttributes&>(*attributes).interleaved;
  const Value x = widened(build, operands[0]);
  const Dims shape = build.shape(x), angles = build.shape(operands[1]);
  const Dim half = angles[2], rotated = half * 2;
  const Value first = interleaved ? build.slice_axis(x, 3, 0, rotated, 2) : build.slice_axis(x, 3, 0, half);
  const Value second = interleaved ? build.slice_axis(x, 3, 1, rotated, 2) : build.slice_axis(x, 3, half, rotated);
  const auto spread = [&](Value angle) {
    const Value wide_angle = build.convert(angle, build.dtype(x));
    return build.broadcast_to(build.reshape(wide_angle, {angles[0], 1, angles[1], half}), build.shape(first));
  };
  const Value cos = spread(operands[1]), sin = spread(operands[2]);
  const Value turned_first = build.subtract(build.multiply(first, cos), build.multiply(second, sin));
  const Value turned_second = build.add(build.multiply(second, cos), build.multiply(first, sin));
  std::vector<Value> parts{turned_first, turned_second};
  if (interleaved) {
    const Value pairs =
        build.concatenate({build.expand_dims(turned_first, {4}), build.expand_dims(turned_second, {4})}, 4);
    parts = {build.reshape(pairs, {shape[0], shape[1], shape[2], rotated})};
  }
  if (!provably_eq(rotated, shape[3])) parts.push_back(build.slice_axis(x, 3, rotated, shape[3]));
  return {build.convert(build.concatenate(parts, 3), build.dtype(operands[0]))};
}

}  // namespace

const Primitive composite::rotary_embedding{.name = "rotary_embedding", .infer = infer, .decompose = decompose};

Value rotary_embedding(Builder& build, Value x, Value cos, Value sin, bool interleaved) {
  return build.emit1(composite::rotary_embedding, {x, cos, sin}, std::make_shared<RotaryAttributes>(interleaved));
}

}  // namespace transmuter::ir
