// Add, Sub, Mul, Div, Mod, Pow. Integers wrap around; x / 0 is -1 (all bits set), x mod 0 is x, INT_MIN / -1 is
// INT_MIN.
#include "ops/binary.h"
#include "ops/known_math.h"
#include "ops/registry.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

template <Value (Builder::*emit)(Value, Value), ScalarFn2 rule, IotaRule iota>
void arithmetic(OpContext& op) {
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  if (op.version() < 7) op.ignore_attributes({"broadcast", "axis", "consumed_inputs"});  // read where IR is written
  output_known_or(op, 0, zip_operands(op, op.dtype(0), rule, iota), [&] {
    const auto [a, b] = broadcast_operands(op);
    return (op.build().*emit)(a, b);
  });
}

// The remainder with the sign of the divisor: b is added where a nonzero remainder's sign differs.
Value floor_mod(Builder& build, Value a, Value b) {
  const Value rest = build.remainder(a, b);
  const DType dtype = build.dtype(rest);
  if (is_unsigned_integer(dtype)) return rest;
  const Value zero = build.like(rest, 0);
  const Value negative_rest = build.compare(rest, zero, CompareDirection::lt);
  const Value negative_divisor = build.compare(b, zero, CompareDirection::lt);
  const Value nonzero = build.compare(rest, zero, CompareDirection::ne);
  const Value differ = build.logical_and(nonzero, build.logical_xor(negative_rest, negative_divisor));
  const Value adjusted = build.select(differ, build.add(rest, b), rest);
  if (!is_float(dtype)) return adjusted;
  // A zero result takes the divisor's sign.
  const Value is_zero = build.compare(rest, zero, CompareDirection::eq);
  return build.select(is_zero, build.select(negative_divisor, build.negate(zero), zero), adjusted);
}

void mod_op(OpContext& op) {
  const bool truncated = op.attribute_int("fmod", 0) != 0;
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  const DType dtype = op.dtype(0);
  // Before opset 28 floats had to say fmod = 1.
  op.check(truncated || op.version() >= 28 || !is_float(dtype), "fmod must be 1 for ", name(dtype));
  Known known;
  if (!is_float(dtype))
    known = zip_operands(op, dtype, truncated ? remainder_scalars : floor_mod_scalars, IotaRule::none);
  output_known_or(op, 0, std::move(known), [&] {
    const auto [a, b] = broadcast_operands(op);
    return truncated ? op.build().remainder(a, b) : floor_mod(op.build(), a, b);
  });
}

// The result has the base's dtype. Integer powers of integers are exact (and wrap around); with a float among the two
// the power is taken in floating point.
void pow_op(OpContext& op) {
  require_numeric(op, 0);
  require_numeric(op, 1);
  const DType base = op.dtype(0), exponent = op.dtype(1);
  if (op.version() < 12) require_same_dtype(op, 0, 1);
  if (op.version() < 7) op.ignore_attributes({"broadcast", "axis"});
  output_known_or(op, 0, zip_operands(op, base, power_scalars, IotaRule::none), [&] {
    Builder& build = op.build();
    auto [a, b] = broadcast_operands(op);
    if (base == exponent) return build.power(a, b);
    if (is_integer(base) && is_integer(exponent)) {
      if (is_signed_integer(base) || is_unsigned_integer(exponent)) return build.power(a, build.convert(b, base));
      return build.convert(build.power(build.convert(a, exponent), b), base);
    }
    const bool wide = base == DType::f64 || exponent == DType::f64 || (is_integer(base) && bit_width(base) > 16);
    const DType type = wide ? DType::f64 : is_float(base) && is_integer(exponent) ? base : DType::f32;
    return build.convert(build.power(build.convert(a, type), build.convert(b, type)), base);
  });
}

}  // namespace

void register_arithmetic(Registry& r) {
  r.add("Add", {1, 6, 7, 13, 14}, arithmetic<&Builder::add, add_scalars, IotaRule::add>);
  r.add("Sub", {1, 6, 7, 13, 14}, arithmetic<&Builder::subtract, subtract_scalars, IotaRule::subtract>);
  r.add("Mul", {1, 6, 7, 13, 14}, arithmetic<&Builder::multiply, multiply_scalars, IotaRule::multiply>);
  r.add("Div", {1, 6, 7, 13, 14}, arithmetic<&Builder::divide, divide_scalars, IotaRule::none>, "",
        "integers truncate; x / 0 = -1");
  r.add("Mod", {10, 13, 28}, mod_op, "", "x mod 0 = x for integers");
  r.add("Pow", {1, 7, 12, 13, 15}, pow_op);
}

}  // namespace transmuter::ops
