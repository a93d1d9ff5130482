#include "runtime/tracer.h"

#include <algorithm>
#include <stdexcept>

#include "base/dim_table.h"
#include "base/strings.h"
#include "ops/schema.h"
#include "runtime/control_flow.h"
#include "runtime/input_values.h"
#include "runtime/reads.h"
#include "runtime/search.h"

namespace transmuter::runtime {

using ops::Traced;
using ops::TracedPtr;

namespace {

constexpr size_t kMaxDepth = 64;  // of subgraphs

TracedPtr constant_traced(Tensor tensor, std::string name, bool trainable) {
  auto traced = std::make_shared<Traced>();
  traced->type = {tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end())};
  traced->constant = std::move(tensor);
  traced->name = std::move(name);
  traced->trainable = trainable;
  return traced;
}

bool holds_host_value(const TracedPtr& traced) {
  if (!traced) return false;
  return traced->opaque || traced->type.dtype == DType::string ||
         std::any_of(traced->items.begin(), traced->items.end(), holds_host_value);
}

// A value in a slot; extent(axis): of a tensor that a program may read.
template <class Fn>
TracedPtr in_slot(int32_t slot, const Value& value, std::string name, const Fn& extent) {
  auto traced = std::make_shared<Traced>();
  traced->slot = slot;
  traced->name = std::move(name);
  traced->opaque = !value.is_tensor() || value.tensor.dtype() == DType::string;
  if (traced->opaque) return traced;
  traced->type.dtype = value.tensor.dtype();
  for (int64_t axis = 0; axis < value.tensor.rank(); ++axis) traced->type.shape.push_back(extent(axis));
  return traced;
}

// What a lowering made lies in the segment that was open at its end.
void place(Traced& made, int32_t segment) {
  if (made.value && made.segment < 0) made.segment = segment;
  for (const TracedPtr& item : made.items) place(*item, segment);
}

}  // namespace

Tracer::Tracer(const onnx::Graph& graph, TraceOptions options) : graph_(graph), options_(std::move(options)) {}
Tracer::~Tracer() = default;

namespace {

// A body gets from its node what it takes.
void check_feed(const onnx::Graph& graph, size_t given) {
  if (given < graph.inputs.size())
    throw Error(ErrorCode::invalid_model,
                str("graph ", graph.name, " takes ", graph.inputs.size(), " inputs and is given ", given));
}

}  // namespace

template <class Fn>
std::unique_ptr<Trace> Tracer::retried(const Fn& fn) {
  for (;;) {
    try {
      forget();
      return fn();
    } catch (const ReadValues& need) {
      read_values_.insert(read_values_.end(), need.slots.begin(), need.slots.end());
    } catch (const ReadStatic& need) {
      options_.static_inputs.push_back(need.slot);
    }
  }
}

std::unique_ptr<Trace> Tracer::trace(const std::vector<Value>& inputs) {
  return retried([&] { return trace_once(inputs); });
}

std::unique_ptr<Trace> Tracer::trace_rest(const Trace& before, const std::vector<Value>& slots, const Bindings& run) {
  return retried([&] { return resume(before, slots, run); });
}

void Tracer::forget() {
  frames_.clear();
  given_.clear();
  graph_inputs_.assign(graph_.inputs.size(), nullptr);
  outputs_.clear();
  in_use_.clear();
  actual_.clear();
  settled_.clear();
  inner_symbols_.clear();
  leaves_.clear();
  region_ = nullptr;
  random_ = nullptr;
  retried_ = -1;
  trace_ = std::make_unique<Trace>();
}

