#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/qgemm.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/kernels/qgemm-inl.h"

#if HWY_ONCE
#include "backends/cpu/kernels/target.h"

namespace transmuter::cpu {

HWY_EXPORT(make_qgemm_ops);

const QgemmOps& qgemm_ops() {
  init_target();
  return *HWY_DYNAMIC_DISPATCH(make_qgemm_ops)();
}

}  // namespace transmuter::cpu
#endif
