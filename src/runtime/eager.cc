#include "runtime/eager.h"

#include <algorithm>

#include "base/strings.h"
#include "ir/passes/inline_composites.h"
#include "ir/primitive.h"
#include "ops/registry.h"
#include "runtime/execute.h"
#include "runtime/string_ranks.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {

const Value* Environment::find(const std::string& name) const {
  for (const Environment* e = this; e; e = e->outer) {
    if (auto found = e->values.find(name); found != e->values.end()) return &found->second;
  }
  return nullptr;
}

namespace {

std::unique_ptr<Executable> compile_reference(const void* backend, const ir::Program& program) {
  const auto& reference = *static_cast<const Backend*>(backend);
  auto keep = [&](const ir::Program& p, const ir::Op& op) { return reference.takes_composite(p, op); };
  return reference.compile(ir::inline_composites(program, keep), {});
}

// Lowers the node with every input a constant and evaluates what came of it.
std::vector<Value> run_lowered(const onnx::Node& node, const std::vector<Value>& inputs) {
  onnx::Graph graph;
  std::vector<Value> given;
  onnx::Node copy = node;
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (copy.inputs[i].empty()) continue;
    copy.inputs[i] = str("in", i);
    onnx::ValueInfo info;
    info.name = copy.inputs[i];
    graph.inputs.push_back(std::move(info));
    given.push_back(inputs[i]);
  }
  std::vector<size_t> wanted;
  for (size_t i = 0; i < copy.outputs.size(); ++i) {
    if (copy.outputs[i].empty()) continue;
    onnx::ValueInfo info;
    info.name = copy.outputs[i];
    graph.outputs.push_back(std::move(info));
    wanted.push_back(i);
  }
  graph.nodes.push_back(std::move(copy));
  const std::shared_ptr<Backend> reference = Backend::get("reference");
  TraceOptions options;
  options.inputs_are_constants = true;
  options.compile = compile_reference;
  options.context = reference.get();
  options.backend = reference.get();
  std::unique_ptr<Trace> trace = Tracer(graph, options).trace(given);
  for (auto& step : trace->steps) {
    if (auto* segment = std::get_if<Segment>(&step); segment && !segment->executable) {
      const ShapeScope::Enter enter(trace->scope);
      segment->executable = compile_reference(reference.get(), *segment->program);
    }
  }
  Bindings bindings(trace->scope);
  std::vector<Value> results = run_trace(*trace, given, *reference, bindings);
  std::vector<Value> outputs(node.outputs.size());
  for (size_t i = 0; i < wanted.size(); ++i) outputs[wanted[i]] = std::move(results[i]);
  return outputs;
}

const onnx::Graph& body_of(const onnx::Node& node, const char* name) {
  const onnx::Attribute* a = node.find(name);
  if (!a || !a->graph) throw Error(ErrorCode::invalid_model, str(node.op_type, ": attribute ", name, " is required"));
  return *a->graph;
}

bool truth(const Value& value, const char* what) {
  const Tensor& tensor = value;
  if (tensor.dtype() != DType::boolean || tensor.size() != 1) {
    throw Error(ErrorCode::invalid_model, str(what, " must be one bool, got ", describe(tensor)));
  }
  return static_cast<bool>(tensor.bytes()[0]);
}

// Rows of a scan output, stacked along a new axis.
Tensor stack(const std::vector<Value>& rows, const onnx::ValueInfo& declared, int64_t axis = 0) {
  if (rows.empty()) {
    Shape shape{0};
    for (const onnx::DeclaredDim& d : declared.shape) shape.push_back(d.value > 0 ? d.value : 0);
    return Tensor(declared.dtype == DType::invalid ? DType::f32 : declared.dtype, shape);
  }
  const Tensor& first = rows[0];
  Shape shape = first.shape();
  if (axis < 0) axis += first.rank() + 1;
  if (axis < 0 || axis > first.rank())
    throw Error(ErrorCode::invalid_model, str("scan output axis ", axis, " is out of range"));
  shape.insert(shape.begin() + axis, static_cast<int64_t>(rows.size()));
  if (first.dtype() == DType::string) {
    std::vector<std::string> all;
    for (const Value& row : rows) all.insert(all.end(), row.tensor.strings().begin(), row.tensor.strings().end());
    return Tensor::of_strings(std::move(all), shape);
  }
  ir::Builder build(nullptr);
  std::vector<Value> inputs;
  onnx::Node concat;
  concat.op_type = concat.label = "Concat";
  concat.version = 13;
  onnx::Attribute a;
  a.name = "axis";
  a.kind = onnx::Attribute::Kind::i;
  a.i = axis;
  concat.attributes.push_back(a);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Tensor& row = rows[i];
    if (row.shape() != first.shape())
      throw Error(ErrorCode::invalid_input, "the rows of a scan output differ in shape");
    Shape one = row.shape();
    one.insert(one.begin() + axis, 1);
    inputs.emplace_back(row.reshaped(one));
    concat.inputs.push_back(str("x", i));
  }
  concat.outputs.push_back("y");
  return run_lowered(concat, inputs)[0].tensor;
}

