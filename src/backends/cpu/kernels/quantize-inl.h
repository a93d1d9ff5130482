// Loops of quantize.h: runs of elements that share a scale.

#if defined(TRANSMUTER_CPU_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_QUANTIZE_INL_H_
#undef TRANSMUTER_CPU_QUANTIZE_INL_H_
#else
#define TRANSMUTER_CPU_QUANTIZE_INL_H_
#endif

#include <limits>

#include "backends/cpu/kernels/bytes-inl.h"
#include "backends/cpu/kernels/quantize.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The low n lanes of a vector of a type narrower than float.
template <class T>
HWY_INLINE void store_lanes(hn::Vec<hn::Rebind<T, F32>> narrow, T* p, int64_t n) {
  const hn::Rebind<T, F32> d;
  if (n == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(narrow, d, p);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(F32())];
    hn::StoreU(narrow, d, buffer);
    for (int64_t i = 0; i < n; ++i) p[i] = buffer[i];
  }
}
template <class T>
HWY_INLINE void store_narrow(hn::Vec<hn::Rebind<int32_t, F32>> v, T* p, int64_t n) {
  store_lanes(hn::DemoteTo(hn::Rebind<T, F32>(), v), p, n);
}
template <class T>
HWY_INLINE hn::Vec<hn::Rebind<int32_t, F32>> load_narrow(const T* p, int64_t n) {
  const hn::Rebind<T, F32> d;
  const hn::Rebind<int32_t, F32> di;
  if (n == static_cast<int64_t>(hn::Lanes(d))) return hn::PromoteTo(di, hn::LoadU(d, p));
  HWY_ALIGN T buffer[hn::MaxLanes(F32())] = {};
  for (int64_t i = 0; i < n; ++i) buffer[i] = p[i];
  return hn::PromoteTo(di, hn::LoadU(d, buffer));
}

// Scale and zero point of each lane: one for all, or one a lane when `vary`. zeros may be null.
template <class T>
struct Scales {
  const float* scales;
  const T* zeros;
  bool vary;
  HWY_INLINE VF32 scale(int64_t i, int64_t n) const {
    const F32 d;
    if (!vary) return hn::Set(d, *scales);
    // 1 beyond the tail: it divides.
    return n == static_cast<int64_t>(hn::Lanes(d)) ? hn::LoadU(d, scales + i)
                                                   : load_n(d, scales + i, static_cast<size_t>(n), 1.0f);
  }
  HWY_INLINE hn::Vec<hn::Rebind<int32_t, F32>> zero(int64_t i, int64_t n) const {
    const hn::Rebind<int32_t, F32> di;
    if (!zeros) return hn::Zero(di);
    return vary ? load_narrow(zeros + i, n) : hn::Set(di, static_cast<int32_t>(*zeros));
  }
};

template <class T>
HWY_INLINE void quantize_run(const float* x, T* out, const Scales<T>& scales, int64_t n) {
  const F32 d;
  const hn::Rebind<int32_t, F32> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(di, static_cast<int32_t>(std::numeric_limits<T>::min()));
  const auto highest = hn::Set(di, static_cast<int32_t>(std::numeric_limits<T>::max()));
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = HWY_MIN(lanes, n - i);
    const VF32 v = count == lanes ? hn::LoadU(d, x + i) : load_n(d, x + i, static_cast<size_t>(count), 0.0f);
    const VF32 q = hn::Div(v, scales.scale(i, count));
    const auto zero = scales.zero(i, count);
    // Clamped as floats, before the zero point, so that the integers hold everything.
    const VF32 low = hn::ConvertTo(d, hn::Sub(lowest, zero)), high = hn::ConvertTo(d, hn::Sub(highest, zero));
    const VF32 clamped = hn::IfThenElse(hn::IsNaN(q), low, hn::Min(hn::Max(q, low), high));
    store_narrow(hn::Add(hn::NearestInt(clamped), zero), out + i, count);
  }
}

