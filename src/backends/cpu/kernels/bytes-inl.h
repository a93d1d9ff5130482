// Bytes of 32-bit lanes that hold them. Included once per target.
#if defined(TRANSMUTER_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_BYTES_INL_H_
#undef TRANSMUTER_BYTES_INL_H_
#else
#define TRANSMUTER_BYTES_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The low bytes; every lane is in T's range. One instruction where the demotion that saturates takes four.
template <class T>
HWY_INLINE hn::Vec<hn::Rebind<T, hn::ScalableTag<int32_t>>> to_bytes(hn::Vec<hn::ScalableTag<int32_t>> v) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return {_mm512_cvtepi32_epi8(v.raw)};
#else
  return hn::DemoteTo(hn::Rebind<T, hn::ScalableTag<int32_t>>(), v);
#endif
}

// x / scale, rounded as a division is, where `inverse` is 1 / scale: `near`, which is about x inverse, and one step of
// its remainder. Without fused products the remainder would be rounded away.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V quotient(D, V x, V scale, [[maybe_unused]] V inverse, [[maybe_unused]] V near) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(hn::NegMulAdd(near, scale, x), inverse, near);
#else
  return hn::Div(x, scale);
#endif
}

// What turns numbers in units of a scale into bytes of T: the bounds (a relu starts at 0), then rounding to
// even and the zero point.
template <class T>
struct ByteRounding {
  using D = hn::ScalableTag<float>;
  using DI = hn::RebindToSigned<D>;
  using V = hn::Vec<D>;
  V low, high, magic;
  hn::Vec<DI> shift;

  HWY_INLINE ByteRounding(int zero, bool relu) {
    const int least = std::numeric_limits<T>::min() - zero;
    low = hn::Set(D(), static_cast<float>(relu ? HWY_MAX(least, 0) : least));
    high = hn::Set(D(), static_cast<float>(std::numeric_limits<T>::max() - zero));
    // Added to a small number it leaves the nearest integer in the low bits.
    magic = hn::Set(D(), 12582912.0f);
    shift = hn::Sub(hn::BitCast(DI(), magic), hn::Set(DI(), zero));
  }
  // Of what lies within the bounds.
  HWY_INLINE hn::Vec<hn::Rebind<T, DI>> operator()(V inside) const {
    return to_bytes<T>(hn::Sub(hn::BitCast(DI(), hn::Add(inside, magic)), shift));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_BYTES_INL_H_