std::vector<Value> run_loop(const onnx::Node& node, const std::vector<Value>& inputs, const Environment& outer) {
  const onnx::Graph& body = body_of(node, "body");
  const bool counted = inputs.size() > 0 && inputs[0].kind != Value::Kind::none;
  const int64_t trips = counted ? inputs[0].tensor.aligned().cast(DType::i64).data<int64_t>()[0] : INT64_MAX;
  bool go_on =
      inputs.size() > 1 && inputs[1].kind != Value::Kind::none ? truth(inputs[1], "Loop: the condition") : true;
  std::vector<Value> state(inputs.begin() + std::min<ptrdiff_t>(2, static_cast<ptrdiff_t>(inputs.size())),
                           inputs.end());
  if (body.inputs.size() != state.size() + 2 || body.outputs.size() < state.size() + 1) {
    throw Error(ErrorCode::invalid_model, "Loop: the body's inputs do not match the node's");
  }
  const size_t scans = body.outputs.size() - 1 - state.size();
  std::vector<std::vector<Value>> rows(scans);
  for (int64_t i = 0; i < trips && go_on; ++i) {
    std::vector<Value> in{Tensor::scalar(i), Tensor(std::vector<uint8_t>{1}, {}).bitcast(DType::boolean)};
    in.insert(in.end(), state.begin(), state.end());
    std::vector<Value> out = run_graph(body, in, &outer);
    go_on = truth(out[0], "Loop: the condition");
    for (size_t k = 0; k < state.size(); ++k) state[k] = std::move(out[1 + k]);
    for (size_t k = 0; k < scans; ++k) rows[k].push_back(std::move(out[1 + state.size() + k]));
  }
  const size_t first_scan = 1 + state.size();
  for (size_t k = 0; k < scans; ++k) state.emplace_back(stack(rows[k], body.outputs[first_scan + k]));
  return state;
}

// Element `i` along an axis, which disappears.
Tensor take(const Tensor& x, int64_t axis, int64_t i) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + axis);
  int64_t outer = 1, inner = 1;
  for (int64_t k = 0; k < axis; ++k) outer *= x.dim(k);
  for (int64_t k = axis + 1; k < x.rank(); ++k) inner *= x.dim(k);
  if (x.dtype() == DType::string || is_packed(x.dtype()))
    throw Error(ErrorCode::unsupported, str("Scan over ", name(x.dtype())));
  Tensor out(x.dtype(), shape);
  const size_t bytes = byte_size(x.dtype(), inner);
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* from = x.bytes() + static_cast<size_t>(o * x.dim(axis) + i) * bytes;
    std::copy(from, from + bytes, out.mutable_bytes() + static_cast<size_t>(o) * bytes);
  }
  return out;
}

std::vector<int64_t> ints_or(const onnx::Node& node, const char* name, size_t count) {
  const onnx::Attribute* a = node.find(name);
  if (!a) return std::vector<int64_t>(count, 0);
  if (a->ints.size() != count) throw Error(ErrorCode::invalid_model, str("Scan: ", name, " needs ", count, " values"));
  return a->ints;
}

std::vector<Value> run_scan(const onnx::Node& node, std::vector<Value> inputs, const Environment& outer) {
  if (node.version < 9) throw Error(ErrorCode::unsupported, "Scan before opset 9 is not implemented");
  const onnx::Graph& body = body_of(node, "body");
  const onnx::Attribute* count = node.find("num_scan_inputs");
  if (!count) throw Error(ErrorCode::invalid_model, "Scan: attribute num_scan_inputs is required");
  const size_t scanned = static_cast<size_t>(count->i);
  if (count->i < 1 || scanned > inputs.size())
    throw Error(ErrorCode::invalid_model, str("Scan: num_scan_inputs is ", count->i));
  const size_t carried = inputs.size() - scanned;
  if (body.inputs.size() != inputs.size() || body.outputs.size() < carried) {
    throw Error(ErrorCode::invalid_model, "Scan: the body's inputs do not match the node's");
  }
  const size_t outputs = body.outputs.size() - carried;
  const auto in_directions = ints_or(node, "scan_input_directions", scanned);
  const auto out_directions = ints_or(node, "scan_output_directions", outputs);
  const auto in_axes = ints_or(node, "scan_input_axes", scanned);
  const auto out_axes = ints_or(node, "scan_output_axes", outputs);
  int64_t trips = -1;
  std::vector<int64_t> axes;
  for (size_t k = 0; k < scanned; ++k) {
    const Tensor& x = inputs[carried + k];
    const int64_t axis = in_axes[k] < 0 ? in_axes[k] + x.rank() : in_axes[k];
    if (axis < 0 || axis >= x.rank())
      throw Error(ErrorCode::invalid_model, str("Scan: input axis ", in_axes[k], " is out of range"));
    if (trips >= 0 && x.dim(axis) != trips)
      throw Error(ErrorCode::invalid_input, "Scan: the scanned inputs differ in length");
    trips = x.dim(axis);
    axes.push_back(axis);
  }
  std::vector<Value> state(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(carried));
  std::vector<std::vector<Value>> rows(outputs);
  for (int64_t i = 0; i < trips; ++i) {
    std::vector<Value> in = state;
    for (size_t k = 0; k < scanned; ++k) {
      in.emplace_back(take(inputs[carried + k], axes[k], in_directions[k] ? trips - 1 - i : i));
    }
    std::vector<Value> out = run_graph(body, in, &outer);
    for (size_t k = 0; k < carried; ++k) state[k] = std::move(out[k]);
    for (size_t k = 0; k < outputs; ++k) rows[k].push_back(std::move(out[carried + k]));
  }
  for (size_t k = 0; k < outputs; ++k) {
    if (out_directions[k]) std::reverse(rows[k].begin(), rows[k].end());
    state.emplace_back(stack(rows[k], body.outputs[carried + k], out_axes[k]));
  }
  return state;
}