std::unique_ptr<Trace> Tracer::trace_once(const std::vector<Value>& inputs) {
  trace_->scope = ShapeScope::create();
  trace_->scope->impl().allows_counts = options_.engine->backend->capabilities().data_dependent_extents;
  const ShapeScope::Enter enter(trace_->scope);
  check_feed(graph_, inputs.size());
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const bool given = inputs[i].kind != Value::Kind::none;
    trace_->present.push_back(given);
    const int32_t slot = new_slot(slot_type(inputs[i]), graph_.inputs[i].name);
    actual_[static_cast<size_t>(slot)] = inputs[i];
    if (given) given_.emplace(graph_.inputs[i].name, slot);
  }
  trace_->structures = options_.structures;
  trace_->structures.resize(graph_.inputs.size());
  first_items_.assign(graph_.inputs.size(), -1);
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    if (trace_->structures[i].empty()) continue;
    first_items_[i] = trace_->slot_count;
    std::vector<Value> tensors;
    spread(inputs[i], tensors);
    for (size_t k = 0; k < tensors.size(); ++k) {
      const int32_t slot = new_slot(slot_type(tensors[k]), str(graph_.inputs[i].name, "[", k, "]"));
      actual_[static_cast<size_t>(slot)] = std::move(tensors[k]);
    }
  }
  input_slots_ = trace_->slot_count;
  push_frame(graph_);
  begin_segment();
  trace_to_end(0);
  return std::move(trace_);
}

// Or to a break.
void Tracer::trace_to_end(size_t first) try {
  trace_nodes(first);
  for (const onnx::ValueInfo& output : graph_.outputs) {
    outputs_.push_back(lookup(output.name));
    const Traced& traced = *outputs_.back();
    if (!traced.is_sequence && !traced.is_optional) check_declared(output, traced.type.dtype);
  }
  trace_->scope->set_origin("");
  end_segment(false);
  for (const TracedPtr& output : outputs_) trace_->outputs.push_back(ref(*output));
} catch (const Paused&) {
}

TracedPtr Tracer::static_value(const std::string& name, const Value& value) const {
  if (value.is_tensor()) return constant_traced(value.tensor, name, false);
  if (value.kind != Value::Kind::sequence && value.kind != Value::Kind::optional) return nullptr;
  auto traced = std::make_shared<Traced>();
  traced->is_sequence = value.kind == Value::Kind::sequence;
  traced->is_optional = !traced->is_sequence;
  traced->type.dtype = value.element;
  for (const Value& item : value.items) {
    TracedPtr made = static_value(name, item);
    if (!made) return nullptr;
    traced->items.push_back(std::move(made));
  }
  return traced;
}

TracedPtr Tracer::spread_input(const std::string& name, const Value& value, int32_t& slot) {
  if (value.is_tensor()) {
    onnx::ValueInfo undeclared;
    undeclared.name = name;
    return graph_input(undeclared, slot++, value);
  }
  auto traced = std::make_shared<Traced>();
  traced->is_sequence = value.kind == Value::Kind::sequence;
  traced->is_optional = !traced->is_sequence;
  traced->type.dtype = value.element;
  for (const Value& item : value.items) traced->items.push_back(spread_input(name, item, slot));
  return traced;
}

TracedPtr Tracer::graph_input(const onnx::ValueInfo& info, int32_t slot, const Value& value) {
  const auto& asked = options_.static_inputs;
  const bool is_string = value.is_tensor() && value.tensor.dtype() == DType::string;
  if (std::find(asked.begin(), asked.end(), slot) != asked.end() || (options_.single_node && is_string)) {
    Value copy = deep_copy(value);  // the caller may write over what it gave
    if (TracedPtr traced = static_value(info.name, copy)) {
      trace_->static_values.emplace_back(slot, std::move(copy));
      return traced;
    }
  }
  if (slot < static_cast<int32_t>(first_items_.size()) && first_items_[static_cast<size_t>(slot)] >= 0) {
    int32_t next = first_items_[static_cast<size_t>(slot)];
    return spread_input(info.name, value, next);
  }
  return in_slot(slot, value, info.name, [&](int64_t axis) {
    const bool declared = info.has_shape && axis < static_cast<int64_t>(info.shape.size());
    const onnx::DeclaredDim dim = declared ? info.shape[static_cast<size_t>(axis)] : onnx::DeclaredDim{};
    const int64_t extent = value.tensor.dim(axis);
    // A declared size was checked at the door: it is a constant without a guard.
    return dim.value >= 0 ? Dim(extent)
                          : trace_->scope->input_extent(slot, static_cast<int32_t>(axis), extent, dim.param);
  });
}

TracedPtr Tracer::from_slot(int32_t slot, const Value& value, std::string name) {
  return in_slot(slot, value, std::move(name), [&](int64_t axis) {
    return trace_->scope->break_extent(slot, static_cast<int32_t>(axis), value.tensor.dim(axis));
  });
}

