// Elementary functions on vectors of float, for use inside a kernel's HWY_NAMESPACE.
// Errors against the exact value, on every target, with or without FMA: exp, expm1, tanh, erf, log, sin, cos at most
// 2 ulp, logistic, log1p and pow at most 3, remainder exact. NaN in gives NaN out; infinities, zeros, denormals and
// huge arguments give what C's functions give. Coefficients are minimax fits of our own.

#if defined(TRANSMUTER_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_MATH_INL_H_
#undef TRANSMUTER_CPU_MATH_INL_H_
#else
#define TRANSMUTER_CPU_MATH_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V poly(D, V, V value) {
  return value;
}
// Horner's rule, highest coefficient first.
template <class D, class V, class... Rest>
HWY_INLINE V poly(D d, V x, V value, hn::TFromD<D> next, Rest... rest) {
  return poly(d, x, hn::MulAdd(value, x, hn::Set(d, next)), rest...);
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomial(D d, V x, hn::TFromD<D> highest, Rest... rest) {
  return poly(d, x, hn::Set(d, highest), rest...);
}

// Maximum and minimum as StableHLO has them: NaN if either is.
template <class D, class V>
HWY_INLINE V max_nan(D, V a, V b) {
  const auto ordered = hn::And(hn::Eq(a, a), hn::Eq(b, b));
  return hn::IfThenElse(ordered, hn::Max(a, b), hn::Add(a, b));
}
template <class D, class V>
HWY_INLINE V min_nan(D, V a, V b) {
  const auto ordered = hn::And(hn::Eq(a, a), hn::Eq(b, b));
  return hn::IfThenElse(ordered, hn::Min(a, b), hn::Add(a, b));
}

// min(max(x, lo), hi), NaN stays NaN; lo and hi are not NaN.
template <class D, class V>
HWY_INLINE V clamp_nan(D d, V x, float lo, float hi) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // maxps and minps return their second operand when either is NaN.
  return hn::Min(hn::Set(d, hi), hn::Max(hn::Set(d, lo), x));
#else
  return hn::IfThenElse(hn::Eq(x, x), hn::Min(hn::Max(x, hn::Set(d, lo)), hn::Set(d, hi)), x);
#endif
}

// 2^n, -126 <= n <= 127
template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// n = nearest(x / ln 2), r = x - n ln 2; the product n * hi is exact. |x| < 2^21, or NaN and n anything.
template <class D, class V, class VI>
HWY_INLINE V reduce_ln2(D d, V x, VI& n) {
  // Added to a small number it leaves the nearest integer in the low bits; a conversion takes longer.
  const hn::RebindToSigned<D> di;
  const V round = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), round);
  n = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, round));
  const V nf = hn::Sub(shifted, round);
  return hn::NegMulAdd(nf, hn::Set(d, 1.428606765330187e-6f), hn::NegMulAdd(nf, hn::Set(d, 0.693145751953125f), x));
}

template <class D, class V, class VI>
HWY_INLINE V exp_mantissa(D d, V x, VI& n) {
  const V r = reduce_ln2(d, x, n);
  const V p = polynomial(d, r, 0.001381540671f, 0.008369348012f, 0.04166840762f, 0.16666515172f, 0.49999994040f);
  return hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
}

// For |x| <= 87 or NaN only.
template <class D, class V>
HWY_INLINE V vec_exp_short(D d, V x) {
  hn::Vec<hn::RebindToSigned<D>> n;
  const V y = exp_mantissa(d, x, n);
  return hn::Mul(y, power_of_two(d, n));
}

// For x <= 0 or NaN; what would be below e^-87 is zero.
template <class D, class V>
HWY_INLINE V vec_exp_nonpositive(D d, V x) {
  const V low = hn::Set(d, -87.0f);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const V y = vec_exp_short(d, hn::Max(low, x));  // the second operand when either is NaN
#else
  const V y = vec_exp_short(d, hn::IfThenElse(hn::Lt(x, low), low, x));
#endif
  return hn::IfThenZeroElse(hn::Lt(x, low), y);
}

template <class D, class V>
HWY_INLINE V vec_exp(D d, V x) {
  hn::Vec<hn::RebindToSigned<D>> n;
  const V y = exp_mantissa(d, clamp_nan(d, x, -104.5f, 89.0f), n);
  const auto half = hn::ShiftRight<1>(n);  // two steps, so that 2^-150 and 2^128 are reached
  return hn::Mul(hn::Mul(y, power_of_two(d, half)), power_of_two(d, hn::Sub(n, half)));
}

