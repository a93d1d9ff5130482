// The geometry of convolutions and pools: kernel, strides, dilations, pads of the spatial axes, as ONNX's attributes
// give them.
#pragma once

#include <vector>

#include "ops/context.h"

namespace transmuter::ops {

struct Windows {
  Dims kernel;
  std::vector<int64_t> strides, dilations;
  Dims low, high;      // pads
  bool valid = false;  // auto_pad
  bool same = false;

  size_t size() const { return kernel.size(); }
  // From the first to the last element that a window reads.
  Dim reach(size_t i) const { return (kernel[i] - 1) * Dim(dilations[i]) + 1; }
};

// Reads strides, dilations, pads, auto_pad. SAME_* pads so that the result has ceil(input / stride) elements, the odd
// one at the end (UPPER) or the start (LOWER). `input` has the spatial extents.
Windows read_windows(OpContext& op, const Dims& input, Dims kernel);
// One entry for each of n axes, each at least `least`; `otherwise` when the attribute is absent.
std::vector<int64_t> axis_attribute(OpContext& op, const char* name, size_t n, int64_t least, int64_t otherwise);

inline Dims spatial_extents(const Dims& shape) { return Dims(shape.begin() + 2, shape.end()); }

}  // namespace transmuter::ops
