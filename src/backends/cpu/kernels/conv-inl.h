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
#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace convolution {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;
inline constexpr int64_t kLanes = HWY_LANES(float);

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
        result[v] = hn::Max(result[v], x);
      }
    }
  }
  TM_UNROLL
  for (int v = 0; v < kVectors; ++v) hn::StoreU(result[v], d, out + v * kLanes);
}

template <Kind kKind>
HWY_INLINE void taps(const float* in, const int64_t* offsets, const float* weights, int64_t count, int64_t n, float* out) {
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

inline void divide_counts(const float* HWY_RESTRICT in, float rows, const float* HWY_RESTRICT columns, int64_t n,
                          float* HWY_RESTRICT out) {
  const F32 d;
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const VF count = hn::Mul(hn::Set(d, rows), hn::LoadU(d, columns + j));
    hn::StoreU(hn::Div(hn::LoadU(d, in + j), count), d, out + j);
  }
  for (; j < n; ++j) out[j] = in[j] / (rows * columns[j]);
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
                [](auto x, auto y) HWY_ATTR { return hn::Max(x, y); });
}

}  // namespace convolution

inline const ConvOps* make_conv_ops() {
  using namespace convolution;
  static constexpr ConvOps kOps = {.weighted_taps = &weighted_taps,
                                   .sum_taps = &sum_taps,
                                   .max_taps = &max_taps,
                                   .divide_counts = &divide_counts,
                                   .sum = &sum,
                                   .maximum = &maximum};
  return &kOps;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CONV_INL_H_
