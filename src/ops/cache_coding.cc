#include "ops/cache_coding.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

namespace {

Value nearest(Builder& b, Value x, double least) {
  return b.clamp(b.scalar(DType::f32, least), b.round_nearest_even(x), b.scalar(DType::f32, -least - 1));
}

// u8 [..., d] below 16 -> [..., ceil(d / 2)].
Value in_pairs(Builder& b, Value codes) {
  Dims shape = b.shape(codes);
  const int64_t last = static_cast<int64_t>(shape.size()) - 1;
  const Dim bytes = ceil_div(shape.back(), 2);
  if (!provably_eq(bytes * 2, shape.back())) {
    Dims none(shape.size(), Dim(0)), more = none;
    more.back() = bytes * 2 - shape.back();
    codes = b.pad(codes, b.scalar(DType::u8, 0), none, more, none);
  }
  shape.back() = bytes;
  Dims pairs = shape;
  pairs.emplace_back(2);
  const Value split = b.reshape(codes, pairs);
  const auto half = [&](int64_t i) { return b.reshape(b.slice_axis(split, last + 1, i, i + 1), shape); };
  const Value high = half(1);
  return b.logical_or(half(0), b.shift_left(high, b.like(high, 4)));
}

// The other way, in f32, exactly: what reads a cache where it lies computes in floats.
Value out_of_pairs(Builder& b, Value bytes, Dim d) {
  Dims shape = b.shape(bytes);
  const int64_t last = static_cast<int64_t>(shape.size()) - 1;
  const Value wide = b.convert(bytes, DType::f32);
  const Value high = b.floor(b.multiply(wide, b.like(wide, 1.0 / 16)));
  const Value low = b.subtract(wide, b.multiply(high, b.like(high, 16)));
  const Value both = b.concatenate({b.expand_dims(low, {last + 1}), b.expand_dims(high, {last + 1})}, last + 1);
  shape.back() = shape.back() * 2;
  const Value all = b.reshape(both, shape);
  return provably_eq(shape.back(), d) ? all : b.slice_axis(all, last, 0, d);
}

}  // namespace

Value CacheCoding::encode(Builder& b, Value values) const {
  if (codes == CacheCodes::none) return values;
  const Value x = b.divide(b.convert(values, DType::f32), b.broadcast_to(scale, b.shape(values)));
  switch (codes) {
    case CacheCodes::i8:
      return b.convert(nearest(b, x, -128), DType::i8);
    case CacheCodes::f8e4m3fn:
      return b.convert(x, DType::f8e4m3fn);
    case CacheCodes::f4e2m1:
      return in_pairs(b, b.convert(b.bitcast_convert(b.convert(x, DType::f4e2m1), DType::u4), DType::u8));
    default:
      break;
  }
  Value code = nearest(b, x, -8);
  const Value up = b.add(code, b.like(code, codes == CacheCodes::i4 ? 16 : 8));
  code = codes == CacheCodes::i4 ? b.select(b.compare(code, b.like(code, 0), CompareDirection::lt), up, code) : up;
  return in_pairs(b, b.convert(code, DType::u8));
}

Value CacheCoding::decode(Builder& b, Value stored, Dim d) const {
  if (codes == CacheCodes::none) return stored;
  Value wide = paired() ? out_of_pairs(b, stored, d) : b.convert(stored, DType::f32);
  if (codes == CacheCodes::i4_above_8) wide = b.subtract(wide, b.like(wide, 8));
  if (codes == CacheCodes::i4)
    wide = b.select(b.compare(wide, b.like(wide, 8), CompareDirection::ge), b.subtract(wide, b.like(wide, 16)), wide);
  if (codes == CacheCodes::f4e2m1)
    wide = b.convert(b.bitcast_convert(b.convert(wide, DType::u4), DType::f4e2m1), DType::f32);
  return b.convert(b.multiply(wide, b.broadcast_to(scale, b.shape(wide))), dtype);
}

}  // namespace transmuter::ops
