#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/kernels/gemm-inl.h"

#if HWY_ONCE
#include "backends/cpu/kernels/target.h"

namespace transmuter::cpu {

HWY_EXPORT(make_gemm_ops);

const GemmOps& gemm_ops() {
  init_target();
  return *HWY_DYNAMIC_DISPATCH(make_gemm_ops)();
}

}  // namespace transmuter::cpu
#endif
