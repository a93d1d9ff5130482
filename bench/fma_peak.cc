#include <algorithm>

#include "bench.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace transmuter::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns the floating-point operations done.
double fma_run(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  constexpr int kChains = 12;
  hn::Vec<decltype(d)> sum[kChains];
  TM_UNROLL
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  const auto a = hn::Set(d, sink[0]), b = hn::Set(d, sink[1]);
  for (int64_t r = 0; r < rounds; ++r) {
    TM_UNROLL
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], a, b);
  }
  TM_UNROLL
  for (int i = 1; i < kChains; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  hn::StoreU(sum[0], d, sink + 2);
  return 2.0 * kChains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace transmuter::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transmuter::bench {
HWY_EXPORT(fma_run);

double fma_peak() {
  float sink[64] = {0.999f, 0.001f};
  double work = 0;
  const double time = best_of([&] { work = HWY_DYNAMIC_DISPATCH(fma_run)(200000, sink); }, false);
  return work / time;
}
}  // namespace transmuter::bench
#endif
