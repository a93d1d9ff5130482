// The tables of a resize: for each position along an axis, which operand positions count with which weight.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/composites/composites.h"

namespace transmuter::ir {

// How many taps from where (relative to floor(coordinate)) a filter of the mode needs: nearest 1, linear 2, cubic 4,
// with antialiasing and scale < 1 more.
struct TapRange {
  int64_t first = 0, count = 1;
};
TapRange tap_range(const ResizeAttributes& resize, double scale);

struct ResizeTaps {
  int64_t taps = 1;
  std::vector<int64_t> index;  // [out * taps], inside the operand
  std::vector<float> weight;   // [out * taps], sums of 1
  std::vector<bool> outside;   // [out], tf_crop_and_resize only: takes the extrapolation value
};
// in >= 1. Coordinates are computed in f32.
ResizeTaps resize_taps(const ResizeAttributes& resize, int64_t in, int64_t out, float scale, float roi_start,
                       float roi_end);

// An axis that stays as it is.
bool is_left_alone(const ResizeAttributes& resize, int64_t in, int64_t out, double scale);

}  // namespace transmuter::ir
