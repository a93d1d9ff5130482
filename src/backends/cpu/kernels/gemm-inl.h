// The register tile of the matrix product, its packing, and the store of a tile. Included once per target.
#if defined(TRANSMUTER_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_GEMM_INL_H_
#undef TRANSMUTER_GEMM_INL_H_
#else
#define TRANSMUTER_GEMM_INL_H_
#endif

#include <cstring>
#include <utility>

#include <hwy/highway.h>

#include "backends/cpu/kernels/activation-inl.h"
#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/gemm_thin-inl.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;

// Accumulators + one row of B + a broadcast fill the register file.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int kTileRows = 14, kTileVectors = 2;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_SCALAR
inline constexpr int kTileRows = 4, kTileVectors = 4;
#else
inline constexpr int kTileRows = 6, kTileVectors = 2;
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int kFewBitsRows = 4;
#else
inline constexpr int kFewBitsRows = 2;
#endif
inline constexpr int kLanes = HWY_LANES(float);
inline constexpr int kTileColumns = kTileVectors * kLanes;

template <class T>
HWY_INLINE VF load_b(const T* b) {
  const F32 d;
  if constexpr (sizeof(T) == 4) {
    return hn::LoadU(d, b);
  } else {
    const hn::Rebind<T, F32> half;
    return hn::PromoteTo(d, hn::LoadU(half, b));
  }
}

// Where the rows of B are: a constant distance apart, or anywhere.
struct StridedRows {
  int64_t distance;
  HWY_INLINE int64_t operator()(int64_t p) const { return p * distance; }
};
struct IndexedRows {
  const int64_t* HWY_RESTRICT offsets;
  HWY_INLINE int64_t operator()(int64_t p) const { return offsets[p]; }
};

// Where A's rows are: packed, a constant distance apart, or as they lie. Then each pointer serves three rows, which is
// what an address can say of one distance.
struct PackedRows {
  const float* HWY_RESTRICT a;
  HWY_INLINE float operator()(int r, int64_t p) const { return a[r * kPanelStride + p]; }
};
template <int kRows>
struct RowsInPlace {
  const float* HWY_RESTRICT a[(kRows + 2) / 3];
  int64_t distance;
  HWY_INLINE RowsInPlace(const float* first, int64_t row) : distance(row) {
    for (int i = 0; i < (kRows + 2) / 3; ++i) a[i] = first + 3 * i * row;
  }
  HWY_INLINE float operator()(int r, int64_t p) const { return (a[r / 3] + p)[r % 3 * distance]; }
};

template <int kRows, int kVectors, class A, class T, class BRows>
HWY_INLINE void tile_loop(const A a, const T* HWY_RESTRICT b, const BRows b_rows, int64_t k, float* HWY_RESTRICT out,
                          int64_t out_row, bool accumulate) {
  const F32 d;
  // Few rows: several sums a result, over interleaved k, so that enough independent chains hide the latency.
  constexpr int kChains = kRows * kVectors >= 8 ? 1 : kRows * kVectors >= 3 ? 2 : 4;
  VF sum[kChains][kRows][kVectors];
  TM_UNROLL
  for (int s = 0; s < kChains; ++s) {
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[s][r][v] = hn::Zero(d);
    }
  }
  int64_t p = 0;
  for (; p + kChains <= k; p += kChains) {
    TM_UNROLL
    for (int s = 0; s < kChains; ++s) {
      VF row[kVectors];
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) row[v] = load_b(b + b_rows(p + s) + v * kLanes);
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF value = hn::Set(d, a(r, p + s));
        TM_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[s][r][v] = hn::MulAdd(value, row[v], sum[s][r][v]);
      }
    }
  }
  if constexpr (kChains > 1) {
    for (; p < k; ++p) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const VF row = load_b(b + b_rows(p) + v * kLanes);
        TM_UNROLL
        for (int r = 0; r < kRows; ++r) {
          sum[0][r][v] = hn::MulAdd(hn::Set(d, a(r, p)), row, sum[0][r][v]);
        }
      }
    }
    TM_UNROLL
    for (int s = 1; s < kChains; ++s) {
      TM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TM_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[0][r][v] = hn::Add(sum[0][r][v], sum[s][r][v]);
      }
    }
  }
  if (accumulate) {
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[0][r][v] = hn::Add(sum[0][r][v], hn::LoadU(d, out + r * out_row + v * kLanes));
      }
    }
  }
  TM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[0][r][v], d, out + r * out_row + v * kLanes);
  }
}

template <int kRows, int kVectors, class T>
void tile(const float* a, const void* b, int64_t b_row, int64_t k, float* out, int64_t out_row, bool accumulate) {
  tile_loop<kRows, kVectors>(PackedRows{a}, static_cast<const T*>(b), StridedRows{b_row}, k, out, out_row, accumulate);
}

