// What nodes read and graphs declare, for those who walk graphs.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/strings.h"
#include "onnx/graph.h"
#include "transmuter/error.h"

namespace transmuter::runtime {

// fn(name) for each value that a node reads, in its subgraphs too; "" for an absent input.
template <class Fn>
void for_each_read(const onnx::Node& node, const Fn& fn) {
  for (const std::string& input : node.inputs) fn(input);
  for (const onnx::Attribute& a : node.attributes) {
    if (a.graph) {
      for (const std::string& name : a.graph->captures) fn(name);
    }
    for (const auto& g : a.graphs) {
      for (const std::string& name : g->captures) fn(name);
    }
  }
}

// By node: does an output of the graph depend on it? last_read(name, i): no node after node `i` reads the value, nor
// does it go out.
template <class Fn>
std::vector<bool> needed_nodes(const onnx::Graph& graph, const Fn& last_read) {
  std::vector<bool> needed(graph.nodes.size());
  std::unordered_set<std::string> wanted;
  for (const onnx::ValueInfo& output : graph.outputs) wanted.insert(output.name);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const onnx::Node& node = graph.nodes[i];
    for (const std::string& output : node.outputs)
      needed[i] = needed[i] || (!output.empty() && wanted.contains(output));
    if (!needed[i]) continue;
    for_each_read(node, [&](const std::string& name) {
      if (!name.empty() && wanted.insert(name).second) last_read(name, i);
    });
  }
  return needed;
}

// "node X (Op)"
inline std::string where(const onnx::Node& node) { return str("node ", node.label, " (", node.op_type, ")"); }

// Nothing made output `i`, which somebody wants.
[[noreturn]] inline void refuse_output(const onnx::Node& node, size_t i) {
  throw Error(ErrorCode::unsupported, str(node.op_type, ": output ", i, " (", node.outputs[i], ") is not implemented"));
}

// Throws where a graph's output is declared as a tensor of another dtype than it got.
inline void check_declared(const onnx::ValueInfo& output, DType made) {
  if (output.kind == onnx::ValueInfo::Kind::tensor && output.dtype != DType::invalid && made != DType::invalid &&
      output.dtype != made)
    throw Error(ErrorCode::invalid_model, str("the output ", output.name, " is declared ", name(output.dtype),
                                              ", but what makes it gives ", name(made)));
}

}  // namespace transmuter::runtime
