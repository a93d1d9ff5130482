// Walks a graph and the graphs inside it.
#pragma once

#include "onnx/graph.h"

namespace transmuter::onnx {

// fn(node) for every node of a graph and of the graphs inside it.
template <class Fn>
void for_each_node(const Graph& graph, const Fn& fn) {
  for (const Node& node : graph.nodes) {
    fn(node);
    for (const Attribute& attribute : node.attributes) {
      if (attribute.graph) for_each_node(*attribute.graph, fn);
      for (const auto& inner : attribute.graphs) for_each_node(*inner, fn);
    }
  }
}

}  // namespace transmuter::onnx
