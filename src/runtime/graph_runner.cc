#include "runtime/graph_runner.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"
#include "runtime/control_flow.h"
#include "runtime/execute.h"
#include "runtime/input_values.h"
#include "runtime/node_runner.h"
#include "runtime/tell.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// A fresh trace may not fit the run after it where what breaks is random.
constexpr int kFreshTraces = 4;

int64_t nanoseconds(double milliseconds) { return static_cast<int64_t>(milliseconds * 1e6); }

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

const char* word(GraphRunner::Role role) {
  return role == GraphRunner::Role::model ? "model" : role == GraphRunner::Role::body ? "body" : "node";
}

// With the symbols that the trace before it has, and those of the slots.
std::unique_ptr<Bindings> bindings_for(const Trace& trace, const Bindings* before, const std::vector<Value>& slots) {
  auto bindings = std::make_unique<Bindings>(trace.scope);
  if (before) {
    for (size_t i = 0; i < trace.before.symbols; ++i)
      if (const int32_t symbol = static_cast<int32_t>(i); before->has(symbol))
        bindings->set(symbol, before->value(symbol));
  }
  bind_symbols(*trace.scope, slots, *bindings);
  return bindings;
}

// An extent that is only known once the trace has run is 0.
Shape shape_in(const Dims& dims, Bindings& bindings) {
  Shape shape;
  for (const Dim& dim : dims) {
    try {
      shape.push_back(bindings.evaluate(dim));
    } catch (const Error&) {
      shape.push_back(0);
    }
  }
  return shape;
}

std::vector<Outline> outlines_of(const Trace& trace, const std::vector<Value>& slots, Bindings& bindings) {
  std::vector<Outline> outlines;
  for (const Ref& ref : trace.outputs) {
    Outline& outline = outlines.emplace_back();
    if (ref.kind == Ref::Kind::constant) {
      outline = {ref.constant.dtype(), ref.constant.shape()};
    } else if (ref.kind == Ref::Kind::slot) {
      const auto slot = static_cast<size_t>(ref.slot);
      if (slot < slots.size() && slots[slot].is_tensor())
        outline = {slots[slot].tensor.dtype(), slots[slot].tensor.shape()};
      for (const auto& step : trace.steps) {
        const auto* segment = std::get_if<Segment>(&step);
        if (!segment) continue;
        for (size_t i = 0; i < segment->output_slots.size(); ++i) {
          if (segment->output_slots[i] != ref.slot) continue;
          const ir::Type& type = segment->program->type(segment->program->results()[i]);
          outline = {type.dtype, shape_in(type.shape, bindings)};
        }
      }
    }
  }
  return outlines;
}

void trim_all(const TraceList& list) {
  for (const auto& trace : list.all()) {
    for (const auto& step : trace->steps) {
      if (const auto* segment = std::get_if<Segment>(&step)) {
        segment->executable->trim();
      } else {
        const auto& eager = std::get<EagerStep>(step);
        if (eager.runner) eager.runner->trim();
        for (const EagerStep::Body& body : eager.bodies) body.runner->trim();
      }
    }
    if (trace->rest) trim_all(trace->rest->traces);
  }
}

}  // namespace

GraphRunner::GraphRunner(std::shared_ptr<const onnx::Graph> graph, std::shared_ptr<const Engine> engine, Role role,
                         GraphOptions options)
    : graph_(std::move(graph)), engine_(std::move(engine)), role_(role), options_(std::move(options)) {}

GraphRunner::Chosen GraphRunner::find(const Place& place, const std::vector<TracePtr>& tried,
                                      std::vector<Value>& slots) {
  const Trace* before = place.at.trace.get();
  TraceList& list = place.list(*this);
  const std::lock_guard<std::mutex> lock(list.mutex);
  for (auto it = list.traces.begin(); it != list.traces.end(); ++it) {
    const Trace& candidate = **it;
    if (std::find(tried.begin(), tried.end(), *it) != tried.end()) continue;
    if (before ? !same_kind(*before, candidate, place.slots) : !same_kind(candidate, place.inputs, slots)) continue;
    auto bindings = bindings_for(candidate, place.at.bindings.get(), before ? place.slots : slots);
    if (!bindings->guards_hold()) continue;
    if (before) slots = place.slots;
    list.traces.splice(list.traces.begin(), list.traces, it);
    return {list.traces.front(), std::move(bindings), false};
  }
  return {};
}

