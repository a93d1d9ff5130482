#include "runtime/compiled_model.h"

#include <chrono>
#include <cstring>

#include "base/strings.h"
#include "ir/evaluate.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/split_weights.h"
#include "ir/primitive.h"
#include "ir/print.h"
#include "runtime/execute.h"
#include "runtime/tracer.h"

namespace transmuter {

using runtime::Segment;
using runtime::Trace;

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string listed(const std::vector<ValueSpec>& specs) {
  std::string text;
  for (const ValueSpec& spec : specs) text += (text.empty() ? "" : ", ") + spec.name;
  return text;
}

std::string shape_text(const ValueSpec& spec) {
  std::string text = "[";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    const ValueSpec::Dim& d = spec.shape[i];
    text += (i ? ", " : "") + (d.value >= 0 ? str(d.value) : d.symbol.empty() ? std::string("?") : d.symbol);
  }
  return text + "]";
}

[[noreturn]] void refuse(const ValueSpec& spec, const std::string& why) {
  throw Error(ErrorCode::invalid_input, str("input ", spec.name, ": ", why));
}

void check_tensor(const ValueSpec& spec, const Value& value) {
  if (spec.kind != Value::Kind::tensor) return;
  if (!value.is_tensor()) refuse(spec, "expected a tensor");
  const Tensor& t = value.tensor;
  if (spec.dtype != DType::invalid && t.dtype() != spec.dtype)
    refuse(spec, str("expected ", name(spec.dtype), ", got ", name(t.dtype())));
  // Exporters write a scalar shape for values of any shape, too; a declared rank of 0 says nothing.
  if (!spec.has_shape || spec.shape.empty()) return;
  if (t.rank() != static_cast<int64_t>(spec.shape.size())) {
    refuse(spec, str("expected rank ", spec.shape.size(), " ", shape_text(spec), ", got ", t.shape()));
  }
  for (int64_t axis = 0; axis < t.rank(); ++axis) {
    const int64_t declared = spec.shape[static_cast<size_t>(axis)].value;
    if (declared >= 0 && declared != t.dim(axis))
      refuse(spec, str("expected shape ", shape_text(spec), ", got ", t.shape()));
  }
}

