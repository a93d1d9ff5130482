// Register tiles of convolution channels last. Included once per target.
#if defined(TRANSMUTER_CONV_LAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CONV_LAST_INL_H_
#undef TRANSMUTER_CONV_LAST_INL_H_
#else
#define TRANSMUTER_CONV_LAST_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <utility>

#include <hwy/highway.h>

#include "backends/cpu/kernels/conv_last_ops.h"
#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace last {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;
inline constexpr int64_t kLanes = HWY_LANES(float);

// Sums, the vectors of one row of filters and a broadcast fill the register file.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int kTilePixels = 14;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kTilePixels = 12;
#elif HWY_TARGET == HWY_SCALAR
inline constexpr int kTilePixels = 4;
#else
inline constexpr int kTilePixels = 6;
#endif

// NaN stays: on x86 the second operand is the result when either is NaN, on ARM NaN is.
HWY_INLINE VF at_least(VF low, VF x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}
HWY_INLINE VF at_most(VF high, VF x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(high, x);
#else
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
}

// Floats of filters that are fetched ahead.
inline constexpr int64_t kAhead = 24 * 2 * kLanes;

template <int kPixels, int kVectors, class Load, class Store>
HWY_INLINE void one_tile(const LastTile& t, int64_t shift, float* y, const float* residual, const Load& load,
                         const Store& store) {
  const F32 d;
  VF sum[kPixels][kVectors];
  if (t.accumulate) {
    TM_UNROLL
    for (int r = 0; r < kPixels; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = load(y + r * t.y_pixel, v);
    }
  } else {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const VF bias = t.bias ? hn::LoadU(d, t.bias + v * kLanes) : hn::Zero(d);
      TM_UNROLL
      for (int r = 0; r < kPixels; ++r) sum[r][v] = bias;
    }
  }
  // What is written and added at the end comes while the products are summed.
  TM_UNROLL
  for (int r = 0; r < kPixels; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      if (!t.accumulate) __builtin_prefetch(y + r * t.y_pixel + v * kLanes, 1, 3);
      if (residual) __builtin_prefetch(residual + r * t.y_pixel + v * kLanes, 0, 3);
    }
  }
  const int64_t length = t.length;
  for (int64_t s = 0; s < t.segments; ++s) {
    const float* const* rows = t.rows + s * kPixels;
    const float* HWY_RESTRICT b = t.b + t.steps[s];
    const float* HWY_RESTRICT a[kPixels];
    TM_UNROLL
    for (int r = 0; r < kPixels; ++r) a[r] = rows[r] + shift;
    for (int64_t i = 0; i < length;) {
      int64_t end = length;
      if (t.ahead) {
        // A line of each pixel of the next tile.
        end = std::min(end, i + 16);
        TM_UNROLL
        for (int r = 0; r < kPixels; ++r) __builtin_prefetch(a[r] + i + t.ahead, 0, 2);
      }
      for (; i < end; ++i) {
        VF w[kVectors];
        TM_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          w[v] = hn::LoadU(d, b + v * kLanes);
          __builtin_prefetch(b + kAhead + v * kLanes, 0, 3);
        }
        b += kVectors * kLanes;
        TM_UNROLL
        for (int r = 0; r < kPixels; ++r) {
          const VF value = hn::Set(d, a[r][i]);
          TM_UNROLL
          for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value, w[v], sum[r][v]);
        }
      }
    }
  }
  if (residual) {
    TM_UNROLL
    for (int r = 0; r < kPixels; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Add(sum[r][v], load(residual + r * t.y_pixel, v));
    }
  }
  if (t.clamp) {
    const VF low = hn::Set(d, t.low);
    TM_UNROLL
    for (int r = 0; r < kPixels; ++r) {
      TM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = at_least(low, sum[r][v]);
    }
    if (t.high < std::numeric_limits<float>::infinity()) {
      const VF high = hn::Set(d, t.high);
      TM_UNROLL
      for (int r = 0; r < kPixels; ++r) {
        TM_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[r][v] = at_most(high, sum[r][v]);
      }
    }
  }
  TM_UNROLL
  for (int r = 0; r < kPixels; ++r) {
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) store(sum[r][v], y + r * t.y_pixel, v);
  }
}

template <int kPixels, int kVectors, class Load, class Store>
HWY_INLINE void tile_with(const LastTile& t, const Load& load, const Store& store) {
  for (int64_t i = 0; i < t.repeat; ++i) {
    const int64_t first = i * kPixels;
    one_tile<kPixels, kVectors>(t, i * t.rows_step, t.y + first * t.y_pixel,
                                t.residual ? t.residual + first * t.y_pixel : nullptr, load, store);
  }
}

