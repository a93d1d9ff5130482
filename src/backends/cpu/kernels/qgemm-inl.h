// The register tiles of the 8-bit product. Included once per target.
//   AVX3_DL       four u8 x s8 products a lane added in 32 bits (vpdpbusd)
//   AVX2, SSE4    |a| x (w with a's sign), pair sums in 16 bits: 128 * 127 * 2 fits; w = -128 takes the next one
//   AVX3, ...     widened to 16 bits, pair sums in 32 (pmaddwd)
//   elsewhere     plain
#if defined(TRANSMUTER_QGEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_QGEMM_INL_H_
#undef TRANSMUTER_QGEMM_INL_H_
#else
#define TRANSMUTER_QGEMM_INL_H_
#endif

#include <cstring>
#include <limits>
#include <utility>

#include <hwy/highway.h>

#include "backends/cpu/kernels/bytes-inl.h"
#include "backends/cpu/kernels/qgemm_ops.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace qproduct {

namespace hn = hwy::HWY_NAMESPACE;
using I32 = hn::ScalableTag<int32_t>;
using VI = hn::Vec<I32>;

inline constexpr int kLanes = HWY_LANES(int32_t);
#if HWY_TARGET == HWY_SCALAR
inline constexpr int kVectors = 8;
#else
inline constexpr int kVectors = 2;
#endif
inline constexpr int kColumns = kVectors * kLanes;

HWY_INLINE int32_t load32(const void* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return value;
}

// step(sums, a_cells, b_group): one group of k for every row and vector.
template <int kRows, int kCell, int kGroup, class Step>
HWY_INLINE void tile_loop(const void* a, const void* b, int64_t groups, int32_t* out, const Step& step) {
  const I32 d;
  VI sums[kRows][kVectors];
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const uint8_t* cells = static_cast<const uint8_t*>(a);
  const int8_t* group = static_cast<const int8_t*>(b);
  for (int64_t g = 0; g < groups; ++g, cells += kRows * kCell, group += kColumns * kGroup) step(sums, cells, group);
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, out + r * kColumns + v * kLanes);
  }
}

template <int kCell, class Cell>
HWY_INLINE int32_t pack_row(const uint8_t* a, int64_t column_stride, int64_t k, int64_t group, uint8_t flip,
                            int64_t rows, bool is_signed, uint8_t* out, const Cell& cell) {
  int32_t sum = 0;
  for (int64_t p = 0; p < k; p += group, out += rows * kCell) {
    uint8_t bytes[4] = {};
    const int64_t count = p + group <= k ? group : k - p;
    if (column_stride == 1 && count == 4) {
      const uint32_t four = static_cast<uint32_t>(load32(a + p)) ^ (0x01010101u * flip);
      std::memcpy(bytes, &four, 4);
    } else {
      for (int64_t i = 0; i < count; ++i) bytes[i] = a[(p + i) * column_stride] ^ flip;
    }
    for (int i = 0; i < 4; ++i) sum += is_signed ? static_cast<int8_t>(bytes[i]) : bytes[i];
    cell(bytes, out);
  }
  return sum;
}

