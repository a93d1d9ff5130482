// Loops of softmax.h.

#if defined(TRANSMUTER_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_SOFTMAX_INL_H_
#undef TRANSMUTER_CPU_SOFTMAX_INL_H_
#else
#define TRANSMUTER_CPU_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/softmax.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Of a row with a NaN it may be anything: that element's exponential makes the sum NaN, and so the whole row.
HWY_INLINE float row_max(const float* p, int64_t n) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, kLowest), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Max(hn::LoadU(d, p + i), a);
    b = hn::Max(hn::LoadU(d, p + i + lanes), b);
    c = hn::Max(hn::LoadU(d, p + i + 2 * lanes), c);
    e = hn::Max(hn::LoadU(d, p + i + 3 * lanes), e);
  }
  for_vectors(n - i, [&](int64_t k, auto memory) HWY_ATTR { a = hn::Max(memory.load(p + i + k, kLowest), a); });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

HWY_INLINE void finish_row(const float* in, float* out, int64_t n, bool log) {
  const F32 d;
  const VF32 top = hn::Set(d, row_max(in, n));
  const double sum = sum_vectors(n, [&](int64_t i, auto memory) HWY_ATTR {
    const VF32 shifted = hn::Sub(memory.load(in + i, kLowest), top);
    // Beyond the tail: exp(-infinity - top), zero, unless the row is NaN anyway.
    const VF32 e = vec_exp_nonpositive(d, shifted);
    memory.store(log ? shifted : e, out + i);
    return e;
  });
  if (log) {
    const VF32 offset = hn::Set(d, static_cast<float>(std::log(sum)));
    for_vectors(n,
                [&](int64_t i, auto memory) HWY_ATTR { memory.store(hn::Sub(memory.load(out + i), offset), out + i); });
  } else {
    const VF32 factor = hn::Set(d, static_cast<float>(1.0 / sum));
    for_vectors(n,
                [&](int64_t i, auto memory) HWY_ATTR { memory.store(hn::Mul(memory.load(out + i), factor), out + i); });
  }
}

void softmax_rows(const float* in, float* out, int64_t rows, int64_t cols, bool log) {
  for (int64_t r = 0; r < rows; ++r) finish_row(in + r * cols, out + r * cols, cols, log);
}

// cols <= kSoftmaxColumns columns of a [n, stride] block, each a softmax of its own.
void softmax_columns(const float* in, float* out, int64_t n, int64_t stride, int64_t cols, bool log) {
  const F32 d;
  for_vectors(cols, [&](int64_t c, auto memory) HWY_ATTR {
    VF32 top = hn::Set(d, kLowest);
    for (int64_t r = 0; r < n; ++r) top = max_nan(d, memory.load(in + r * stride + c), top);
    VF32 sum = hn::Zero(d), lost = hn::Zero(d);
    for (int64_t r = 0; r < n; ++r) {
      const VF32 shifted = hn::Sub(memory.load(in + r * stride + c), top);
      const VF32 e = vec_exp_nonpositive(d, shifted);
      memory.store(log ? shifted : e, out + r * stride + c);
      const VF32 term = hn::Sub(e, lost);  // compensated: one lane adds the whole column
      const VF32 next = hn::Add(sum, term);
      lost = hn::Sub(hn::Sub(next, sum), term);
      sum = next;
    }
    const VF32 factor = log ? vec_log(d, sum) : hn::Div(hn::Set(d, 1.0f), sum);
    for (int64_t r = 0; r < n; ++r) {
      const VF32 v = memory.load(out + r * stride + c);
      memory.store(log ? hn::Sub(v, factor) : hn::Mul(v, factor), out + r * stride + c);
    }
  });
}

void softmax_masked_rows(const float* in, float* out, int64_t begin, int64_t end, int64_t cols, float scale,
                         const SoftmaxMask& mask) {
  const F32 d;
  const VF32 factor = hn::Set(d, scale);
  for (int64_t r = begin; r < end; ++r) {
    const float* row = in + r * cols;
    float* to = out + r * cols;
    const float* m = mask.data;
    int64_t rest = r;
    for (int k = 3; k >= 0; --k) {
      m += rest % mask.dims[k] * mask.strides[k];
      rest /= mask.dims[k];
    }
    if (mask.column_stride == 1) {
      for_vectors(cols, [&](int64_t i, auto memory) HWY_ATTR {
        memory.store(hn::MulAdd(memory.load(row + i), factor, memory.load(m + i)), to + i);
      });
    } else {
      for (int64_t i = 0; i < cols; ++i) to[i] = row[i] * scale + m[i * mask.column_stride];
    }
    finish_row(to, to, cols, false);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_SOFTMAX_INL_H_
