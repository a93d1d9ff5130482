// Loops of norm.h.

#if defined(TRANSMUTER_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_NORM_INL_H_
#undef TRANSMUTER_CPU_NORM_INL_H_
#else
#define TRANSMUTER_CPU_NORM_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/norm.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Mean of the squares of v - center; lanes beyond the tail count nothing.
HWY_INLINE double mean_square(const float* v, int64_t n, float center) {
  const F32 d;
  const VF32 c = hn::Set(d, center);
  const double sum = sum_vectors(n, [&](int64_t i, auto memory) HWY_ATTR {
    const VF32 t = hn::Sub(memory.load(v + i, center), c);
    return hn::Mul(t, t);
  });
  return sum / static_cast<double>(n);
}

// v: the row to normalise, already summed. The mean is double; its f32 rounding enters both passes alike.
HWY_INLINE void statistics(const float* v, int64_t n, float epsilon, bool rms, float& mean, float& factor) {
  double square;
  if (rms) {
    mean = 0.0f;
    square = mean_square(v, n, 0.0f);
  } else {
    const double exact =
        sum_vectors(n, [&](int64_t i, auto memory) HWY_ATTR { return memory.load(v + i); }) / static_cast<double>(n);
    mean = static_cast<float>(exact);
    const double shift = exact - mean;
    square = std::max(0.0, mean_square(v, n, mean) - shift * shift);
  }
  factor = static_cast<float>(1.0 / std::sqrt(square + epsilon));
}

void norm_rows(const RowNorm& a, int64_t begin, int64_t end, float* spare) {
  const F32 d;
  const int64_t n = a.cols;
  for (int64_t r = begin; r < end; ++r) {
    const float* v = a.x + r * n;
    float* out = a.out + r * n;
    if (a.residual || a.add) {
      float* sum = a.sum ? a.sum + r * n : spare;
      const float* residual = a.residual ? a.residual + r * n : nullptr;
      for_vectors(n, [&](int64_t i, auto memory) HWY_ATTR {
        VF32 s = memory.load(v + i);
        if (residual) s = hn::Add(s, memory.load(residual + i));
        if (a.add) s = hn::Add(s, memory.load(a.add + i));
        memory.store(s, sum + i);
      });
      v = sum;
    } else if (a.sum && a.sum != a.x) {
      std::copy_n(v, n, a.sum + r * n);
    }
    float mean, factor;
    statistics(v, n, a.epsilon, a.rms, mean, factor);
    if (a.mean && !a.rms) a.mean[r] = mean;
    if (a.inv_std) a.inv_std[r] = factor;
    const VF32 m = hn::Set(d, mean), f = hn::Set(d, factor);
    for_vectors(n, [&](int64_t i, auto memory) HWY_ATTR {
      VF32 y = hn::Mul(hn::Sub(memory.load(v + i), m), f);
      if (a.scale && a.bias) {
        y = hn::MulAdd(y, memory.load(a.scale + i), memory.load(a.bias + i));
      } else if (a.scale) {
        y = hn::Mul(y, memory.load(a.scale + i));
      } else if (a.bias) {
        y = hn::Add(y, memory.load(a.bias + i));
      }
      memory.store(y, out + i);
    });
  }
}

// One task: group `task % groups` of batch item `task / groups`.
void norm_groups(const GroupNorm& a, int64_t begin, int64_t end) {
  const F32 d;
  const int64_t channels = a.channels / a.groups, block = channels * a.spatial;
  for (int64_t task = begin; task < end; ++task) {
    const float* v = a.x + task * block;
    float* out = a.out + task * block;
    float mean, factor;
    statistics(v, block, a.epsilon, false, mean, factor);
    const int64_t first = task % a.groups * channels;
    const VF32 m = hn::Set(d, mean);
    for (int64_t c = 0; c < channels; ++c) {
      const VF32 f = hn::Set(d, a.scale ? a.scale[first + c] * factor : factor);
      const VF32 b = hn::Set(d, a.bias ? a.bias[first + c] : 0.0f);
      const float* from = v + c * a.spatial;
      float* to = out + c * a.spatial;
      for_vectors(a.spatial, [&](int64_t i, auto memory) HWY_ATTR {
        VF32 y = hn::MulAdd(hn::Sub(memory.load(from + i), m), f, b);
        if (a.silu) y = hn::Mul(y, vec_logistic(d, y));
        memory.store(y, to + i);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_NORM_INL_H_
