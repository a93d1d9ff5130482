// Pools as ONNX has them: what the operators with a pool inside share.
#pragma once

#include "ops/windows.h"

namespace transmuter::ops {

struct PoolWindows : Windows {
  Dims input;         // spatial
  Dims out;           // spatial
  Dims reduced_high;  // the high pad that gives `out` windows; ceil_mode lets the last one hang over
};

// Reads kernel_shape and everything else of the geometry, ceil_mode too. A last window that would start in the high
// padding is dropped. `shape` is [n, c, spatial...].
PoolWindows read_pool(OpContext& op, const Dims& shape);

ir::Value pool_windows(ir::Builder& build, ir::Value x, ir::ReduceKind kind, const PoolWindows& w);
// The mean over each window's elements; with include_pad the padding counts as zeros, never what hangs over.
ir::Value average_windows(ir::Builder& build, ir::Value x, const PoolWindows& w, bool include_pad);
// The position of each window's first greatest element in x, flat; `column_major`: among the spatial axes the first
// runs fastest.
ir::Value greatest_positions(ir::Builder& build, ir::Value x, const PoolWindows& w, bool column_major);

}  // namespace transmuter::ops
