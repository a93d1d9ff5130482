// The last few lanes of an array of float: loads and stores of fewer lanes than a vector, and loops that use them.

#if defined(TRANSMUTER_CPU_TAIL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_TAIL_INL_H_
#undef TRANSMUTER_CPU_TAIL_INL_H_
#else
#define TRANSMUTER_CPU_TAIL_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF32 = hn::Vec<F32>;

// Masked memory operations never touch the masked-off lanes on these sets; elsewhere Highway may read whole vectors.
#undef TRANSMUTER_SAFE_MASKS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define TRANSMUTER_SAFE_MASKS 1
#else
#define TRANSMUTER_SAFE_MASKS 0
#endif

// n < Lanes(d) elements, `fill` beyond.
HWY_INLINE VF32 load_n(F32 d, const float* p, size_t n, float fill) {
#if TRANSMUTER_SAFE_MASKS
  const auto mask = hn::FirstN(d, n);
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
#else
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, fill), d, buffer);
  for (size_t i = 0; i < n; ++i) buffer[i] = p[i];
  return hn::Load(d, buffer);
#endif
}

HWY_INLINE void store_n(F32 d, VF32 v, float* p, size_t n) {
#if TRANSMUTER_SAFE_MASKS
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  for (size_t i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

// fn(i, load, store) for each vector of [0, n): load(p, fill) and store(v, p) act on p[i..) and know the tail.
struct WholeLanes {
  HWY_INLINE VF32 load(const float* p, float = 0.0f) const { return hn::LoadU(F32(), p); }
  HWY_INLINE void store(VF32 v, float* p) const { hn::StoreU(v, F32(), p); }
};
struct FirstLanes {
  size_t n;
  HWY_INLINE VF32 load(const float* p, float fill = 0.0f) const { return load_n(F32(), p, n, fill); }
  HWY_INLINE void store(VF32 v, float* p) const { store_n(F32(), v, p, n); }
};
template <class Fn>
HWY_INLINE void for_vectors(int64_t n, const Fn& fn) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) fn(i, WholeLanes());
  if (i < n) fn(i, FirstLanes{static_cast<size_t>(n - i)});
}

HWY_INLINE double sum_of_lanes(VF32 v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(v);
#else
  const hn::Half<F32> half;
  const hn::Repartition<double, F32> wide;
  const auto pairs = hn::Add(hn::PromoteTo(wide, hn::LowerHalf(half, v)), hn::PromoteTo(wide, hn::UpperHalf(half, v)));
  return hn::GetLane(hn::SumOfLanes(wide, pairs));
#endif
}

// The sum over [0, n) of fn(i, memory), a vector whose lanes beyond the tail are zero. Runs of f32 accumulators, totals
// in double: relative error about 1e-7 of the sum of magnitudes for any n.
template <class Fn>
HWY_INLINE double sum_vectors(int64_t n, const Fn& fn) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kRun = 128;
  double total = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t end = i + std::min((n - i) / lanes, kRun) * lanes;
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      a = hn::Add(a, fn(i, WholeLanes()));
      b = hn::Add(b, fn(i + lanes, WholeLanes()));
      c = hn::Add(c, fn(i + 2 * lanes, WholeLanes()));
      e = hn::Add(e, fn(i + 3 * lanes, WholeLanes()));
    }
    for (; i < end; i += lanes) a = hn::Add(a, fn(i, WholeLanes()));
    if (n - i < lanes && i < n) {
      b = hn::Add(b, fn(i, FirstLanes{static_cast<size_t>(n - i)}));
      i = n;
    }
    total += sum_of_lanes(hn::Add(hn::Add(a, b), hn::Add(c, e)));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_TAIL_INL_H_