template <class D, class V>
HWY_INLINE V vec_expm1(D d, V x0) {
  const V x = clamp_nan(d, x0, -30.0f, 89.0f);
  const hn::RebindToSigned<D> di;
  hn::Vec<decltype(di)> n;
  const V r = reduce_ln2(d, x, n);
  const V p = polynomial(d, r, 0.00019915594f, 0.00139420072f, 0.00833327044f, 0.04166634381f, 0.16666667163f, 0.5f);
  const V e = hn::MulAdd(hn::Mul(r, r), p, r);
  // Halved, because 2^128 is not a float.
  const V scale = power_of_two(d, hn::Sub(n, hn::Set(di, 1)));
  const V y = hn::MulAdd(scale, e, hn::Sub(scale, hn::Set(d, 0.5f)));
  return hn::IfThenElse(hn::Lt(hn::Abs(x0), hn::Set(d, 1e-10f)), x0, hn::Add(y, y));
}

// x = m 2^e with m in [sqrt(1/2), sqrt(2)), for positive finite x, denormals too. Returns m - 1.
template <class D, class V>
HWY_INLINE V split_exponent(D d, V x, V& e) {
  const hn::RebindToSigned<D> di;
  const auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  x = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 33554432.0f)), x);
  const auto bits = hn::BitCast(di, x);
  const auto n = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(n)));
  e = hn::Sub(hn::ConvertTo(d, n), hn::IfThenElseZero(tiny, hn::Set(d, 25.0f)));
  return hn::Sub(m, hn::Set(d, 1.0f));
}

template <class D, class V>
HWY_INLINE V vec_log(D d, V x) {
  V e;
  const V f = split_exponent(d, x, e);
  const V z = hn::Mul(f, f);
  const V p = polynomial(d, f, 0.06746651232f, -0.11675654352f, 0.11888159066f, -0.12405588478f, 0.14219552279f,
                         -0.16667996347f, 0.20002119243f, -0.25000008941f, 0.33333313465f);
  V y = hn::Mul(hn::Mul(f, z), p);
  y = hn::MulAdd(e, hn::Set(d, 1.428606765330187e-6f), y);
  y = hn::NegMulAdd(z, hn::Set(d, 0.5f), y);
  y = hn::MulAdd(e, hn::Set(d, 0.693145751953125f), hn::Add(f, y));
  const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Lt(x, inf), y, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
}

template <class D, class V>
HWY_INLINE V vec_log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, x);
  const V t = hn::Sub(u, one);
  const V lost = hn::Add(hn::Sub(one, hn::Sub(u, t)), hn::Sub(x, t));  // exactly 1 + x - u
  const auto ordinary = hn::And(hn::Gt(u, hn::Zero(d)), hn::Lt(u, hn::Set(d, std::numeric_limits<float>::infinity())));
  const V y = hn::Add(vec_log(d, u), hn::IfThenElseZero(ordinary, hn::Div(lost, u)));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 5.9e-8f)), x, y);
}

template <class D, class V>
HWY_INLINE V vec_tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = clamp_nan(d, hn::Abs(x), 0.0f, 10.0f);
  const V z = hn::Mul(a, a);
  const V p = polynomial(d, z, -0.00552907633f, 0.02048379928f, -0.05369315296f, 0.13330902159f, -0.33333262801f);
  const V small = hn::MulAdd(hn::Mul(a, z), p, a);
  const V e = vec_exp_short(d, hn::Add(a, a));
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), small, large), x);
}

template <class D, class V>
HWY_INLINE V vec_logistic(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = vec_exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

template <class D, class V>
HWY_INLINE V vec_erf(D d, V x) {
  const V a = clamp_nan(d, hn::Abs(x), 0.0f, 4.0f);
  const V z = hn::Mul(a, a);
  const V p = polynomial(d, z, 8.215427e-05f, -0.00081059657f, 0.00519779744f, -0.02685810439f, 0.11283672601f,
                         -0.37612631917f, 0.12837916613f);
  const V small = hn::MulAdd(a, p, a);
  const V q = polynomial(d, a, 0.00019821952f, -0.00306548923f, 0.02231520973f, -0.10411367565f, -0.63697606325f,
                         -1.12779724598f, -0.00016644834f);
  const V large = hn::Sub(hn::Set(d, 1.0f), vec_exp_short(d, q));
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.92f)), small, large), x);
}

