// What follows a product and can run on its tiles: bias, scale, residual, activation. Their ops are absorbed by the
// product's step.
#pragma once

#include "backends/cpu/kernels/epilogue.h"
#include "backends/cpu/plan/planner.h"

namespace transmuter::cpu {

struct FusedEpilogue {
  float alpha = 1;
  ir::Value bias;      // 1-D in effect, along the feature axis of the result
  ir::Value residual;  // the result's shape
  Combine combine = Combine::add_before;
  Activation activation = Activation::none;
  float first = 1, second = 0;
  ir::Value result;              // the last value computed
  const ir::Op* last = nullptr;  // its op; null when nothing was fused

  // For the kernel: all but the pointers and strides of bias and residual.
  Epilogue arguments() const {
    Epilogue e;
    e.alpha = alpha;
    e.combine = combine;
    e.activation = activation;
    e.first = first;
    e.second = second;
    return e;
  }
};

// `v` is a 1-D value repeated along every axis but `axis`: the 1-D value, else invalid.
ir::Value vector_along(const Planner& planner, ir::Value v, int64_t axis);

// Follows the only users of `product`'s result; `feature_axis` is the axis that a bias runs along. Absorbs what it
// takes.
FusedEpilogue match_epilogue(Planner& planner, const ir::Op& product, int64_t feature_axis);

}  // namespace transmuter::cpu