void Tracer::push_frame(const onnx::Graph& graph) {
  auto frame = std::make_unique<Frame>();
  frame->graph = &graph;
  for (const onnx::ValueInfo& output : graph.outputs) frame->last_use[output.name] = graph.nodes.size();
  frame->needed = needed_nodes(graph, [&](const std::string& name, size_t i) { frame->last_use.emplace(name, i); });
  frames_.push_back(std::move(frame));
}

void Tracer::define(const std::string& name, TracedPtr traced) {
  if (!name.empty()) frames_.back()->values[name] = std::move(traced);
}

TracedPtr Tracer::initializer(const std::string& name, const Tensor& tensor) const {
  return constant_traced(tensor, name, options_.engine->trainable && !is_integer(tensor.dtype()));
}

TracedPtr Tracer::lookup(const std::string& name) {
  if (name.empty()) return nullptr;
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (auto found = (*frame)->values.find(name); found != (*frame)->values.end()) return found->second;
    if (frame + 1 == frames_.rend()) {
      if (const auto given = given_.find(name); given != given_.end()) {
        const size_t slot = static_cast<size_t>(given->second);
        trace_->scope->set_origin("");
        graph_inputs_[slot] = graph_input(graph_.inputs[slot], given->second, actual_[slot]);
        if (std::find(read_values_.begin(), read_values_.end(), given->second) != read_values_.end())
          make_known(*graph_inputs_[slot]);
        return (*frame)->values[name] = graph_inputs_[slot];
      }
    }
    const auto& initializers = (*frame)->graph->initializers;
    if (auto found = initializers.find(name); found != initializers.end())
      return (*frame)->values[name] = initializer(name, found->second);
  }
  throw Error(ErrorCode::invalid_input, str("input ", name, " was not given"));
}

void Tracer::trace_nodes(size_t first) {
  Frame& frame = *frames_.back();
  for (frame.current = first; frame.current < frame.graph->nodes.size(); ++frame.current) {
    if (!frame.needed[frame.current]) continue;
    const onnx::Node& node = frame.graph->nodes[frame.current];
    try {
      trace_node(node);
    } catch (Error& error) {
      error.in(where(node));
      throw;
    }
  }
}

void Tracer::trace_node(const onnx::Node& node) {
  std::vector<TracedPtr> inputs;
  for (const std::string& name : node.inputs) inputs.push_back(lookup(name));
  if (is_search(node)) return run_eagerly(node, inputs, "a search driven by the host");
  if (driven_by_host(node) && (map_items(node, inputs) || lower_loop(node, inputs))) return;
  if (driven_by_host(node)) return run_eagerly(node, inputs, "control flow driven by the host");
  if (node.domain.empty() && node.op_type == "If" && lower_branches(node, inputs)) return;
  const ops::Operator* op = ops::registry().find(node.domain, node.op_type);
  if (!op) {
    throw Error(ErrorCode::unsupported,
                str("operator ", node.domain.empty() ? "" : node.domain + ".", node.op_type, " is not implemented"));
  }
  const bool on_host = std::any_of(inputs.begin(), inputs.end(), holds_host_value);
  if (op->host && (!op->lower || on_host)) return run_eagerly(node, inputs, "an operator on host values");
  if (on_host && !options_.single_node) return run_eagerly(node, inputs, "a value that no program holds");
  lower(node, *op, inputs);
}

void Tracer::lower(const onnx::Node& node, const ops::Operator& op, const std::vector<TracedPtr>& inputs) {
  const size_t in_use = in_use_.size();
  in_use_.insert(in_use_.end(), inputs.begin(), inputs.end());
  while (!lower_once(node, op, inputs)) {
  }
  in_use_.resize(in_use);
}

namespace {

// Of what stands for one tensor.
DType tensor_dtype(const TracedPtr& traced) {
  return traced && !traced->is_sequence && !traced->is_optional && !traced->opaque ? traced->type.dtype
                                                                                   : DType::invalid;
}

}  // namespace

