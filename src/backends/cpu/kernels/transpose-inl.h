// Four rows of float into four columns, the step that packing and transposition share.

#if defined(TRANSMUTER_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_TRANSPOSE_INL_H_
#undef TRANSMUTER_CPU_TRANSPOSE_INL_H_
#else
#define TRANSMUTER_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[k * stride + r] = rows[r][k] for r < 4, k < n; T has 32 bits.
template <class T>
HWY_INLINE void transpose_four(const T* const rows[4], int64_t n, T* to, int64_t stride) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<T, 4> d;
  for (; k + 4 <= n; k += 4) {
    const auto a = hn::LoadU(d, rows[0] + k), b = hn::LoadU(d, rows[1] + k);
    const auto c = hn::LoadU(d, rows[2] + k), e = hn::LoadU(d, rows[3] + k);
    const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
    const auto ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
    hn::StoreU(hn::InterleaveLower(d, ac, be), d, to + k * stride);
    hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + (k + 1) * stride);
    hn::StoreU(hn::InterleaveLower(d, ac2, be2), d, to + (k + 2) * stride);
    hn::StoreU(hn::InterleaveUpper(d, ac2, be2), d, to + (k + 3) * stride);
  }
#endif
  for (; k < n; ++k) {
    for (int r = 0; r < 4; ++r) to[k * stride + r] = rows[r][k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_TRANSPOSE_INL_H_
