// Depthwise and pooling loops over padded planes (padded.h). Included once per target.
#if defined(TRANSMUTER_CONV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CONV_INL_H_
#undef TRANSMUTER_CONV_INL_H_
#else
#define TRANSMUTER_CONV_INL_H_
#endif

#include <limits>

#include <hwy/highway.h>

#include "backends/cpu/kernels/conv_ops.h"
#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace convolution {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;
inline constexpr int64_t kLanes = HWY_LANES(float);

// max_nan, cheaper where max returns its second operand when either is NaN, as on x86.
template <class D, class V>
HWY_INLINE V join_max(D d, V total, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  (void)d;
  return hn::IfThenElse(hn::Eq(x, x), hn::Max(x, total), x);
#else
  return max_nan(d, total, x);
#endif
}

enum class Kind { weighted, sum, max };

template <Kind kKind, int kVectors>
HWY_INLINE void taps_block(const float* HWY_RESTRICT in, const int64_t* HWY_RESTRICT offsets,
                           const float* HWY_RESTRICT weights, int64_t taps, float* HWY_RESTRICT out) {
  const F32 d;
  VF result[kVectors];
  TM_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    result[v] = kKind == Kind::max ? hn::Set(d, -std::numeric_limits<float>::infinity()) : hn::Zero(d);
  }
  for (int64_t t = 0; t < taps; ++t) {
    const float* from = in + offsets[t];
    [[maybe_unused]] const VF weight = hn::Set(d, kKind == Kind::weighted ? weights[t] : 0.0f);
    TM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const VF x = hn::LoadU(d, from + v * kLanes);
      if constexpr (kKind == Kind::weighted) {
        result[v] = hn::MulAdd(x, weight, result[v]);
      } else if constexpr (kKind == Kind::sum) {
        result[v] = hn::Add(result[v], x);
      } else {
        result[v] = join_max(d, result[v], x);
      }
    }
  }
  TM_UNROLL
  for (int v = 0; v < kVectors; ++v) hn::StoreU(result[v], d, out + v * kLanes);
}

template <Kind kKind>
HWY_INLINE void taps(const float* in, const int64_t* offsets, const float* weights, int64_t count, int64_t n,
                     float* out) {
  int64_t j = 0;
  for (; j + 8 * kLanes <= n; j += 8 * kLanes) taps_block<kKind, 8>(in + j, offsets, weights, count, out + j);
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) taps_block<kKind, 2>(in + j, offsets, weights, count, out + j);
  for (; j < n; j += kLanes) taps_block<kKind, 1>(in + j, offsets, weights, count, out + j);
}

inline void weighted_taps(const float* in, const int64_t* offsets, const float* weights, int64_t count, int64_t n,
                          float* out) {
  taps<Kind::weighted>(in, offsets, weights, count, n, out);
}
inline void sum_taps(const float* in, const int64_t* offsets, int64_t count, int64_t n, float* out) {
  taps<Kind::sum>(in, offsets, nullptr, count, n, out);
}
inline void max_taps(const float* in, const int64_t* offsets, int64_t count, int64_t n, float* out) {
  taps<Kind::max>(in, offsets, nullptr, count, n, out);
}

// Keeps the compiler from loading a vector once a use: a load across a cache line costs as much as two multiplications.
HWY_INLINE VF loaded(VF v) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC
  asm("" : "+v"(v.raw));
#endif
  return v;
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define TM_CONV_MASKS 1
using MF = hn::Mask<F32>;

// The lanes whose index `first + lane` is in [0, n).
HWY_INLINE MF inside(int64_t first, int64_t n) {
  const F32 d;
  const auto clamp = [](int64_t x) { return static_cast<size_t>(x < 0 ? 0 : x > kLanes ? kLanes : x); };
  return hn::AndNot(hn::FirstN(d, clamp(-first)), hn::FirstN(d, clamp(n - first)));
}

// The vectors of one input row that the taps of a row of windows read, kStride apart.
template <int kKernel, int kStride>
struct Taps {
  static constexpr int kLoads = kStride == 1 ? kKernel : (kKernel + 1) / 2 * 2;
  MF masks[kLoads];

