// Integers as bits: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift. Shifts by the width or more give 0 (or the
// sign, shifting a signed integer right).
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

void require_integer(OpContext& op, size_t i) {
  op.check(is_integer(op.dtype(i)), "input ", i, " must be an integer, is ", name(op.dtype(i)));
}

template <Value (Builder::*emit)(Value, Value)>
void bitwise(OpContext& op) {
  require_integer(op, 0);
  require_same_dtype(op, 0, 1);
  const auto [a, b] = op.build().numpy_broadcast(op.input(0), op.input(1));
  op.output(0, (op.build().*emit)(a, b));
}

void bitwise_not(OpContext& op) {
  require_integer(op, 0);
  op.output(0, op.build().logical_not(op.input(0)));
}

void bit_shift(OpContext& op) {
  const std::string direction = op.attribute_string("direction");
  op.check(direction == "LEFT" || direction == "RIGHT", "direction must be LEFT or RIGHT, is ", direction);
  require_integer(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& build = op.build();
  const auto [x, amount] = build.numpy_broadcast(op.input(0), op.input(1));
  if (direction == "LEFT")
    op.output(0, build.shift_left(x, amount));
  else if (is_unsigned_integer(op.dtype(0)))
    op.output(0, build.shift_right_logical(x, amount));
  else
    op.output(0, build.shift_right_arithmetic(x, amount));
}

}  // namespace

void register_bitwise(Registry& r) {
  r.add("BitwiseAnd", {18}, bitwise<&Builder::logical_and>);
  r.add("BitwiseOr", {18}, bitwise<&Builder::logical_or>);
  r.add("BitwiseXor", {18}, bitwise<&Builder::logical_xor>);
  r.add("BitwiseNot", {18}, bitwise_not);
  r.add("BitShift", {11, 28}, bit_shift);
}

}  // namespace transmuter::ops
