// The tracer's segments: where values live, what a break keeps, what runs eagerly.
#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "base/strings.h"
#include "ir/primitive.h"
#include "ops/random.h"
#include "runtime/constant_slice.h"
#include "runtime/control_flow.h"
#include "runtime/execute.h"
#include "runtime/graph_runner.h"
#include "runtime/node_runner.h"
#include "runtime/reads.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Scalar;
using ops::Traced;
using ops::TracedPtr;

namespace {

constexpr int64_t kMaxInlineConstant = 64;  // elements; larger ones are weight parameters
constexpr int64_t kMaxValueSymbols = 64;    // elements of an input whose values become symbols
constexpr size_t kMaxDescribed = 16;        // elements of a known value in the text of a trace

std::string scalar_text(const Scalar& s) {
  if (!s.known()) return "?";
  if (s.kind == Scalar::Kind::integer) return to_string(s.dim);
  return s.real.is_constant() ? str(s.real.hint()) : str("about ", s.real.hint());
}

std::string known_text(const Known& known) {
  std::string text;
  switch (known.kind) {
    case Known::Kind::elements:
      for (size_t i = 0; i < known.elements.size() && i < kMaxDescribed; ++i)
        text += (i ? ", " : "") + scalar_text(known.elements[i]);
      if (known.elements.size() > kMaxDescribed) text += ", ...";
      return known.shape.empty() ? text : str("[", text, "]", known.shape.size() > 1 ? to_string(known.shape) : "");
    case Known::Kind::splat:
      return str(scalar_text(known.value), " everywhere in ", to_string(known.shape));
    case Known::Kind::iota:
      return str("from ", scalar_text(known.value), " in steps of ", to_string(known.step), " along axis ", known.axis,
                 " of ", to_string(known.shape));
    case Known::Kind::none:
      break;
  }
  return "?";
}

}  // namespace

void Tracer::describe_known(const Traced& traced) {
  trace_->known.push_back(str(traced.name, " = ", known_text(traced.known)));
}

ir::Value Tracer::materialise(Traced& traced) {
  if (in_segment(traced)) return traced.value;
  if (traced.opaque || traced.texts)
    throw Error(ErrorCode::unsupported, str("the value ", traced.name, " cannot enter a program"));
  traced.segment = segment_;
  // A region has no weights of its own.
  if (traced.constant && (region_ || traced.constant.size() <= kMaxInlineConstant) && !traced.trainable) {
    traced.value = build().constant(traced.constant.aligned());
  } else if (traced.constant) {
    traced.value = build().weight(traced.constant, traced.name, traced.trainable);
  } else if (traced.slot >= 0) {
    traced.value = build().input(traced.type, traced.name);
    segment_inputs_.push_back(traced.slot);
  } else if (traced.known.fully_known()) {
    traced.value = ops::materialise(build(), traced.known);
  } else {
    throw Error(ErrorCode::internal, str("the value ", traced.name, " was lost between segments"));
  }
  return traced.value;
}

ir::Value Tracer::random_state() {
  if (region_) {
    if (!region_random_) throw NotInProgram{};
    return region_random_;
  }
  if (!random_) {
    random_ = std::make_shared<Traced>();
    random_->type = {DType::u64, {Dim(2)}};
    random_->name = "random_state";
    random_->slot = trace_->random_slot = new_slot({Value::Kind::tensor, DType::u64, 1}, random_->name);
    actual_[static_cast<size_t>(random_->slot)] = options_.context.random_words();
  }
  return materialise(*random_);
}

bool Tracer::make_known(Traced& traced) {
  if (traced.known.fully_known()) return true;
  if (traced.opaque || traced.is_sequence || traced.is_optional || traced.trainable) return false;
  if (traced.constant) {
    traced.known = Known::from(traced.constant);
    return traced.known.fully_known();
  }
  if (in_segment(traced) && traced.slot < 0) {
    const std::optional<Tensor> value = constant_slice(build(), traced.value);
    if (!value) return false;
    traced.constant = *value;
    traced.known = Known::from(*value);
    return traced.known.fully_known();
  }
  if (traced.slot < 0) return false;
  const Value& actual = actual_[static_cast<size_t>(traced.slot)];
  if (!actual.is_tensor()) return false;
  const Tensor& tensor = actual.tensor;
  const bool readable = is_integer(tensor.dtype()) || tensor.dtype() == DType::boolean;
  if (!readable || tensor.size() > kMaxValueSymbols) return false;
  for (const Dim& d : traced.type.shape) specialize(d, "number of values read while tracing");
  const Tensor wide = tensor.aligned().cast(DType::i64);
  const bool from_input = traced.slot < input_slots_;
  std::vector<Scalar> elements;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const int64_t hint = wide.data<int64_t>()[i];
    const int32_t element = static_cast<int32_t>(i);
    const Dim symbol = from_input ? trace_->scope->input_value(traced.slot, element, hint)
                                  : trace_->scope->break_value(traced.slot, element, hint);
    if (tensor.dtype() == DType::boolean) {
      trace_->scope->guard_equal(symbol, hint, str("value of ", traced.name));
      elements.emplace_back(Dim(hint));
    } else {
      elements.emplace_back(symbol);
    }
  }
  traced.known = Known::of(tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end()), std::move(elements));
  return true;
}

