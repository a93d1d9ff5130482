// Runs of elements of any dtype into float lanes and back, for the tape.

#if defined(TRANSMUTER_CPU_TILE_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_TILE_MEMORY_INL_H_
#undef TRANSMUTER_CPU_TILE_MEMORY_INL_H_
#else
#define TRANSMUTER_CPU_TILE_MEMORY_INL_H_
#endif

#include <cstring>
#include <limits>

#include "backends/cpu/kernels/half-inl.h"
#include "backends/cpu/kernels/tile.h"
#include "hwy/highway.h"
#include "tensor/cast.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::CappedTag<float, kTileLanes>;

HWY_INLINE void fill(float* to, size_t n, float value) {
  const TileTag d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(hn::Set(d, value), d, to + i);
  for (; i < n; ++i) to[i] = value;
}

template <class T>
HWY_INLINE void widen(const void* from, float* to, size_t n) {
  const T* p = static_cast<const T*>(from);
  for (size_t i = 0; i < n; ++i) to[i] = static_cast<float>(p[i]);
}
// n dense elements; `from` may be unaligned only for f32, f16 and bf16.
HWY_INLINE void widen_run(DType dtype, const void* from, float* to, size_t n) {
  const TileTag d;
  const hn::RebindToSigned<TileTag> di;
  const auto* h = static_cast<const uint16_t*>(from);
  const size_t whole = n - n % hn::Lanes(d);
  const hn::CappedTag<float, 1> d1;
  switch (dtype) {
    case DType::f32:
      memcpy(to, from, n * sizeof(float));
      return;
    case DType::f16:
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) hn::StoreU(load_f16(d, h + i), d, to + i);
      for (size_t i = whole; i < n; ++i) hn::StoreU(load_f16(d1, h + i), d1, to + i);
      return;
    case DType::bf16:
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) hn::StoreU(load_bf16(d, h + i), d, to + i);
      for (size_t i = whole; i < n; ++i) hn::StoreU(load_bf16(d1, h + i), d1, to + i);
      return;
    case DType::f64:
      return widen<double>(from, to, n);
    case DType::boolean:
    case DType::u8: {
      const hn::Rebind<uint8_t, TileTag> du8;
      const auto* p = static_cast<const uint8_t*>(from);
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
        hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(du8, p + i))), d, to + i);
      }
      return widen<uint8_t>(p + whole, to + whole, n - whole);
    }
    case DType::i8: {
      const hn::Rebind<int8_t, TileTag> d8;
      const auto* p = static_cast<const int8_t*>(from);
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
        hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, p + i))), d, to + i);
      }
      return widen<int8_t>(p + whole, to + whole, n - whole);
    }
    case DType::i16:
      return widen<int16_t>(from, to, n);
    case DType::u16:
      return widen<uint16_t>(from, to, n);
    case DType::i32: {
      const auto* p = static_cast<const int32_t*>(from);
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
        hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, p + i)), d, to + i);
      }
      return widen<int32_t>(p + whole, to + whole, n - whole);
    }
    case DType::u32:
      return widen<uint32_t>(from, to, n);
    case DType::i64:
      return widen<int64_t>(from, to, n);
    default:
      return widen<uint64_t>(from, to, n);
  }
}

template <class T>
HWY_INLINE void narrow(const float* from, void* to, size_t n) {
  T* p = static_cast<T*>(to);
  for (size_t i = 0; i < n; ++i) p[i] = transmuter::convert<T>(from[i]);
}
// To eight bits: truncates, saturates, NaN is 0.
template <class T>
HWY_INLINE void narrow_bytes(const float* from, void* to, size_t n) {
  const TileTag d;
  const hn::RebindToSigned<TileTag> di;
  const hn::Rebind<T, TileTag> d8;
  const auto low = hn::Set(d, static_cast<float>(std::numeric_limits<T>::min())),
             high = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()));
  T* p = static_cast<T*>(to);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, from + i);
    const auto inside = hn::Min(hn::Max(hn::IfThenZeroElse(hn::IsNaN(v), v), low), high);
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, inside)), d8, p + i);
  }
  narrow<T>(from + i, p + i, n - i);
}
HWY_INLINE void narrow_run(DType dtype, const float* from, void* to, size_t n) {
  const TileTag d;
  auto* h = static_cast<uint16_t*>(to);
  const size_t whole = n - n % hn::Lanes(d);
  const hn::CappedTag<float, 1> d1;
  switch (dtype) {
    case DType::f32:
      memcpy(to, from, n * sizeof(float));
      return;
    case DType::f16:
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) store_f16(d, hn::LoadU(d, from + i), h + i);
      for (size_t i = whole; i < n; ++i) store_f16(d1, hn::LoadU(d1, from + i), h + i);
      return;
    case DType::bf16:
      for (size_t i = 0; i < whole; i += hn::Lanes(d)) store_bf16(d, hn::LoadU(d, from + i), h + i);
      for (size_t i = whole; i < n; ++i) store_bf16(d1, hn::LoadU(d1, from + i), h + i);
      return;
    case DType::f64:
      return narrow<double>(from, to, n);
    case DType::boolean:
      return narrow<bool>(from, to, n);
    case DType::u8:
      return narrow_bytes<uint8_t>(from, to, n);
    case DType::i8:
      return narrow_bytes<int8_t>(from, to, n);
    case DType::i16:
      return narrow<int16_t>(from, to, n);
    case DType::u16:
      return narrow<uint16_t>(from, to, n);
    case DType::i32:
      return narrow<int32_t>(from, to, n);
    case DType::u32:
      return narrow<uint32_t>(from, to, n);
    case DType::i64:
      return narrow<int64_t>(from, to, n);
    default:
      return narrow<uint64_t>(from, to, n);
  }
}

template <class T>
HWY_INLINE void pick(const void* from, int64_t stride, void* to, size_t n) {
  const T* p = static_cast<const T*>(from);
  T* q = static_cast<T*>(to);
  for (size_t i = 0; i < n; ++i) q[i] = p[static_cast<int64_t>(i) * stride];
}
// n elements `stride` elements apart.
HWY_INLINE void load_run(DType dtype, size_t width, const char* from, int64_t stride, float* to, size_t n) {
  if (stride == 1 || n == 1) return widen_run(dtype, from, to, n);
  if (stride == 0) {
    widen_run(dtype, from, to, 1);
    return fill(to, n, to[0]);
  }
  HWY_ALIGN uint64_t picked[kTileLanes];
  switch (width) {
    case 1:
      pick<uint8_t>(from, stride, picked, n);
      break;
    case 2:
      pick<uint16_t>(from, stride, picked, n);
      break;
    case 4:
      pick<uint32_t>(from, stride, picked, n);
      break;
    default:
      pick<uint64_t>(from, stride, picked, n);
  }
  widen_run(dtype, picked, to, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_TILE_MEMORY_INL_H_
