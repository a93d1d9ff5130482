#include "backends/cpu/kernels/rotary.h"

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rotary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/rotary-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(rotary_rows);

void rotary(const Rotary& r, ThreadPool* pool) {
  init_target();
  if (r.dim == 0) return;
  parallel(pool, r.batch * r.heads * r.sequence, grain_for(r.dim, 32768), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rotary_rows)(r, begin, end);
  });
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