std::vector<Value> run_sequence_map(const onnx::Node& node, const std::vector<Value>& inputs,
                                    const Environment& outer) {
  const onnx::Graph& body = body_of(node, "body");
  std::vector<Value> outputs(node.outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k] = Value::sequence({});
    if (k < body.outputs.size()) outputs[k].element = body.outputs[k].dtype;
  }
  if (inputs.empty() || inputs[0].kind != Value::Kind::sequence) {
    throw Error(ErrorCode::invalid_model, "SequenceMap: the first input must be a sequence");
  }
  for (size_t i = 0; i < inputs[0].items.size(); ++i) {
    std::vector<Value> in;
    for (const Value& input : inputs) {
      if (input.kind == Value::Kind::sequence && input.items.size() != inputs[0].items.size()) {
        throw Error(ErrorCode::invalid_input, "SequenceMap: the sequences differ in length");
      }
      in.push_back(input.kind == Value::Kind::sequence ? input.items[i] : input);
    }
    std::vector<Value> out = run_graph(body, in, &outer);
    for (size_t k = 0; k < outputs.size(); ++k) outputs[k].items.push_back(std::move(out.at(k)));
  }
  return outputs;
}

}  // namespace

std::vector<Value> run_node(const onnx::Node& node, std::vector<Value> inputs, const Environment& outer) {
  if (node.domain.empty()) {
    if (node.op_type == "If") {
      return run_graph(body_of(node, truth(inputs.at(0), "If: the condition") ? "then_branch" : "else_branch"), {},
                       &outer);
    }
    if (node.op_type == "Loop") return run_loop(node, inputs, outer);
    if (node.op_type == "Scan") return run_scan(node, std::move(inputs), outer);
    if (node.op_type == "SequenceMap") return run_sequence_map(node, inputs, outer);
  }
  const ops::Operator* op = ops::registry().find(node.domain, node.op_type);
  if (op && op->host) return op->host(node, std::move(inputs));
  if (moves_strings(node, inputs)) return run_on_ranks(node, inputs, run_lowered);
  return run_lowered(node, inputs);
}

std::vector<Value> run_graph(const onnx::Graph& graph, const std::vector<Value>& inputs, const Environment* outer) {
  Environment environment{outer, {}};
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i) {
    if (inputs[i].kind != Value::Kind::none) environment.values[graph.inputs[i].name] = inputs[i];
  }
  for (const auto& [name, tensor] : graph.initializers) environment.values.try_emplace(name, tensor);
  auto find = [&](const std::string& name) -> const Value& {
    const Value* value = environment.find(name);
    if (!value) throw Error(ErrorCode::invalid_input, str("value ", name, " was not given"));
    return *value;
  };
  for (const onnx::Node& node : graph.nodes) {
    try {
      std::vector<Value> in;
      for (const std::string& name : node.inputs) in.push_back(name.empty() ? Value() : find(name));
      std::vector<Value> out = run_node(node, std::move(in), environment);
      for (size_t i = 0; i < node.outputs.size() && i < out.size(); ++i) {
        if (!node.outputs[i].empty()) environment.values[node.outputs[i]] = std::move(out[i]);
      }
    } catch (Error& error) {
      if (error.where().empty()) error.in(str("node ", node.label, " (", node.op_type, ")"));
      throw;
    }
  }
  std::vector<Value> outputs;
  for (const onnx::ValueInfo& output : graph.outputs) outputs.push_back(find(output.name));
  return outputs;
}

}  // namespace transmuter::runtime
