// Convolution as ONNX's Conv has it, for the operators that hold one (ConvInteger, QLinearConv, FusedConv).
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

// Reads auto_pad, dilations, group, kernel_shape, pads, strides; `result` is the dtype. No bias. The padding is of
// `padding` (0-d) where that is given, else of zeros.
ir::Value convolve(OpContext& op, ir::Value x, ir::Value kernel, DType result, ir::Value padding = {});
// Conv's result of the node's inputs 0, 1 and, where given, 2 (the bias). channels_at_end: those of input 0 and of the
// result are the last axis; the kernel's stay where Conv has them.
ir::Value conv(OpContext& op, bool channels_at_end = false);
// bias [c] added along axis 1.
ir::Value add_channels(ir::Builder& build, ir::Value x, ir::Value bias);

// Channels moved from the last axis to the second, and back.
ir::Value channels_second(ir::Builder& build, ir::Value x);
ir::Value channels_last(ir::Builder& build, ir::Value x);

}  // namespace transmuter::ops
