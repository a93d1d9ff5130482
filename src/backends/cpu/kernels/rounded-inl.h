// Register tiles of weights of a few bits with activations of eight: a word of weights becomes 8 / bits vectors of
// bytes by shifts and masks, each multiplied with a cell of every row. Included once per target.
//   AVX3_DL      four products a lane added in 32 bits (vpdpbusd)
//   AVX3, AVX2   pair sums in 16 bits, added there over 32 elements: 15 * 127 * 32 / 2 fits; no weights of eight bits
//   elsewhere    nothing
#if defined(TRANSMUTER_ROUNDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_ROUNDED_INL_H_
#undef TRANSMUTER_ROUNDED_INL_H_
#else
#define TRANSMUTER_ROUNDED_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include <hwy/highway.h>

#include "backends/cpu/kernels/rounded_ops.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace rounded {

#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#define TM_ROUNDED 1

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<int32_t>;
using VF = hn::Vec<F32>;
using VI = hn::Vec<I32>;

inline constexpr int kLanes = HWY_LANES(float), kPanelVectors = 2;
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr int kTileRows = 14;
#elif HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif

HWY_INLINE int32_t load32(const void* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return value;
}
HWY_INLINE float load_float(const void* from) {
  float value;
  std::memcpy(&value, from, 4);
  return value;
}

// The largest magnitude; a NaN is larger than all.
HWY_INLINE float largest(const float* a, int64_t n) {
  const F32 d;
  const I32 di;
  VI most = hn::Zero(di);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::LoadU(d, a + i))));
  if (i < n)
    most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n - i)), d, a + i))));
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(di, most));
  return load_float(&bits);
}

// Where the elements of the cells of sixteen neighbours come from.
HWY_INLINE const uint8_t* cell_order(int bits) {
  alignas(16) static constexpr uint8_t kTwo[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  alignas(16) static constexpr uint8_t kFour[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  alignas(16) static constexpr uint8_t kEight[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return bits == 2 ? kTwo : bits == 4 ? kFour : kEight;
}

inline void round_row(const float* HWY_RESTRICT a, int64_t k, const FewBits& bits, int64_t row, int64_t rows,
                      std::byte* HWY_RESTRICT panel) {
  const F32 d;
  const I32 di;
  const hn::Rebind<int8_t, I32> d8;
  const hn::Full128<int8_t> bytes;
  const auto order = hn::Load(bytes, reinterpret_cast<const int8_t*>(cell_order(bits.bits)));
  const auto zero = static_cast<int32_t>(bits.zero);
  for (int64_t begin = 0; begin < k; begin += bits.block, panel += rows * (bits.block + 8)) {
    const int64_t n = std::min(bits.block, k - begin);
    const float* x = a + begin;
    const float most = largest(x, n);
    const VF factor = hn::Set(d, most > 0 ? 127.0f / most : 0.0f);
    VI sums = hn::Zero(di);
    std::byte* cells = panel + rows * 8 + row * 4;
    for (int64_t first = 0; first < bits.block; first += 16) {
      HWY_ALIGN int8_t q[16];
      for (int64_t i = 0; i < 16; i += kLanes) {
        const int64_t at = first + i;
        VI v = hn::Zero(di);
        if (at + kLanes <= n) {
          v = hn::NearestInt(hn::Mul(hn::LoadU(d, x + at), factor));
        } else if (at < n) {
          v = hn::NearestInt(hn::Mul(hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n - at)), d, x + at), factor));
        }
        // Of NaN and infinities the scale is not finite either; their integers stay in range.
        v = hn::Max(hn::Min(v, hn::Set(di, 127)), hn::Set(di, -127));
        sums = hn::Add(sums, v);
        hn::StoreU(hn::DemoteTo(d8, v), d8, q + i);
      }
      hn::Store(hn::TableLookupBytes(hn::Load(bytes, q), order), bytes, q);
      const int64_t count = std::min<int64_t>(4, (bits.block - first) / 4);
      for (int64_t c = 0; c < count; ++c, cells += rows * 4) std::memcpy(cells, q + 4 * c, 4);
    }
    const float scale = most / 127.0f;
    int32_t term = hn::GetLane(hn::SumOfLanes(di, sums));
    if (!bits.zeros) term *= -zero;
    std::memcpy(panel + row * 4, &scale, 4);
    std::memcpy(panel + rows * 4 + row * 4, &term, 4);
  }
}