template <int kPixels, int kVectors>
void tile(const LastTile& t) {
  if (t.columns == kVectors * kLanes) {
    tile_with<kPixels, kVectors>(
        t, [](const float* p, int v) HWY_ATTR { return hn::LoadU(F32(), p + v * kLanes); },
        [](VF x, float* p, int v) HWY_ATTR { hn::StoreU(x, F32(), p + v * kLanes); });
    return;
  }
  const auto rest = static_cast<size_t>(t.columns - (kVectors - 1) * kLanes);
  tile_with<kPixels, kVectors>(
      t,
      [rest](const float* p, int v) HWY_ATTR {
        return v + 1 < kVectors ? hn::LoadU(F32(), p + v * kLanes) : load_n(F32(), p + v * kLanes, rest, 0.0f);
      },
      [rest](VF x, float* p, int v) HWY_ATTR {
        if (v + 1 < kVectors) {
          hn::StoreU(x, F32(), p + v * kLanes);
        } else {
          store_n(F32(), x, p + v * kLanes, rest);
        }
      });
}

template <int kVectors, int... kPixelsLessOne>
const LastOps::Tile* tile_table(std::integer_sequence<int, kPixelsLessOne...>) {
  static constexpr LastOps::Tile kTable[] = {&tile<kPixelsLessOne + 1, kVectors>...};
  return kTable;
}

template <int kKernel, int kStride, int kPixels, class Memory>
HWY_INLINE void depthwise_vector(const DepthwiseLast& r, int64_t c, const Memory& memory) {
  const F32 d;
  constexpr int kColumns = (kPixels - 1) * kStride + kKernel;
  VF sum[kPixels];
  const VF bias = r.bias ? memory.load(r.bias + c) : hn::Zero(d);
  TM_UNROLL
  for (int p = 0; p < kPixels; ++p) sum[p] = bias;
  for (int64_t h = 0; h < r.rows; ++h) {
    const float* const* at = r.at + h * kColumns;
    const float* weights = r.weights + h * kKernel * r.channels + c;
    VF w[kKernel];
    TM_UNROLL
    for (int k = 0; k < kKernel; ++k) w[k] = memory.load(weights + k * r.channels);
    TM_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      const VF x = memory.load(at[i] + c);
      TM_UNROLL
      for (int k = 0; k < kKernel; ++k) {
        if ((i - k) % kStride == 0 && i >= k && (i - k) / kStride < kPixels) {
          sum[(i - k) / kStride] = hn::MulAdd(x, w[k], sum[(i - k) / kStride]);
        }
      }
    }
  }
  const VF low = hn::Set(d, r.low), high = hn::Set(d, r.high);
  TM_UNROLL
  for (int p = 0; p < kPixels; ++p) memory.store(at_most(high, at_least(low, sum[p])), r.y + p * r.y_pixel + c);
}

template <int kKernel, int kStride, int kPixels>
void depthwise_row(const DepthwiseLast& r) {
  int64_t c = 0;
  for (; c + kLanes <= r.channels; c += kLanes) depthwise_vector<kKernel, kStride, kPixels>(r, c, WholeLanes());
  if (c < r.channels) {
    depthwise_vector<kKernel, kStride, kPixels>(r, c, FirstLanes{static_cast<size_t>(r.channels - c)});
  }
}

template <class Memory>
HWY_INLINE void winograd_in_vector(const float* const* at, int64_t c, const Memory& memory, float* out,
                                   int64_t matrix) {
  const F32 d;
  VF x[4][4];
  TM_UNROLL
  for (int j = 0; j < 4; ++j) {
    const VF a = memory.load(at[j] + c), b = memory.load(at[4 + j] + c);
    const VF e = memory.load(at[8 + j] + c), f = memory.load(at[12 + j] + c);
    x[0][j] = hn::Sub(a, e), x[1][j] = hn::Add(b, e), x[2][j] = hn::Sub(e, b), x[3][j] = hn::Sub(b, f);
  }
  TM_UNROLL
  for (int i = 0; i < 4; ++i) {
    float* row = out + 4 * i * matrix + c;
    hn::StoreU(hn::Sub(x[i][0], x[i][2]), d, row);
    hn::StoreU(hn::Add(x[i][1], x[i][2]), d, row + matrix);
    hn::StoreU(hn::Sub(x[i][2], x[i][1]), d, row + 2 * matrix);
    hn::StoreU(hn::Sub(x[i][1], x[i][3]), d, row + 3 * matrix);
  }
}