// Bytes of one scale, far from where quotients by it would not be finite. What lies beyond the bytes' range (infinities
// too) the step of the remainder only moves further out.
template <class T>
HWY_INLINE void quantize_bytes(const float* x, T* out, float of_scale, int of_zero, int64_t n) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VF32 scale = hn::Set(d, of_scale), inverse = hn::Set(d, 1.0f / of_scale), one = hn::Set(d, 1.0f);
  const ByteRounding<T> rounding(of_zero, false);
  const VF32 below = hn::Sub(rounding.low, one), above = hn::Add(rounding.high, one);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = HWY_MIN(lanes, n - i);
    const VF32 v = count == lanes ? hn::LoadU(d, x + i) : load_n(d, x + i, static_cast<size_t>(count), 0.0f);
    const VF32 near = hn::Min(hn::Max(hn::Mul(v, inverse), below), above);
    const VF32 q = quotient(d, v, scale, inverse, near);
    // By a comparison: NaN is the lowest.
    const VF32 bounded = hn::Min(hn::IfThenElse(hn::Ge(q, rounding.low), q, rounding.low), rounding.high);
    store_lanes(rounding(bounded), out + i, count);
  }
}
HWY_INLINE bool is_moderate(float scale) { return scale > 1e-12f && scale < 1e12f; }

// n > 0. NaN takes no part but is told of.
ValueRange range_of(const float* x, int64_t n) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kChains = 4;
  VF32 low[kChains], high[kChains];
  for (int c = 0; c < kChains; ++c) low[c] = high[c] = hn::Zero(d);
  auto odd = hn::IsNaN(low[0]);
  int64_t i = 0;
  for (; i + kChains * lanes <= n; i += kChains * lanes) {
    for (int c = 0; c < kChains; ++c) {
      const VF32 v = hn::LoadU(d, x + i + c * lanes);
      odd = hn::Or(odd, hn::IsNaN(v));
      low[c] = hn::Min(v, low[c]);  // x86 gives the second of the two where one is NaN
      high[c] = hn::Max(v, high[c]);
    }
  }
  for (; i < n; i += lanes) {
    const VF32 v = i + lanes <= n ? hn::LoadU(d, x + i) : load_n(d, x + i, static_cast<size_t>(n - i), 0.0f);
    odd = hn::Or(odd, hn::IsNaN(v));
    low[0] = hn::Min(v, low[0]);
    high[0] = hn::Max(v, high[0]);
  }
  for (int c = 1; c < kChains; ++c) {
    low[0] = hn::Min(low[0], low[c]);
    high[0] = hn::Max(high[0], high[c]);
  }
  return {hn::GetLane(hn::MinOfLanes(d, low[0])), hn::GetLane(hn::MaxOfLanes(d, high[0])), !hn::AllFalse(d, odd)};
}

template <class T>
HWY_INLINE void dequantize_run(const T* x, float* out, const Scales<T>& scales, int64_t n) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = HWY_MIN(lanes, n - i);
    const auto difference = hn::Sub(load_narrow(x + i, count), scales.zero(i, count));
    const VF32 y = hn::Mul(hn::ConvertTo(d, difference), scales.scale(i, count));
    if (count == lanes) {
      hn::StoreU(y, d, out + i);
    } else {
      store_n(d, y, out + i, static_cast<size_t>(count));
    }
  }
}

