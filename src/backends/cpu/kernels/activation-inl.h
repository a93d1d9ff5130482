// Vector activations for the epilogues, and the exponential they stand on. Included once per target.
#if defined(TRANSMUTER_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_ACTIVATION_INL_H_
#undef TRANSMUTER_ACTIVATION_INL_H_
#else
#define TRANSMUTER_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/epilogue.h"
#include "backends/cpu/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace act {

namespace hn = hwy::HWY_NAMESPACE;

// e^x within 2 units in the last place; 0 and infinity at the ends; NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, -104.0f), high = hn::Set(d, 89.0f);
  x = hn::IfThenElse(hn::Lt(x, low), low, x);  // comparisons: NaN must pass
  x = hn::IfThenElse(hn::Gt(x, high), high, x);
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low mantissa bits.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
  const V nf = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(nf, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(nf, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 0.00139517031f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836959025f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416661875f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666513f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.50000001f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
  // 2^n in two factors, so that n = 128 and the denormal range come out right.
  const auto half = hn::ShiftRight<1>(n);
  const auto rest = hn::Sub(n, half);
  const auto bias = hn::Set(di, 127);
  p = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias))));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(rest, bias))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Mul(x, x);
  V p = hn::Set(d, -0.00552862463f);
  p = hn::MulAdd(p, u, hn::Set(d, 0.0204833066f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.0536929645f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.133308997f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.333332629f));
  const V small = hn::MulAdd(hn::Mul(x, u), p, x);
  const V a = hn::Abs(x);
  const V e = exp(d, hn::Add(a, a));
  const V large = hn::CopySignToAbs(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.65f)), small, large);
}

// erf(x / sqrt 2), error below 2.6e-7: x P(x^2) / Q(x^2) (fitted), all coefficients positive. Beyond the bounds it
// is 1. Two short chains at once: what a core keeps in flight holds several vectors of them, but not of an
// exponential's one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf_of_root_half(D d, V x) {
  x = clamp_nan(d, x, -5.44472218f, 5.44472218f);
  const V u = hn::Mul(x, x);
  const V p =
      polynomial(d, u, 5.60757485e-08f, 1.54275804e-05f, 0.000403621903f, 0.0113183707f, 0.0815238506f, 0.968525648f);
  const V q =
      polynomial(d, u, 1.46614229e-06f, 8.85228728e-05f, 0.00226980262f, 0.0345878378f, 0.304485381f, 1.21386695f);
  return hn::Div(hn::Mul(x, p), q);
}

template <Activation kActivation, class D, class V = hn::Vec<D>>
HWY_INLINE V apply(D d, V x, [[maybe_unused]] float first, [[maybe_unused]] float second) {
  if constexpr (kActivation == Activation::relu) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  } else if constexpr (kActivation == Activation::leaky_relu) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, first)), x);
  } else if constexpr (kActivation == Activation::clip) {
    const V low = hn::Set(d, first), high = hn::Set(d, second);
    x = hn::IfThenElse(hn::Lt(x, low), low, x);
    return hn::IfThenElse(hn::Gt(x, high), high, x);
  } else if constexpr (kActivation == Activation::sigmoid) {
    return sigmoid(d, x);
  } else if constexpr (kActivation == Activation::tanh) {
    return tanh(d, x);
  } else if constexpr (kActivation == Activation::silu) {
    const V t = hn::Mul(x, hn::Set(d, -first));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp(d, t)));
  } else if constexpr (kActivation == Activation::gelu_erf) {
    const V half = hn::Mul(x, hn::Set(d, 0.5f));
    return hn::MulAdd(half, erf_of_root_half(d, x), half);
  } else if constexpr (kActivation == Activation::gelu_tanh) {
    // 0.5 (1 + tanh u) = 1 / (1 + e^-2u)
    const V cubic =
        hn::MulAdd(hn::Mul(x, x), hn::Set(d, -2.0f * 0.797884561f * 0.044715f), hn::Set(d, -2.0f * 0.797884561f));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp(d, hn::Mul(x, cubic))));
  } else if constexpr (kActivation == Activation::hard_swish) {
    V t = hn::MulAdd(x, hn::Set(d, 1.0f / 6.0f), hn::Set(d, 0.5f));
    t = hn::Max(hn::Zero(d), hn::Min(hn::Set(d, 1.0f), t));
    return hn::Mul(x, t);
  } else {
    return x;
  }
}

}  // namespace act
}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_ACTIVATION_INL_H_
