#include "ops/known_math.h"

#include <cmath>
#include <limits>

namespace transmuter::ops {
namespace {

Interval range_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return {0, 1};
    case DType::u64:
      return {0, std::numeric_limits<int64_t>::max()};
    case DType::i64:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    default: {
      const int bits = bit_width(dtype);
      if (is_unsigned_integer(dtype)) return {0, (int64_t{1} << bits) - 1};
      return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
    }
  }
}

int64_t wrap(int64_t value, DType dtype) {
  const int bits = bit_width(dtype);
  if (bits >= 64) return value;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t low = static_cast<uint64_t>(value) & mask;
  if (is_signed_integer(dtype) && (low >> (bits - 1)) != 0) low |= ~mask;
  return static_cast<int64_t>(low);
}

bool both_integers(const Scalar& a, const Scalar& b) {
  return a.kind == Scalar::Kind::integer && b.kind == Scalar::Kind::integer;
}
bool both_reals(const Scalar& a, const Scalar& b) {
  return a.kind == Scalar::Kind::real && b.kind == Scalar::Kind::real;
}
bool both_constant(const Scalar& a, const Scalar& b) { return a.dim.is_constant() && b.dim.is_constant(); }

Scalar real_of(RealOp op, const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_reals(a, b)) return {};
  return real_binary(op, a.real, b.real, real_dtype(dtype));
}

int64_t wrapping_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return (exponent & 1) != 0 ? -1 : 1;
    return base == 0 ? -1 : 0;
  }
  uint64_t result = 1;
  uint64_t factor = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, factor *= factor)
    if ((exponent & 1) != 0) result *= factor;
  return static_cast<int64_t>(result);
}

}  // namespace

Scalar fit(Dim value, DType dtype) {
  if (value.is_constant()) {
    if (dtype == DType::u64 && value.hint() < 0) return {};
    return Dim(dtype == DType::boolean ? static_cast<int64_t>(value.hint() != 0) : wrap(value.hint(), dtype));
  }
  if (dtype == DType::i64) return value;
  const Interval range = range_of(dtype);
  if (dtype == DType::i32 && value.hint() >= range.low && value.hint() <= range.high) return value;
  const Interval got = interval(value);
  return got.low >= range.low && got.high <= range.high ? Scalar(value) : Scalar();
}

Scalar add_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_integers(a, b)) return real_of(RealOp::add, a, b, dtype);
  int64_t sum;
  const bool overflow = __builtin_add_overflow(a.dim.hint(), b.dim.hint(), &sum);
  if (both_constant(a, b)) return fit(sum, dtype);
  return overflow ? Scalar() : fit(a.dim + b.dim, dtype);
}

Scalar subtract_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_integers(a, b)) return real_of(RealOp::sub, a, b, dtype);
  int64_t difference;
  const bool overflow = __builtin_sub_overflow(a.dim.hint(), b.dim.hint(), &difference);
  if (both_constant(a, b)) return fit(difference, dtype);
  return overflow ? Scalar() : fit(a.dim - b.dim, dtype);
}

Scalar multiply_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_integers(a, b)) return real_of(RealOp::mul, a, b, dtype);
  int64_t product;
  const bool overflow = __builtin_mul_overflow(a.dim.hint(), b.dim.hint(), &product);
  if (both_constant(a, b)) return fit(product, dtype);
  return overflow ? Scalar() : fit(a.dim * b.dim, dtype);
}

Scalar divide_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_integers(a, b)) return real_of(RealOp::div, a, b, dtype);
  if (both_constant(a, b)) {
    if (b.dim.hint() == 0) return fit(-1, dtype);  // all bits set; unknown for uint64
    if (b.dim.hint() == -1) return fit(static_cast<int64_t>(0 - static_cast<uint64_t>(a.dim.hint())), dtype);
    return fit(a.dim.hint() / b.dim.hint(), dtype);
  }
  return b.dim.hint() == 0 ? Scalar() : fit(trunc_div(a.dim, b.dim), dtype);
}

Scalar floor_mod_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_integers(a, b)) return {};
  if (both_constant(a, b)) {
    const int64_t x = a.dim.hint(), y = b.dim.hint();
    if (y == 0) return a;
    if (y == -1) return Dim(0);
    const int64_t rest = x % y;
    return fit(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest, dtype);
  }
  return b.dim.hint() == 0 ? Scalar() : fit(mod(a.dim, b.dim), dtype);
}

Scalar remainder_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (!both_integers(a, b)) return {};
  if (both_constant(a, b)) {
    if (b.dim.hint() == 0) return a;
    return b.dim.hint() == -1 ? Scalar(Dim(0)) : fit(a.dim.hint() % b.dim.hint(), dtype);
  }
  return b.dim.hint() == 0 ? Scalar() : fit(a.dim - trunc_div(a.dim, b.dim) * b.dim, dtype);
}