std::vector<int32_t> Tracer::deciding_inputs(ir::Value value) const {
  const ir::Builder& builder = region_ ? *region_ : *build_;
  std::vector<int32_t> slots;
  std::vector<ir::Value> pending{value};
  std::unordered_set<int32_t> seen;
  while (!pending.empty()) {
    const ir::Value at = pending.back();
    pending.pop_back();
    if (!seen.insert(at.id).second) continue;
    if (const ir::Op* op = builder.definition(at)) {
      pending.insert(pending.end(), op->operands.begin(), op->operands.end());
      continue;
    }
    const ir::Parameter* parameter = builder.parameter_of(at);
    if (!parameter) return {};
    if (parameter->kind == ir::Parameter::Kind::weight) {
      if (parameter->trainable) return {};
      continue;
    }
    const auto input = std::find_if(graph_inputs_.begin(), graph_inputs_.end(), [&](const TracedPtr& traced) {
      return traced && traced->segment == segment_ && traced->value == at;
    });
    if (input == graph_inputs_.end()) return {};
    const int32_t slot = static_cast<int32_t>(input - graph_inputs_.begin());
    const Value& actual = actual_[static_cast<size_t>(slot)];
    if (!actual.is_tensor() || actual.tensor.size() > kMaxValueSymbols || is_float(actual.tensor.dtype())) return {};
    // Reading pins the extents: of a list of points (or a few numbers), not of something as long as a text.
    const Dims& shape = (*input)->type.shape;
    for (size_t axis = 1; axis < shape.size(); ++axis)
      if (!shape[axis].is_constant()) return {};
    if (std::find(read_values_.begin(), read_values_.end(), slot) == read_values_.end()) slots.push_back(slot);
  }
  return slots;
}

int32_t Tracer::new_slot(SlotType type, std::string name) {
  trace_->slot_types.push_back(type);
  trace_->slot_names.push_back(std::move(name));
  actual_.emplace_back();
  return trace_->slot_count++;
}

void Tracer::begin_segment() {
  build_ = std::make_unique<ir::Builder>(trace_->scope);
  segment_inputs_.clear();
  segment_ = ++newest_segment_;
}

template <class Fn>
void Tracer::for_each_visible(const Fn& fn) {
  const auto visit = [&](auto&& self, Traced& traced) -> void {
    for (const TracedPtr& item : traced.items) self(self, *item);
    fn(traced);
  };
  for (const TracedPtr& traced : in_use_) {
    if (traced) visit(visit, *traced);
  }
  for (const auto& frame : frames_) {
    for (auto& [name, traced] : frame->values) {
      const auto last = frame->last_use.find(name);
      if (last != frame->last_use.end() && last->second >= frame->current) visit(visit, *traced);
    }
  }
}

void Tracer::keep(Traced& traced, std::vector<ir::Value>& results, std::vector<int32_t>& slots) {
  if (!in_segment(traced) || !needs_place(traced)) return;
  traced.slot = new_slot({Value::Kind::tensor, traced.type.dtype, traced.type.rank()}, traced.name);
  results.push_back(traced.value);
  slots.push_back(traced.slot);
}

bool Tracer::is_count(size_t symbol) const {
  if (trace_->scope->symbols()[symbol].source.kind != SymbolSource::Kind::data_dependent) return false;
  return std::none_of(inner_symbols_.begin(), inner_symbols_.end(),
                      [&](const auto& range) { return symbol >= range.first && symbol < range.second; });
}

size_t Tracer::count_data_dependent() const {
  size_t count = 0;
  for (size_t i = 0; i < trace_->scope->symbols().size(); ++i) count += is_count(i);
  return count;
}

bool Tracer::has_unsettled_counts() const { return count_data_dependent() > settled_.size(); }

// Each count is a result, so that the op that finds it stays in the program.
void Tracer::keep_counts(std::vector<ir::Value>& results, std::vector<int32_t>& slots) {
  const std::vector<Symbol> symbols = trace_->scope->symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    if (!is_count(i) || settled_.contains(symbol)) continue;
    const Dim count = trace_->scope->refreshed(Dim(symbols[i].hint, symbols[i].expr, trace_->scope->tag()));
    if (count.is_constant()) continue;
    const std::vector<int32_t> read = trace_->scope->symbols_of(count.expr());
    if (std::find(read.begin(), read.end(), symbol) == read.end()) continue;  // facts replaced it
    results.push_back(build_->dim_value(count, DType::i64));
    slots.push_back(new_slot({Value::Kind::tensor, DType::i64, 0}, symbols[i].name));
  }
}

