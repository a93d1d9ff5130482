// Breaks: a trace ends, and what follows is traced by itself, again for each kind of values that runs bring there.
#include <unordered_map>

#include "base/scope_copy.h"
#include "runtime/reads.h"
#include "runtime/rest.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {

using ops::Traced;
using ops::TracedPtr;

// Copies of values, each of them once: tracing changes them.
class Tracer::Copies {
 public:
  TracedPtr of(const TracedPtr& traced) {
    if (!traced) return nullptr;
    TracedPtr& copy = made_[traced.get()];
    if (copy) return copy;
    copy = std::make_shared<Traced>(*traced);
    const TracedPtr kept = copy;  // copies of items move the map
    for (TracedPtr& item : kept->items) item = of(item);
    return kept;
  }
  template <class Fn>
  void for_each(const Fn& fn) const {
    for (const auto& [original, copy] : made_) fn(*copy);
  }

 private:
  std::unordered_map<const Traced*, TracedPtr> made_;
};

// Graphs around the innermost stand at nodes whose outputs are those of the graph inside.
bool Tracer::can_pause() const {
  if (region_ || options_.single_node) return false;
  return std::all_of(frames_.begin(), frames_.end() - 1, [](const auto& frame) {
    const onnx::Node& node = frame->graph->nodes[frame->current];
    return node.domain.empty() && node.op_type == "If";
  });
}

void Tracer::pause(size_t next_node, std::vector<std::pair<std::string, int32_t>> made) {
  auto rest = std::make_shared<Rest>();
  rest->again = next_node == frames_.back()->current;
  rest->reads.resize(graph_.inputs.size());
  const auto is_read = [](const Frame& frame, size_t from, const std::string& name) {
    const auto last = frame.last_use.find(name);
    return last != frame.last_use.end() && last->second >= from;
  };
  const auto note_slots = [&](const auto& self, const Traced& traced) -> void {
    if (traced.slot >= 0 && static_cast<size_t>(traced.slot) < rest->reads.size())
      rest->reads[static_cast<size_t>(traced.slot)] = true;
    for (const TracedPtr& item : traced.items) self(self, *item);
  };
  Copies copies;
  for (const auto& frame : frames_) {
    const size_t next = frame == frames_.back() ? next_node : frame->current;
    Rest::Frame& kept = rest->frames.emplace_back(Rest::Frame{frame->graph, next, {}});
    for (const auto& [name, traced] : frame->values) {
      if (!traced || !is_read(*frame, next, name)) continue;
      kept.values.emplace(name, copies.of(traced));
      note_slots(note_slots, *traced);
    }
  }
  for (const auto& [name, slot] : given_)
    if (is_read(*frames_.front(), rest->frames.front().node, name)) rest->reads[static_cast<size_t>(slot)] = true;
  for (const TracedPtr& traced : graph_inputs_) rest->graph_inputs.push_back(copies.of(traced));
  rest->random = copies.of(random_);
  rest->first_items = first_items_;
  rest->read_values = read_values_;
  rest->static_inputs = options_.static_inputs;
  rest->input_slots = input_slots_;
  rest->newest_segment = newest_segment_;
  rest->inner_symbols = inner_symbols_;
  rest->made = std::move(made);
  trace_->rest = std::move(rest);
  throw Paused{};
}

std::unique_ptr<Trace> Tracer::resume(const Trace& before, const std::vector<Value>& slots, const Bindings& run) {
  const Rest& rest = *before.rest;
  const auto add = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    for (const int32_t slot : from)
      if (std::find(to.begin(), to.end(), slot) == to.end()) to.push_back(slot);
  };
  add(read_values_, rest.read_values);
  add(options_.static_inputs, rest.static_inputs);
  inner_symbols_ = rest.inner_symbols;
  trace_->scope = before.scope;  // for is_count()
  std::vector<std::pair<int32_t, int64_t>> values;
  for (size_t i = 0; i < before.scope->symbols().size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    const bool found = before.scope->symbols()[i].source.kind == SymbolSource::Kind::data_dependent;
    if (!run.has(symbol) || (found && !is_count(i))) continue;
    values.emplace_back(symbol, run.value(symbol));
    if (found) settled_.emplace(symbol, run.value(symbol));
  }
  trace_->scope = copy_of(*before.scope, values);
  const ShapeScope::Enter enter(trace_->scope);
  const ShapeScope& scope = *trace_->scope;
  trace_->before = {scope.symbols().size(), scope.guards().size(), scope.assertions().size(),
                    scope.specializations().size(), before.before.segments + segments_of(before)};
  trace_->slot_count = before.slot_count;
  trace_->slot_types = before.slot_types;
  trace_->slot_names = before.slot_names;
  trace_->present = before.present;
  trace_->structures = before.structures;
  trace_->random_slot = before.random_slot;
  actual_ = slots;
  actual_.resize(static_cast<size_t>(before.slot_count));
  for (size_t i = 0; i < graph_.inputs.size(); ++i)
    if (before.present[i]) given_.emplace(graph_.inputs[i].name, static_cast<int32_t>(i));
  first_items_ = rest.first_items;
  input_slots_ = rest.input_slots;
  newest_segment_ = rest.newest_segment;
  begin_segment();
  Copies copies;
  for (const Rest::Frame& frame : rest.frames) {
    push_frame(*frame.graph);
    frames_.back()->current = frame.node;
    for (const auto& [name, traced] : frame.values) define(name, copies.of(traced));
  }
  graph_inputs_.clear();
  for (const TracedPtr& traced : rest.graph_inputs) graph_inputs_.push_back(copies.of(traced));
  random_ = copies.of(rest.random);
  copies.for_each([&](Traced& traced) { refresh(traced); });
  for (const int32_t slot : read_values_)
    if (const TracedPtr& traced = graph_inputs_[static_cast<size_t>(slot)]) make_known(*traced);
  const Rest::Frame& innermost = rest.frames.back();
  for (size_t i = 0; i < rest.made.size(); ++i) {
    const auto& [name, slot] = rest.made[i];
    if (name.empty()) continue;
    const Value& value = actual_[static_cast<size_t>(slot)];
    if (value.kind == Value::Kind::none) refuse_output(innermost.graph->nodes[innermost.node - 1], i);
    trace_->slot_types[static_cast<size_t>(slot)] = slot_type(value);
    define(name, from_slot(slot, value, name));
  }
  if (rest.again) retried_ = static_cast<int64_t>(innermost.node);
  try {
    trace_to_end(end_branches());
  } catch (const Paused&) {
  }
  return std::move(trace_);
}

size_t Tracer::end_branches() {
  while (frames_.size() > 1) {
    const Frame& around = *frames_[frames_.size() - 2];
    const onnx::Node& node = around.graph->nodes[around.current];
    try {
      trace_nodes(frames_.back()->current);
      std::vector<TracedPtr> outputs;
      for (const onnx::ValueInfo& output : frames_.back()->graph->outputs) outputs.push_back(lookup(output.name));
      frames_.pop_back();
      retried_ = -1;  // a node of the branch
      outputs.resize(std::max(outputs.size(), node.outputs.size()));
      take_outputs(node, outputs);
    } catch (Error& error) {
      error.in(where(node));
      throw;
    }
    ++frames_.back()->current;
  }
  return frames_.back()->current;
}

}  // namespace transmuter::runtime
