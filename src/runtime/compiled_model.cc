#include "runtime/compiled_model.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "backends/weight_store.h"
#include "base/memory.h"
#include "base/run_control.h"
#include "base/strings.h"
#include "ir/passes/rescope.h"
#include "ir/passes/stablehlo_form.h"
#include "ir/print.h"
#include "runtime/execute.h"
#include "runtime/rest.h"
#include "runtime/tell.h"
#include "runtime/trace.h"
#include "runtime/warm_up.h"

namespace transmuter {

namespace {

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
  if (!value.is_tensor()) refuse(spec, "expected a tensor");
  const Tensor& t = value.tensor;
  if (t.was_donated()) refuse(spec, "its memory was given to an earlier run, which put something else there");
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

void check_map(const ValueSpec& spec, const Value& value) {
  if (value.kind != Value::Kind::map) refuse(spec, "expected a map");
  const auto differs = [](DType declared, DType given) { return declared != DType::invalid && declared != given; };
  if (differs(spec.key_dtype, value.keys.dtype()) || differs(spec.dtype, value.tensor.dtype()))
    refuse(spec, str("expected a map from ", name(spec.key_dtype), " to ", name(spec.dtype), ", got one from ",
                     name(value.keys.dtype()), " to ", name(value.tensor.dtype())));
}

// Of kind, dtypes and shape as declared; what a sequence or an optional holds, too. An optional may be given as its
// content.
void check_value(const ValueSpec& spec, const Value& value) {
  if (spec.kind == Value::Kind::tensor) return check_tensor(spec, value);
  if (spec.kind == Value::Kind::map) return check_map(spec, value);
  const bool optional = spec.kind == Value::Kind::optional;
  if (spec.kind == Value::Kind::sequence && value.kind != spec.kind) refuse(spec, "expected a sequence");
  if (spec.element.empty() || spec.kind == Value::Kind::none) return;
  ValueSpec element = spec.element[0];
  element.name = spec.name;
  if (optional && value.kind != Value::Kind::optional) return check_value(element, value);
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (!optional) element.name = str(spec.name, "[", i, "]");
    check_value(element, value.items[i]);
  }
}

}  // namespace

namespace {

// What was given and is no input of the model, for a message.
std::string strangers(const TensorMap& given, const std::vector<ValueSpec>& specs) {
  std::string names;
  for (const auto& item : given) {
    const std::string& name = item.first;
    const bool known =
        std::any_of(specs.begin(), specs.end(), [&](const ValueSpec& spec) { return spec.name == name; });
    if (!known) names += (names.empty() ? ", and knows no " : ", ") + name;
  }
  return names;
}

}  // namespace

std::vector<Value> Model::Impl::by_position(const TensorMap& given) const {
  const auto& specs = inputs;
  std::vector<Value> values(specs.size());
  size_t used = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto found = given.find(specs[i].name);
    if (found == given.end()) {
      if (!specs[i].optional && specs[i].kind != Value::Kind::optional) {
        refuse(specs[i], str("missing; the model wants ", listed(specs), strangers(given, specs)));
      }
      continue;
    }
    ++used;
    check_value(specs[i], found->second);
    values[i] = found->second;
  }
  if (used != given.size()) {
    for (const auto& [name, value] : given) {
      bool known = false;
      for (const ValueSpec& spec : specs) known = known || spec.name == name;
      if (!known)
        throw Error(ErrorCode::invalid_input, str("there is no input ", name, "; the model has ", listed(specs)));
    }
  }
  return values;
}

TensorMap Model::Impl::by_name(std::vector<Value> values) const {
  TensorMap named;
  for (size_t i = 0; i < values.size(); ++i) named[outputs[i].name] = std::move(values[i]);
  return named;
}

void Model::Impl::locate(Error& error) const {
  if (!model.path.empty()) error.in("file " + model.path);
}

std::shared_ptr<WeightStore> Model::Impl::weights_for(const std::string& backend) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<WeightStore>& store = weights_[backend];
  if (!store) store = std::make_shared<WeightStore>();
  return store;
}

