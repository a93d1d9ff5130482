#include "runtime/tracer.h"

#include <algorithm>
#include <unordered_set>

#include "base/strings.h"
#include "runtime/constant_slice.h"
#include "runtime/execute.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Traced;
using ops::TracedPtr;

namespace {

constexpr int64_t kMaxInlineConstant = 64;  // elements; larger ones are weight parameters
constexpr int64_t kMaxValueSymbols = 64;    // elements of an input whose values become symbols

bool has_subgraph(const onnx::Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const onnx::Attribute& a) { return a.graph || !a.graphs.empty(); });
}

std::string where(const onnx::Node& node) { return str("node ", node.label, " (", node.op_type, ")"); }

TracedPtr constant_traced(Tensor tensor, std::string name, bool trainable) {
  auto traced = std::make_shared<Traced>();
  traced->type = {tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end())};
  traced->constant = std::move(tensor);
  traced->name = std::move(name);
  traced->trainable = trainable;
  return traced;
}

}  // namespace

Tracer::Tracer(const onnx::Graph& graph, TraceOptions options) : graph_(graph), options_(options) {}
Tracer::~Tracer() = default;

std::unique_ptr<Trace> Tracer::trace(const std::vector<Value>& inputs) {
  for (;;) {
    try {
      return trace_once(inputs);
    } catch (const ReadValues& need) {
      read_values_.insert(read_values_.end(), need.slots.begin(), need.slots.end());
    }
  }
}

std::unique_ptr<Trace> Tracer::trace_once(const std::vector<Value>& inputs) {
  frames_.clear();
  graph_inputs_.clear();
  outputs_.clear();
  in_use_.clear();
  actual_.clear();
  defined_symbols_.clear();
  trace_ = std::make_unique<Trace>();
  trace_->scope = ShapeScope::create();
  const ShapeScope::Enter enter(trace_->scope);
  push_frame(graph_);
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const onnx::ValueInfo& info = graph_.inputs[i];
    const bool given = inputs[i].kind != Value::Kind::none;
    trace_->present.push_back(given);
    const int32_t slot = new_slot(
        given && inputs[i].is_tensor() ? SlotType{inputs[i].tensor.dtype(), inputs[i].tensor.rank()} : SlotType{});
    actual_[static_cast<size_t>(slot)] = inputs[i];
    graph_inputs_.push_back(given ? graph_input(info, slot, inputs[i]) : nullptr);
    if (given) define(info.name, graph_inputs_.back());
  }
  for (int32_t slot : read_values_) make_known(*graph_inputs_[static_cast<size_t>(slot)]);
  begin_segment();
  trace_nodes();
  for (const onnx::ValueInfo& output : graph_.outputs) outputs_.push_back(lookup(output.name));
  end_segment(false);
  std::vector<bool> used(inputs.size(), false);
  for (size_t i = 0; i < outputs_.size(); ++i) trace_->outputs.push_back(ref(*outputs_[i]));
  return std::move(trace_);
}

TracedPtr Tracer::graph_input(const onnx::ValueInfo& info, int32_t slot, const Value& value) {
  if (value.is_tensor() && options_.inputs_are_constants) return constant_traced(value.tensor, info.name, false);
  if (options_.inputs_are_constants && (value.kind == Value::Kind::sequence || value.kind == Value::Kind::optional)) {
    auto traced = std::make_shared<Traced>();
    traced->is_sequence = value.kind == Value::Kind::sequence;
    traced->is_optional = !traced->is_sequence;
    traced->type.dtype = value.element;
    for (const Value& item : value.items) traced->items.push_back(graph_input(info, slot, item));
    return traced;
  }
  auto traced = std::make_shared<Traced>();
  traced->slot = slot;
  traced->name = info.name;
  if (!value.is_tensor() || value.tensor.dtype() == DType::string) {
    traced->opaque = true;
    return traced;
  }
  traced->type.dtype = value.tensor.dtype();
  for (int64_t axis = 0; axis < value.tensor.rank(); ++axis) {
    const std::string param = info.has_shape && axis < static_cast<int64_t>(info.shape.size())
                                  ? info.shape[static_cast<size_t>(axis)].param
                                  : "";
    const bool fixed = info.has_shape && axis < static_cast<int64_t>(info.shape.size()) &&
                       info.shape[static_cast<size_t>(axis)].value >= 0;
    const int64_t extent = value.tensor.dim(axis);
    // A declared size was checked at the door: it is a constant without a guard.
    traced->type.shape.push_back(fixed ? Dim(extent)
                                       : trace_->scope->input_extent(slot, static_cast<int32_t>(axis), extent, param));
  }
  return traced;
}

