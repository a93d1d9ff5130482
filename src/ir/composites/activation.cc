// gelu and silu.
#include <numbers>

#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  check_float(ctx, ctx.operands[0], "C1");
  return {ctx.operands[0]};
}

std::vector<Value> decompose_gelu(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& gelu = static_cast<const GeluAttributes&>(*attributes);
  const Value x = widened(build, operands[0]);
  const auto number = [&](double value) { return build.like(x, value); };
  Value inner;
  if (gelu.kind == GeluKind::erf) {
    inner = build.erf(build.multiply(x, number(std::numbers::sqrt2 / 2)));
  } else {
    const Value cube = build.multiply(build.multiply(x, x), x);
    const Value sum = build.add(x, build.multiply(cube, number(0.044715)));
    inner = build.tanh(build.multiply(sum, number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi)));
  }
  const Value y = build.multiply(build.multiply(x, number(0.5)), build.add(inner, number(1)));
  return {build.convert(y, build.dtype(operands[0]))};
}

std::vector<Value> decompose_silu(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& silu = static_cast<const SiluAttributes&>(*attributes);
  const Value x = widened(build, operands[0]);
  const Value inner = silu.alpha == 1 ? x : build.multiply(x, build.like(x, silu.alpha));
  return {build.convert(build.multiply(x, build.logistic(inner)), build.dtype(operands[0]))};
}

}  // namespace

const Primitive composite::gelu{.name = "gelu", .infer = infer, .decompose = decompose_gelu, .elementwise = true};
const Primitive composite::silu{.name = "silu", .infer = infer, .decompose = decompose_silu, .elementwise = true};

Value gelu(Builder& build, Value x, GeluKind kind) {
  return build.emit1(composite::gelu, {x}, std::make_shared<GeluAttributes>(kind));
}

Value silu(Builder& build, Value x, double alpha) {
  return build.emit1(composite::silu, {x}, std::make_shared<SiluAttributes>(alpha));
}

}  // namespace transmuter::ir
