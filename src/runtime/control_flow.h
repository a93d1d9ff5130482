// Loop, Scan and SequenceMap, driven by the host: the body runs once a trip, on real values.
#pragma once

#include <vector>

#include "onnx/graph.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// One trip of a body: its inputs by position -> its outputs.
struct Body {
  virtual ~Body() = default;
  virtual std::vector<Value> run(std::vector<Value> inputs) const = 0;
};

bool driven_by_host(const onnx::Node& node);
const onnx::Graph& graph_attribute(const onnx::Node& node, const char* name);
// The one bool in `value`; Error that names `what` otherwise.
bool truth(const Value& value, const char* what);
// Inputs in node order (kind none = absent).
std::vector<Value> run_driven(const onnx::Node& node, std::vector<Value> inputs, const Body& body);

}  // namespace transmuter::runtime
