// Extents of sliding windows, for convolution and reduce_window, and the text of their pads.
#pragma once

#include <string>

#include "base/dim.h"

namespace transmuter::ir {

// (extent - 1) * dilation + 1, and 0 for 0.
Dim dilated_extent(Dim extent, int64_t dilation);

// How many windows fit: 0 when the window is larger than the padded extent in this trace, else the trace asserts that
// it is not.
Dim window_count(Dim padded, Dim window, int64_t window_dilation, int64_t stride, const std::string& what);

// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>": low and high of each axis.
std::string padding_text(const std::vector<int64_t>& low, const std::vector<int64_t>& high);

}  // namespace transmuter::ir