void Tracer::end_segment(bool at_break, std::string ended_by) {
  if (region_) throw NotInProgram{};
  std::vector<ir::Value> results;
  std::vector<int32_t> slots;
  const auto keep_all = [&](auto&& self, Traced& traced) -> void {
    for (const TracedPtr& item : traced.items) self(self, *item);
    if (needs_place(traced)) materialise(traced);
    keep(traced, results, slots);
  };
  for (const TracedPtr& output : outputs_) keep_all(keep_all, *output);
  if (at_break) {
    for_each_visible([&](Traced& traced) { keep(traced, results, slots); });
    keep_counts(results, slots);
  }
  if (!results.empty()) {
    Segment segment;
    std::vector<std::string> names;
    for (int32_t slot : slots) names.push_back(str("slot", slot));
    segment.program = std::make_shared<ir::Program>(build_->finish(std::move(results), std::move(names)));
    segment.input_slots = segment_inputs_;
    segment.output_slots = std::move(slots);
    segment.ended_by = std::move(ended_by);
    segment.defines_symbols = has_unsettled_counts();
    segment.number = trace_->before.segments + segments_of(*trace_);
    if (at_break && !can_pause()) execute(segment);
    trace_->steps.emplace_back(std::move(segment));
  }
  begin_segment();
}

void Tracer::execute(Segment& segment) {
  const auto start = std::chrono::steady_clock::now();
  segment.executable = options_.engine->compile(*segment.program, segment.number, options_.composites);
  trace_->compile_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  Bindings bindings(trace_->scope);
  for (const auto& [symbol, value] : settled_) bindings.set(symbol, value);
  bind_symbols(*trace_->scope, actual_, bindings);
  run_segment(segment, actual_, *options_.engine->backend, bindings);
  bindings.check_assertions();
  if (settle(bindings)) for_each_visible([&](Traced& traced) { refresh(traced); });
}

bool Tracer::settle(Bindings& bindings) {
  bool any = false;
  for (size_t i = 0; i < trace_->scope->symbols().size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    if (!is_count(i) || settled_.contains(symbol) || !bindings.has(symbol)) continue;
    // The symbol's own value, whatever facts say that it equals.
    const int64_t value = bindings.value(symbol);
    settled_.emplace(symbol, value);
    ShapeScope::settle(trace_->scope, symbol, value);
    any = true;
  }
  return any;
}

void Tracer::refresh(Traced& traced) {
  ShapeScope& scope = *trace_->scope;
  const auto refresh_dims = [&](Dims& dims) {
    for (Dim& d : dims) d = scope.refreshed(d);
  };
  const auto refresh_scalar = [&](Scalar& s) {
    s.dim = scope.refreshed(s.dim);
    s.real = scope.refreshed(s.real);
  };
  refresh_dims(traced.type.shape);
  refresh_dims(traced.known.shape);
  for (Scalar& s : traced.known.elements) refresh_scalar(s);
  refresh_scalar(traced.known.value);
  traced.known.step = scope.refreshed(traced.known.step);
  if (!traced.stack) return;
  auto stack = std::make_shared<ops::Stack>(*traced.stack);
  stack->count = scope.refreshed(stack->count);
  traced.stack = std::move(stack);
}

Ref Tracer::ref(Traced& traced) {
  Ref ref;
  if (traced.is_sequence || traced.is_optional) {
    ref.kind = traced.is_sequence ? Ref::Kind::sequence : Ref::Kind::optional;
    ref.element = traced.type.dtype;
    for (const TracedPtr& item : traced.items) ref.items.push_back(this->ref(*item));
    return ref;
  }
  if (traced.texts) {
    ref.kind = Ref::Kind::texts;
    ref.items.push_back(this->ref(*traced.items[0]));
    ref.texts = traced.texts;
    return ref;
  }
  if (traced.stack) {
    ref.kind = Ref::Kind::stack;
    ref.axis = traced.stack->axis;
    Traced values = traced;
    values.stack = nullptr;
    ref.items.push_back(this->ref(values));
    for (const TracedPtr& lengths : traced.items) ref.items.push_back(this->ref(*lengths));
    return ref;
  }
  if (traced.slot >= 0) {
    ref.kind = Ref::Kind::slot;
    ref.slot = traced.slot;
  } else if (traced.constant) {
    ref.kind = Ref::Kind::constant;
    ref.constant = traced.constant;
  } else {
    throw Error(ErrorCode::internal, str("the value ", traced.name, " has no place"));
  }
  return ref;
}

