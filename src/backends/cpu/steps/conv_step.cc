// Convolution: see kernels/conv.h.
#include "backends/cpu/plan/planner.h"

namespace transmuter::cpu {

bool plan_convolution_fused(Planner& planner, const ir::Op& op) {
  planner.refuse(op, "conv", "no kernel yet");
  return false;
}

}  // namespace transmuter::cpu
