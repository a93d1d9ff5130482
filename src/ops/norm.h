// Normalisation over the last axes, for the operators that hold one (LayerNormalization, SkipLayerNormalization ...).
#pragma once

#include <vector>

#include "ir/builder.h"

namespace transmuter::ops {

struct Normalisation {
  bool centred = true;  // layer normalisation; false: root mean square
  int64_t axis = 0;
  double epsilon = 1e-5;
  bool statistics = false;
};

// Scale and bias (absent: invalid) broadcast to x; another dtype of the scale becomes the result's. Results: y, then
// with `statistics` the mean (centred only) and the inverse deviation, f32 or f64.
std::vector<ir::Value> normalise(ir::Builder& build, const Normalisation& n, ir::Value x, ir::Value scale,
                                 ir::Value bias);

}  // namespace transmuter::ops
