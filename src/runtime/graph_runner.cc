#include "runtime/graph_runner.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"
#include "runtime/execute.h"
#include "runtime/input_values.h"
#include "runtime/node_runner.h"
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

void bind_inputs(const Trace& trace, const std::vector<Value>& inputs, Bindings& bindings) {
  bind_symbols(*trace.scope, spreads(trace) ? with_spread(trace, inputs) : inputs, bindings);
}

}  // namespace

GraphRunner::GraphRunner(std::shared_ptr<const onnx::Graph> graph, std::shared_ptr<const Engine> engine, Role role,
                         GraphOptions options)
    : graph_(std::move(graph)), engine_(std::move(engine)), role_(role), options_(std::move(options)) {}

GraphRunner::Chosen GraphRunner::find(const std::vector<Value>& inputs, const std::vector<TracePtr>& tried) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = traces_.begin(); it != traces_.end(); ++it) {
    const Trace& candidate = **it;
    if (!same_kind(candidate, inputs) || std::find(tried.begin(), tried.end(), *it) != tried.end()) continue;
    auto bindings = std::make_unique<Bindings>(candidate.scope);
    bind_inputs(candidate, inputs, *bindings);
    if (!bindings->guards_hold()) continue;
    traces_.splice(traces_.begin(), traces_, it);
    return {traces_.front(), std::move(bindings), false};
  }
  return {};
}

GraphRunner::Chosen GraphRunner::find_or_make(const std::vector<Value>& inputs, const std::vector<TracePtr>& tried,
                                              const RunContext& context) {
  if (Chosen found = find(inputs, tried); found.trace) return found;
  const std::lock_guard<std::mutex> lock(tracing_);
  if (Chosen found = find(inputs, tried); found.trace) return found;  // made while this thread waited
  Chosen made{make(inputs, context), nullptr, true};
  made.bindings = std::make_unique<Bindings>(made.trace->scope);
  bind_inputs(*made.trace, inputs, *made.bindings);
  return made;
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

// Without mutex_: threads that have a trace go on.
GraphRunner::TracePtr GraphRunner::make(const std::vector<Value>& inputs, const RunContext& context) {
  RunCounters& counters = engine_->state->counters;
  const Clock::time_point start = Clock::now();
  TraceOptions options;
  options.engine = engine_;
  options.context = context;
  options.static_inputs = options_.static_inputs;
  options.single_node = role_ == Role::node;
  options.structures = structures(inputs);
  std::map<std::string, int64_t> composites;
  const bool first = role_ == Role::model && counters.traces.load(std::memory_order_relaxed) == 0;
  if (first) options.composites = &composites;
  std::shared_ptr<Trace> made = Tracer(*graph_, options).trace(inputs);
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
    segment->executable = engine_->compile(*segment->program, options.composites);
  }
  made->compile_ms += milliseconds_since(compiling);
  made->trace_ms = milliseconds_since(start) - made->compile_ms;
  keep(made);
  if (role_ != Role::model) {
    RunCounters::add(role_ == Role::body ? counters.body_traces : counters.node_traces);
    return made;
  }
  if (first) {
    const std::lock_guard<std::mutex> lock(engine_->state->mutex);
    engine_->state->composites = std::move(composites);
  }
  RunCounters::add(counters.traces);
  RunCounters::add(counters.trace_ns, nanoseconds(made->trace_ms));
  RunCounters::add(counters.compile_ns, nanoseconds(made->compile_ms));
  RunCounters::add(counters.breaks, made->breaks);
  RunCounters::add(counters.specializations, static_cast<int64_t>(made->scope->specializations().size()));
  return made;
}

void GraphRunner::keep(TracePtr trace) {
  std::list<TracePtr> evicted;  // goes after the lock; runs in flight may still hold it
  const std::lock_guard<std::mutex> lock(mutex_);
  traces_.push_front(std::move(trace));
  while (traces_.size() > static_cast<size_t>(std::max(1, engine_->cache_size))) {
    evicted.splice(evicted.begin(), traces_, std::prev(traces_.end()));
    RunCounters::add(engine_->state->counters.evictions);
  }
}

std::vector<Value> GraphRunner::run(const std::vector<Value>& inputs, const RunContext& context,
                                    const Donation* donation) {
  std::vector<TracePtr> tried;
  for (int fresh = 0;;) {
    const Chosen chosen = find_or_make(inputs, tried, context);
    if (tried.empty() && role_ == Role::model) RunCounters::add(engine_->state->counters.runs);
    try {
      const Trace& trace = *chosen.trace;
      return run_trace(trace, spreads(trace) ? with_spread(trace, inputs) : inputs, *engine_->backend, *chosen.bindings,
                       context, donation);
    } catch (const GuardFailed& failed) {
      fresh += chosen.fresh ? 1 : 0;
      if (fresh == kFreshTraces)
        throw Error(ErrorCode::internal, str("fresh traces do not fit their own inputs: ", failed.what));
      tried.push_back(chosen.trace);
    }
  }
}

void GraphRunner::ensure_trace(const std::vector<Value>& inputs, const RunContext& context) {
  find_or_make(inputs, {}, context);
}

void GraphRunner::trim() const {
  for (const TracePtr& trace : traces()) {
    for (const auto& step : trace->steps) {
      if (const auto* segment = std::get_if<Segment>(&step)) {
        segment->executable->trim();
      } else if (const auto& eager = std::get<EagerStep>(step); eager.body) {
        eager.body->trim();
      } else {
        eager.runner->trim();
      }
    }
  }
}

std::vector<std::shared_ptr<const Trace>> GraphRunner::traces() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {traces_.begin(), traces_.end()};
}

}  // namespace transmuter::runtime