GraphRunner::Chosen GraphRunner::find_or_make(const Place& place, const std::vector<TracePtr>& tried,
                                              const RunContext& context, std::vector<Value>& slots) {
  const auto hit = [&](Chosen found) {
    RunCounters::add(engine_->state->counters.trace_hits);
    if (telemetry::anybody_listens(telemetry::Kind::hit))
      telemetry::tell(telemetry::Kind::hit, "trace",
                      {{"graph", word(role_)}, {"inputs", shapes_of(*graph_, place.inputs)}});
    return found;
  };
  if (Chosen found = find(place, tried, slots); found.trace) return hit(std::move(found));
  const telemetry::Deferred until_unlocked;
  const std::lock_guard<std::mutex> lock(place.list(*this).tracing);
  // Made while this thread waited:
  if (Chosen found = find(place, tried, slots); found.trace) return hit(std::move(found));
  if (telemetry::anybody_listens(telemetry::Kind::miss))
    telemetry::tell(telemetry::Kind::miss, "trace",
                    {{"graph", word(role_)}, {"inputs", shapes_of(*graph_, place.inputs)}});
  Chosen made{make(place, context), nullptr, true};
  slots = place.at.trace ? place.slots : first_slots(*made.trace, place.inputs);
  made.bindings = bindings_for(*made.trace, place.at.bindings.get(), slots);
  return made;
}

GraphRunner::Chosen GraphRunner::go_on(const Place& place, const std::vector<TracePtr>& tried,
                                       const RunContext& context, std::vector<Value>& slots) {
  telemetry::Span span(telemetry::Kind::graph_break);
  if (span) tell_break(span, *place.at.trace, place.slots);
  return find_or_make(place, tried, context, slots);
}

std::vector<std::string> GraphRunner::structures(const std::vector<Value>& inputs) {
  std::vector<std::string> structures;
  const bool first = structures_.empty();
  structure_changes_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    structures.push_back(structure_of(inputs[i]));
    if (!first && structures[i] != structures_[i]) structure_changes_[i] = true;
  }
  if (first) structures_ = structures;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (structure_changes_[i]) structures[i].clear();
  return structures;
}

// Without the list's mutex: threads that have a trace go on.
GraphRunner::TracePtr GraphRunner::make(const Place& place, const RunContext& context) {
  const Trace* before = place.at.trace.get();
  telemetry::Span span(telemetry::Kind::trace);
  const Clock::time_point start = Clock::now();
  TraceOptions options;
  options.engine = engine_;
  options.context = context;
  options.single_node = role_ == Role::node;
  std::map<std::string, int64_t> composites;
  const bool first = role_ == Role::model && (before ? before->first && before->rest->traces.all().empty()
                                                     : engine_->state->counters.traces.load() == 0);
  if (first) options.composites = &composites;
  std::shared_ptr<Trace> made;
  if (before) {
    made = Tracer(*graph_, options).trace_rest(*before, place.slots, *place.at.bindings);
  } else {
    options.static_inputs = options_.static_inputs;
    options.structures = structures(place.inputs);
    made = Tracer(*graph_, options).trace(place.inputs);
  }
  if (role_ == Role::node) {  // the next trace need not find out again
    std::vector<int32_t>& known = options_.static_inputs;
    for (const auto& [slot, value] : made->static_values)
      if (std::find(known.begin(), known.end(), slot) == known.end()) known.push_back(slot);
  }
  const Clock::time_point compiling = Clock::now();
  for (auto& step : made->steps) {
    auto* segment = std::get_if<Segment>(&step);
    if (!segment || segment->executable) continue;
    const ShapeScope::Enter enter(made->scope);
    segment->executable = engine_->compile(*segment->program, segment->number, options.composites);
  }
  made->compile_ms += milliseconds_since(compiling);
  made->trace_ms = milliseconds_since(start) - made->compile_ms;
  made->first = first;
  find_readers(*made, before);
  keep(place.list(*this), made);
  count(*made, before != nullptr, composites);
  if (span) {
    span.add("graph", word(role_));
    span.add("inputs", shapes_of(*graph_, place.inputs));
    span.add("continuation", static_cast<int64_t>(before != nullptr));
    span.add("segments", segments_of(*made));
    span.add("breaks", made->breaks);
    span.add("guards", made->scope->guards().size());
  }
  return made;
}