TracedPtr Tracer::from_slot(int32_t slot, const Value& value, std::string name) {
  auto traced = std::make_shared<Traced>();
  traced->slot = slot;
  traced->name = std::move(name);
  if (!value.is_tensor() || value.tensor.dtype() == DType::string) {
    traced->opaque = true;
    return traced;
  }
  traced->type.dtype = value.tensor.dtype();
  for (int64_t axis = 0; axis < value.tensor.rank(); ++axis) {
    traced->type.shape.push_back(trace_->scope->break_extent(slot, static_cast<int32_t>(axis), value.tensor.dim(axis)));
  }
  return traced;
}

void Tracer::push_frame(const onnx::Graph& graph) {
  auto frame = std::make_unique<Frame>();
  frame->graph = &graph;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const onnx::Node& node = graph.nodes[i];
    for (const std::string& input : node.inputs) frame->last_use[input] = i;
    for (const onnx::Attribute& a : node.attributes) {
      if (a.graph) {
        for (const std::string& name : a.graph->captures) frame->last_use[name] = i;
      }
      for (const auto& g : a.graphs) {
        for (const std::string& name : g->captures) frame->last_use[name] = i;
      }
    }
  }
  for (const onnx::ValueInfo& output : graph.outputs) frame->last_use[output.name] = graph.nodes.size();
  frames_.push_back(std::move(frame));
}

void Tracer::define(const std::string& name, TracedPtr traced) {
  if (!name.empty()) frames_.back()->values[name] = std::move(traced);
}

TracedPtr Tracer::lookup(const std::string& name) {
  if (name.empty()) return nullptr;
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (auto found = (*frame)->values.find(name); found != (*frame)->values.end()) return found->second;
    const auto& initializers = (*frame)->graph->initializers;
    if (auto found = initializers.find(name); found != initializers.end()) {
      return (*frame)->values[name] =
                 constant_traced(found->second, name, options_.trainable && !is_integer(found->second.dtype()));
    }
  }
  throw Error(ErrorCode::invalid_input, str("input ", name, " was not given"));
}

void Tracer::trace_nodes() {
  Frame& frame = *frames_.back();
  for (frame.current = 0; frame.current < frame.graph->nodes.size(); ++frame.current) {
    const onnx::Node& node = frame.graph->nodes[frame.current];
    try {
      trace_node(node);
    } catch (Error& error) {
      if (error.where().empty()) error.in(where(node));
      throw;
    }
  }
}

void Tracer::trace_node(const onnx::Node& node) {
  std::vector<TracedPtr> inputs;
  bool opaque = false;
  for (const std::string& name : node.inputs) {
    inputs.push_back(lookup(name));
    opaque = opaque || (inputs.back() && (inputs.back()->opaque || inputs.back()->type.dtype == DType::string));
  }
  const bool driven =
      node.domain.empty() && (node.op_type == "Loop" || node.op_type == "Scan" || node.op_type == "SequenceMap");
  if (driven) return run_eagerly(node, inputs, "control flow driven by the host");
  const ops::Operator* op = ops::registry().find(node.domain, node.op_type);
  if (!op) {
    throw Error(ErrorCode::unsupported,
                str("operator ", node.domain.empty() ? "" : node.domain + ".", node.op_type, " is not implemented"));
  }
  if (node.domain.empty() && node.version < op->versions.front())
    throw Error(ErrorCode::invalid_model, str(node.op_type, " needs opset ", op->versions.front(),
                                              " or later, the model has opset ", node.version));
  if (op->host && (!op->lower || opaque)) return run_eagerly(node, inputs, "an operator on host values");
  if (opaque && !options_.inputs_are_constants) return run_eagerly(node, inputs, "a value that no program holds");
  lower(node, *op, inputs);
}

