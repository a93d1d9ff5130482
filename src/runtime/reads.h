// What nodes read and graphs declare, for those who walk graphs.
#pragma once

#include <string>

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

// Throws where a graph's output is declared as a tensor of another dtype than it got.
inline void check_declared(const onnx::ValueInfo& output, DType made) {
  if (output.kind == onnx::ValueInfo::Kind::tensor && output.dtype != DType::invalid && made != DType::invalid &&
      output.dtype != made)
    throw Error(ErrorCode::invalid_model, str("the output ", output.name, " is declared ", name(output.dtype),
                                              ", but what makes it gives ", name(made)));
}

}  // namespace transmuter::runtime