std::map<std::string, std::pair<int64_t, int64_t>> Model::Impl::stored_weights() const {
  std::map<std::string, std::pair<int64_t, int64_t>> weights;
  for (const auto& [key, tensor] : model.graph.initializers) {
    auto& [count, bytes] = weights[name(tensor.dtype())];
    ++count;
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return weights;
}

void Model::Impl::tell_run(telemetry::Span& span, const std::string& backend, bool is_eager,
                           const TensorMap& given) const {
  span.add("file", model.path);
  span.add("backend", backend);
  span.add("eager", static_cast<int64_t>(is_eager));
  span.add("inputs", runtime::shapes_of(given));
}

Error out_of_memory(const Model::Impl& model) {
  Error error(ErrorCode::out_of_memory, "there is not enough memory for this run");
  model.locate(error);
  return error;
}

void fail_run(const Model::Impl& model) {
  try {
    throw;
  } catch (Error& error) {
    telemetry::count_failed_run();
    model.locate(error);
    throw;
  } catch (const std::bad_alloc&) {
    telemetry::count_failed_run();
    throw out_of_memory(model);
  } catch (const std::length_error&) {
    telemetry::count_failed_run();
    throw out_of_memory(model);
  }
}

runtime::GraphRunner& CompiledModel::Impl::traced() const {
  if (runner) return *runner;
  throw Error(ErrorCode::invalid_input,
              "the model was compiled to run operator by operator (eager): it has no traces and no program");
}

std::vector<Value> CompiledModel::Impl::inputs(const TensorMap& given) const {
  for (const std::string& name : static_inputs) {
    if (given.contains(name)) continue;
    for (const ValueSpec& spec : model->inputs)
      if (spec.name == name && !spec.optional)
        refuse(spec, "missing; it is a static input, whose value every call must give");
  }
  return model->by_position(given);
}

TensorMap CompiledModel::Impl::call(const TensorMap& given, const RandomState& state,
                                    const runtime::Donation* donation) const {
  telemetry::Span span(telemetry::Kind::run);
  if (span) model->tell_run(span, engine->backend->name(), eager != nullptr, given);
  const std::vector<Value> values = inputs(given);
  const runtime::RunContext context{state};
  TensorMap outputs = model->by_name(eager ? eager->run(values, context) : runner->run(values, context, donation));
  telemetry::tell_memory();
  return outputs;
}

namespace {

// Whatever runs the model: under the limits that it was given, and an Error on its way out says which file it was.
template <class Fn>
auto guarded(const CompiledModel::Impl& impl, const RunOptions& options, const Fn& fn) {
  const RunControl control(options.cancel ? options.cancel->flag() : nullptr, impl.max_loop_trips);
  try {
    return fn();
  } catch (...) {
    fail_run(*impl.model);
  }
}

}  // namespace

TensorMap CompiledModel::operator()(const TensorMap& inputs, const RunOptions& options) const {
  return guarded(*impl_, options, [&] { return impl_->call(inputs, impl_->random.take()); });
}

TensorMap CompiledModel::operator()(TensorMap&& inputs, const RunOptions& options) const {
  return guarded(*impl_, options, [&] {
    runtime::Donation donation;
    for (const ValueSpec& spec : impl_->model->inputs) {
      const auto found = inputs.find(spec.name);
      donation.donated.push_back(found != inputs.end() && runtime::may_take(found->second));
    }
    TensorMap outputs = impl_->call(inputs, impl_->random.take(), &donation);
    for (const auto& [name, value] : inputs) {
      if (value.donated) value.tensor.mark_donated();
    }
    inputs.clear();  // only now: after an error the caller still has them
    return outputs;
  });
}

const std::vector<ValueSpec>& CompiledModel::inputs() const { return impl_->model->inputs; }
const std::vector<ValueSpec>& CompiledModel::outputs() const { return impl_->model->outputs; }

void CompiledModel::trace(const TensorMap& inputs) const {
  guarded(*impl_, {}, [&] { impl_->traced().ensure_trace(impl_->inputs(inputs), {impl_->random.get()}); });
}

RandomState CompiledModel::random_state() const { return impl_->random.get(); }
void CompiledModel::set_random_state(const RandomState& state) const { impl_->random.set(state); }

void CompiledModel::warm_up(const WarmUp& expected) const {
  guarded(*impl_, {}, [&] {
    for (const auto& [sizes, inputs] : runtime::warm_up_inputs(impl_->model->inputs, expected)) {
      try {
        impl_->call(inputs, impl_->random.get());
      } catch (Error& error) {
        error.in(str("warm-up with ", sizes));
        throw;
      }
    }
  });
}

void CompiledModel::trim() const try {
  impl_->engine->state->arenas.trim();
  if (impl_->eager) impl_->eager->trim();
  if (impl_->runner) impl_->runner->trim();
} catch (const std::bad_alloc&) {
  throw out_of_memory(*impl_->model);
}

void CompiledModel::release_cached_memory() const try {
  if (impl_->eager) impl_->eager->forget();
  if (impl_->runner) impl_->runner->forget();
  impl_->engine->state->arenas.trim();
  impl_->engine->options.weights->forget_gone();
  give_back_free_memory();
  telemetry::tell_memory();
} catch (const std::bad_alloc&) {
  throw out_of_memory(*impl_->model);
}

MemoryUse CompiledModel::memory() const {
  MemoryUse use;
  for (const auto& [dtype, weights] : impl_->model->stored_weights()) use.stored[dtype] = weights.second;
  use.prepared = impl_->engine->options.weights->sizes();
  use.arenas = impl_->engine->state->arenas.bytes();
  return use;
}

RunStats CompiledModel::stats() const {
  RunState& state = *impl_->engine->state;
  const RunCounters& c = state.counters;
  const auto get = [](const RunCounters::Count& count) { return count.load(std::memory_order_relaxed); };
  RunStats stats;
  stats.runs = get(c.runs);
  stats.traces = get(c.traces);
  stats.body_traces = get(c.body_traces);
  stats.node_traces = get(c.node_traces);
  stats.continuations = get(c.continuations);
  stats.trace_hits = get(c.trace_hits);
  stats.evictions = get(c.evictions);
  stats.breaks = get(c.breaks);
  stats.specializations = get(c.specializations);
  stats.compiles = get(c.compiles);
  stats.binds = get(c.binds);
  stats.plan_hits = get(c.plan_hits);
  stats.plan_evictions = get(c.plan_evictions);
  stats.trace_ms = static_cast<double>(get(c.trace_ns)) * 1e-6;
  stats.compile_ms = static_cast<double>(get(c.compile_ns)) * 1e-6;
  stats.bind_us = static_cast<double>(get(c.bind_ns)) * 1e-3;
  stats.arena_bytes = state.arenas.bytes();
  stats.appends = get(c.appends);
  stats.cache_copies = get(c.cache_copies);
  stats.cache_copy_bytes = get(c.cache_copy_bytes);
  stats.allocated_bytes = get(c.allocated_bytes) + state.arenas.allocated();
  const std::lock_guard<std::mutex> lock(state.mutex);
  stats.composites = state.composites;
  return stats;
}

std::string CompiledModel::trace_text() const {
  std::string text;
  for (const auto& trace : impl_->traced().traces()) text += runtime::to_text(*trace);
  return text;
}

namespace {

// By result of the segment: the output of the model that it is, or the value's name.
std::vector<std::string> result_names(const runtime::Trace& trace, const runtime::Segment& segment,
                                      const std::vector<ValueSpec>& outputs) {
  std::vector<std::string> names;
  for (const int32_t slot : segment.output_slots) {
    names.push_back(trace.slot_names[static_cast<size_t>(slot)]);
    for (size_t i = 0; i < trace.outputs.size() && i < outputs.size(); ++i)
      if (trace.outputs[i].kind == runtime::Ref::Kind::slot && trace.outputs[i].slot == slot)
        names.back() = outputs[i].name;
  }
  return names;
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

std::vector<StableHloModule> CompiledModel::stablehlo_modules(const StableHloOptions& options) const {
  const auto& traces = impl_->traced().traces();
  if (traces.empty()) throw Error(ErrorCode::invalid_input, "there is no trace yet: run the model once");
  std::vector<std::shared_ptr<const runtime::Trace>> parts{traces.front()};  // the one used last, from break to break
  while (parts.back()->rest) {
    const auto& next = parts.back()->rest->traces.all();
    if (next.empty()) break;
    parts.push_back(next.front());
  }
  std::vector<StableHloModule> modules;
  std::vector<ir::Program> programs;
  for (const auto& part : parts) {
    for (const auto& step : part->steps) {
      const auto* segment = std::get_if<runtime::Segment>(&step);
      if (!segment) continue;
      programs.push_back(ir::with_own_scope(*segment->program));
      modules.emplace_back();
      modules.back().results = result_names(*parts.back(), *segment, impl_->model->outputs);
    }
  }
  if (programs.empty())
    throw Error(ErrorCode::unsupported,
                "the model has no program to print: what it does not know from the inputs' "
                "sizes alone is done by operators that run on the host");
  for (size_t i = 0; i < programs.size(); ++i) {
    StableHloModule& module = modules[i];
    const ShapeScope::Enter enter(programs[i].scope());
    module.name = programs.size() == 1 ? "transmuter" : str("segment_", i);
    const ir::Program program = options.embed_weights ? ir::with_embedded_weights(programs[i]) : programs[i];
    for (const ir::Parameter& parameter : program.parameters())
      module.arguments.push_back({parameter.name, parameter.weight});
    for (size_t k = 0; k < module.results.size(); ++k)
      module.text += str("// result ", k, ": ", one_line(module.results[k]), "\n");
    module.text += ir::print_stablehlo(program, nullptr, module.name);
  }
  return modules;
}

std::string CompiledModel::stablehlo(const StableHloOptions& options) const {
  std::string text;
  for (const StableHloModule& module : stablehlo_modules(options)) text += module.text;
  return text;
}

}  // namespace transmuter
