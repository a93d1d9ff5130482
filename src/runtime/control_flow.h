// Loop, Scan and SequenceMap, driven by the host: the body runs once a trip, on real values. Searches (search.h), too.
#pragma once

#include <vector>

#include "onnx/graph.h"
#include "runtime/run_context.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// What a tensor that was not computed would be; dtype invalid: nobody knows. Extents that depend on data count as 0.
struct Outline {
  DType dtype = DType::invalid;
  Shape shape;
};

// One trip of a body: its inputs by position -> its outputs.
struct Body {
  virtual ~Body() = default;
  // `gives`: the memory of inputs that nobody else holds is the run's, and what comes back may have room to grow.
  virtual std::vector<Value> run(std::vector<Value> inputs, bool gives) const = 0;
  // Of the outputs, by tracing alone; may throw where the body makes no sense for these inputs.
  virtual std::vector<Outline> outline(std::vector<Value> inputs) const = 0;
};

// The bodies of a node, by attribute; there is one for each graph that the node has.
struct Bodies {
  virtual ~Bodies() = default;
  virtual const Body& of(const std::string& attribute) const = 0;
};

// How the inputs and outputs of a Loop or a Scan fall to its body.
struct LoopSignature {
  bool is_loop = false;                          // the body takes the trip's number and the condition, and gives one
  size_t carried = 0, scanned = 0, stacked = 0;  // states and scanned inputs, both at the end; outputs after the states
  std::vector<int64_t> in_axes, in_directions;   // of what is scanned
  std::vector<int64_t> out_axes, out_directions;  // of what is stacked
};
// `inputs`: how many the node has. Throws Error(invalid_model) where node and body don't fit together.
LoopSignature loop_signature(const onnx::Node& node, const onnx::Graph& body, size_t inputs);
// Counts a negative axis from the front; false where it is out of range.
bool normalise(int64_t& axis, int64_t rank);

bool driven_by_host(const onnx::Node& node);
const onnx::Graph& graph_attribute(const onnx::Node& node, const char* name);
// The one bool in `value`; Error that names `what` otherwise.
bool truth(const Value& value, const char* what);
// Inputs in node order (kind none = absent).
std::vector<Value> run_driven(const onnx::Node& node, std::vector<Value> inputs, const Bodies& bodies,
                              const RunContext& context);

}  // namespace transmuter::runtime
