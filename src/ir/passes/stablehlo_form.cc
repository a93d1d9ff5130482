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

// Of a float out of range ours make the nearest number there is, as XLA does for whole bytes of integers; smaller ones
// are the low bits of that byte, and small floats have their range written out.
Value conversion(Builder& build, Value x, DType to) {
  if (!is_float(build.dtype(x))) return build.convert(x, to);
  if (is_integer(to) && bit_width(to) < 8)
    return build.convert(build.convert(x, is_unsigned_integer(to) ? DType::u8 : DType::i8), to);
  double most = 0;
  if (to == DType::f8e4m3fn) most = 448;
  if (to == DType::f8e4m3fnuz) most = 240;
  if (to == DType::f8e5m2 || to == DType::f8e5m2fnuz) most = 57344;
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