// fn, one lane at a time, where the mask is set: for arguments too rare to be worth a vector path.
template <class D, class V, class M>
HWY_NOINLINE V by_lane(D d, V x, V y, M mask, float (*fn)(float)) {
  HWY_ALIGN float xs[hn::MaxLanes(d)], ys[hn::MaxLanes(d)], use[hn::MaxLanes(d)];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  hn::Store(hn::IfThenElseZero(mask, hn::Set(d, 1.0f)), d, use);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (use[i] != 0.0f) ys[i] = fn(xs[i]);
  }
  return hn::Load(d, ys);
}

// sin(a + quadrant pi/2) for 0 <= a; the sign of x is the caller's.
template <class D, class V>
HWY_INLINE V sin_quadrant(D d, V a, int32_t quadrant) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::NearestInt(hn::Mul(a, hn::Set(d, 0.636619772f)));
  const V nf = hn::ConvertTo(d, n);
  // pi/2 in four parts of 8 to 24 bits: n times each of the first three is exact below kLimit.
  V r = hn::NegMulAdd(nf, hn::Set(d, 1.5703125f), a);
  r = hn::NegMulAdd(nf, hn::Set(d, 0.0004837512969970703f), r);
  r = hn::NegMulAdd(nf, hn::Set(d, 7.549533620476723e-8f), r);
  r = hn::NegMulAdd(nf, hn::Set(d, 2.5633440682570896e-12f), r);
  const V z = hn::Mul(r, r);
  const V s = hn::MulAdd(hn::Mul(r, z), polynomial(d, z, -0.00019510869f, 0.00833213143f, -0.16666653752f), r);
  const V c = hn::MulAdd(hn::Mul(z, z), polynomial(d, z, 2.44313051e-05f, -0.00138873071f, 0.04166664556f),
                         hn::NegMulAdd(z, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
  const auto q = hn::Add(n, hn::Set(di, quadrant));
  const auto odd = hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::And(q, hn::Set(di, 1)))));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2))));
  return hn::Xor(hn::IfThenElse(odd, c, s), sign);
}

inline constexpr float kTrigLimit = 12800.0f;  // 8150 quarter turns: 13 bits
inline float lane_sin(float x) { return std::sin(x); }
inline float lane_cos(float x) { return std::cos(x); }

template <class D, class V>
HWY_INLINE V vec_sin(D d, V x) {
  const V a = hn::Abs(x);
  const auto far = hn::Not(hn::Le(a, hn::Set(d, kTrigLimit)));
  const V y = hn::Xor(sin_quadrant(d, hn::IfThenZeroElse(far, a), 0), hn::And(x, hn::SignBit(d)));
  return HWY_LIKELY(hn::AllFalse(d, far)) ? y : by_lane(d, x, y, far, lane_sin);
}
template <class D, class V>
HWY_INLINE V vec_cos(D d, V x) {
  const V a = hn::Abs(x);
  const auto far = hn::Not(hn::Le(a, hn::Set(d, kTrigLimit)));
  const V y = sin_quadrant(d, hn::IfThenZeroElse(far, a), 1);
  return HWY_LIKELY(hn::AllFalse(d, far)) ? y : by_lane(d, x, y, far, lane_cos);
}

