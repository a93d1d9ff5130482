// Cutting host tensors along an axis and putting them together again, for control flow: any dtype, strings too.
#pragma once

#include <vector>

#include "onnx/graph.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// Element `i` along an axis, which disappears.
Tensor take(const Tensor& x, int64_t axis, int64_t i);
// The elements [start, start + count) along an axis.
Tensor part(const Tensor& x, int64_t axis, int64_t start, int64_t count);
// Tensors of one dtype and shape along a new axis (negative: from the end of the result). None: an empty tensor of the
// declared element type, extent 0 also where nothing is declared. Error where they differ.
Tensor stack(const std::vector<Value>& rows, const onnx::ValueInfo& declared, int64_t axis);
// The first `count` along axis 0; the same padded with zeros to `count`.
Tensor first_rows(const Tensor& x, int64_t count);
Tensor padded_rows(const Tensor& x, int64_t count);

}  // namespace transmuter::runtime
