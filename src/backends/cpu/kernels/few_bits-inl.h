// Register tiles on weights of a few bits (few_bits.h). A word of B goes through the registers once for all rows: its
// elements become floats by an OR (they are the lowest bits of 2^23 + q) and one subtraction, or by a table in
// registers. Included once per target.
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

// What an element stands for without its scale: the lowest kBits of each lane, less the zero of its column.
struct Centred {
  VF zero[kTileVectors];

  explicit Centred(const FewBits&) {}
  HWY_INLINE void start_block(const FewBits& bits, const std::byte* zeros) {
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) zero[v] = moved_zero(F32(), bits, zeros + v * kLanes);
  }
  template <int kBits>
  HWY_INLINE VF value(int v, hn::Vec<hn::RebindToUnsigned<F32>> shifted) const {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const auto moved = hn::OrAnd(hn::Set(du, kMagicBits), shifted, hn::Set(du, (1u << kBits) - 1));
    return hn::Sub(hn::BitCast(d, moved), zero[v]);
  }
};

// The same by a table of 16 values, a part of it in each register.
struct LookedUp {
  static constexpr int kPartLanes = kLanes < 16 ? kLanes : 16;
  static constexpr int kParts = 16 / kPartLanes;
  VF part[kParts];
  const float* table;

  HWY_INLINE explicit LookedUp(const FewBits& bits) : table(bits.table) {
    TM_UNROLL
    for (int i = 0; i < kParts; ++i) part[i] = hn::LoadU(F32(), table + i * kPartLanes);
  }
  HWY_INLINE void start_block(const FewBits&, const std::byte*) {}
  template <int kBits>
  HWY_INLINE VF value(int, hn::Vec<hn::RebindToUnsigned<F32>> shifted) const {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const hn::RebindToSigned<F32> di;
    if constexpr (kParts > 4) {
      return hn::GatherIndex(d, table, hn::BitCast(di, hn::And(shifted, hn::Set(du, 15u))));
    } else {
      const auto at = hn::IndicesFromVec(d, hn::And(shifted, hn::Set(du, kPartLanes - 1u)));
      VF found[kParts];
      TM_UNROLL
      for (int i = 0; i < kParts; ++i) found[i] = hn::TableLookupLanes(part[i], at);
      // The bits above those of a place in a register choose the register.
      const VF eights = hn::BitCast(d, hn::ShiftLeft<28>(shifted));
      if constexpr (kParts == 2) return hn::IfNegativeThenElse(eights, found[kParts - 1], found[0]);
      if constexpr (kParts == 4) {
        const VF fours = hn::BitCast(d, hn::ShiftLeft<29>(shifted));
        return hn::IfNegativeThenElse(eights, hn::IfNegativeThenElse(fours, found[3], found[2]),
                                      hn::IfNegativeThenElse(fours, found[1], found[0]));
      }
      return found[0];
    }
  }
};

// The elements number kFirst, kFirst + 1, … < kEnd of words of vector `v` of a tile: use(i, vector) with i a constant.
template <int kBits, int kFirst, int kEnd, class Widen, class Use>
HWY_INLINE void each_element(hn::Vec<hn::RebindToUnsigned<F32>> word, const Widen& widen, int v, const Use& use) {
  if constexpr (kFirst < kEnd) {
    use(std::integral_constant<int, kFirst>(), widen.template value<kBits>(v, hn::ShiftRight<kFirst * kBits>(word)));
    each_element<kBits, kFirst + 1, kEnd>(word, widen, v, use);
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

template <int kBits, class Widen, int kRows>
void few_bits_tile(const float* HWY_RESTRICT a, const std::byte* HWY_RESTRICT panel, const FewBits& bits,
                   const FewBitsLayout& layout, int64_t k0, int64_t k, float* HWY_RESTRICT out, int64_t out_row,
                   bool accumulate) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  constexpr int kPer = 32 / kBits;
  // Enough independent sums to hide the latency of the additions.
  constexpr int kChains = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  Widen widen(bits);
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
    VF sum[kChains][kRows][kTileVectors];
    widen.start_block(bits, zeros);
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
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
        each_element<kBits, 0, kPer>(hn::LoadU(du, words + v * kLanes), widen, v, [&](auto i, VF w) HWY_ATTR {
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
        each_element<kBits, 0, kPer>(hn::LoadU(du, words + v * kLanes), widen, v, [&](auto i, VF w) HWY_ATTR {
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
template <int kBits, class Widen>
void widen_few_bits_as(int64_t k, const std::byte* HWY_RESTRICT panel, const FewBits& bits, const FewBitsLayout& layout,
                       float* HWY_RESTRICT out) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  constexpr int kPer = 32 / kBits;
  Widen widen(bits);
  each_segment(0, k, bits.block, [&](int64_t b, int64_t, int64_t rows, int64_t p) HWY_ATTR {
    const std::byte* block = panel + b * layout.block_bytes;
    const std::byte* zeros = block + layout.scale_bytes;
    const auto* words = reinterpret_cast<const uint32_t*>(zeros + layout.zero_bytes);
    widen.start_block(bits, zeros);
    TM_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
      const VF scale = hn::LoadU(d, reinterpret_cast<const float*>(block) + v * kLanes);
      for (int64_t at = 0; at < rows; at += kPer) {
        float* to = out + (p + at) * kTileColumns + v * kLanes;
        const int64_t left = rows - at;
        each_element<kBits, 0, kPer>(hn::LoadU(du, words + at / kPer * kTileColumns + v * kLanes), widen, v,
                                     [&](auto i, VF w) HWY_ATTR {
                                       if (i < left) hn::StoreU(hn::Mul(w, scale), d, to + i * kTileColumns);
                                     });
      }
    }
  });
}

inline void widen_few_bits(int64_t k, const std::byte* panel, const FewBits& bits, const FewBitsLayout& layout,
                           float* out) {
  if (bits.table) return widen_few_bits_as<4, LookedUp>(k, panel, bits, layout, out);
  switch (bits.bits) {
    case 2:
      return widen_few_bits_as<2, Centred>(k, panel, bits, layout, out);
    case 4:
      return widen_few_bits_as<4, Centred>(k, panel, bits, layout, out);
    default:
      return widen_few_bits_as<8, Centred>(k, panel, bits, layout, out);
  }
}

template <int kBits, class Widen, int... kRowsLessOne>
const GemmOps::FewBitsTile* few_bits_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr GemmOps::FewBitsTile kTable[] = {&few_bits_tile<kBits, Widen, kRowsLessOne + 1>...};
  return kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_FEW_BITS_INL_H_
