#include "backends/cpu/kernels/reaching.h"

#include <algorithm>

#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reaching.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first vectors of [begin, n) with such an element, or what is left of fewer.
int64_t skip_below(const float* x, int64_t begin, int64_t n, float bound) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, bound);
  for (; begin + 4 * lanes <= n; begin += 4 * lanes) {
    const auto below = [&](int64_t i) HWY_ATTR { return hn::Lt(hn::LoadU(d, x + begin + i * lanes), limit); };
    if (!hn::AllTrue(d, hn::And(hn::And(below(0), below(1)), hn::And(below(2), below(3))))) break;
  }
  return begin;
}
int64_t skip_above(const float* x, int64_t begin, int64_t n, float bound) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, bound);
  for (; begin + 4 * lanes <= n; begin += 4 * lanes) {
    const auto above = [&](int64_t i) HWY_ATTR { return hn::Gt(hn::LoadU(d, x + begin + i * lanes), limit); };
    if (!hn::AllTrue(d, hn::And(hn::And(above(0), above(1)), hn::And(above(2), above(3))))) break;
  }
  return begin;
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(skip_below);
HWY_EXPORT(skip_above);

int64_t first_reaching(const float* x, int64_t begin, int64_t n, float bound, bool above) {
  init_target();
  constexpr int64_t kNear = 16;  // the next one is often near: not worth a call
  while (begin < n) {
    for (const int64_t near = std::min(n, begin + kNear); begin < near; ++begin)
      if (above ? !(x[begin] < bound) : !(x[begin] > bound)) return begin;
    begin = above ? HWY_DYNAMIC_DISPATCH(skip_below)(x, begin, n, bound)
                  : HWY_DYNAMIC_DISPATCH(skip_above)(x, begin, n, bound);
  }
  return n;
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
