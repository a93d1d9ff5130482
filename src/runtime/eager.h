// One node, or a graph node by node, on real values: what breaks, control flow and Model::run are made of. Evaluated by
// the reference evaluator.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/graph.h"
#include "runtime/control_flow.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// Names visible to a graph: its own, then those around it.
struct Environment {
  const Environment* outer = nullptr;
  std::unordered_map<std::string, Value> values;
  const Value* find(const std::string& name) const;
};

// A node without subgraphs. Inputs in node order (kind none = absent).
std::vector<Value> run_node(const onnx::Node& node, std::vector<Value> inputs);
// Inputs by position; returns the graph's outputs by position.
std::vector<Value> run_graph(const onnx::Graph& graph, const std::vector<Value>& inputs, const Environment* outer);

}  // namespace transmuter::runtime
