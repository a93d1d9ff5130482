// Operators that move or compare strings, run on integers: each distinct string becomes its rank in the order of bytes
// (the empty string, which is the default everywhere, becomes 0), and ranks in the results become strings again.
#pragma once

#include <functional>
#include <vector>

#include "onnx/graph.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// Does the node move strings (Gather, Concat, Unique, Equal ...) that an input holds? An Error where it would calculate
// with them.
bool moves_strings(const onnx::Node& node, const std::vector<Value>& inputs);

// `run`: the node on integers.
std::vector<Value> run_on_ranks(const onnx::Node& node, const std::vector<Value>& inputs,
                                const std::function<std::vector<Value>(const std::vector<Value>&)>& run);

}  // namespace transmuter::runtime
