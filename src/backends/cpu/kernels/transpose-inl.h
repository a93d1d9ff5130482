// Rows of 32-bit elements into columns: four of them, the step that packing and transposition share, and squares.

#if defined(TRANSMUTER_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_TRANSPOSE_INL_H_
#undef TRANSMUTER_CPU_TRANSPOSE_INL_H_
#else
#define TRANSMUTER_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "backends/cpu/kernels/unroll.h"
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

#undef TRANSMUTER_TRANSPOSES_SQUARES
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define TRANSMUTER_TRANSPOSES_SQUARES 1
inline constexpr int64_t kSquare = HWY_LANES(uint32_t);

// to[a to_stride + c] = from[c from_stride + a], a, c < kSquare.
HWY_INLINE void transpose_square(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Repartition<uint64_t, decltype(d)> pairs;
  constexpr int kBlocks = static_cast<int>(kSquare) / 4;
  using V = hn::Vec<decltype(d)>;
  const auto interleave = [&](V a, V b, bool upper) HWY_ATTR {
    const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
    return hn::BitCast(d, upper ? hn::InterleaveUpper(pairs, x, y) : hn::InterleaveLower(pairs, x, y));
  };
  // quarters[j][i]: its block b is column 4 b + j of rows 4 i to 4 i + 3.
  V quarters[4][kBlocks];
  TM_UNROLL
  for (int i = 0; i < kBlocks; ++i) {
    const uint32_t* const row = from + 4 * i * from_stride;
    const V r0 = hn::LoadU(d, row), r1 = hn::LoadU(d, row + from_stride);
    const V r2 = hn::LoadU(d, row + 2 * from_stride), r3 = hn::LoadU(d, row + 3 * from_stride);
    const V a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveLower(d, r2, r3);
    const V c = hn::InterleaveUpper(d, r0, r1), e = hn::InterleaveUpper(d, r2, r3);
    quarters[0][i] = interleave(a, b, false);
    quarters[1][i] = interleave(a, b, true);
    quarters[2][i] = interleave(c, e, false);
    quarters[3][i] = interleave(c, e, true);
  }
  TM_UNROLL
  for (int j = 0; j < 4; ++j) {
    const V* const q = quarters[j];
    uint32_t* const row = to + j * to_stride;
#if HWY_TARGET == HWY_AVX2
    hn::StoreU(hn::ConcatLowerLower(d, q[1], q[0]), d, row);
    hn::StoreU(hn::ConcatUpperUpper(d, q[1], q[0]), d, row + 4 * to_stride);
#else
    // Even blocks of two vectors, odd blocks of them; the same once more.
    const auto even01 = _mm512_shuffle_i32x4(q[0].raw, q[1].raw, 0x88);
    const auto even23 = _mm512_shuffle_i32x4(q[2].raw, q[3].raw, 0x88);
    const auto odd01 = _mm512_shuffle_i32x4(q[0].raw, q[1].raw, 0xdd);
    const auto odd23 = _mm512_shuffle_i32x4(q[2].raw, q[3].raw, 0xdd);
    hn::StoreU(V{_mm512_shuffle_i32x4(even01, even23, 0x88)}, d, row);
    hn::StoreU(V{_mm512_shuffle_i32x4(odd01, odd23, 0x88)}, d, row + 4 * to_stride);
    hn::StoreU(V{_mm512_shuffle_i32x4(even01, even23, 0xdd)}, d, row + 8 * to_stride);
    hn::StoreU(V{_mm512_shuffle_i32x4(odd01, odd23, 0xdd)}, d, row + 12 * to_stride);
#endif
  }
}
#else
#define TRANSMUTER_TRANSPOSES_SQUARES 0
#endif

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_TRANSPOSE_INL_H_
