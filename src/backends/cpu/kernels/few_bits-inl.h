// Register tiles on weights of a few bits (few_bits.h). A word of B goes through the registers once for all rows: its
// elements become floats by an OR (they are the lowest bits of 2^23 + q) and one subtraction. Included once per target.
#if defined(TRANSMUTER_FEW_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_FEW_BITS_INL_H_
#undef TRANSMUTER_FEW_BITS_INL_H_
#else
#define TRANSMUTER_FEW_BITS_INL_H_
#endif

#include <type_traits>
#include <utility>

#include <hwy/highway.h>

#include "backends/cpu/kernels/few_bits.h"
#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr uint32_t kMagicBits = 0x4B000000;  // 2^23
inline constexpr float kMagic = 8388608.0f;

// A vector of zeros, moved up by 2^23 like the elements.
template <class D>
HWY_INLINE hn::Vec<D> moved_zero(D d, const FewBits& bits, const std::byte* zeros) {
  if (!bits.zeros) return hn::Set(d, kMagic + bits.zero);
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint8_t, D> d8;
  const auto z = hn::PromoteTo(du, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(zeros)));
  return hn::BitCast(d, hn::Or(z, hn::Set(du, kMagicBits)));
}

// The elements number kFirst, kFirst + 1, … < kEnd of a word, each as q - zero: use(i, vector) with i a constant.
template <int kBits, int kFirst, int kEnd, class D, class Use>
HWY_INLINE void each_element(D d, hn::Vec<hn::RebindToUnsigned<D>> word, hn::Vec<D> zero, const Use& use) {
  if constexpr (kFirst < kEnd) {
    const hn::RebindToUnsigned<D> du;
    const auto shifted = hn::ShiftRight<kFirst * kBits>(word);
    const auto moved = hn::OrAnd(hn::Set(du, kMagicBits), shifted, hn::Set(du, (1u << kBits) - 1));
    use(std::integral_constant<int, kFirst>(), hn::Sub(hn::BitCast(d, moved), zero));
    each_element<kBits, kFirst + 1, kEnd>(d, word, zero, use);
  }
}

// The segments of rows [k0, k0 + k) of a panel that lie in one block each: segment(block, first row in it, end, p) with
// p counted from k0.
template <class Segment>
HWY_INLINE void each_segment(int64_t k0, int64_t k, int64_t block, const Segment& segment) {
  for (int64_t p = 0; p < k;) {
    const int64_t b = (k0 + p) / block, first = k0 + p - b * block;
    const int64_t end = first + k - p < block ? first + k - p : block;
    segment(b, first, end, p);
    p += end - first;
  }
}