template <int kRows, int kVectors>
void tile_in_place(const float* a, int64_t a_row, const float* b, int64_t b_row, int64_t k, float* out, int64_t out_row,
                   bool accumulate) {
  tile_loop<kRows, kVectors>(RowsInPlace<kRows>(a, a_row), b, StridedRows{b_row}, k, out, out_row, accumulate);
}

template <int kRows, int kVectors>
void indexed_tile(const float* a, const float* b, const int64_t* b_rows, int64_t k, float* out, int64_t out_row,
                  bool accumulate) {
  tile_loop<kRows, kVectors>(PackedRows{a}, b, IndexedRows{b_rows}, k, out, out_row, accumulate);
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#include "backends/cpu/kernels/few_bits-inl.h"  // takes the sizes of the tile

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {

template <int kVectors, int... kRowsLessOne>
const GemmOps::IndexedTile* indexed_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr GemmOps::IndexedTile kTable[] = {&indexed_tile<kRowsLessOne + 1, kVectors>...};
  return kTable;
}

template <int kVectors, int... kRowsLessOne>
const GemmOps::TileInPlace* in_place_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr GemmOps::TileInPlace kTable[] = {&tile_in_place<kRowsLessOne + 1, kVectors>...};
  return kTable;
}

template <int kVectors, class T, int... kRowsLessOne>
const GemmOps::Tile* tile_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr GemmOps::Tile kTable[] = {&tile<kRowsLessOne + 1, kVectors, T>...};
  return kTable;
}

// A 4x4 transpose: the columns of four vectors of four become rows `to_row` apart.
HWY_INLINE void transpose4(const float* r0, const float* r1, const float* r2, const float* r3, float* HWY_RESTRICT to,
                           int64_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 4; ++j) {
    float* out = to + j * to_row;
    out[0] = r0[j], out[1] = r1[j], out[2] = r2[j], out[3] = r3[j];
  }
#else
  const hn::Full128<float> d;
  const hn::Full128<double> pairs;
  const auto v0 = hn::LoadU(d, r0), v1 = hn::LoadU(d, r1), v2 = hn::LoadU(d, r2), v3 = hn::LoadU(d, r3);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_row);
#endif
}

// out[j, i] = row(i)[j] for rows x columns. A remainder of columns is done by repeating some before it.
template <class Row>
HWY_INLINE void transpose(int64_t rows, int64_t columns, const Row& row, float* HWY_RESTRICT out, int64_t out_row) {
  int64_t i = 0;
  if (columns >= 4) {
    for (; i + 4 <= rows; i += 4) {
      for (int64_t j = 0;; j = j + 8 <= columns ? j + 4 : columns - 4) {
        transpose4(row(i) + j, row(i + 1) + j, row(i + 2) + j, row(i + 3) + j, out + j * out_row + i, out_row);
        if (j == columns - 4) break;
      }
    }
  }
  for (; i < rows; ++i) {
    const float* in = row(i);
    for (int64_t j = 0; j < columns; ++j) out[j * out_row + i] = in[j];
  }
}

inline void pack_a(int64_t rows, int64_t k, const float* HWY_RESTRICT a, int64_t row_stride, int64_t column_stride,
                   float* HWY_RESTRICT out) {
  if (column_stride == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out + r * kPanelStride, a + r * row_stride, static_cast<size_t>(k) * sizeof(float));
    }
  } else if (row_stride == 1) {
    transpose(
        k, rows, [=](int64_t p) HWY_ATTR { return a + p * column_stride; }, out, kPanelStride);
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t p = 0; p < k; ++p) out[r * kPanelStride + p] = a[r * row_stride + p * column_stride];
    }
  }
}

inline void pack_a_run(int64_t rows, int64_t k, const float* a, const int64_t* columns, float* HWY_RESTRICT out) {
  transpose(
      k, rows, [=](int64_t p) HWY_ATTR { return a + columns[p]; }, out, kPanelStride);
}

inline void pack_b(int64_t k, int64_t columns, const float* HWY_RESTRICT b, int64_t row_stride, int64_t column_stride,
                   float* HWY_RESTRICT out) {
  const F32 d;
  if (columns < kTileColumns) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = columns; j < kTileColumns; ++j) out[p * kTileColumns + j] = 0;
    }
  }
  if (column_stride == 1 && columns == kTileColumns) {
    for (int64_t p = 0; p < k; ++p) {
      TM_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        hn::StoreU(hn::LoadU(d, b + p * row_stride + v * kLanes), d, out + p * kTileColumns + v * kLanes);
      }
    }
  } else if (row_stride == 1) {
    transpose(
        columns, k, [=](int64_t j) HWY_ATTR { return b + j * column_stride; }, out, kTileColumns);
  } else {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < columns; ++j) out[p * kTileColumns + j] = b[p * row_stride + j * column_stride];
    }
  }
}