#if HWY_TARGET == HWY_AVX3_DL
#define TM_QGEMM_VNNI 1
// sums[r][v] += the four products of row r in each lane of vector v; x(r): row r's four bytes.
template <int kRows, class Row>
HWY_INLINE void vnni_step(VI (&sums)[kRows][kVectors], const int8_t* group, const Row& x) {
  const I32 d;
  VI w[kVectors];
  TM_UNROLL
  for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, reinterpret_cast<const int32_t*>(group) + v * kLanes);
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const VI four = hn::Set(d, load32(x(r)));
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      // By its name: the set's attributes lack avx512vnni, which its detection requires.
      asm("vpdpbusd %2, %1, %0" : "+v"(sums[r][v].raw) : "v"(four.raw), "v"(w[v].raw));
    }
  }
}
template <int kRows>
void vnni_tile(const void* a, const void* b, int64_t groups, int32_t* out) {
  tile_loop<kRows, 4, 4>(a, b, groups, out, [](auto& sums, const uint8_t* cells, const int8_t* group) HWY_ATTR {
    vnni_step<kRows>(sums, group, [=](int r) { return cells + 4 * r; });
  });
}
template <int kRows>
void vnni_row_tile(const QRows& a, const void* b, int32_t* out) {
  const I32 d;
  VI sums[kRows][kVectors];
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const auto* group = static_cast<const int8_t*>(b);
  for (int64_t run = 0; run < a.run_count; ++run) {
    const uint8_t* rows[kRows];
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) rows[r] = a.rows[r] + a.runs[run];
    for (int64_t at = 0; at < 4 * a.groups; at += 4, group += 4 * kColumns) {
      vnni_step<kRows>(sums, group, [&](int r) { return rows[r] + at; });
    }
  }
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, out + r * kColumns + v * kLanes);
  }
}
#endif

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
#define TM_QGEMM_SIGN 1
#if HWY_TARGET == HWY_AVX2
using Raw = __m256i;
HWY_INLINE Raw signed_pairs(Raw magnitudes, Raw values, Raw w) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(w, values)), _mm256_set1_epi16(1));
}
#else
using Raw = __m128i;
HWY_INLINE Raw signed_pairs(Raw magnitudes, Raw values, Raw w) {
  return _mm_madd_epi16(_mm_maddubs_epi16(magnitudes, _mm_sign_epi8(w, values)), _mm_set1_epi16(1));
}
#endif
template <int kRows>
void sign_tile(const void* a, const void* b, int64_t groups, int32_t* out) {
  tile_loop<kRows, 8, 4>(a, b, groups, out, [](auto& sums, const uint8_t* cells, const int8_t* group) HWY_ATTR {
    const I32 d;
    VI w[kVectors];
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, reinterpret_cast<const int32_t*>(group) + v * kLanes);
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VI magnitudes = hn::Set(d, load32(cells + 8 * r)), values = hn::Set(d, load32(cells + 8 * r + 4));
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::Add(sums[r][v], VI{signed_pairs(magnitudes.raw, values.raw, w[v].raw)});
      }
    }
  });
}
inline int32_t pack_sign_row(const uint8_t* a, int64_t column_stride, int64_t k, uint8_t flip, int64_t rows,
                             uint8_t* out) {
  return pack_row<8>(a, column_stride, k, 4, flip, rows, true, out, [](const uint8_t* bytes, uint8_t* cell) {
    for (int i = 0; i < 4; ++i) {
      const int value = static_cast<int8_t>(bytes[i]);
      cell[i] = static_cast<uint8_t>(value < 0 ? -value : value);
      cell[i + 4] = bytes[i];
    }
  });
}
#endif

#if HWY_ARCH_X86 && HWY_TARGET < HWY_EMU128  // not what is emulated
#define TM_QGEMM_WIDE 1
HWY_INLINE VI multiply_pairs(VI x, VI w) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return VI{_mm512_madd_epi16(x.raw, w.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_madd_epi16(x.raw, w.raw)};
#else
  return VI{_mm_madd_epi16(x.raw, w.raw)};
#endif
}
template <int kRows>
void wide_tile(const void* a, const void* b, int64_t groups, int32_t* out) {
  tile_loop<kRows, 4, 2>(a, b, groups, out, [](auto& sums, const uint8_t* cells, const int8_t* group) HWY_ATTR {
    const I32 d;
    const hn::Repartition<int16_t, I32> d16;
    const hn::Rebind<int8_t, decltype(d16)> d8;
    VI w[kVectors];
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      w[v] = hn::BitCast(d, hn::PromoteTo(d16, hn::LoadU(d8, group + v * 2 * kLanes)));
    }
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VI x = hn::Set(d, load32(cells + 4 * r));
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Add(sums[r][v], multiply_pairs(x, w[v]));
    }
  });
}
inline int32_t pack_wide_row(const uint8_t* a, int64_t column_stride, int64_t k, uint8_t flip, int64_t rows,
                             uint8_t* out) {
  return pack_row<4>(a, column_stride, k, 2, flip, rows, true, out, [](const uint8_t* bytes, uint8_t* cell) {
    const int16_t pair[2] = {static_cast<int8_t>(bytes[0]), static_cast<int8_t>(bytes[1])};
    std::memcpy(cell, pair, 4);
  });
}
#endif

#if !defined(TM_QGEMM_SIGN) && !defined(TM_QGEMM_WIDE)
#define TM_QGEMM_PLAIN 1
#endif
#if defined(TM_QGEMM_PLAIN)
template <int kRows>
void plain_tile(const void* a, const void* b, int64_t groups, int32_t* out) {
  const uint8_t* cells = static_cast<const uint8_t*>(a);
  const int8_t* w = static_cast<const int8_t*>(b);
  int32_t sums[kRows * kColumns] = {};
  for (int64_t g = 0; g < groups; ++g, cells += kRows * 4, w += kColumns * 4) {
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kColumns; ++j) {
        for (int i = 0; i < 4; ++i) sums[r * kColumns + j] += cells[r * 4 + i] * w[j * 4 + i];
      }
    }
  }
  std::memcpy(out, sums, sizeof(sums));
}
#endif
inline int32_t pack_unsigned_row(const uint8_t* a, int64_t column_stride, int64_t k, uint8_t flip, int64_t rows,
                                 uint8_t* out) {
  int32_t sum = 0;
#if HWY_TARGET != HWY_SCALAR
  if (column_stride == 1) {
    const hn::Full128<uint8_t> d;
    const hn::Full128<uint64_t> d64;
    auto sums = hn::Zero(d64);
    for (; k >= 16; k -= 16, a += 16) {
      const auto bytes = hn::Xor(hn::LoadU(d, a), hn::Set(d, flip));
      sums = hn::Add(sums, hn::SumsOf8(bytes));
      HWY_ALIGN uint8_t cells[16];
      hn::Store(bytes, d, cells);
      TM_UNROLL
      for (int i = 0; i < 4; ++i, out += rows * 4) std::memcpy(out, cells + 4 * i, 4);
    }
    sum = static_cast<int32_t>(hn::GetLane(hn::SumOfLanes(d64, sums)));
  }
#endif
  return sum + pack_row<4>(a, column_stride, k, 4, flip, rows, false, out,
                           [](const uint8_t* bytes, uint8_t* cell) { std::memcpy(cell, bytes, 4); });
}

