#include "runtime/tell.h"

#include "base/strings.h"
#include "runtime/reads.h"

namespace transmuter::runtime {
namespace {

constexpr size_t kMaxShapes = 12;

std::string type_of(const Value& value) {
  switch (value.kind) {
    case Value::Kind::tensor:
      return describe(value.tensor);
    case Value::Kind::sequence:
      return str("sequence of ", value.items.size());
    case Value::Kind::optional:
      return value.items.empty() ? "nothing" : type_of(value.items[0]);
    case Value::Kind::map:
      return str("map of ", value.keys.size());
    case Value::Kind::none:
      break;
  }
  return "nothing";
}

}  // namespace

void ShapesText::add(const std::string& name, const std::string& type) {
  if (++added_ <= kMaxShapes) text_ += str(text_.empty() ? "" : ", ", name, " ", type);
}

void ShapesText::add(const std::string& name, const Value& value) {
  if (value.kind != Value::Kind::none) add(name, type_of(value));
}

std::string ShapesText::text() const {
  return added_ > kMaxShapes ? str(text_, " and ", added_ - kMaxShapes, " more") : text_;
}

std::string shapes_of(const TensorMap& values) {
  ShapesText text;
  for (const auto& [name, value] : values) text.add(name, value);
  return text.text();
}

std::string shapes_of(const onnx::Graph& graph, const std::vector<Value>& inputs) {
  ShapesText text;
  for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i) text.add(graph.inputs[i].name, inputs[i]);
  return text.text();
}

std::string shapes_of(const Trace& trace, const std::vector<int32_t>& numbers, const std::vector<Value>& slots) {
  ShapesText text;
  for (const int32_t slot : numbers) {
    const size_t index = static_cast<size_t>(slot);
    if (slot >= 0 && index < slots.size() && index < trace.slot_names.size())
      text.add(trace.slot_names[index], slots[index]);
  }
  return text.text();
}

std::string traced_shapes(const Trace& trace) {
  ShapesText text;
  for (const auto& step : trace.steps) {
    const auto* segment = std::get_if<Segment>(&step);
    if (!segment) continue;
    for (const ir::Parameter& parameter : segment->program->parameters()) {
      if (parameter.kind != ir::Parameter::Kind::input) continue;
      const ir::Type& type = segment->program->type(parameter.value);
      Shape shape;
      for (const Dim& d : type.shape) shape.push_back(d.hint());
      text.add(parameter.name, str(name(type.dtype), " ", shape));
    }
    break;
  }
  return text.text();
}

void tell_break(telemetry::Span& span, const Trace& before, const std::vector<Value>& slots) {
  const size_t ended = before.before.segments + segments_of(before);
  span.add("segment", static_cast<int64_t>(ended) - 1);
  if (before.steps.empty()) return;
  if (const auto* segment = std::get_if<Segment>(&before.steps.back())) {
    span.add("reason", segment->ended_by);
    span.add("inputs", shapes_of(before, segment->output_slots, slots));
  } else {
    const auto& eager = std::get<EagerStep>(before.steps.back());
    span.add("node", where(*eager.node));
    span.add("reason", eager.reason);
    span.add("inputs", shapes_of(before, eager.output_slots, slots));
  }
}

}  // namespace transmuter::runtime
