// f16 and bf16 to and from vectors of float, rounding to nearest even, for use inside a kernel's HWY_NAMESPACE.
// Highway 1.0 truncates where there is no F16C, and for bf16 everywhere.

#if defined(TRANSMUTER_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_HALF_INL_H_
#undef TRANSMUTER_CPU_HALF_INL_H_
#else
#define TRANSMUTER_CPU_HALF_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x86 with F16C converts in hardware.
#undef TRANSMUTER_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define TRANSMUTER_HAVE_F16C 1
#else
#define TRANSMUTER_HAVE_F16C 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_f16(D d, const uint16_t* p) {
#if TRANSMUTER_HAVE_F16C
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  const auto h = hn::PromoteTo(du, hn::LoadU(dh, p));
  const auto sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(du, 0x8000)));
  const auto magnitude = hn::And(h, hn::Set(du, 0x7fff));
  // The product makes the exponent right and normalises denormals.
  const auto value = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const hn::RebindToSigned<D> di;
  const auto special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7bff));
  const auto exponent = hn::IfThenElseZero(special, hn::Set(di, 0x7f800000));
  return hn::Or(hn::Or(value, hn::BitCast(d, exponent)), hn::BitCast(d, sign));
#endif
}

template <class D>
HWY_INLINE void store_f16(D d, hn::Vec<D> v, uint16_t* p) {
#if TRANSMUTER_HAVE_F16C
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(p));
#else
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::BitCast(di, hn::Abs(v));
  const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(di, v)), hn::Set(di, 0x8000));
  const auto tie = hn::And(hn::ShiftRight<13>(bits), hn::Set(di, 1));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Add(bits, tie), hn::Set(di, static_cast<int32_t>(0xfff - (112 << 23)))));
  // Adding 1/2 leaves the rounded denormal in the low bits.
  const auto half = hn::Set(d, 0.5f);
  const auto denormal = hn::Sub(hn::BitCast(di, hn::Add(hn::Abs(v), half)), hn::BitCast(di, half));
  const auto nan = hn::Or(hn::And(hn::ShiftRight<13>(bits), hn::Set(di, 0x1ff)), hn::Set(di, 0x7e00));
  auto r = hn::IfThenElse(hn::Lt(bits, hn::Set(di, 0x38800000)), denormal, normal);
  r = hn::IfThenElse(hn::Gt(bits, hn::Set(di, 0x477fffff)), hn::Set(di, 0x7c00), r);
  r = hn::IfThenElse(hn::Gt(bits, hn::Set(di, 0x7f800000)), nan, r);
  hn::StoreU(hn::DemoteTo(dh, hn::Or(r, sign)), dh, p);
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, p))));
}

template <class D>
HWY_INLINE void store_bf16(D, hn::Vec<D> v, uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::BitCast(du, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), hn::And(high, hn::Set(du, 1))));
  const auto nan = hn::Or(high, hn::Set(du, 0x40));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, hn::IfThenElse(is_nan, nan, rounded))), dh, p);
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_HALF_INL_H_
