// Products for which the register tile is too wide or too high: one row times a plain B, and dot products of rows with
// rows, for a transposed B and for the last few columns. Included once per target.
#if defined(TRANSMUTER_GEMM_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_GEMM_THIN_INL_H_
#undef TRANSMUTER_GEMM_THIN_INL_H_
#else
#define TRANSMUTER_GEMM_THIN_INL_H_
#endif

#include <algorithm>

#include <hwy/highway.h>

#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/sums-inl.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Columns [0, kVectors vectors) of a row times B. The same chains whatever the width, so that a column's sum does not
// depend on which columns its task has.
template <int kVectors, class Memory>
HWY_INLINE void row_columns(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t b_row, int64_t k,
                            float* HWY_RESTRICT out, const Memory& memory) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#if HWY_ARCH_X86 && HWY_TARGET < HWY_AVX2
  constexpr int kChains = 4;
#else
  constexpr int kChains = 2;
#endif
  VF32 sum[kChains][kVectors];
  TM_UNROLL
  for (int s = 0; s < kChains; ++s) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[s][v] = hn::Zero(d);
  }
  int64_t p = 0;
  for (; p + kChains <= k; p += kChains) {
    TM_UNROLL
    for (int s = 0; s < kChains; ++s) {
      const VF32 x = hn::Set(d, a[p + s]);
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v)
        sum[s][v] = hn::MulAdd(x, memory.load(b + (p + s) * b_row + v * lanes), sum[s][v]);
    }
  }
  for (; p < k; ++p) {
    const VF32 x = hn::Set(d, a[p]);
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[0][v] = hn::MulAdd(x, memory.load(b + p * b_row + v * lanes), sum[0][v]);
  }
  TM_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    VF32 all = hn::Add(sum[0][v], sum[1][v]);
    if constexpr (kChains == 4) all = hn::Add(all, hn::Add(sum[2][v], sum[3][v]));
    memory.store(all, out + v * lanes);
  }
}

inline void row_product(const float* a, const float* b, int64_t b_row, int64_t k, int64_t columns, float* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32()));
  int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) row_columns<4>(a, b + j, b_row, k, out + j, WholeLanes());
  for (; j + lanes <= columns; j += lanes) row_columns<1>(a, b + j, b_row, k, out + j, WholeLanes());
  if (j < columns) row_columns<1>(a, b + j, b_row, k, out + j, FirstLanes{static_cast<size_t>(columns - j)});
}

// kFew rows of x with all of y, four rows of y at a time; the last four may repeat one.
template <int kFew>
void dots_of(const GemmOps::Dots& o) {
  const F32 d;
  for (int64_t j = 0; j < o.y_rows; j += 4) {
    const int64_t count = std::min<int64_t>(4, o.y_rows - j);
    const float* y[4];
    for (int64_t i = 0; i < 4; ++i) y[i] = o.y + (j + std::min(i, count - 1)) * o.y_row;
    VF32 sum[kFew][4];
    TM_UNROLL
    for (int r = 0; r < kFew; ++r) {
      TM_UNROLL
      for (int i = 0; i < 4; ++i) sum[r][i] = hn::Zero(d);
    }
    for_vectors(o.k, [&](int64_t p, auto memory) HWY_ATTR {
      VF32 value[4];
      TM_UNROLL
      for (int i = 0; i < 4; ++i) value[i] = memory.load(y[i] + p);
      TM_UNROLL
      for (int r = 0; r < kFew; ++r) {
        const VF32 x = memory.load(o.x + r * o.x_row + p);
        TM_UNROLL
        for (int i = 0; i < 4; ++i) sum[r][i] = hn::MulAdd(x, value[i], sum[r][i]);
      }
    });
    TM_UNROLL
    for (int r = 0; r < kFew; ++r) {
      float sums[4];
      store_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3], sums);
      float* out = o.out + r * o.out_x + j * o.out_y;
      for (int64_t i = 0; i < count; ++i) out[i * o.out_y] = sums[i] + (o.accumulate ? out[i * o.out_y] : 0.0f);
    }
  }
}

inline void dots(const GemmOps::Dots& o) {
  switch (o.x_rows) {
    case 1:
      return dots_of<1>(o);
    case 2:
      return dots_of<2>(o);
    case 3:
      return dots_of<3>(o);
    default:
      return dots_of<4>(o);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_GEMM_THIN_INL_H_