void GraphRunner::count(const Trace& made, bool is_rest, const std::map<std::string, int64_t>& composites) {
  RunCounters& counters = engine_->state->counters;
  if (is_rest) RunCounters::add(counters.continuations);
  if (role_ != Role::model) {
    if (!is_rest) RunCounters::add(role_ == Role::body ? counters.body_traces : counters.node_traces);
    return;
  }
  if (made.first) {
    const std::lock_guard<std::mutex> lock(engine_->state->mutex);
    for (const auto& [name, n] : composites) engine_->state->composites[name] += n;
  }
  if (!is_rest) RunCounters::add(counters.traces);
  RunCounters::add(counters.trace_ns, nanoseconds(made.trace_ms));
  RunCounters::add(counters.compile_ns, nanoseconds(made.compile_ms));
  RunCounters::add(counters.breaks, made.breaks);
  RunCounters::add(counters.specializations,
                   static_cast<int64_t>(made.scope->specializations().size() - made.before.specializations));
}

void GraphRunner::keep(TraceList& list, TracePtr trace) {
  std::list<TracePtr> evicted;  // goes after the lock; runs in flight may still hold it
  const std::lock_guard<std::mutex> lock(list.mutex);
  list.traces.push_front(std::move(trace));
  while (list.traces.size() > static_cast<size_t>(std::max(1, engine_->cache_size))) {
    evicted.splice(evicted.begin(), list.traces, std::prev(list.traces.end()));
    RunCounters::add(engine_->state->counters.evictions);
    if (telemetry::anybody_listens(telemetry::Kind::evict))
      telemetry::tell(telemetry::Kind::evict, "trace",
                      {{"graph", word(role_)}, {"inputs", traced_shapes(*evicted.front())}});
  }
}

bool GraphRunner::advance(Place& place, const RunContext& context, const Donation* donation, bool last) {
  std::vector<TracePtr> tried;
  std::vector<Value> slots;
  for (int fresh = 0;;) {
    Chosen chosen = place.at.trace ? go_on(place, tried, context, slots) : find_or_make(place, tried, context, slots);
    if (!last && !chosen.trace->rest) return false;
    try {
      run_trace(*chosen.trace, slots, *engine_->backend, *chosen.bindings, context, donation);
      place.at = std::move(chosen);
      place.slots = std::move(slots);
      return place.at.trace->rest != nullptr;
    } catch (const GuardFailed& failed) {
      fresh += chosen.fresh ? 1 : 0;
      if (fresh == kFreshTraces)
        throw Error(ErrorCode::internal, str("fresh traces do not fit their own inputs: ", failed.what));
      tried.push_back(chosen.trace);
    }
  }
}

std::vector<Value> GraphRunner::run(const std::vector<Value>& inputs, const RunContext& context,
                                    const Donation* donation) {
  Place place{inputs, {}, {}};
  bool more = true;
  for (bool start = true; more; start = false) {
    more = advance(place, context, donation, true);
    if (start && role_ == Role::model) RunCounters::add(engine_->state->counters.runs);
  }
  return outputs_of(*place.at.trace, place.slots);
}

void GraphRunner::ensure_trace(const std::vector<Value>& inputs, const RunContext& context) {
  Place place{inputs, {}, {}};
  while (advance(place, context, nullptr, false)) {
  }
}

std::vector<Outline> GraphRunner::outline(const std::vector<Value>& inputs, const RunContext& context) {
  Place place{inputs, {}, {}};
  while (advance(place, context, nullptr, false)) {
  }
  std::vector<Value> slots;
  const Chosen last = find(place, {}, slots);
  // Another thread may have taken its place since.
  return last.trace ? outlines_of(*last.trace, slots, *last.bindings) : std::vector<Outline>();
}

void GraphRunner::trim() const { trim_all(traces_); }

void GraphRunner::forget() {
  std::list<TracePtr> freed;  // goes after the lock; runs in flight hold theirs
  const std::lock_guard<std::mutex> lock(traces_.mutex);
  freed.swap(traces_.traces);
}

std::vector<std::shared_ptr<const Trace>> GraphRunner::traces() const { return traces_.all(); }

}  // namespace transmuter::runtime