  HWY_INLINE void aim(int64_t first, int64_t width) {
    TM_UNROLL
    for (int i = 0; i < kLoads; ++i) masks[i] = inside(first + at(i), width);
  }
  HWY_INLINE void load(const float* row, VF* taps) const {
    const F32 d;
    if constexpr (kStride == 1) {
      TM_UNROLL
      for (int i = 0; i < kLoads; ++i) taps[i] = loaded(hn::MaskedLoad(masks[i], d, row + at(i)));
    } else {
      TM_UNROLL
      for (int i = 0; i < kLoads; i += 2) {
        const VF low = hn::MaskedLoad(masks[i], d, row + at(i)),
                 high = hn::MaskedLoad(masks[i + 1], d, row + at(i + 1));
        taps[i] = loaded(hn::ConcatEven(d, high, low));
        if (i + 1 < kKernel) taps[i + 1] = loaded(hn::ConcatOdd(d, high, low));
      }
    }
  }
  static constexpr int64_t at(int i) { return kStride == 1 ? i : i / 2 * 2 + i % 2 * kLanes; }
};

// Each vector of the input serves all the output rows whose windows it is in.
template <int kKernel, int kStride, int kRows>
HWY_INLINE void depthwise_rows(const DepthwisePlane& p, int64_t y) {
  const F32 d;
  constexpr int kInRows = (kRows - 1) * kStride + kKernel;
  VF w[kKernel * kKernel];
  TM_UNROLL
  for (int t = 0; t < kKernel * kKernel; ++t) w[t] = hn::Set(d, p.weights[t]);
  const float* rows[kInRows];
  for (int i = 0; i < kInRows; ++i) {
    const int64_t in_y = y * kStride - p.pad_top + i;
    rows[i] = in_y < 0 || in_y >= p.in_height ? p.zeros : p.in + in_y * p.in_width;
  }
  const VF bias = hn::Set(d, p.bias), low = hn::Set(d, p.low), high = hn::Set(d, p.high);
  Taps<kKernel, kStride> taps;
  for (int64_t x = 0; x < p.out_width; x += kLanes) {
    const int64_t first = x * kStride - p.pad_left;
    taps.aim(first, p.in_width);
    VF sum[kRows];
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = bias;
    TM_UNROLL
    for (int i = 0; i < kInRows; ++i) {
      VF values[Taps<kKernel, kStride>::kLoads];
      taps.load(rows[i] + first, values);
      TM_UNROLL
      for (int j = 0; j < kKernel; ++j) {
        TM_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const int k = i - r * kStride;
          if (k >= 0 && k < kKernel) sum[r] = hn::MulAdd(values[j], w[k * kKernel + j], sum[r]);
        }
      }
    }
    const bool whole = x + kLanes <= p.out_width;
    const MF tail = inside(0, p.out_width - x);
    TM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      VF v = hn::IfThenElse(hn::Lt(sum[r], low), low, sum[r]);
      v = hn::IfThenElse(hn::Gt(v, high), high, v);
      float* out = p.out + (y + r) * p.out_width + x;
      if (whole) {
        hn::StoreU(v, d, out);
      } else {
        hn::BlendedStore(v, tail, d, out);
      }
    }
  }
}

template <int kKernel, int kStride>
void depthwise_plane(const DepthwisePlane& p) {
  int64_t y = 0;
  for (; y + 4 <= p.out_height; y += 4) depthwise_rows<kKernel, kStride, 4>(p, y);
  for (; y + 2 <= p.out_height; y += 2) depthwise_rows<kKernel, kStride, 2>(p, y);
  for (; y < p.out_height; ++y) depthwise_rows<kKernel, kStride, 1>(p, y);
}

inline void depthwise(const DepthwisePlane& p) {
  if (p.kernel == 3) return p.stride == 1 ? depthwise_plane<3, 1>(p) : depthwise_plane<3, 2>(p);
  return p.stride == 1 ? depthwise_plane<5, 1>(p) : depthwise_plane<5, 2>(p);
}
#endif

