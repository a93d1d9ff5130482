#include "ir/passes/stablehlo_form.h"

#include "ir/passes/copier.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {

namespace {

// The dtype in which a product of two dtypes loses nothing that its result could hold.
DType common_dtype(DType a, DType b, DType result) {
  if (a == b) return a;
  return is_integer(result) || bit_width(result) >= 32 ? result : DType::f32;
}

Value product(Copier& copier, const Op& op) {
  Builder& build = copier.build();
  const Value a = copier[op.operands[0]], b = copier[op.operands[1]];
  const DType dtype = common_dtype(build.dtype(a), build.dtype(b), copier.from().type(op.results[0]).dtype);
  return build.emit1(*op.primitive, {build.convert(a, dtype), build.convert(b, dtype)}, op.attributes);
}

// The least power of two that is no smaller, by bits: XLA's own conversion makes NaN of the small ones.
Value as_e8m0(Builder& build, Value x) {
  const Value bits = build.bitcast_convert(build.convert(x, DType::f32), DType::u32);
  const auto number = [&](int64_t n) { return build.broadcast_to(build.integer(DType::u32, n), build.shape(x)); };
  const Value magnitude = build.logical_and(bits, number(0x7fffffff));
  const Value exponent = build.shift_right_logical(magnitude, number(23));
  const Value fraction = build.logical_and(magnitude, number(0x7fffff));
  const Value above = build.select(build.compare(exponent, number(0), CompareDirection::eq),
                                   build.compare(fraction, number(0x400000), CompareDirection::gt),
                                   build.compare(fraction, number(0), CompareDirection::ne));
  const Value up = build.minimum(build.add(exponent, build.convert(above, DType::u32)), number(0xfe));
  const Value code = build.select(build.compare(exponent, number(0xff), CompareDirection::eq), number(0xff), up);
  return build.bitcast_convert(build.convert(code, DType::u8), DType::f8e8m0);
}

// float64 as a float32 from which a half type is rounded rightly: cut towards zero, and odd where something was cut.
Value rounded_to_odd(Builder& build, Value x) {
  const Value near = build.convert(x, DType::f32), back = build.convert(near, DType::f64);
  Value bits = build.bitcast_convert(near, DType::u32);
  const Value one = build.broadcast_to(build.integer(DType::u32, 1), build.shape(x));
  const Value beyond = build.compare(build.abs(back), build.abs(x), CompareDirection::gt);
  bits = build.select(beyond, build.subtract(bits, one), bits);
  const Value inexact = build.logical_and(build.compare(back, x, CompareDirection::ne), build.is_finite(x));
  return build.bitcast_convert(build.select(inexact, build.logical_or(bits, one), bits), DType::f32);
}

// Of a float out of range ours make the nearest number there is, as XLA does for whole bytes of integers; smaller ones
// are the low bits of that byte, and small floats have their range written out.
Value conversion(Builder& build, Value x, DType to) {
  if (!is_float(build.dtype(x))) return build.convert(x, to);
  if (is_integer(to) && bit_width(to) < 8) {
    const Value byte = build.convert(x, DType::i8);
    return build.convert(is_unsigned_integer(to) ? build.bitcast_convert(byte, DType::u8) : byte, to);
  }
  if (to == DType::f8e8m0) return as_e8m0(build, x);
  if (build.dtype(x) == DType::f64 && bit_width(to) < 32 && is_float(to)) x = rounded_to_odd(build, x);
  double most = 0;
  if (to == DType::f8e4m3fn) most = 448;
  if (to == DType::f8e4m3fnuz) most = 240;
  if (to == DType::f8e5m2 || to == DType::f8e5m2fnuz) most = 57344;
  if (to == DType::f6e2m3) most = 7.5;
  if (to == DType::f6e3m2) most = 28;
  if (to == DType::f4e2m1) most = 6;
  if (most == 0) return build.convert(x, to);
  if (bit_width(build.dtype(x)) < 16) x = build.convert(x, DType::f32);  // wide enough for the bounds
  const DType dtype = build.dtype(x);
  return build.convert(build.clamp(build.scalar(dtype, -most), x, build.scalar(dtype, most)), to);
}

}  // namespace

Program stablehlo_form(const Program& program) {
  Copier copier(program);
  for (const Op& op : program.ops()) {
    copier.locate(op);
    if (op.primitive == &prim::dot_general || op.primitive == &prim::convolution) {
      copier.set(op.results[0], product(copier, op));
    } else if (op.primitive == &prim::convert) {
      copier.set(op.results[0], conversion(copier.build(), copier[op.operands[0]], program.type(op.results[0]).dtype));
    } else {
      copier.copy(op, changed_regions(op, stablehlo_form));
    }
  }
  return copier.finish();
}

Program with_embedded_weights(const Program& program) {
  Copier copier(program, [](const Parameter& parameter) { return parameter.kind == Parameter::Kind::input; });
  for (const Parameter& parameter : program.parameters())
    if (parameter.kind == Parameter::Kind::weight)
      copier.set(parameter.value, copier.build().constant(parameter.weight.aligned()));
  for (const Op& op : program.ops()) copier.copy(op);
  return copier.finish();
}

}  // namespace transmuter::ir