template <class A, class B, class T>
HWY_INLINE void add_bytes_of(const AddBytes& o, const A* a, const B* b, T* out, int64_t n) {
  const F32 d;
  const hn::Rebind<int32_t, F32> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto a_zero = hn::Set(di, o.a.zero), b_zero = hn::Set(di, o.b.zero);
  const VF32 a_scale = hn::Set(d, o.a.scale), b_scale = hn::Set(d, o.b.scale), scale = hn::Set(d, o.out.scale);
  const VF32 inverse = hn::Set(d, 1.0f / o.out.scale);
  const ByteRounding<T> rounding(o.out.zero, o.relu);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = HWY_MIN(lanes, n - i);
    const VF32 x = hn::Mul(hn::ConvertTo(d, hn::Sub(load_narrow(a + i, count), a_zero)), a_scale);
    const VF32 y = hn::Mul(hn::ConvertTo(d, hn::Sub(load_narrow(b + i, count), b_zero)), b_scale);
    const VF32 sum = hn::Add(x, y);
    const VF32 q = quotient(d, sum, scale, inverse, hn::Mul(sum, inverse));
    store_lanes(rounding(hn::Min(hn::Max(q, rounding.low), rounding.high)), out + i, count);
  }
}
template <class A, class B>
HWY_INLINE void add_bytes_to(const AddBytes& o, const A* a, const B* b, void* out, int64_t n) {
  if (o.out.is_signed) {
    add_bytes_of(o, a, b, static_cast<int8_t*>(out), n);
  } else {
    add_bytes_of(o, a, b, static_cast<uint8_t*>(out), n);
  }
}
template <class A>
HWY_INLINE void add_bytes_from(const AddBytes& o, const A* a, const void* b, void* out, int64_t n) {
  if (o.b.is_signed) {
    add_bytes_to(o, a, static_cast<const int8_t*>(b), out, n);
  } else {
    add_bytes_to(o, a, static_cast<const uint8_t*>(b), out, n);
  }
}
void add_bytes_run(const AddBytes& o, const void* a, const void* b, void* out, int64_t n) {
  if (o.a.is_signed) {
    add_bytes_from(o, static_cast<const int8_t*>(a), b, out, n);
  } else {
    add_bytes_from(o, static_cast<const uint8_t*>(a), b, out, n);
  }
}

void quantize_u8(const float* x, uint8_t* out, const float* scales, const uint8_t* zeros, bool vary, int64_t n) {
  if (!vary && is_moderate(*scales)) return quantize_bytes(x, out, *scales, zeros ? *zeros : 0, n);
  quantize_run(x, out, Scales<uint8_t>{scales, zeros, vary}, n);
}
void quantize_i8(const float* x, int8_t* out, const float* scales, const int8_t* zeros, bool vary, int64_t n) {
  if (!vary && is_moderate(*scales)) return quantize_bytes(x, out, *scales, zeros ? *zeros : 0, n);
  quantize_run(x, out, Scales<int8_t>{scales, zeros, vary}, n);
}
void quantize_u16(const float* x, uint16_t* out, const float* scales, const uint16_t* zeros, bool vary, int64_t n) {
  quantize_run(x, out, Scales<uint16_t>{scales, zeros, vary}, n);
}
void quantize_i16(const float* x, int16_t* out, const float* scales, const int16_t* zeros, bool vary, int64_t n) {
  quantize_run(x, out, Scales<int16_t>{scales, zeros, vary}, n);
}
void dequantize_u8(const uint8_t* x, float* out, const float* scales, const uint8_t* zeros, bool vary, int64_t n) {
  dequantize_run(x, out, Scales<uint8_t>{scales, zeros, vary}, n);
}
void dequantize_i8(const int8_t* x, float* out, const float* scales, const int8_t* zeros, bool vary, int64_t n) {
  dequantize_run(x, out, Scales<int8_t>{scales, zeros, vary}, n);
}
void dequantize_u16(const uint16_t* x, float* out, const float* scales, const uint16_t* zeros, bool vary, int64_t n) {
  dequantize_run(x, out, Scales<uint16_t>{scales, zeros, vary}, n);
}
void dequantize_i16(const int16_t* x, float* out, const float* scales, const int16_t* zeros, bool vary, int64_t n) {
  dequantize_run(x, out, Scales<int16_t>{scales, zeros, vary}, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_QUANTIZE_INL_H_
