// Cast, CastLike, BitCast. Float to integer truncates and saturates, NaN gives 0; integers wrap
// around; the eight-bit floats saturate unless told not to.
#include "ops/cast.h"

#include "onnx/tensor_proto.h"
#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

enum class Rounding : uint8_t { up, down, nearest };

// What an eight-bit float does with values that round beyond its greatest: from `limit` on (or beyond it) they become
// the bits `overflow`.
struct OverflowRule {
  double limit;
  bool limit_overflows;  // a tie at the limit rounds away from the greatest value
  uint8_t positive, negative;
};

std::optional<OverflowRule> overflow_rule(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn:
      return OverflowRule{464, false, 0x7f, 0xff};
    case DType::f8e4m3fnuz:
      return OverflowRule{248, true, 0x80, 0x80};
    case DType::f8e5m2:
      return OverflowRule{61440, true, 0x7c, 0xfc};
    case DType::f8e5m2fnuz:
      return OverflowRule{61440, true, 0x80, 0x80};
    default:
      return std::nullopt;
  }
}

Value cast_without_saturation(Builder& b, Value x, DType to, const OverflowRule& rule) {
  if (b.dtype(x) != DType::f64) x = b.convert(x, DType::f32);
  const auto bits = [&](uint8_t code) { return b.bitcast_convert(b.splat(DType::u8, code, b.shape(x)), to); };
  const Value over =
      b.compare(b.abs(x), b.like(x, rule.limit), rule.limit_overflows ? CompareDirection::ge : CompareDirection::gt);
  const Value below = b.compare(x, b.like(x, 0), CompareDirection::lt);
  return b.select(over, b.select(below, bits(rule.negative), bits(rule.positive)), b.convert(x, to));
}

}  // namespace

Value convert_float8(Builder& b, Value x, DType to, bool saturate) {
  const std::optional<OverflowRule> rule = saturate ? std::nullopt : overflow_rule(to);
  return rule ? cast_without_saturation(b, x, to, *rule) : b.convert(x, to);
}

namespace {

// The powers of two of float8e8m0, by the bits of the magnitude: the exponent, one more where the fraction says so.
Value cast_to_e8m0(Builder& b, Value x, bool saturate, Rounding rounding) {
  const Value magnitude = b.abs(b.convert(x, DType::f32));
  const Value bits = b.bitcast_convert(magnitude, DType::u32);
  const auto word = [&](int64_t value) { return b.broadcast_to(b.integer(DType::u32, value), b.shape(x)); };
  const Value exponent = b.shift_right_logical(bits, word(23));
  const Value fraction = b.logical_and(bits, word(0x7fffff));
  // Below 2^-126 the fraction has an explicit leading bit: 0x400000 is 2^-127, the least value.
  const Value subnormal = b.compare(exponent, word(0), CompareDirection::eq);
  const int64_t normal_from = rounding == Rounding::up ? 1 : rounding == Rounding::nearest ? 0x400000 : 0x800000;
  const int64_t subnormal_from = rounding == Rounding::up        ? 0x400001
                                 : rounding == Rounding::nearest ? 0x600000
                                                                 : 0x800000;
  const Value from = b.select(subnormal, word(subnormal_from), word(normal_from));
  const Value step = b.convert(b.compare(fraction, from, CompareDirection::ge), DType::u32);
  Value code = b.add(exponent, step);
  if (saturate) code = b.minimum(code, word(0xfe));
  code = b.select(b.is_finite(magnitude), code, word(0xff));
  return b.bitcast_convert(b.convert(code, DType::u8), DType::f8e8m0);
}

Known cast_known(const Known& known, DType to) {
  if (!known || !knowable(to)) return {};
  if (known.kind == Known::Kind::iota) {
    if ((to != DType::i64 && to != DType::i32) || !known.value.known()) return {};
    return Known::iota(to, known.shape, known.axis, known.value.dim, known.step);
  }
  return map_known(known, to, [&](const Scalar& s) { return cast_scalar(s, to); });
}

void cast_to(OpContext& op, DType to, bool saturate, Rounding rounding) {
  const DType from = op.dtype(0);
  if (to == DType::string || from == DType::string) {
    // No program holds strings: this runs where the input is a value.
    const Tensor* constant = op.constant(0);
    if (!constant) throw GraphBreak{&op.node(), 0};
    return op.output_constant(0, constant->aligned().cast(to));
  }
  if (is_complex(from) || is_complex(to)) op.unsupported("cast of ", name(from), " to ", name(to));
  if (from == to) return op.output(0, op.traced(0));
  output_known_or(op, 0, cast_known(op.known(0), to), [&]() -> Value {
    Builder& b = op.build();
    const Value x = op.input(0);
    if (to == DType::f8e8m0 && (!saturate || rounding != Rounding::up)) return cast_to_e8m0(b, x, saturate, rounding);
    return convert_float8(b, x, to, saturate);
  });
}

bool read_saturate(OpContext& op) { return op.version() < 19 || op.attribute_int("saturate", 1) != 0; }

Rounding read_rounding(OpContext& op) {
  if (op.version() < 24) return Rounding::up;
  const std::string mode = op.attribute_string("round_mode", "up");
  if (mode == "up") return Rounding::up;
  if (mode == "down") return Rounding::down;
  op.check(mode == "nearest", "round_mode must be up, down or nearest, is ", mode);
  return Rounding::nearest;
}

void cast(OpContext& op) {
  const DType to = onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("to")));
  const bool saturate = read_saturate(op);
  cast_to(op, to, saturate, read_rounding(op));
}

void cast_like(OpContext& op) {
  const bool saturate = read_saturate(op);
  cast_to(op, op.dtype(1), saturate, read_rounding(op));
}

void bit_cast(OpContext& op) {
  const DType to = onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("to")));
  const DType from = op.dtype(0);
  op.check(to != DType::string && bit_width(from) == bit_width(to), name(from), " and ", name(to), " differ in width");
  if (from == to) return op.output(0, op.traced(0));
  // A bool is a byte that holds 0 or 1.
  Builder& b = op.build();
  if (from == DType::boolean) return op.output(0, b.bitcast_convert(b.convert(op.input(0), DType::u8), to));
  if (to == DType::boolean) return op.output(0, b.convert(b.bitcast_convert(op.input(0), DType::u8), DType::boolean));
  op.output(0, b.bitcast_convert(op.input(0), to));
}

}  // namespace

void register_cast(Registry& r) {
  r.add("Cast", {6, 9, 13, 19, 21, 23, 24, 25, 28}, cast);
  r.add("CastLike", {15, 19, 21, 23, 24, 25}, cast_like);
  r.add("BitCast", {26}, bit_cast);
}

}  // namespace transmuter::ops