template <int kBits, int kRows>
void few_bits_tile(const float* HWY_RESTRICT a, const std::byte* HWY_RESTRICT panel, const FewBits& bits,
                   const FewBitsLayout& layout, int64_t k0, int64_t k, float* HWY_RESTRICT out, int64_t out_row,
                   bool accumulate) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  constexpr int kPer = 32 / kBits;
  // Enough independent sums to hide the latency of the additions.
  constexpr int kChains = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  VF total[kRows][kTileVectors];
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v)
      total[r][v] = accumulate ? hn::LoadU(d, out + r * out_row + v * kLanes) : hn::Zero(d);
  }
  each_segment(k0, k, bits.block, [&](int64_t b, int64_t first, int64_t end, int64_t p) HWY_ATTR {
    const std::byte* block = panel + b * layout.block_bytes;
    const std::byte* zeros = block + layout.scale_bytes;
    const auto* words = reinterpret_cast<const uint32_t*>(zeros + layout.zero_bytes) + first / kPer * kTileColumns;
    VF sum[kChains][kRows][kTileVectors], zero[kTileVectors];
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
      zero[v] = moved_zero(d, bits, zeros + v * kLanes);
      TM_UNROLL
      for (int s = 0; s < kChains; ++s) {
        TM_UNROLL
        for (int r = 0; r < kRows; ++r) sum[s][r][v] = hn::Zero(d);
      }
    }
    const float* x = a + p;
    int64_t left = end - first;
    for (; left >= kPer; left -= kPer, words += kTileColumns, x += kPer) {
      TM_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        each_element<kBits, 0, kPer>(d, hn::LoadU(du, words + v * kLanes), zero[v], [&](auto i, VF w) HWY_ATTR {
          TM_UNROLL
          for (int r = 0; r < kRows; ++r) {
            VF& to = sum[decltype(i)::value % kChains][r][v];
            to = hn::MulAdd(hn::Set(d, x[r * kPanelStride + i]), w, to);
          }
        });
      }
    }
    if (left > 0) {
      TM_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        each_element<kBits, 0, kPer>(d, hn::LoadU(du, words + v * kLanes), zero[v], [&](auto i, VF w) HWY_ATTR {
          if (i >= left) return;
          TM_UNROLL
          for (int r = 0; r < kRows; ++r) {
            VF& to = sum[0][r][v];
            to = hn::MulAdd(hn::Set(d, x[r * kPanelStride + i]), w, to);
          }
        });
      }
    }
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
      const VF scale = hn::LoadU(d, reinterpret_cast<const float*>(block) + v * kLanes);
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        VF all = sum[0][r][v];
        if constexpr (kChains == 2) all = hn::Add(all, sum[1][r][v]);
        if constexpr (kChains == 4) all = hn::Add(hn::Add(all, sum[1][r][v]), hn::Add(sum[2][r][v], sum[3][r][v]));
        total[r][v] = hn::MulAdd(all, scale, total[r][v]);
      }
    }
  });
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) hn::StoreU(total[r][v], d, out + r * out_row + v * kLanes);
  }
}

// A panel as f32, [k, tile_columns].
template <int kBits>
void widen_few_bits_as(int64_t k, const std::byte* HWY_RESTRICT panel, const FewBits& bits, const FewBitsLayout& layout,
                       float* HWY_RESTRICT out) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  constexpr int kPer = 32 / kBits;
  each_segment(0, k, bits.block, [&](int64_t b, int64_t, int64_t rows, int64_t p) HWY_ATTR {
    const std::byte* block = panel + b * layout.block_bytes;
    const std::byte* zeros = block + layout.scale_bytes;
    const auto* words = reinterpret_cast<const uint32_t*>(zeros + layout.zero_bytes);
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
      const VF zero = moved_zero(d, bits, zeros + v * kLanes);
      const VF scale = hn::LoadU(d, reinterpret_cast<const float*>(block) + v * kLanes);
      for (int64_t at = 0; at < rows; at += kPer) {
        float* to = out + (p + at) * kTileColumns + v * kLanes;
        const int64_t left = rows - at;
        each_element<kBits, 0, kPer>(d, hn::LoadU(du, words + at / kPer * kTileColumns + v * kLanes), zero,
                                     [&](auto i, VF w) HWY_ATTR {
                                       if (i < left) hn::StoreU(hn::Mul(w, scale), d, to + i * kTileColumns);
                                     });
      }
    }
  });
}

inline void widen_few_bits(int64_t k, const std::byte* panel, const FewBits& bits, const FewBitsLayout& layout,
                           float* out) {
  switch (bits.bits) {
    case 2:
      return widen_few_bits_as<2>(k, panel, bits, layout, out);
    case 4:
      return widen_few_bits_as<4>(k, panel, bits, layout, out);
    default:
      return widen_few_bits_as<8>(k, panel, bits, layout, out);
  }
}

template <int kBits, int... kRowsLessOne>
const GemmOps::FewBitsTile* few_bits_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr GemmOps::FewBitsTile kTable[] = {&few_bits_tile<kBits, kRowsLessOne + 1>...};
  return kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_FEW_BITS_INL_H_
