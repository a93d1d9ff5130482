#include "ir/passes/stablehlo_form.h"

#include <array>

#include "ir/composites/composites.h"
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

// The two halves of the product of a number with each of `x` (u32 both).
struct WideProduct {
  Value low, high;
};
WideProduct multiply_wide(Builder& build, Value x, int64_t factor) {
  const auto splat = [&](int64_t value) {
    return build.broadcast_in_dim(build.integer(DType::u64, value), build.shape(x), {});
  };
  const Value wide = build.multiply(build.convert(x, DType::u64), splat(factor));
  const Value low = build.convert(build.logical_and(wide, splat(0xFFFFFFFF)), DType::u32);
  return {low, build.convert(build.shift_right_logical(wide, splat(32)), DType::u32)};
}

// As evaluated in composites/random.cc: block i of four numbers is Philox of (i, 0, 0, 0).
Value random_bits_arithmetic(Builder& build, const RandomBitsAttributes& random) {
  Dim count = 1;
  for (const Dim extent : random.shape) count = count * extent;
  const Dim blocks = floor_div(count + 3, 4);
  std::array<Value, 4> counter;
  counter.fill(build.splat(DType::u32, 0, {blocks}));
  counter[0] = build.iota(DType::u32, {blocks}, 0);
  uint32_t low = static_cast<uint32_t>(random.seed), high = static_cast<uint32_t>(random.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const WideProduct a = multiply_wide(build, counter[0], 0xD2511F53),
                      b = multiply_wide(build, counter[2], 0xCD9E8D57);
    const auto mix = [&](Value x, Value y, uint32_t key) {
      const Value keys = build.broadcast_in_dim(build.integer(DType::u32, key), build.shape(x), {});
      return build.logical_xor(build.logical_xor(x, y), keys);
    };
    counter = {mix(b.high, counter[1], low), b.low, mix(a.high, counter[3], high), a.low};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  std::vector<Value> columns;
  for (const Value column : counter) columns.push_back(build.reshape(column, {blocks, 1}));
  const Value numbers = build.reshape(build.concatenate(columns, 1), {blocks * 4});
  return build.reshape(build.slice_axis(numbers, 0, 0, count), random.shape);
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
    } else if (op.primitive == &composite::random_bits) {
      copier.set(op.results[0], random_bits_arithmetic(copier.build(), op.as<RandomBitsAttributes>()));
    } else {
      std::vector<ProgramPtr> regions;
      for (const ProgramPtr& region : op.regions)
        regions.push_back(std::make_shared<const Program>(stablehlo_form(*region)));
      copier.copy(op, std::move(regions));
    }
  }
  return copier.finish();
}

}  // namespace transmuter::ir