// A body of a node that the host drives, with a runner of its own: what it reads from outside are further inputs, or
// initializers where constant.
EagerStep::Body Tracer::prepare_body(const onnx::Attribute& attribute, std::vector<TracedPtr>& captured) {
  auto graph = std::make_shared<onnx::Graph>(*attribute.graph);
  // Shapes that a body declares are not checked when it is fed.
  for (onnx::ValueInfo& input : graph->inputs) input.has_shape = false;
  for (onnx::ValueInfo& output : graph->outputs) output.kind = onnx::ValueInfo::Kind::none;
  for (const std::string& name : graph->captures) {
    const TracedPtr traced = lookup(name);
    if (traced->constant) {
      graph->initializers[name] = traced->constant;
      continue;
    }
    graph->inputs.emplace_back();
    graph->inputs.back().name = name;
    captured.push_back(traced);
  }
  graph->captures.clear();
  return {attribute.name, std::make_shared<GraphRunner>(std::move(graph), options_.engine), {}};
}

// What no input of a run changes is computed here and now; false where an input is no constant.
bool Tracer::run_on_constants(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  if (ops::draws_numbers(node)) return false;
  std::vector<Value> values;
  for (const TracedPtr& input : inputs) {
    if (input && (!input->constant || input->trainable)) return false;
    values.push_back(input ? Value(input->constant) : Value());
  }
  const std::vector<Value> results = NodeRunner(node, options_.engine).run(std::move(values), options_.context);
  std::vector<TracedPtr> made;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool wanted = !node.outputs[i].empty();
    made.push_back(wanted && i < results.size() ? static_value(node.outputs[i], results[i]) : nullptr);
    if (wanted && !made.back()) return false;
  }
  for (size_t i = 0; i < made.size(); ++i) define(node.outputs[i], made[i]);
  return true;
}

void Tracer::run_eagerly(const onnx::Node& node, const std::vector<TracedPtr>& inputs, std::string reason) {
  if (!driven_by_host(node) && run_on_constants(node, inputs)) return;
  if (region_) throw NotInProgram{};
  EagerStep step;
  step.node = &node;
  step.reason = std::move(reason);
  std::vector<std::vector<TracedPtr>> captured;  // by body
  if (driven_by_host(node)) {
    for (const onnx::Attribute& attribute : node.attributes)
      if (attribute.graph) step.bodies.push_back(prepare_body(attribute, captured.emplace_back()));
  } else {
    std::vector<Tensor> constants;
    for (const TracedPtr& input : inputs) constants.push_back(input && !input->trainable ? input->constant : Tensor());
    step.runner = std::make_shared<NodeRunner>(node, options_.engine, std::move(constants));
  }
  // What is known only as expressions must be in a segment to have a value.
  const size_t in_use = in_use_.size();
  const auto put = [&](auto&& self, const TracedPtr& traced) -> void {
    if (!traced) return;
    for (const TracedPtr& item : traced->items) self(self, item);
    if (needs_place(*traced)) materialise(*traced);
    in_use_.push_back(traced);
  };
  for (const TracedPtr& input : inputs) put(put, input);
  for (const std::vector<TracedPtr>& of_body : captured)
    for (const TracedPtr& traced : of_body) put(put, traced);
  end_segment(true);
  in_use_.resize(in_use);
  ++trace_->breaks;
  for (const TracedPtr& input : inputs) step.inputs.push_back(input ? ref(*input) : Ref{});
  for (size_t i = 0; i < captured.size(); ++i)
    for (const TracedPtr& traced : captured[i]) step.bodies[i].captures.push_back(ref(*traced));
  if (can_pause()) {
    std::vector<std::pair<std::string, int32_t>> made;
    for (const std::string& name : node.outputs) {
      step.output_slots.push_back(name.empty() ? -1 : new_slot({}, name));
      made.emplace_back(name, step.output_slots.back());
    }
    trace_->steps.emplace_back(std::move(step));
    pause(frames_.back()->current + 1, std::move(made));
  }
  std::vector<Value> results = run_eager_step(step, actual_, options_.context);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) {
      step.output_slots.push_back(-1);
      continue;
    }
    if (i >= results.size() || results[i].kind == Value::Kind::none) refuse_output(node, i);
    const int32_t slot = new_slot(slot_type(results[i]), node.outputs[i]);
    step.output_slots.push_back(slot);
    actual_[static_cast<size_t>(slot)] = results[i];
    define(node.outputs[i], from_slot(slot, results[i], node.outputs[i]));
  }
  trace_->steps.emplace_back(std::move(step));
}

}  // namespace transmuter::runtime
