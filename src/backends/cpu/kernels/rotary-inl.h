// Loops of rotary.h.

#if defined(TRANSMUTER_CPU_ROTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSMUTER_CPU_ROTARY_INL_H_
#undef TRANSMUTER_CPU_ROTARY_INL_H_
#else
#define TRANSMUTER_CPU_ROTARY_INL_H_
#endif

#include <algorithm>

#include "backends/cpu/kernels/rotary.h"
#include "backends/cpu/kernels/tail-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void turn_halves(const float* x, const float* cos, const float* sin, int64_t half, float* out) {
  for_vectors(half, [&](int64_t i, auto memory) HWY_ATTR {
    const VF32 a = memory.load(x + i), b = memory.load(x + half + i);
    const VF32 c = memory.load(cos + i), s = memory.load(sin + i);
    memory.store(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), out + i);
    memory.store(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), out + half + i);
  });
}

HWY_INLINE void turn_pairs(const float* x, const float* cos, const float* sin, int64_t half, float* out) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    VF32 a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const VF32 c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreInterleaved2(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, out + 2 * i);
  }
  for (; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    out[2 * i] = a * cos[i] - b * sin[i];
    out[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

// Rows in the order batch, sequence, head: the heads of one position share their angles.
void rotary_rows(const Rotary& r, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % r.heads, s = row / r.heads % r.sequence, b = row / r.heads / r.sequence;
    const int64_t angle = b * r.angle_strides[0] + s * r.angle_strides[1];
    const float* x = r.x + b * r.x_strides[0] + h * r.x_strides[1] + s * r.x_strides[2];
    float* out = r.out + b * r.out_strides[0] + h * r.out_strides[1] + s * r.out_strides[2];
    if (r.interleaved) {
      turn_pairs(x, r.cos + angle, r.sin + angle, r.half, out);
    } else {
      turn_halves(x, r.cos + angle, r.sin + angle, r.half, out);
    }
    std::copy(x + 2 * r.half, x + r.dim, out + 2 * r.half);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#endif  // TRANSMUTER_CPU_ROTARY_INL_H_