// The dtypes, ranks and presence that the trace was made for.
bool same_kind(const Trace& trace, const std::vector<Value>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool given = inputs[i].kind != Value::Kind::none;
    if (given != trace.present[i]) return false;
    const runtime::SlotType& type = trace.slot_types[i];
    if (given && inputs[i].is_tensor() && type.dtype != DType::invalid &&
        (inputs[i].tensor.dtype() != type.dtype || inputs[i].tensor.rank() != type.rank)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<Value> CompiledModel::Impl::by_position(const TensorMap& inputs) const {
  const auto& specs = model->inputs;
  std::vector<Value> values(specs.size());
  size_t used = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto found = inputs.find(specs[i].name);
    if (found == inputs.end()) {
      if (!specs[i].optional && specs[i].kind != Value::Kind::optional) {
        refuse(specs[i], str("missing; the model wants ", listed(specs)));
      }
      continue;
    }
    ++used;
    check_tensor(specs[i], found->second);
    values[i] = found->second;
  }
  if (used != inputs.size()) {
    for (const auto& [name, value] : inputs) {
      bool known = false;
      for (const ValueSpec& spec : specs) known = known || spec.name == name;
      if (!known)
        throw Error(ErrorCode::invalid_input, str("there is no input ", name, "; the model has ", listed(specs)));
    }
  }
  return values;
}

std::shared_ptr<const Trace> CompiledModel::Impl::find(const std::vector<Value>& inputs) const {
  for (auto it = traces.begin(); it != traces.end(); ++it) {
    const Trace& candidate = **it;
    if (!same_kind(candidate, inputs)) continue;
    Bindings bindings(candidate.scope);
    std::vector<Value> slots(static_cast<size_t>(candidate.slot_count));
    std::copy(inputs.begin(), inputs.end(), slots.begin());
    runtime::bind_symbols(*candidate.scope, slots, bindings);
    if (!bindings.guards_hold()) continue;
    traces.splice(traces.begin(), traces, it);
    return traces.front();
  }
  return nullptr;
}

std::unique_ptr<Executable> CompiledModel::Impl::compile(const ir::Program& program) const {
  ir::Program ready = program;
  if (options.passes) {
    ready = ir::run_passes(ready, ir::standard_passes());
    ready = ir::run_passes(ready, ir::raising_passes());
  }
  if (stats.traces == 0) {
    for (const ir::Op& op : ready.ops()) {
      if (op.primitive->decompose) ++stats.composites[op.primitive->name];
    }
  }
  ready = ir::inline_composites(
      ready, [this](const ir::Program& p, const ir::Op& op) { return backend->takes_composite(p, op); });
  if (options.passes) {
    ready = ir::run_passes(ready, ir::standard_passes());
    const ir::SplitProgram split = ir::split_weights(ready);
    if (!split.prepared.empty()) ready = ir::with_prepared(split, ir::evaluate(split.prepare, {}, nullptr));
  }
  return backend->compile(ready, backend_options);
}

std::shared_ptr<const Trace> CompiledModel::Impl::trace(const std::vector<Value>& inputs) const {
  const auto start = std::chrono::steady_clock::now();
  runtime::TraceOptions trace_options;
  trace_options.trainable = model->options.trainable;
  trace_options.compile = [](const void* context, const ir::Program& program) {
    return static_cast<const Impl*>(context)->compile(program);
  };
  trace_options.context = this;
  trace_options.backend = backend.get();
  std::unique_ptr<Trace> made = runtime::Tracer(model->model.graph, trace_options).trace(inputs);
  made->trace_ms = milliseconds_since(start);
  const auto compiling = std::chrono::steady_clock::now();
  {
    const ShapeScope::Enter enter(made->scope);
    for (auto& step : made->steps) {
      if (auto* segment = std::get_if<Segment>(&step); segment && !segment->executable)
        segment->executable = compile(*segment->program);
    }
  }
  made->compile_ms = milliseconds_since(compiling);
  stats.trace_ms += made->trace_ms;
  stats.compile_ms += made->compile_ms;
  ++stats.traces;
  stats.breaks += made->breaks;
  stats.specializations += static_cast<int64_t>(made->scope->specializations().size());
  traces.push_front(std::move(made));
  while (static_cast<int>(traces.size()) > std::max(1, options.cache_size)) traces.pop_back();
  return traces.front();
}

TensorMap CompiledModel::Impl::run(const TensorMap& inputs) const try {
  const std::vector<Value> values = by_position(inputs);
  std::vector<Value> results;
  for (int attempt = 0;; ++attempt) {
    std::shared_ptr<const Trace> chosen;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (attempt == 0) chosen = find(values);
      if (!chosen) chosen = trace(values);
      if (attempt == 0) ++stats.runs;
    }
    Bindings bindings(chosen->scope);
    try {
      results = runtime::run_trace(*chosen, values, *backend, bindings);
      break;
    } catch (const runtime::GuardFailed& failed) {
      if (attempt >= 2)
        throw Error(ErrorCode::internal, str("a fresh trace does not fit its own inputs: ", failed.what));
    }
  }
  TensorMap outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[model->outputs[i].name] = std::move(results[i]);
  return outputs;
} catch (Error& error) {
  if (!model->model.path.empty()) error.in("file " + model->model.path);
  throw;
}

TensorMap CompiledModel::operator()(const TensorMap& inputs) const { return impl_->run(inputs); }

void CompiledModel::Impl::ensure_trace(const TensorMap& inputs) const try {
  const std::vector<Value> values = by_position(inputs);
  const std::lock_guard<std::mutex> lock(mutex);
  if (!find(values)) trace(values);
} catch (Error& error) {
  if (!model->model.path.empty()) error.in("file " + model->model.path);
  throw;
}

void CompiledModel::trace(const TensorMap& inputs) const { impl_->ensure_trace(inputs); }

RunStats CompiledModel::stats() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->stats;
}

std::string CompiledModel::trace_text() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  std::string text;
  for (const auto& trace : impl_->traces) text += runtime::to_text(*trace);
  return text;
}

std::string CompiledModel::stablehlo() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  for (const auto& trace : impl_->traces) {
    for (const auto& step : trace->steps) {
      const auto* segment = std::get_if<Segment>(&step);
      if (!segment) continue;
      const ShapeScope::Enter enter(trace->scope);
      return ir::print_stablehlo(*segment->program, nullptr);
    }
  }
  throw Error(ErrorCode::invalid_input, "there is no trace yet: run the model once");
}

}  // namespace transmuter