void Tracer::lower(const onnx::Node& node, const ops::Operator& op, const std::vector<TracedPtr>& inputs) {
  std::vector<TracedPtr> kept = inputs;
  const size_t in_use = in_use_.size();
  in_use_.insert(in_use_.end(), kept.begin(), kept.end());
  for (;;) {
    ops::OpContext context(*this, node, kept);
    try {
      build_->set_location(node.label);
      op.lower(context);
    } catch (const ops::GraphBreak& need) {
      if (need.node != &node) throw;
      if (options_.inputs_are_constants && !in_segment(*kept[need.input])) {
        throw Error(ErrorCode::unsupported, str("the value of input ", need.input, " cannot be known"));
      }
      const bool fetched = in_segment(*kept[need.input]);
      if (fetched) {
        if (auto slots = deciding_inputs(kept[need.input]->value); !slots.empty()) throw ReadValues{std::move(slots)};
        end_segment(true);
        ++trace_->breaks;
        if (make_known(*kept[need.input])) continue;
      }
      in_use_.resize(in_use);
      return run_eagerly(node, kept, str("needs the value of input ", need.input));
    }
    context.check_all_attributes_read();
    context.check_all_inputs_read();
    in_use_.resize(in_use);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      TracedPtr traced = context.outputs()[i];
      if (node.outputs[i].empty()) continue;
      if (!traced)
        throw Error(ErrorCode::unsupported,
                    str(node.op_type, ": output ", i, " (", node.outputs[i], ") is not implemented"));
      const auto place = [&](auto&& self, Traced& made) -> void {
        if (made.value && made.segment < 0) made.segment = segment_;
        for (const TracedPtr& item : made.items) self(self, *item);
      };
      place(place, *traced);
      if (traced->name.empty()) traced->name = node.outputs[i];
      define(node.outputs[i], std::move(traced));
    }
    return;
  }
}

std::vector<TracedPtr> Tracer::inline_graph(const onnx::Graph& graph, const std::vector<TracedPtr>& inputs) {
  if (frames_.size() > 64) throw Error(ErrorCode::unsupported, "subgraphs are nested too deeply");
  push_frame(graph);
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i) define(graph.inputs[i].name, inputs[i]);
  std::vector<TracedPtr> outputs;
  try {
    trace_nodes();
    for (const onnx::ValueInfo& output : graph.outputs) outputs.push_back(lookup(output.name));
  } catch (...) {
    frames_.pop_back();
    throw;
  }
  frames_.pop_back();
  return outputs;
}

ir::Value Tracer::materialise(Traced& traced) {
  if (in_segment(traced)) return traced.value;
  if (traced.opaque) throw Error(ErrorCode::unsupported, str("value ", traced.name, " cannot enter a program"));
  traced.segment = segment_;
  if (traced.constant && traced.constant.size() <= kMaxInlineConstant && !traced.trainable) {
    traced.value = build_->constant(traced.constant.aligned());
  } else if (traced.constant) {
    traced.value = build_->weight(traced.constant, traced.name, traced.trainable);
  } else if (traced.slot >= 0) {
    traced.value = build_->input(traced.type, traced.name);
    segment_inputs_.push_back(traced.slot);
  } else if (traced.known.fully_known()) {
    traced.value = ops::materialise(*build_, traced.known);
  } else {
    throw Error(ErrorCode::internal, str("value ", traced.name, " was lost between segments"));
  }
  return traced.value;
}

