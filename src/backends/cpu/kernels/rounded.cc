#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rounded.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/kernels/rounded-inl.h"

#if HWY_ONCE
#include "backends/cpu/kernels/target.h"

namespace transmuter::cpu {

HWY_EXPORT(make_rounded_ops);

const RoundedOps& rounded_ops() {
  init_target();
  return *HWY_DYNAMIC_DISPATCH(make_rounded_ops)();
}

}  // namespace transmuter::cpu
#endif
