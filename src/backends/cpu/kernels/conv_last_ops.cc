#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv_last_ops.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/kernels/conv_last-inl.h"

#if HWY_ONCE
#include "backends/cpu/kernels/target.h"

namespace transmuter::cpu {

HWY_EXPORT(make_last_ops);

const LastOps& last_ops() {
  init_target();
  return *HWY_DYNAMIC_DISPATCH(make_last_ops)();
}

}  // namespace transmuter::cpu
#endif
