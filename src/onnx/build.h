// From parsed messages to checked graphs.
#pragma once

#include "onnx/graph.h"
#include "onnx/proto.h"

namespace transmuter::onnx {

// The top graph and everything nested in it: names defined once, every name read defined somewhere around, nodes in
// topological order (the file's, where that is one), captures filled in. Throws Error naming nodes and graphs.
Graph build_graph(GraphProto proto);

// If, Loop and Scan: their bodies are there and have the inputs and outputs that the operator asks for.
void check_control_flow(const Node& node);

}  // namespace transmuter::onnx
