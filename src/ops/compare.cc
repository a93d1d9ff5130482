// Equal, Less, Greater, LessOrEqual, GreaterOrEqual; And, Or, Xor. Comparisons with NaN are false.
#include "ops/binary.h"
#include "ops/known_math.h"
#include "ops/registry.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

void ignore_old_broadcast(OpContext& op) {
  if (op.version() < 7) op.ignore_attributes({"broadcast", "axis"});  // read where IR is written
}

template <CompareDirection direction, ScalarFn2 rule>
void compare(OpContext& op) {
  require_same_dtype(op, 0, 1);
  ignore_old_broadcast(op);
  output_known_or(op, 0, zip_operands(op, DType::boolean, rule, IotaRule::compare), [&] {
    const auto [a, b] = broadcast_operands(op);
    return op.build().compare(a, b, direction);
  });
}

template <Value (Builder::*emit)(Value, Value), ScalarFn2 rule>
void logical(OpContext& op) {
  require_bool(op, 0);
  require_bool(op, 1);
  ignore_old_broadcast(op);
  output_known_or(op, 0, zip_operands(op, DType::boolean, rule, IotaRule::none), [&] {
    const auto [a, b] = broadcast_operands(op);
    return (op.build().*emit)(a, b);
  });
}

}  // namespace

void register_compare(Registry& r) {
  r.add("Equal", {1, 7, 11, 13, 19}, compare<CompareDirection::eq, equal_scalars>);
  r.add("Less", {1, 7, 9, 13}, compare<CompareDirection::lt, less_scalars>);
  r.add("Greater", {1, 7, 9, 13}, compare<CompareDirection::gt, greater_scalars>);
  r.add("LessOrEqual", {12, 16}, compare<CompareDirection::le, less_equal_scalars>);
  r.add("GreaterOrEqual", {12, 16}, compare<CompareDirection::ge, greater_equal_scalars>);
  r.add("And", {1, 7}, logical<&Builder::logical_and, and_scalars>);
  r.add("Or", {1, 7}, logical<&Builder::logical_or, or_scalars>);
  r.add("Xor", {1, 7}, logical<&Builder::logical_xor, xor_scalars>);
}

}  // namespace transmuter::ops