#if HWY_TARGET != HWY_SCALAR
inline void pack_b_groups(const uint8_t* from, int64_t row_stride, uint8_t flip, int64_t groups, int8_t* out,
                          int32_t* sums) {
  const hn::FixedTag<uint8_t, 16> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const hn::Repartition<int32_t, decltype(d)> d32;
  const auto flips = hn::Set(d, flip);
  for (int64_t j = 0; j + 16 <= kColumns; j += 16) {
    auto sum0 = hn::LoadU(d32, sums + j), sum1 = hn::LoadU(d32, sums + j + 4);
    auto sum2 = hn::LoadU(d32, sums + j + 8), sum3 = hn::LoadU(d32, sums + j + 12);
    // Four signed bytes of each lane.
    const auto add = [&](auto sum, auto bytes) HWY_ATTR {
      const auto v = hn::BitCast(d32, bytes);
      const auto low = hn::Add(hn::ShiftRight<24>(hn::ShiftLeft<24>(v)), hn::ShiftRight<24>(hn::ShiftLeft<16>(v)));
      const auto high = hn::Add(hn::ShiftRight<24>(hn::ShiftLeft<8>(v)), hn::ShiftRight<24>(v));
      return hn::Add(sum, hn::Add(low, high));
    };
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t* const row = from + 4 * g * row_stride + j;
      const auto at = [&](int64_t i) HWY_ATTR { return hn::Xor(hn::LoadU(d, row + i * row_stride), flips); };
      const auto r0 = at(0), r1 = at(1), r2 = at(2), r3 = at(3);
      const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, r2, r3));
      const auto c0 = hn::InterleaveLower(d16, low01, low23), c1 = hn::InterleaveUpper(d16, low01, low23);
      const auto c2 = hn::InterleaveLower(d16, high01, high23), c3 = hn::InterleaveUpper(d16, high01, high23);
      auto* const to = reinterpret_cast<uint16_t*>(out + (g * kColumns + j) * 4);
      hn::StoreU(c0, d16, to);
      hn::StoreU(c1, d16, to + 8);
      hn::StoreU(c2, d16, to + 16);
      hn::StoreU(c3, d16, to + 24);
      sum0 = add(sum0, c0), sum1 = add(sum1, c1), sum2 = add(sum2, c2), sum3 = add(sum3, c3);
    }
    hn::StoreU(sum0, d32, sums + j), hn::StoreU(sum1, d32, sums + j + 4);
    hn::StoreU(sum2, d32, sums + j + 8), hn::StoreU(sum3, d32, sums + j + 12);
  }
}
#endif

inline void finish(const QTileEnd& end) {
  const I32 d;
  const hn::RebindToFloat<I32> df;
  for (int64_t r = 0; r < end.rows; ++r) {
    for (int64_t j = 0; j < kColumns; j += kLanes) {
      int32_t* at = end.tile + r * kColumns + j;
      VI sum = hn::Sub(hn::LoadU(d, at), hn::LoadU(d, end.shift + j));
      if (end.a_zero) {
        sum = hn::Sub(sum, hn::Mul(hn::Set(d, end.a_zero[r]), hn::LoadU(d, end.column_sums + j)));
        sum = hn::Sub(sum, hn::Mul(hn::Set(d, end.row_terms[r]), hn::LoadU(d, end.b_zero + j)));
      }
      if (end.row_scale) {
        const auto scale = hn::Mul(hn::Set(df, end.row_scale[r]), hn::LoadU(df, end.column_scale + j));
        hn::StoreU(hn::Mul(hn::ConvertTo(df, sum), scale), df, end.scaled + r * kColumns + j);
      } else {
        hn::StoreU(sum, d, at);
      }
    }
  }
}

