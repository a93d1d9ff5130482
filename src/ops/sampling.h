// Values between the elements of a tensor: GridSample, DeformConv.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace transmuter::ops {

enum class SampleMode : uint8_t { linear, nearest, cubic };
enum class SamplePadding : uint8_t { zeros, border, reflection };

struct Sampling {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  // reflections are about the first and last element, else half an element outside
};

// x [n, c, elements] whose elements lie in `input` extents, at one position an axis (each [n, points], in elements):
// [n, c, points]. Taps (the elements that a point reads) are mapped into the input one by one: dropped (zeros), clamped
// (border) or reflected.
ir::Value sample_points(ir::Builder& build, ir::Value x, const Dims& input, const std::vector<ir::Value>& positions,
                        const Sampling& how);

}  // namespace transmuter::ops
