// The activations that other operators hold too (FusedConv, FusedGemm).
#pragma once

#include "ir/builder.h"

namespace transmuter::ops {

// scale * (x < 0 ? alpha * (exp(x / width) - 1) : x)
ir::Value elu_like(ir::Builder& b, ir::Value x, double alpha, double width, double scale);
// log(1 + exp(x)) that does not overflow.
ir::Value softplus_of(ir::Builder& b, ir::Value x);
// max(0, min(1, alpha * x + beta))
ir::Value hard_sigmoid_of(ir::Builder& b, ir::Value x, double alpha, double beta);

}  // namespace transmuter::ops