inline void winograd_in(const float* const* at, int64_t channels, float* out, int64_t matrix) {
  for_vectors(channels,
              [&](int64_t c, const auto& memory) HWY_ATTR { winograd_in_vector(at, c, memory, out, matrix); });
}

inline void winograd_out(const WinogradOut& t) {
  const F32 d;
  const VF low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  for_vectors(t.channels, [&](int64_t c, const auto& memory) HWY_ATTR {
    VF x[2][4];
    TM_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float* from = t.in + j * t.matrix + c;
      const VF a = hn::LoadU(d, from), b = hn::LoadU(d, from + 4 * t.matrix);
      const VF e = hn::LoadU(d, from + 8 * t.matrix), f = hn::LoadU(d, from + 12 * t.matrix);
      x[0][j] = hn::Add(a, hn::Add(b, e)), x[1][j] = hn::Sub(hn::Sub(b, e), f);
    }
    const VF bias = t.bias ? memory.load(t.bias + c) : hn::Zero(d);
    TM_UNROLL
    for (int i = 0; i < 2; ++i) {
      VF y[2] = {hn::Add(x[i][0], hn::Add(x[i][1], x[i][2])), hn::Sub(hn::Sub(x[i][1], x[i][2]), x[i][3])};
      TM_UNROLL
      for (int j = 0; j < 2; ++j) {
        VF sum = hn::Add(y[j], bias);
        if (t.residual[0]) sum = hn::Add(sum, memory.load(t.residual[2 * i + j] + c));
        if (t.clamp) sum = at_most(high, at_least(low, sum));
        memory.store(sum, t.y[2 * i + j] + c);
      }
    }
  });
}

// Keeps NaN; cheaper than max_nan where max returns its second operand when either is NaN, as on x86.
HWY_INLINE VF join_max(VF total, VF x) {
  const F32 d;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  (void)d;
  return hn::IfThenElse(hn::Eq(x, x), hn::Max(x, total), x);
#else
  return max_nan(d, total, x);
#endif
}

inline void sum_pixels(const float* const* at, int64_t count, int64_t channels, float* out) {
  for_vectors(channels, [&](int64_t c, const auto& memory) HWY_ATTR {
    VF sum = memory.load(at[0] + c);
    for (int64_t t = 1; t < count; ++t) sum = hn::Add(sum, memory.load(at[t] + c));
    memory.store(sum, out + c);
  });
}

inline void max_pixels(const float* const* at, int64_t count, int64_t channels, float* out) {
  for_vectors(channels, [&](int64_t c, const auto& memory) HWY_ATTR {
    VF most = memory.load(at[0] + c);
    for (int64_t t = 1; t < count; ++t) most = join_max(most, memory.load(at[t] + c));
    memory.store(most, out + c);
  });
}

inline void interleave3(const float* in, int64_t channel, int64_t n, float* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    const float* from = in + i;
    hn::StoreInterleaved3(hn::LoadU(d, from), hn::LoadU(d, from + channel), hn::LoadU(d, from + 2 * channel), d,
                          out + 3 * i);
  }
#endif
  for (; i < n; ++i) {
    for (int64_t c = 0; c < 3; ++c) out[3 * i + c] = in[c * channel + i];
  }
}

}  // namespace last

#define TM_DEPTHWISE(kernel, stride)                                                                         \
  {                                                                                                          \
    &depthwise_row<kernel, stride, 8>, &depthwise_row<kernel, stride, 7>, &depthwise_row<kernel, stride, 4>, \
        &depthwise_row<kernel, stride, 1>                                                                    \
  }
inline const LastOps* make_last_ops() {
  using namespace last;
  using Counts = std::make_integer_sequence<int, kTilePixels>;
  static const LastOps kOps = {.tile_pixels = kTilePixels,
                               .lanes = kLanes,
                               .tiles = tile_table<2>(Counts()),
                               .narrow_tiles = tile_table<1>(Counts()),
                               .depthwise = {{TM_DEPTHWISE(3, 1), TM_DEPTHWISE(3, 2)},
                                             {TM_DEPTHWISE(5, 1), TM_DEPTHWISE(5, 2)},
                                             {TM_DEPTHWISE(7, 1), TM_DEPTHWISE(7, 2)}},
                               .winograd_in = &winograd_in,
                               .winograd_out = &winograd_out,
                               .sum_pixels = &sum_pixels,
                               .max_pixels = &max_pixels,
                               .interleave3 = &interleave3};
  return &kOps;
}
#undef TM_DEPTHWISE

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CONV_LAST_INL_H_
