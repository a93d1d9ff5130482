// Model-local functions: every call is replaced by the function's nodes.
#pragma once

#include "onnx/proto.h"

namespace transmuter::onnx {

// Inlines the calls in model.graph at any depth and gives every node the version of its operator set. A function sees
// its own inputs and attributes only; its values get names that are new to the model, its nodes the caller's label as
// a prefix. Throws Error for recursion, for names and attributes that a function does not have, for operator sets that
// are used but not imported, and where inlining would multiply the model beyond a fixed size.
void inline_functions(ModelProto& model);

}  // namespace transmuter::onnx