// a^y in double for 0 < a < infinity and finite y, rounded to float at the end.
template <class DD, class VF>
HWY_INLINE VF pow_positive(DD dd, VF a, VF y) {
  using VD = hn::Vec<DD>;
  const hn::Rebind<float, DD> df;
  const hn::Rebind<int32_t, DD> di;
  const hn::Rebind<int64_t, DD> dl;
  VF e;
  const VD f = hn::PromoteTo(dd, split_exponent(df, a, e));
  // log(1 + f) = 2 atanh(s), |s| <= 0.172
  const VD s = hn::Div(f, hn::Add(f, hn::Set(dd, 2.0)));
  const VD z = hn::Mul(s, s);
  const VD p = polynomial(dd, z, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0);
  const VD log = hn::MulAdd(hn::PromoteTo(dd, e), hn::Set(dd, 0.6931471805599453), hn::Mul(p, s));
  VD t = hn::Mul(hn::PromoteTo(dd, y), log);
  t = hn::Min(hn::Max(t, hn::Set(dd, -120.0)), hn::Set(dd, 100.0));
  const VD nd = hn::Round(hn::Mul(t, hn::Set(dd, 1.4426950408889634)));
  const VD r = hn::NegMulAdd(nd, hn::Set(dd, 0.6931471805599453), t);
  const VD q = polynomial(dd, r, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
  // Narrowed within float's range, then scaled in float: overflow and denormals round once, on every target.
  const auto n = hn::DemoteTo(di, nd);
  const auto big = hn::Gt(t, hn::Zero(dd));
  const VD pull = hn::IfThenElse(big, hn::Set(dd, 0x1p-64), hn::Set(dd, 0x1p+64));
  const VF push = hn::DemoteTo(df, hn::IfThenElse(big, hn::Set(dd, 0x1p+64), hn::Set(dd, 0x1p-64)));
  const VD scale = hn::BitCast(dd, hn::ShiftLeft<52>(hn::PromoteTo(dl, hn::Add(n, hn::Set(di, 1023)))));
  return hn::Mul(hn::DemoteTo(df, hn::Mul(hn::Mul(q, scale), pull)), push);
}

template <class D, class V>
HWY_INLINE V vec_pow(D d, V x, V y) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const V one = hn::Set(d, 1.0f), inf = hn::Set(d, kInf), zero = hn::Zero(d);
  const V a = hn::Abs(x), b = hn::Abs(y);
  const auto extreme = hn::Or(hn::Or(hn::Eq(a, zero), hn::Eq(a, inf)), hn::Eq(b, inf));
  const auto nan = hn::Not(hn::And(hn::Eq(x, x), hn::Eq(y, y)));
  const auto avoid = hn::Or(extreme, nan);
  HWY_ALIGN float as[hn::MaxLanes(d)], bs[hn::MaxLanes(d)];
  hn::Store(hn::IfThenElse(avoid, one, a), d, as);
  hn::Store(hn::IfThenElse(avoid, one, y), d, bs);
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  for (size_t i = 0; i < hn::Lanes(d); i += hn::Lanes(dd)) {
    hn::StoreU(pow_positive(dd, hn::LoadU(half, as + i), hn::LoadU(half, bs + i)), half, as + i);
  }
  V r = hn::Load(d, as);
  const auto grows = hn::Not(hn::Xor(hn::Gt(a, one), hn::Gt(y, zero)));
  r = hn::IfThenElse(extreme, hn::IfThenElseZero(grows, inf), r);
  const V whole = hn::Trunc(y);
  const auto integer = hn::Or(hn::Eq(whole, y), hn::Eq(b, inf));
  const V half_y = hn::Mul(y, hn::Set(d, 0.5f));
  const auto odd = hn::And(hn::Eq(whole, y), hn::Ne(hn::Trunc(half_y), half_y));
  r = hn::IfThenElse(odd, hn::CopySign(r, x), r);
  const V bad = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  r = hn::IfThenElse(hn::AndNot(hn::Or(integer, extreme), hn::Lt(x, zero)), bad, r);
  r = hn::IfThenElse(nan, bad, r);
  const auto unit = hn::Or(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), hn::And(hn::Eq(a, one), hn::Eq(b, inf)));
  return hn::IfThenElse(unit, one, r);
}

// x - y trunc(x / y), exactly, with the sign of x: C's fmod.
template <class D, class V>
HWY_INLINE V vec_remainder(D d, V x, V y) {
  HWY_ALIGN float xs[hn::MaxLanes(d)], ys[hn::MaxLanes(d)], rs[hn::MaxLanes(d)];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  for (size_t i = 0; i < hn::Lanes(d); i += hn::Lanes(dd)) {
    const auto a = hn::Abs(hn::PromoteTo(dd, hn::LoadU(half, xs + i)));
    const auto b = hn::Abs(hn::PromoteTo(dd, hn::LoadU(half, ys + i)));
    const auto q = hn::Floor(hn::Div(a, b));
    const auto near = hn::And(hn::Lt(q, hn::Set(dd, 0x1p29)), hn::Lt(b, hn::Set(dd, 0x1p200)));
    if (HWY_LIKELY(hn::AllTrue(dd, near))) {
      // q b has at most 53 bits; q may be one too large where a / b rounded up to it.
      const auto r = hn::NegMulAdd(q, b, a);
      hn::StoreU(hn::DemoteTo(half, hn::IfThenElse(hn::Lt(r, hn::Zero(dd)), hn::Add(r, b), r)), half, rs + i);
    } else {
      for (size_t j = i; j < i + hn::Lanes(dd); ++j) rs[j] = std::fmod(std::fabs(xs[j]), std::fabs(ys[j]));
    }
  }
  return hn::CopySignToAbs(hn::Abs(hn::Load(d, rs)), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_MATH_INL_H_
