#include "backends/cpu/plan/epilogue_match.h"

#include "ir/composites/composites.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

ir::Value other_operand(const ir::Op& op, ir::Value v) { return op.operands[0] == v ? op.operands[1] : op.operands[0]; }

struct Matcher {
  Planner& planner;
  int64_t axis;
  FusedEpilogue e;

  bool activation(Activation a, float first = 1, float second = 0) {
    if (e.activation != Activation::none || (e.residual && e.combine != Combine::add_before)) return false;
    e.activation = a;
    e.first = first;
    e.second = second;
    return true;
  }

  bool add(const ir::Op& op, ir::Value v) {
    const ir::Value other = other_operand(op, v);
    if (other == v) return false;
    if (!e.bias && !e.residual && e.activation == Activation::none) {
      if (const ir::Value bias = vector_along(planner, other, axis)) {
        e.bias = bias;
        return true;
      }
    }
    if (e.residual || !planner.same_shape(other, v) || planner.type(other).dtype != DType::f32) return false;
    const ir::Op* def = planner.definition(other);
    double ignored;
    if (planner.splat(other, ignored)) return false;
    // A broadcast is no residual: its strides are legal, but an elementwise tail reads it no slower.
    if (def && def->primitive == &ir::prim::broadcast_in_dim) return false;
    e.residual = other;
    e.combine = e.activation == Activation::none ? Combine::add_before : Combine::add_after;
    return true;
  }

  bool multiply(const ir::Op& op, ir::Value v) {
    double factor;
    const ir::Value other = other_operand(op, v);
    if (e.bias || e.residual || e.activation != Activation::none || other == v || !planner.splat(other, factor))
      return false;
    e.alpha *= static_cast<float>(factor);
    return true;
  }

  bool step(const ir::Op& op, ir::Value v) {
    const ir::Primitive* p = op.primitive;
    if (planner.type(op.results[0]).dtype != DType::f32) return false;
    if (p == &ir::prim::add) return add(op, v);
    if (p == &ir::prim::multiply) return multiply(op, v);
    if (p == &ir::prim::tanh) return activation(Activation::tanh);
    if (p == &ir::prim::logistic) return activation(Activation::sigmoid);
    if (p == &ir::composite::silu)
      return activation(Activation::silu, static_cast<float>(op.as<ir::SiluAttributes>().alpha));
    if (p == &ir::composite::gelu) {
      return activation(op.as<ir::GeluAttributes>().kind == ir::GeluKind::erf ? Activation::gelu_erf
                                                                              : Activation::gelu_tanh);
    }
    if (p == &ir::prim::maximum) {
      double zero;
      return planner.splat(other_operand(op, v), zero) && zero == 0 && activation(Activation::relu);
    }
    if (p == &ir::prim::clamp) {
      double low, high;
      return op.operands[1] == v && planner.splat(op.operands[0], low) && planner.splat(op.operands[2], high) &&
             activation(Activation::clip, static_cast<float>(low), static_cast<float>(high));
    }
    return false;
  }
};

}  // namespace

ir::Value vector_along(const Planner& planner, ir::Value v, int64_t axis) {
  const ir::Op* op = planner.definition(v);
  if (!op || op->primitive != &ir::prim::broadcast_in_dim) return {};
  const auto& dimensions = op->as<ir::BroadcastInDimAttributes>().dimensions;
  const ir::Value x = op->operands[0];
  const Dims& shape = planner.type(x).shape;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const bool along = dimensions[i] == axis;
    if (along ? !provably_eq(shape[i], planner.type(v).shape[static_cast<size_t>(axis)]) : !provably_eq(shape[i], 1))
      return {};
  }
  bool found = false;
  for (int64_t d : dimensions) found = found || d == axis;
  return found ? x : ir::Value{};
}

FusedEpilogue match_epilogue(Planner& planner, const ir::Op& product, int64_t feature_axis) {
  Matcher matcher{planner, feature_axis, {}};
  matcher.e.result = product.results[0];
  for (;;) {
    const ir::Op* user = planner.only_user(matcher.e.result);
    if (!user || planner.absorbed(*user) || !matcher.step(*user, matcher.e.result)) break;
    planner.absorb(*user);
    matcher.e.result = user->results[0];
    matcher.e.last = user;
  }
  return matcher.e;
}

}  // namespace transmuter::cpu
