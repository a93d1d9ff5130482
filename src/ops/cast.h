// Conversions that the operators' `saturate` attribute steers.
#pragma once

#include "ir/builder.h"

namespace transmuter::ops {

// To an eight-bit float; without saturation what is beyond the greatest value becomes infinity or NaN, as the type has
// it. Other dtypes as convert.
ir::Value convert_float8(ir::Builder& build, ir::Value x, DType to, bool saturate);

}  // namespace transmuter::ops
