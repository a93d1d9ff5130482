// Sums over the lanes of vectors. Included once per target.
#if defined(TRANSMUTER_CPU_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_SUMS_INL_H_
#undef TRANSMUTER_CPU_SUMS_INL_H_
#else
#define TRANSMUTER_CPU_SUMS_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
template <class D>
HWY_INLINE hn::Vec<hn::Full128<float>> sum_of_blocks([[maybe_unused]] D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

// The sums of the lanes of four vectors.
HWY_INLINE void store_sums(hn::Vec<hn::ScalableTag<float>> s0, hn::Vec<hn::ScalableTag<float>> s1,
                           hn::Vec<hn::ScalableTag<float>> s2, hn::Vec<hn::ScalableTag<float>> s3, float* out) {
#if HWY_TARGET == HWY_SCALAR
  out[0] = hn::GetLane(s0), out[1] = hn::GetLane(s1), out[2] = hn::GetLane(s2), out[3] = hn::GetLane(s3);
#else
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = hn::Add(hn::InterleaveLower(d, s0, s1), hn::InterleaveUpper(d, s0, s1));
  const auto b = hn::Add(hn::InterleaveLower(d, s2, s3), hn::InterleaveUpper(d, s2, s3));
  const auto pa = hn::BitCast(pairs, a), pb = hn::BitCast(pairs, b);
  const auto sums =
      hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, pa, pb)), hn::BitCast(d, hn::InterleaveUpper(pairs, pa, pb)));
  hn::StoreU(sum_of_blocks(d, sums), hn::Full128<float>(), out);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_SUMS_INL_H_
