// GreedySearch, Sampling and BeamSearch of com.microsoft, driven by the host: a decoder is called token by token until
// every text has ended. Semantics: ONNX Runtime's CPU kernels, but for three things: what they leave unset is the
// padding token or 0; whether a text can still get better is asked of its own beams, not of its neighbour's; a presence
// penalty is taken from the tokens that the mask names.
#pragma once

#include <vector>

#include "onnx/graph.h"
#include "runtime/control_flow.h"
#include "runtime/run_context.h"

namespace transmuter::runtime {

bool is_search(const onnx::Node& node);
// Inputs in node order (kind none = absent).
std::vector<Value> run_search(const onnx::Node& node, const std::vector<Value>& inputs, const Bodies& bodies,
                              const RunContext& context);

}  // namespace transmuter::runtime