template <class T>
void finish_bytes_as(const QByteEnd& end) {
  const I32 d;
  const hn::RebindToFloat<I32> df;
  const hn::Rebind<T, I32> d8;
  const auto scale = hn::Set(df, end.scale), inverse = hn::Set(df, 1.0f / end.scale);
  const ByteRounding<T> rounding(end.zero, end.relu);
  for (int64_t j = 0; j < end.columns; j += kLanes) {
    const VI less = hn::LoadU(d, end.shift + j);
    const auto factor = hn::LoadU(df, end.scales + j), bias = hn::LoadU(df, end.bias + j);
    for (int64_t r = 0; r < end.rows; ++r) {
      T* const out = static_cast<T*>(end.out) + r * end.out_row + j;
      const VI sum = hn::Sub(hn::LoadU(d, end.tile + r * kColumns + j), less);
      const auto x = hn::Add(hn::Mul(hn::ConvertTo(df, sum), factor), bias);
      const auto q = quotient(df, x, scale, inverse, hn::Mul(x, inverse));
      const auto bytes = rounding(hn::Min(hn::Max(q, rounding.low), rounding.high));
      if (j + kLanes <= end.columns) {
        hn::StoreU(bytes, d8, out);
      } else {
        HWY_ALIGN T last[kLanes];
        hn::StoreU(bytes, d8, last);
        std::memcpy(out, last, static_cast<size_t>(end.columns - j));
      }
    }
  }
}
inline void finish_bytes(const QByteEnd& end) {
  end.is_signed ? finish_bytes_as<int8_t>(end) : finish_bytes_as<uint8_t>(end);
}

#define TM_QGEMM_TABLE(TILE, NAME)                                             \
  template <int... kRowsLessOne>                                               \
  const QVariant::TILE* NAME##s(std::integer_sequence<int, kRowsLessOne...>) { \
    static constexpr QVariant::TILE kTable[] = {&NAME<kRowsLessOne + 1>...};   \
    return kTable;                                                             \
  }
#if defined(TM_QGEMM_VNNI)
TM_QGEMM_TABLE(Tile, vnni_tile)
TM_QGEMM_TABLE(RowTile, vnni_row_tile)
#endif
#if defined(TM_QGEMM_SIGN)
TM_QGEMM_TABLE(Tile, sign_tile)
#endif
#if defined(TM_QGEMM_WIDE) && !defined(TM_QGEMM_VNNI)
TM_QGEMM_TABLE(Tile, wide_tile)
#endif
#if defined(TM_QGEMM_PLAIN)
TM_QGEMM_TABLE(Tile, plain_tile)
#endif
#undef TM_QGEMM_TABLE

}  // namespace qproduct

inline const QgemmOps* make_qgemm_ops() {
  using namespace qproduct;
  static_assert(kColumns <= kMaxQTileColumns);
  [[maybe_unused]] constexpr int kWideRows = HWY_LANES(int32_t) == 16 ? 14 : 6;
#if defined(TM_QGEMM_VNNI)
  static const QVariant kFirst = {14,
                                  4,
                                  4,
                                  false,
                                  true,
                                  vnni_tiles(std::make_integer_sequence<int, 14>()),
                                  vnni_row_tiles(std::make_integer_sequence<int, 14>()),
                                  &pack_unsigned_row};
  static const QVariant& kSecond = kFirst;
#elif defined(TM_QGEMM_SIGN)
  static const QVariant kFirst = {
      4, 4, 8, true, false, sign_tiles(std::make_integer_sequence<int, 4>()), nullptr, &pack_sign_row};
  static const QVariant kSecond = {
      kWideRows, 2, 4, true, true, wide_tiles(std::make_integer_sequence<int, kWideRows>()), nullptr, &pack_wide_row};
#elif defined(TM_QGEMM_WIDE)
  static const QVariant kFirst = {
      kWideRows, 2, 4, true, true, wide_tiles(std::make_integer_sequence<int, kWideRows>()), nullptr, &pack_wide_row};
  static const QVariant& kSecond = kFirst;
#else
  static const QVariant kFirst = {
      4, 4, 4, false, true, plain_tiles(std::make_integer_sequence<int, 4>()), nullptr, &pack_unsigned_row};
  static const QVariant& kSecond = kFirst;
#endif
#if HWY_TARGET != HWY_SCALAR
  // Of 16 columns at a time.
  constexpr auto kPackGroups = kColumns % 16 == 0 ? &qproduct::pack_b_groups : nullptr;
#else
  constexpr decltype(QgemmOps::pack_b_groups) kPackGroups = nullptr;
#endif
  static const QgemmOps kOps = {kColumns, {&kFirst, &kSecond}, kPackGroups, &qproduct::finish, &qproduct::finish_bytes};
  return &kOps;
}
#undef TM_QGEMM_VNNI
#undef TM_QGEMM_SIGN
#undef TM_QGEMM_WIDE
#undef TM_QGEMM_PLAIN

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_QGEMM_INL_H_