inline void pack_b_half(int64_t k, int64_t columns, const uint16_t* HWY_RESTRICT b, int64_t row_stride,
                        int64_t column_stride, uint16_t* HWY_RESTRICT out) {
  // Runs of k, so that a source with unit row stride is read by whole cache lines.
  constexpr int64_t kRun = 32;
  for (int64_t begin = 0; begin < k; begin += kRun) {
    const int64_t end = begin + kRun < k ? begin + kRun : k;
    for (int64_t j = 0; j < kTileColumns; ++j) {
      for (int64_t p = begin; p < end; ++p) {
        out[p * kTileColumns + j] = j < columns ? b[p * row_stride + j * column_stride] : uint16_t{0};
      }
    }
  }
}

template <class T>
HWY_INLINE void widen_as(int64_t n, const T* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  const F32 d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(load_b(in + i), d, out + i);
  const hn::CappedTag<float, 1> one;
  const hn::Rebind<T, decltype(one)> half;
  for (; i < n; ++i) hn::StoreU(hn::PromoteTo(one, hn::LoadU(half, in + i)), one, out + i);
}

inline void widen(int64_t n, const uint16_t* in, Storage storage, float* out) {
  if (storage == Storage::f16) {
    widen_as(n, reinterpret_cast<const hwy::float16_t*>(in), out);
  } else {
    widen_as(n, reinterpret_cast<const hwy::bfloat16_t*>(in), out);
  }
}

// One vector of a row, after the sum: bias, residual, activation.
template <Activation kActivation, bool kResidual>
struct Finisher {
  explicit Finisher(const Epilogue& e) : e_(e) {}

  HWY_INLINE VF operator()(VF sum, VF bias, VF residual) const {
    const F32 d;
    VF x = hn::MulAdd(sum, hn::Set(d, e_.alpha), bias);
    if constexpr (!kResidual) return act::apply<kActivation>(d, x, e_.first, e_.second);
    const VF other = hn::Mul(residual, hn::Set(d, e_.residual_scale));
    if (e_.combine == Combine::add_before) x = hn::Add(x, other);
    x = act::apply<kActivation>(d, x, e_.first, e_.second);
    if (e_.combine == Combine::add_after) x = hn::Add(x, other);
    if (e_.combine == Combine::multiply_after) x = hn::Mul(x, other);
    return x;
  }

 private:
  const Epilogue& e_;
};

// A row in which everything is contiguous. Its last, partial vector: with masks where they are cheap, else the last
// whole one again (loaded before the first store, as the residual may be the result), else through a buffer.
template <Activation kActivation, bool kResidual>
HWY_INLINE void finish_row(const Finisher<kActivation, kResidual> finisher, const float* in, const float* column_bias,
                           VF row_bias, const float* residual, int64_t columns, float* out) {
  const F32 d;
  const auto at = [&](int64_t j) HWY_ATTR {
    const VF bias = column_bias ? hn::Add(row_bias, hn::LoadU(d, column_bias + j)) : row_bias;
    return finisher(hn::LoadU(d, in + j), bias, kResidual ? hn::LoadU(d, residual + j) : bias);
  };
  const int64_t whole = columns / kLanes * kLanes, tail = columns - whole;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  for (int64_t j = 0; j < whole; j += kLanes) hn::StoreU(at(j), d, out + j);
  if (tail) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(tail));
    const VF bias = column_bias ? hn::Add(row_bias, hn::MaskedLoad(mask, d, column_bias + whole)) : row_bias;
    const VF other = kResidual ? hn::MaskedLoad(mask, d, residual + whole) : bias;
    hn::BlendedStore(finisher(hn::MaskedLoad(mask, d, in + whole), bias, other), mask, d, out + whole);
  }
#else
  if (!tail) {
    for (int64_t j = 0; j < whole; j += kLanes) hn::StoreU(at(j), d, out + j);
  } else if (whole) {
    const VF last = at(columns - kLanes);
    for (int64_t j = 0; j < whole; j += kLanes) hn::StoreU(at(j), d, out + j);
    hn::StoreU(last, d, out + columns - kLanes);
  } else {
    HWY_ALIGN float copy[3 * kLanes] = {};
    const size_t bytes = static_cast<size_t>(tail) * sizeof(float);
    std::memcpy(copy, in, bytes);
    if (column_bias) std::memcpy(copy + kLanes, column_bias, bytes);
    if (kResidual) std::memcpy(copy + 2 * kLanes, residual, bytes);
    const VF bias = hn::Add(row_bias, hn::Load(d, copy + kLanes));
    hn::Store(finisher(hn::Load(d, copy), bias, hn::Load(d, copy + 2 * kLanes)), d, copy);
    std::memcpy(out, copy, bytes);
  }
