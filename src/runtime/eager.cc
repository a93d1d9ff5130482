#include "runtime/eager.h"

#include "base/strings.h"
#include "ops/registry.h"
#include "runtime/engine.h"
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
    copy.outputs[i] = str("out", i);  // a function call may give a value the name that an input has outside
    onnx::ValueInfo info;
    info.name = copy.outputs[i];
    graph.outputs.push_back(std::move(info));
    wanted.push_back(i);
  }
  graph.nodes.push_back(std::move(copy));
  const std::shared_ptr<const Engine>& engine = Engine::reference();
  TraceOptions options;
  options.inputs_are_constants = true;
  options.engine = engine;
  std::unique_ptr<Trace> trace = Tracer(graph, options).trace(given);
  for (auto& step : trace->steps) {
    if (auto* segment = std::get_if<Segment>(&step); segment && !segment->executable) {
      const ShapeScope::Enter enter(trace->scope);
      segment->executable = engine->compile(*segment->program);
    }
  }
  Bindings bindings(trace->scope);
  bind_symbols(*trace->scope, given, bindings);
  std::vector<Value> results = run_trace(*trace, given, *engine->backend, bindings);
  std::vector<Value> outputs(node.outputs.size());
  for (size_t i = 0; i < wanted.size(); ++i) outputs[wanted[i]] = std::move(results[i]);
  return outputs;
}

// A body node by node, seeing the values around it.
struct GraphBody : Body {
  GraphBody(const onnx::Graph& g, const Environment& e) : graph(g), environment(e) {}
  std::vector<Value> run(std::vector<Value> inputs) const override { return run_graph(graph, inputs, &environment); }
  const onnx::Graph& graph;
  const Environment& environment;
};

std::vector<Value> run_any(const onnx::Node& node, std::vector<Value> inputs, const Environment& outer) {
  if (node.domain.empty() && node.op_type == "If") {
    const bool condition = !inputs.empty() && truth(inputs[0], "If: the condition");
    return run_graph(graph_attribute(node, condition ? "then_branch" : "else_branch"), {}, &outer);
  }
  if (driven_by_host(node)) return run_driven(node, std::move(inputs), GraphBody(graph_attribute(node, "body"), outer));
  return run_node(node, std::move(inputs));
}

}  // namespace

std::vector<Value> run_node(const onnx::Node& node, std::vector<Value> inputs) {
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
      std::vector<Value> out = run_any(node, std::move(in), environment);
      for (size_t i = 0; i < node.outputs.size() && i < out.size(); ++i) {
        if (!node.outputs[i].empty()) environment.values[node.outputs[i]] = std::move(out[i]);
      }
    } catch (Error& error) {
      error.in(str("node ", node.label, " (", node.op_type, ")"));
      throw;
    }
  }
  std::vector<Value> outputs;
  for (const onnx::ValueInfo& output : graph.outputs) outputs.push_back(find(output.name));
  return outputs;
}

}  // namespace transmuter::runtime
