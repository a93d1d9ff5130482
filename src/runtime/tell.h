// Words of the runtime's events: which values, of which shapes.
#pragma once

#include <string>
#include <vector>

#include "onnx/graph.h"
#include "runtime/trace.h"
#include "telemetry/span.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// "ids int64 [1, 16], mask int64 [1, 16]": the first ones, and how many more there are.
class ShapesText {
 public:
  void add(const std::string& name, const Value& value);
  void add(const std::string& name, const std::string& type);
  std::string text() const;

 private:
  std::string text_;
  size_t added_ = 0;
};

std::string shapes_of(const TensorMap& values);
std::string shapes_of(const onnx::Graph& graph, const std::vector<Value>& inputs);
// Of the slots with these numbers.
std::string shapes_of(const Trace& trace, const std::vector<int32_t>& numbers, const std::vector<Value>& slots);
// What a trace was made for: the inputs of its first segment, with the sizes that they had then.
std::string traced_shapes(const Trace& trace);

// Of a break behind this trace: the segment that ended, why, and what it gave.
void tell_break(telemetry::Span& span, const Trace& before, const std::vector<Value>& slots);

}  // namespace transmuter::runtime
