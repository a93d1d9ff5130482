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

template <int kRows, int kVectors, class T, class BRows>
HWY_INLINE void tile_loop(const float* HWY_RESTRICT a, const T* HWY_RESTRICT b, const BRows b_rows, int64_t k,
                          float* HWY_RESTRICT out, int64_t out_row, bool accumulate) {
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
        const VF value = hn::Set(d, a[r * kPanelStride + p + s]);
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
          sum[0][r][v] = hn::MulAdd(hn::Set(d, a[r * kPanelStride + p]), row, sum[0][r][v]);
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
  tile_loop<kRows, kVectors>(a, static_cast<const T*>(b), StridedRows{b_row}, k, out, out_row, accumulate);
}

template <int kRows, int kVectors>
void indexed_tile(const float* a, const float* b, const int64_t* b_rows, int64_t k, float* out, int64_t out_row,
                  bool accumulate) {
  tile_loop<kRows, kVectors>(a, b, IndexedRows{b_rows}, k, out, out_row, accumulate);
}

template <int kVectors, int... kRowsLessOne>
const GemmOps::IndexedTile* indexed_table(std::integer_sequence<int, kRowsLessOne...>) {
  static constexpr GemmOps::IndexedTile kTable[] = {&indexed_tile<kRowsLessOne + 1, kVectors>...};
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
    transpose(k, rows, [=](int64_t p) HWY_ATTR { return a + p * column_stride; }, out, kPanelStride);
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t p = 0; p < k; ++p) out[r * kPanelStride + p] = a[r * row_stride + p * column_stride];
    }
  }
}

inline void pack_a_run(int64_t rows, int64_t k, const float* a, const int64_t* columns, float* HWY_RESTRICT out) {
  transpose(k, rows, [=](int64_t p) HWY_ATTR { return a + columns[p]; }, out, kPanelStride);
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
    transpose(columns, k, [=](int64_t j) HWY_ATTR { return b + j * column_stride; }, out, kTileColumns);
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

template <Activation kActivation>
void finish_with(const TileEnd& end) {
  const F32 d;
  const Epilogue& e = *end.epilogue;
  const VF alpha = hn::Set(d, e.alpha), scale = hn::Set(d, e.residual_scale);
  const auto vector = [&](const float* in, VF bias, const float* residual) HWY_ATTR {
    VF x = hn::MulAdd(hn::LoadU(d, in), alpha, bias);
    if (!residual) return act::apply<kActivation>(d, x, e.first, e.second);
    const VF other = hn::Mul(hn::LoadU(d, residual), scale);
    if (e.combine == Combine::add_before) x = hn::Add(x, other);
    x = act::apply<kActivation>(d, x, e.first, e.second);
    if (e.combine == Combine::add_after) x = hn::Add(x, other);
    if (e.combine == Combine::multiply_after) x = hn::Mul(x, other);
    return x;
  };
  // Strided memory and the last partial vector of a row go through these.
  HWY_ALIGN float bias_tail[kLanes] = {};
  HWY_ALIGN float residual_copy[kTileColumns] = {};
  HWY_ALIGN float result[kTileRows * kTileColumns];
  const int64_t whole = end.columns / kLanes * kLanes, tail = end.columns - whole;
  const size_t tail_bytes = static_cast<size_t>(tail) * sizeof(float);
  if (end.column_bias) std::memcpy(bias_tail, end.column_bias + whole, tail_bytes);
  const bool scatter = end.c_column != 1;
  for (int64_t r = 0; r < end.rows; ++r) {
    const float* in = end.tile + r * end.tile_stride;
    float* out = scatter ? result + r * kTileColumns : end.c + r * end.c_row;
    const VF row_bias = hn::Set(d, end.row_bias ? end.row_bias[r * end.row_bias_step] : 0.0f);
    const float* residual = end.residual ? end.residual + r * e.residual_row : nullptr;
    const bool gather = residual && e.residual_column != 1;
    if (gather) {
      for (int64_t j = 0; j < end.columns; ++j) residual_copy[j] = residual[j * e.residual_column];
      residual = residual_copy;
    }
    for (int64_t j = 0; j < whole; j += kLanes) {
      const VF bias = end.column_bias ? hn::Add(row_bias, hn::LoadU(d, end.column_bias + j)) : row_bias;
      hn::StoreU(vector(in + j, bias, residual ? residual + j : nullptr), d, out + j);
    }
    if (tail) {
      HWY_ALIGN float last[kLanes] = {}, last_result[kLanes];
      if (residual) std::memcpy(last, residual + whole, tail_bytes);
      const VF bias = hn::Add(row_bias, hn::Load(d, bias_tail));
      hn::Store(vector(in + whole, bias, residual ? last : nullptr), d, last_result);
      std::memcpy(out + whole, last_result, tail_bytes);
    }
  }
  if (!scatter) return;
  if (end.c_row == 1) {
    transpose(end.rows, end.columns, [&](int64_t r) HWY_ATTR { return result + r * kTileColumns; }, end.c, end.c_column);
    return;
  }
  for (int64_t j = 0; j < end.columns; ++j) {
    float* out = end.c + j * end.c_column;
    for (int64_t r = 0; r < end.rows; ++r) out[r * end.c_row] = result[r * kTileColumns + j];
  }
}

inline void finish(const TileEnd& end) {
  switch (end.epilogue->activation) {
    case Activation::none: return finish_with<Activation::none>(end);
    case Activation::relu: return finish_with<Activation::relu>(end);
    case Activation::leaky_relu: return finish_with<Activation::leaky_relu>(end);
    case Activation::clip: return finish_with<Activation::clip>(end);
    case Activation::sigmoid: return finish_with<Activation::sigmoid>(end);
    case Activation::tanh: return finish_with<Activation::tanh>(end);
    case Activation::silu: return finish_with<Activation::silu>(end);
    case Activation::gelu_erf: return finish_with<Activation::gelu_erf>(end);
    case Activation::gelu_tanh: return finish_with<Activation::gelu_tanh>(end);
    case Activation::hard_swish: return finish_with<Activation::hard_swish>(end);
  }
}

inline const GemmOps* make_gemm_ops() {
  using Rows = std::make_integer_sequence<int, kTileRows>;
  static_assert(kTileRows <= kMaxTileRows && kTileColumns <= kMaxTileColumns);
  static const GemmOps kOps = {
      .tile_rows = kTileRows,
      .tile_columns = kTileColumns,
      .lanes = kLanes,
      .tiles = tile_table<kTileVectors, float>(Rows()),
      .narrow_tiles = tile_table<1, float>(Rows()),
      .f16_tiles = tile_table<kTileVectors, hwy::float16_t>(Rows()),
      .bf16_tiles = tile_table<kTileVectors, hwy::bfloat16_t>(Rows()),
      .indexed_tiles = indexed_table<kTileVectors>(Rows()),
      .narrow_indexed_tiles = indexed_table<1>(Rows()),
      .pack_a = &pack_a,
      .pack_a_run = &pack_a_run,
      .pack_b = &pack_b,
      .pack_b_half = &pack_b_half,
      .widen = &widen,
      .finish = &finish,
  };
  return &kOps;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_GEMM_INL_H_
