#include "runtime/graph_runner.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"
#include "runtime/execute.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The dtypes, ranks and presence that the trace was made for.
bool same_kind(const Trace& trace, const std::vector<Value>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool given = inputs[i].kind != Value::Kind::none;
    if (given != trace.present[i]) return false;
    if (given && !fits(trace.slot_types[i], inputs[i])) return false;
  }
  return true;
}

}  // namespace

GraphRunner::GraphRunner(std::shared_ptr<const onnx::Graph> graph, std::shared_ptr<const Engine> engine)
    : graph_(std::move(graph)), engine_(std::move(engine)) {}

GraphRunner::TracePtr GraphRunner::find(const std::vector<Value>& inputs, const std::vector<TracePtr>& tried,
                                        std::unique_ptr<Bindings>& bound) {
  for (auto it = traces_.begin(); it != traces_.end(); ++it) {
    const Trace& candidate = **it;
    if (!same_kind(candidate, inputs) || std::find(tried.begin(), tried.end(), *it) != tried.end()) continue;
    auto bindings = std::make_unique<Bindings>(candidate.scope);
    bind_symbols(*candidate.scope, inputs, *bindings);
    if (!bindings->guards_hold()) continue;
    bound = std::move(bindings);
    traces_.splice(traces_.begin(), traces_, it);
    return traces_.front();
  }
  return nullptr;
}

GraphRunner::TracePtr GraphRunner::make(const std::vector<Value>& inputs) {
  const auto start = std::chrono::steady_clock::now();
  TraceOptions options;
  options.engine = engine_;
  if (stats_.traces == 0) options.composites = &stats_.composites;
  std::unique_ptr<Trace> made = Tracer(*graph_, options).trace(inputs);
  const auto compiling = std::chrono::steady_clock::now();
  for (auto& step : made->steps) {
    auto* segment = std::get_if<Segment>(&step);
    if (!segment || segment->executable) continue;
    const ShapeScope::Enter enter(made->scope);
    segment->executable = engine_->compile(*segment->program, options.composites);
  }
  made->compile_ms += milliseconds_since(compiling);
  made->trace_ms = milliseconds_since(start) - made->compile_ms;
  stats_.trace_ms += made->trace_ms;
  stats_.compile_ms += made->compile_ms;
  ++stats_.traces;
  stats_.breaks += made->breaks;
  stats_.specializations += static_cast<int64_t>(made->scope->specializations().size());
  traces_.push_front(std::move(made));
  while (traces_.size() > static_cast<size_t>(std::max(1, engine_->cache_size))) traces_.pop_back();
  return traces_.front();
}

std::vector<Value> GraphRunner::run(const std::vector<Value>& inputs) {
  std::vector<TracePtr> tried;
  for (;;) {
    TracePtr chosen;
    std::unique_ptr<Bindings> bindings;
    bool fresh = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      chosen = find(inputs, tried, bindings);
      if (!chosen) {
        chosen = make(inputs);
        fresh = true;
      }
      if (tried.empty()) ++stats_.runs;
    }
    if (!bindings) {
      bindings = std::make_unique<Bindings>(chosen->scope);
      bind_symbols(*chosen->scope, inputs, *bindings);
    }
    try {
      return run_trace(*chosen, inputs, *engine_->backend, *bindings);
    } catch (const GuardFailed& failed) {
      if (fresh) throw Error(ErrorCode::internal, str("a fresh trace does not fit its own inputs: ", failed.what));
      tried.push_back(chosen);
    }
  }
}

void GraphRunner::ensure_trace(const std::vector<Value>& inputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Bindings> bindings;
  if (!find(inputs, {}, bindings)) make(inputs);
}

RunStats GraphRunner::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

std::vector<std::shared_ptr<const Trace>> GraphRunner::traces() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {traces_.begin(), traces_.end()};
}

}  // namespace transmuter::runtime