// False: a segment was ended for what the operator asked; now it may be lowered.
bool Tracer::lower_once(const onnx::Node& node, const ops::Operator& op, const std::vector<TracedPtr>& inputs) {
  std::vector<DType> dtypes;
  for (const TracedPtr& input : inputs) dtypes.push_back(tensor_dtype(input));
  ops::check_types(node, dtypes);
  ops::OpContext context(*this, node, inputs);
  try {
    build().set_location(where(node));
    trace_->scope->set_origin(where(node));
    op.lower(context);
  } catch (const std::out_of_range&) {
    throw Error(ErrorCode::invalid_model,
                str(node.op_type, ": an input or an attribute holds fewer elements than the operator reads"));
  } catch (const ops::GraphBreak& need) {
    if (need.node != &node) throw;
    Traced& wanted = *inputs[need.input];
    const bool computed = in_segment(wanted) && wanted.slot < 0;
    if (computed) {
      if (auto slots = deciding_inputs(wanted.value); !slots.empty()) throw ReadValues{std::move(slots)};
      if (!wanted.known.fully_known() && read_values(wanted)) return false;
      end_segment(true, str(where(node), " reads the value of input ", need.input));
      ++trace_->breaks;
      if (can_pause()) pause(frames_.back()->current);
      if (make_known(wanted)) return false;
    }
    if (options_.single_node) {
      if (wanted.constant || wanted.slot < 0 || wanted.slot >= static_cast<int32_t>(graph_.inputs.size()))
        throw Error(ErrorCode::unsupported, str(node.op_type, ": the value of input ", need.input, " cannot be known"));
      throw ReadStatic{wanted.slot};
    }
    run_eagerly(node, inputs, str("needs the value of input ", need.input));
    return true;
  } catch (const DataDependentDecision& decision) {
    const bool retried = can_pause() && retried_ == static_cast<int64_t>(frames_.back()->current);
    if (has_unsettled_counts() && !retried) {
      const size_t known_counts = settled_.size();
      end_segment(true, str(where(node), " decides on a count"));
      ++trace_->breaks;
      if (can_pause()) pause(frames_.back()->current);
      if (settled_.size() > known_counts) return false;
    }
    if (options_.single_node && !trace_->scope->impl().allows_counts) throw;  // another backend may (NodeRunner)
    if (options_.single_node) throw Error(ErrorCode::unsupported, str(node.op_type, ": ", decision.sentence()));
    run_eagerly(node, inputs, decision.sentence());
    return true;
  }
  context.check_all_attributes_read();
  context.check_all_inputs_read();
  take_outputs(node, context.outputs());
  return true;
}

namespace {

// A result that no memory could hold is said here, where the node is known.
void check_countable(const onnx::Node& node, const ir::Type& type) {
  int64_t bytes = 16;
  for (const Dim& extent : type.shape) {
    if (extent.hint() <= 0) return;
    if (__builtin_mul_overflow(bytes, extent.hint(), &bytes))
      throw Error(ErrorCode::limit,
                  str(node.op_type, ": a result of shape ", hints(type.shape), " has too many elements"));
  }
}

}  // namespace

void Tracer::take_outputs(const onnx::Node& node, std::vector<TracedPtr>& outputs) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    TracedPtr& traced = outputs[i];
    if (!traced) refuse_output(node, i);
    check_countable(node, traced->type);
    place(*traced, segment_);
    if (traced->name.empty()) traced->name = node.outputs[i];
    if (options_.engine->describe && !traced->value && traced->known) describe_known(*traced);
    define(node.outputs[i], std::move(traced));
  }
}

std::vector<TracedPtr> Tracer::inline_graph(const onnx::Graph& graph, const std::vector<TracedPtr>& inputs,
                                            const Named& around) {
  if (frames_.size() > kMaxDepth) throw Error(ErrorCode::unsupported, "subgraphs are nested too deeply");
  push_frame(graph);
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i) define(graph.inputs[i].name, inputs[i]);
  struct Pop {
    std::vector<std::unique_ptr<Frame>>& frames;
    ~Pop() { frames.pop_back(); }
  } pop{frames_};
  for (const auto& [name, traced] : around) define(name, traced);
  std::vector<TracedPtr> outputs;
  trace_nodes();
  for (const onnx::ValueInfo& output : graph.outputs) outputs.push_back(lookup(output.name));
  return outputs;
}

}  // namespace transmuter::runtime