// Part kPart of a word of weights: bytes 0 .. 2^bits - 1.
template <int kBits, int kPart>
HWY_INLINE VI part_of(VI word) {
  const hn::RebindToUnsigned<I32> du;
  const I32 d;
  if constexpr (kBits == 8) return word;
  const auto shifted = hn::BitCast(d, hn::ShiftRight<kPart * kBits>(hn::BitCast(du, word)));
  return hn::And(shifted, hn::Set(d, static_cast<int32_t>(((1u << kBits) - 1) * 0x01010101u)));
}

#if HWY_TARGET == HWY_AVX3_DL
HWY_INLINE void add_products(VI& sum, VI w, const std::byte* cell) {
  // By its name: the set's attributes lack avx512vnni, which its detection requires.
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "m"(*reinterpret_cast<const int32_t(*)>(cell)));
}
#elif HWY_TARGET == HWY_AVX3
HWY_INLINE void add_products(VI& sum, VI w, const std::byte* cell) {
  sum = VI{_mm512_add_epi16(sum.raw, _mm512_maddubs_epi16(w.raw, _mm512_set1_epi32(load32(cell))))};
}
HWY_INLINE VI pair_sums(VI v) { return VI{_mm512_madd_epi16(v.raw, _mm512_set1_epi16(1))}; }
#else
HWY_INLINE void add_products(VI& sum, VI w, const std::byte* cell) {
  sum = VI{_mm256_add_epi16(sum.raw, _mm256_maddubs_epi16(w.raw, _mm256_set1_epi32(load32(cell))))};
}
HWY_INLINE VI pair_sums(VI v) { return VI{_mm256_madd_epi16(v.raw, _mm256_set1_epi16(1))}; }
#endif

// All parts of the words of kVectors vectors with the cells of kRows rows.
template <int kBits, int kPart, int kChains, int kRows, int kVectors>
HWY_INLINE void word_products(const VI (&word)[kVectors], const std::byte* cells, VI (&sum)[kChains][kRows][kVectors]) {
  if constexpr (kPart < 8 / kBits) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const VI w = part_of<kBits, kPart>(word[v]);
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) add_products(sum[kPart % kChains][r][v], w, cells + (kPart * kRows + r) * 4);
    }
    word_products<kBits, kPart + 1>(word, cells, sum);
  }
}

template <int kBits, int kRows, int kVectors>
HWY_INLINE void columns(const std::byte* HWY_RESTRICT a, const std::byte* HWY_RESTRICT b, int64_t first,
                        const FewBits& bits, const FewBitsLayout& layout, int64_t k, float* HWY_RESTRICT out,
                        int64_t out_row) {
  const F32 d;
  const I32 di;
  constexpr int kParts = 8 / kBits, kWordCells = kParts * kRows * 4;
  constexpr int kChains = kParts > 1 && kRows * kVectors < 4 ? 2 : 1;
  VF total[kRows][kVectors];
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) total[r][v] = hn::Zero(d);
  }
  for (int64_t begin = 0; begin < k; begin += bits.block, b += layout.block_bytes) {
    const auto* scales = reinterpret_cast<const float*>(b) + first;
    const auto* words = reinterpret_cast<const int32_t*>(b + layout.scale_bytes + layout.zero_bytes) + first;
    const std::byte *row_scales = a, *terms = a + kRows * 4;
    a += kRows * 8;
    VI sum[kChains][kRows][kVectors];
    TM_UNROLL
    for (int s = 0; s < kChains; ++s) {
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TM_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[s][r][v] = hn::Zero(di);
      }
    }
    const auto word_of = [&](VI(&word)[kVectors]) HWY_ATTR {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) word[v] = hn::LoadU(di, words + v * kLanes);
      words += layout.columns;
    };