#endif
}

template <Activation kActivation, bool kResidual>
void finish_rows(const TileEnd& end) {
  const F32 d;
  const Epilogue& e = *end.epilogue;
  const Finisher<kActivation, kResidual> finisher(e);
  HWY_ALIGN float gathered[kTileColumns];
  HWY_ALIGN float result[kTileRows * kTileColumns];
  const bool scatter = end.c_column != 1;
  for (int64_t r = 0; r < end.rows; ++r) {
    const float* residual = kResidual ? end.residual + r * e.residual_row : nullptr;
    if (kResidual && e.residual_column != 1) {
      for (int64_t j = 0; j < end.columns; ++j) gathered[j] = residual[j * e.residual_column];
      residual = gathered;
    }
    const VF row_bias = end.row_bias ? hn::Set(d, end.row_bias[r * end.row_bias_step]) : hn::Zero(d);
    finish_row(finisher, end.tile + r * end.tile_stride, end.column_bias, row_bias, residual, end.columns,
               scatter ? result + r * kTileColumns : end.c + r * end.c_row);
  }
  if (!scatter) return;
  if (end.c_row == 1) {
    transpose(
        end.rows, end.columns, [&](int64_t r) HWY_ATTR { return result + r * kTileColumns; }, end.c, end.c_column);
    return;
  }
  for (int64_t j = 0; j < end.columns; ++j) {
    float* out = end.c + j * end.c_column;
    for (int64_t r = 0; r < end.rows; ++r) out[r * end.c_row] = result[r * kTileColumns + j];
  }
}

template <Activation kActivation>
void finish_with(const TileEnd& end) {
  if (end.residual) {
    finish_rows<kActivation, true>(end);
  } else {
    finish_rows<kActivation, false>(end);
  }
}

inline void finish(const TileEnd& end) {
  switch (end.epilogue->activation) {
    case Activation::none:
      return finish_with<Activation::none>(end);
    case Activation::relu:
      return finish_with<Activation::relu>(end);
    case Activation::leaky_relu:
      return finish_with<Activation::leaky_relu>(end);
    case Activation::clip:
      return finish_with<Activation::clip>(end);
    case Activation::sigmoid:
      return finish_with<Activation::sigmoid>(end);
    case Activation::tanh:
      return finish_with<Activation::tanh>(end);
    case Activation::silu:
      return finish_with<Activation::silu>(end);
    case Activation::gelu_erf:
      return finish_with<Activation::gelu_erf>(end);
    case Activation::gelu_tanh:
      return finish_with<Activation::gelu_tanh>(end);
    case Activation::hard_swish:
      return finish_with<Activation::hard_swish>(end);
  }
}

inline const GemmOps* make_gemm_ops() {
  using Rows = std::make_integer_sequence<int, kTileRows>;
  using FewRows = std::make_integer_sequence<int, kFewBitsRows>;
  static_assert(kTileRows <= kMaxTileRows && kTileColumns <= kMaxTileColumns);
  static const GemmOps kOps = {
      .tile_rows = kTileRows,
      .tile_columns = kTileColumns,
      .lanes = kLanes,
      .tiles = tile_table<kTileVectors, float>(Rows()),
      .narrow_tiles = tile_table<1, float>(Rows()),
      .tiles_in_place = in_place_table<kTileVectors>(Rows()),
      .narrow_tiles_in_place = in_place_table<1>(Rows()),
      .f16_tiles = tile_table<kTileVectors, hwy::float16_t>(Rows()),
      .bf16_tiles = tile_table<kTileVectors, hwy::bfloat16_t>(Rows()),
      .indexed_tiles = indexed_table<kTileVectors>(Rows()),
      .narrow_indexed_tiles = indexed_table<1>(Rows()),
      .few_bits_tiles = {few_bits_table<2, Centred>(FewRows()), few_bits_table<4, Centred>(FewRows()),
                         few_bits_table<8, Centred>(FewRows()), few_bits_table<4, LookedUp>(FewRows())},
      .few_bits_rows = kFewBitsRows,
      .row_product = &row_product,
      .dots = &dots,
      .pack_a = &pack_a,
      .pack_a_run = &pack_a_run,
      .pack_b = &pack_b,
      .pack_b_half = &pack_b_half,
      .widen = &widen,
      .widen_few_bits = &widen_few_bits,
      .finish = &finish,
  };
  return &kOps;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_GEMM_INL_H_