bool Tracer::make_known(Traced& traced) {
  if (traced.known.fully_known()) return true;
  if (traced.opaque || traced.is_sequence || traced.is_optional || traced.trainable) return false;
  if (traced.constant) {
    traced.known = Known::from(traced.constant);
    return traced.known.fully_known();
  }
  if (in_segment(traced) && traced.slot < 0) {
    if (auto value = constant_slice(*build_, traced.value)) {
      traced.constant = *value;
      traced.known = Known::from(*value);
      return traced.known.fully_known();
    }
    return false;
  }
  if (traced.slot < 0) return false;
  const Value& actual = actual_[static_cast<size_t>(traced.slot)];
  if (!actual.is_tensor()) return false;
  const Tensor& tensor = actual.tensor;
  if (!(is_integer(tensor.dtype()) || tensor.dtype() == DType::boolean) || tensor.size() > kMaxValueSymbols)
    return false;
  const Tensor wide = tensor.aligned().cast(DType::i64);
  std::vector<ops::Scalar> elements;
  for (const Dim& d : traced.type.shape) specialize(d, "number of values read while tracing");
  const bool from_input = traced.slot < static_cast<int32_t>(graph_.inputs.size());
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
  if (options_.inputs_are_constants) return {};
  std::vector<int32_t> slots;
  std::vector<ir::Value> pending{value};
  std::unordered_set<int32_t> seen;
  while (!pending.empty()) {
    const ir::Value at = pending.back();
    pending.pop_back();
    if (!seen.insert(at.id).second) continue;
    if (const ir::Op* op = build_->definition(at)) {
      if (op->primitive->has_effect) return {};
      pending.insert(pending.end(), op->operands.begin(), op->operands.end());
      continue;
    }
    const ir::Parameter* parameter = build_->parameter_of(at);
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

int32_t Tracer::new_slot(SlotType type) {
  trace_->slot_types.push_back(type);
  actual_.emplace_back();
  return trace_->slot_count++;
}

void Tracer::begin_segment() {
  build_ = std::make_unique<ir::Builder>(trace_->scope);
  segment_inputs_.clear();
  ++segment_;
}

void Tracer::keep(Traced& traced, std::vector<ir::Value>& results, std::vector<int32_t>& slots) {
  for (const TracedPtr& item : traced.items) keep(*item, results, slots);
  if (!in_segment(traced) || traced.slot >= 0 || traced.constant || traced.is_sequence || traced.is_optional) return;
  traced.slot = new_slot({traced.type.dtype, traced.type.rank()});
  results.push_back(traced.value);
  slots.push_back(traced.slot);
}

void Tracer::end_segment(bool execute_now) {
  std::vector<ir::Value> results;
  std::vector<int32_t> slots;
  for (const TracedPtr& output : outputs_) {
    auto materialise_all = [&](auto&& self, Traced& traced) -> void {
      for (const TracedPtr& item : traced.items) self(self, *item);
      if (!traced.is_sequence && !traced.is_optional && !traced.opaque && !traced.constant && traced.slot < 0)
        materialise(traced);
    };
    materialise_all(materialise_all, *output);
    keep(*output, results, slots);
  }
  if (execute_now) {
    for (const TracedPtr& traced : in_use_) {
      if (traced) keep(*traced, results, slots);
    }
    for (const auto& frame : frames_) {
      for (auto& [name, traced] : frame->values) {
        const auto last = frame->last_use.find(name);
        if (last == frame->last_use.end() || last->second < frame->current) continue;
        keep(*traced, results, slots);
      }
    }
  }
  if (!results.empty()) {
    Segment segment;
    std::vector<std::string> names;
    for (int32_t slot : slots) names.push_back(str("slot", slot));
    segment.program = std::make_shared<ir::Program>(build_->finish(std::move(results), std::move(names)));
    segment.input_slots = segment_inputs_;
    segment.output_slots = std::move(slots);
    for (const Symbol& symbol : trace_->scope->symbols()) {
      segment.defines_symbols = segment.defines_symbols || symbol.source.kind == SymbolSource::Kind::data_dependent;
    }
    if (execute_now) execute(segment);
    trace_->steps.emplace_back(std::move(segment));
  }
  begin_segment();
}

void Tracer::execute(Segment& segment) {
  segment.executable = options_.compile(options_.context, *segment.program);
  Bindings bindings(trace_->scope);
  for (const auto& [symbol, value] : defined_symbols_) bindings.set(symbol, value);
  bind_symbols(*trace_->scope, actual_, bindings);
  run_segment(segment, actual_, *options_.backend, bindings);
  const auto& symbols = trace_->scope->symbols();
  defined_symbols_.clear();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    if (symbols[i].source.kind == SymbolSource::Kind::data_dependent && bindings.has(symbol)) {
      defined_symbols_.emplace_back(symbol, bindings.evaluate_expr(symbols[i].expr));
    }
  }
}

Ref Tracer::ref(Traced& traced) {
  Ref ref;
  if (traced.is_sequence || traced.is_optional) {
    ref.kind = traced.is_sequence ? Ref::Kind::sequence : Ref::Kind::optional;
    for (const TracedPtr& item : traced.items) ref.items.push_back(this->ref(*item));
    return ref;
  }
  if (traced.slot >= 0) {
    ref.kind = Ref::Kind::slot;
    ref.slot = traced.slot;
  } else if (traced.constant) {
    ref.kind = Ref::Kind::constant;
    ref.constant = traced.constant;
  } else {
    throw Error(ErrorCode::internal, str("value ", traced.name, " has no place"));
  }
  return ref;
}

void Tracer::run_eagerly(const onnx::Node& node, const std::vector<TracedPtr>& inputs, std::string reason) {
  EagerStep step;
  step.node = &node;
  step.reason = std::move(reason);
  std::vector<std::pair<std::string, TracedPtr>> captured;
  if (has_subgraph(node)) {
    for (const onnx::Attribute& a : node.attributes) {
      std::vector<std::shared_ptr<const onnx::Graph>> graphs = a.graphs;
      if (a.graph) graphs.push_back(a.graph);
      for (const auto& graph : graphs) {
        for (const std::string& name : graph->captures) captured.emplace_back(name, lookup(name));
      }
    }
  }
  // What is known only as expressions must be in a segment to have a value.
  const size_t in_use = in_use_.size();
  auto put = [&](auto&& self, const TracedPtr& traced) -> void {
    if (!traced) return;
    for (const TracedPtr& item : traced->items) self(self, item);
    if (!traced->is_sequence && !traced->is_optional && !traced->opaque && !traced->constant && traced->slot < 0)
      materialise(*traced);
    in_use_.push_back(traced);
  };
  for (const TracedPtr& input : inputs) put(put, input);
  for (const auto& [name, traced] : captured) put(put, traced);
  end_segment(true);
  in_use_.resize(in_use);
  ++trace_->breaks;
  for (const TracedPtr& input : inputs) step.inputs.push_back(input ? ref(*input) : Ref{});
  for (const auto& [name, traced] : captured) step.captures.emplace_back(name, ref(*traced));
  std::vector<Value> results = run_eager_step(step, actual_);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) {
      step.output_slots.push_back(-1);
      continue;
    }
    if (i >= results.size() || results[i].kind == Value::Kind::none) {
      throw Error(ErrorCode::unsupported,
                  str(node.op_type, ": output ", i, " (", node.outputs[i], ") is not implemented"));
    }
    const bool tensor = results[i].is_tensor();
    const int32_t slot = new_slot(tensor ? SlotType{results[i].tensor.dtype(), results[i].tensor.rank()} : SlotType{});
    step.output_slots.push_back(slot);
    actual_[static_cast<size_t>(slot)] = results[i];
    define(node.outputs[i], from_slot(slot, results[i], node.outputs[i]));
  }
  trace_->steps.emplace_back(std::move(step));
}

}  // namespace transmuter::runtime