#if HWY_TARGET == HWY_AVX3_DL
    for (int64_t w = 0; w < layout.words; ++w, a += kWordCells) {
      VI word[kVectors];
      word_of(word);
      word_products<kBits, 0>(word, a, sum);
    }
#else
    constexpr int64_t kRun = kBits;  // words that hold 32 elements
    VI wide[kRows][kVectors];
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) wide[r][v] = hn::Zero(di);
    }
    for (int64_t w = 0; w < layout.words;) {
      for (const int64_t end = std::min(w + kRun, layout.words); w < end; ++w, a += kWordCells) {
        VI word[kVectors];
        word_of(word);
        word_products<kBits, 0>(word, a, sum);
      }
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TM_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          TM_UNROLL
          for (int s = 0; s < kChains; ++s) {
            wide[r][v] = hn::Add(wide[r][v], pair_sums(sum[s][r][v]));
            sum[s][r][v] = hn::Zero(di);
          }
        }
      }
    }
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[0][r][v] = wide[r][v];
    }
#endif
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const VF scale = hn::LoadU(d, scales + v * kLanes);
      VI zero = hn::Zero(di);
      if (bits.zeros) {
        const hn::Rebind<uint8_t, I32> d8;
        zero = hn::PromoteTo(
            di, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(b + layout.scale_bytes) + first + v * kLanes));
      }
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        VI all = sum[0][r][v];
#if HWY_TARGET == HWY_AVX3_DL
        if constexpr (kChains == 2) all = hn::Add(all, sum[1][r][v]);
#endif
        const VI term = hn::Set(di, load32(terms + r * 4));
        all = bits.zeros ? hn::Sub(all, hn::Mul(term, zero)) : hn::Add(all, term);
        total[r][v] =
            hn::MulAdd(hn::ConvertTo(d, all), hn::Mul(scale, hn::Set(d, load_float(row_scales + r * 4))), total[r][v]);
      }
    }
  }
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::StoreU(total[r][v], d, out + r * out_row + first + v * kLanes);
  }
}

template <int kBits, int kRows>
void tile(const std::byte* a, const std::byte* b, const FewBits& bits, const FewBitsLayout& layout, int64_t k,
          float* out, int64_t out_row) {
  // Sums and totals of a tile fit the registers; the more rows, the less the unpacking counts.
  constexpr int kVectors = kRows <= kTileRows * 3 / 7 ? 2 : 1;
  for (int v = 0; v < kPanelVectors; v += kVectors) {
    columns<kBits, kRows, kVectors>(a, b, v * kLanes, bits, layout, k, out, out_row);
  }
}

template <int kBits, int... kRowsLessOne>
const RoundedOps::Tile* tile_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr RoundedOps::Tile kTable[] = {&tile<kBits, kRowsLessOne + 1>...};
  return kTable;
}
#endif

}  // namespace rounded

inline const RoundedOps* make_rounded_ops() {
#if defined(TM_ROUNDED)
  using namespace rounded;
  static_assert(kTileRows <= kMaxRoundedRows);
  using Rows = std::make_integer_sequence<int, kTileRows>;
#if HWY_TARGET == HWY_AVX3_DL
  static const RoundedOps kOps = {kTileRows,
                                  kPanelVectors * kLanes,
                                  true,
                                  &round_row,
                                  {tile_table<2>(Rows()), tile_table<4>(Rows()), tile_table<8>(Rows())}};
#else
  static const RoundedOps kOps = {
      kTileRows, kPanelVectors * kLanes, false, &round_row, {tile_table<2>(Rows()), tile_table<4>(Rows()), nullptr}};
#endif
#else
  static const RoundedOps kOps = {};
#endif
  return &kOps;
}
#undef TM_ROUNDED

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_ROUNDED_INL_H_
