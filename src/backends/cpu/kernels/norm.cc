#include "backends/cpu/kernels/norm.h"

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/scratch.h"
#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/norm-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(norm_rows);
HWY_EXPORT(norm_groups);

void row_norm(const RowNorm& norm, ThreadPool* pool) {
  init_target();
  if (norm.cols == 0) return;
  const bool spare = (norm.residual || norm.add) && !norm.sum;
  parallel(pool, norm.rows, grain_for(norm.cols, 32768), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(norm_rows)
    (norm, begin, end, spare ? task_floats(static_cast<size_t>(norm.cols)) : nullptr);
  });
}

void group_norm(const GroupNorm& norm, ThreadPool* pool) {
  init_target();
  const int64_t block = norm.channels / norm.groups * norm.spatial;
  if (block == 0) return;
  parallel(pool, norm.batch * norm.groups, grain_for(block, 32768), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(norm_groups)(norm, begin, end);
  });
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