#if HWY_TARGET != HWY_SCALAR
// out[q] = in[2 q] for n > lanes of D: vector by vector, the last one again where n is no multiple.
template <class D>
HWY_INLINE void copy_every_second(D d, const float* HWY_RESTRICT in, int64_t n, float* HWY_RESTRICT out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t q = 0; q + lanes < n; q += lanes) {
    hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, in + 2 * q + lanes), hn::LoadU(d, in + 2 * q)), d, out + q);
  }
  // From one element earlier, so that nothing past the last is read.
  const float* last = in + 2 * (n - lanes) - 1;
  hn::StoreU(hn::ConcatOdd(d, hn::LoadU(d, last + lanes), hn::LoadU(d, last)), d, out + n - lanes);
}

template <class D>
HWY_INLINE void copy_all(D d, const float* HWY_RESTRICT in, int64_t n, float* HWY_RESTRICT out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t q = 0; q + lanes < n; q += lanes) hn::StoreU(hn::LoadU(d, in + q), d, out + q);
  hn::StoreU(hn::LoadU(d, in + n - lanes), d, out + n - lanes);
}
#endif

inline void copy(const float* HWY_RESTRICT in, int64_t stride, int64_t n, float* HWY_RESTRICT out) {
#if HWY_TARGET != HWY_SCALAR
  const hn::Full128<float> four;
  if (stride == 1 && n >= 4) return n >= kLanes ? copy_all(F32(), in, n, out) : copy_all(four, in, n, out);
  if (stride == 2 && n > 4) {
    return n > kLanes ? copy_every_second(F32(), in, n, out) : copy_every_second(four, in, n, out);
  }
#endif
  for (int64_t q = 0; q < n; ++q) out[q] = in[q * stride];
}

template <class Combine>
HWY_INLINE float reduce(const float* in, int64_t n, VF start, const Combine& combine) {
  const F32 d;
  VF a = start, b = start, c = start, e = start;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = combine(a, hn::LoadU(d, in + i));
    b = combine(b, hn::LoadU(d, in + i + kLanes));
    c = combine(c, hn::LoadU(d, in + i + 2 * kLanes));
    e = combine(e, hn::LoadU(d, in + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a = combine(a, hn::LoadU(d, in + i));
  if (i < n) {
    HWY_ALIGN float rest[kLanes];
    hn::Store(start, d, rest);
    for (int64_t j = 0; i + j < n; ++j) rest[j] = in[i + j];
    b = combine(b, hn::Load(d, rest));
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(combine(combine(a, b), combine(c, e)), d, lanes);
  const hn::CappedTag<float, 1> one;
  auto result = hn::Load(one, lanes);
  for (int64_t j = 1; j < kLanes; ++j) result = combine(result, hn::LoadU(one, lanes + j));
  return hn::GetLane(result);
}

inline float sum(const float* in, int64_t n) {
  return reduce(in, n, hn::Zero(F32()), [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
}
inline float maximum(const float* in, int64_t n) {
  return reduce(in, n, hn::Set(F32(), -std::numeric_limits<float>::infinity()),
                [](auto x, auto y) HWY_ATTR { return join_max(hn::DFromV<decltype(x)>(), x, y); });
}

}  // namespace convolution

inline const ConvOps* make_conv_ops() {
  using namespace convolution;
#if defined(TM_CONV_MASKS)
  constexpr auto kDepthwise = &depthwise;
#else
  constexpr void (*kDepthwise)(const DepthwisePlane&) = nullptr;
#endif
  static constexpr ConvOps kOps = {.weighted_taps = &weighted_taps,
                                   .depthwise = kDepthwise,
                                   .sum_taps = &sum_taps,
                                   .max_taps = &max_taps,
                                   .copy = &copy,
                                   .sum = &sum,
                                   .maximum = &maximum};
  return &kOps;
}
#undef TM_CONV_MASKS

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CONV_INL_H_