Scalar power_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  if (a.kind == Scalar::Kind::real) {
    const Real exponent = b.kind == Scalar::Kind::real ? b.real : real_from(b.dim, RealDType::f64);
    return real_binary(RealOp::pow, a.real, exponent, real_dtype(dtype));
  }
  if (b.kind == Scalar::Kind::real) {
    if (!b.real.is_constant()) return {};
    const double exponent = b.real.hint();
    if (exponent != std::floor(exponent) || std::abs(exponent) > 64) return {};
    return power_scalars(a, Scalar(Dim(static_cast<int64_t>(exponent))), dtype);
  }
  if (!b.dim.is_constant()) return {};
  if (a.dim.is_constant()) return fit(wrapping_power(a.dim.hint(), b.dim.hint()), dtype);
  if (b.dim.hint() < 0 || b.dim.hint() > 4) return {};
  Scalar result = Dim(1);
  for (int64_t i = 0; i < b.dim.hint() && result.known(); ++i) result = multiply_scalars(result, a, dtype);
  return result;
}

Scalar minimum_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  return both_integers(a, b) ? Scalar(min(a.dim, b.dim)) : real_of(RealOp::min, a, b, dtype);
}
Scalar maximum_scalars(const Scalar& a, const Scalar& b, DType dtype) {
  return both_integers(a, b) ? Scalar(max(a.dim, b.dim)) : real_of(RealOp::max, a, b, dtype);
}

Scalar equal_scalars(const Scalar& a, const Scalar& b, DType) {
  if (both_integers(a, b)) return equal(a.dim, b.dim);
  return both_reals(a, b) ? Scalar(equal(a.real, b.real)) : Scalar();
}
Scalar less_scalars(const Scalar& a, const Scalar& b, DType) {
  if (both_integers(a, b)) return less(a.dim, b.dim);
  return both_reals(a, b) ? Scalar(less(a.real, b.real)) : Scalar();
}
Scalar less_equal_scalars(const Scalar& a, const Scalar& b, DType) {
  if (both_integers(a, b)) return less_equal(a.dim, b.dim);
  return both_reals(a, b) ? Scalar(less_equal(a.real, b.real)) : Scalar();
}
Scalar greater_scalars(const Scalar& a, const Scalar& b, DType dtype) { return less_scalars(b, a, dtype); }
Scalar greater_equal_scalars(const Scalar& a, const Scalar& b, DType dtype) { return less_equal_scalars(b, a, dtype); }
Scalar and_scalars(const Scalar& a, const Scalar& b, DType) {
  return both_integers(a, b) ? Scalar(min(a.dim, b.dim)) : Scalar();
}
Scalar or_scalars(const Scalar& a, const Scalar& b, DType) {
  return both_integers(a, b) ? Scalar(max(a.dim, b.dim)) : Scalar();
}
Scalar xor_scalars(const Scalar& a, const Scalar& b, DType) {
  return both_integers(a, b) ? Scalar(Dim(1) - equal(a.dim, b.dim)) : Scalar();
}
Scalar not_scalar(const Scalar& a) { return a.kind == Scalar::Kind::integer ? Scalar(Dim(1) - a.dim) : Scalar(); }

Scalar select_scalars(const Scalar& condition, const Scalar& a, const Scalar& b) {
  if (condition.kind != Scalar::Kind::integer) return {};
  if (const std::optional<bool> truth = settled(condition.dim)) return *truth ? a : b;
  if (both_integers(a, b)) return select(condition.dim, a.dim, b.dim);
  return same_scalar(a, b) ? a : Scalar();
}

Scalar negate_scalar(const Scalar& a, DType dtype) {
  if (a.kind == Scalar::Kind::real) return real_unary(RealOp::neg, a.real, real_dtype(dtype));
  return subtract_scalars(Scalar(Dim(0)), a, dtype);
}

Scalar abs_scalar(const Scalar& a, DType dtype) {
  if (a.kind == Scalar::Kind::real) return real_unary(RealOp::abs, a.real, real_dtype(dtype));
  if (a.dim.is_constant()) return a.dim.hint() < 0 ? negate_scalar(a, dtype) : a;
  return fit(abs(a.dim), dtype);
}

Scalar cast_scalar(const Scalar& a, DType to) {
  if (!a.known() || !knowable(to)) return {};
  if (is_float(to)) {
    if (a.kind == Scalar::Kind::integer) return real_from(a.dim, real_dtype(to));
    return real_unary(RealOp::cast, a.real, real_dtype(to));
  }
  if (a.kind == Scalar::Kind::real) {
    if (to == DType::boolean) return not_scalar(Scalar(equal(a.real, Real(0.0))));
    if (a.real.is_constant()) {  // saturates at the ends of the target
      const Interval range = range_of(to);
      const double value = a.real.hint();
      if (to == DType::u64 && value >= 0x1p63) return {};
      if (value >= static_cast<double>(range.high)) return Dim(range.high);
      if (value <= static_cast<double>(range.low)) return Dim(range.low);
    }
    return fit(dim_from(a.real), to);
  }
  if (to == DType::boolean) {
    const Interval range = interval(a.dim);
    if (range.low >= 0 && range.high <= 1) return a;
    return Dim(1) - equal(a.dim, 0);
  }
  return fit(a.dim, to);
}

bool same_scalar(const Scalar& a, const Scalar& b) {
  if (both_integers(a, b)) return provably_eq(a.dim, b.dim);
  if (!both_reals(a, b)) return false;
  if (a.real.is_constant() && b.real.is_constant())
    return a.real.hint() == b.real.hint() && std::signbit(a.real.hint()) == std::signbit(b.real.hint());
  return a.real.expr() == b.real.expr() && a.real.scope_tag() == b.real.scope_tag();
}

}  // namespace transmuter::ops
