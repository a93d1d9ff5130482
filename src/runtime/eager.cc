#include "runtime/eager.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "runtime/control_flow.h"
#include "runtime/reads.h"

namespace transmuter::runtime {

struct EagerRunner::Scope {
  const Scope* outer = nullptr;
  const onnx::Graph* graph = nullptr;
  std::unordered_map<std::string, Value> values;

  const Value* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (auto found = s->values.find(name); found != s->values.end()) return &found->second;
    return nullptr;
  }
  const Value& get(const std::string& name) const {
    if (const Value* value = find(name)) return *value;
    throw Error(ErrorCode::invalid_input, str("value ", name, " was not given"));
  }
  // The initializer that a name stands for in every run; an invalid tensor where there is none.
  Tensor constant(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer) {
      if (const auto found = s->graph->initializers.find(name); found != s->graph->initializers.end()) {
        const auto& inputs = s->graph->inputs;
        const bool may_be_given =
            std::any_of(inputs.begin(), inputs.end(), [&](const onnx::ValueInfo& i) { return i.name == name; });
        return may_be_given ? Tensor() : found->second;
      }
      if (s->values.contains(name)) return {};
    }
    return {};
  }
};

struct EagerRunner::Order {
  std::vector<bool> needed;                     // by node
  std::vector<std::vector<std::string>> spent;  // by node: names of this graph that nothing later reads
};

// A body node by node, seeing the values around it.
struct EagerRunner::Walked : Body {
  Walked(EagerRunner& r, const onnx::Graph& g, uint64_t n, const Scope& s, const RunContext& o)
      : runner(r), body(g), node(n), scope(s), outside(o) {}
  std::vector<Value> run(std::vector<Value> inputs, bool /*gives*/) const override {
    return runner.run_graph(body, inputs, &scope, outside.in_trip(node, trips++));
  }
  std::vector<Outline> outline(std::vector<Value> inputs) const override {
    for (const std::string& name : body.captures) inputs.push_back(scope.get(name));
    return runner.tracer_of(body).outline(inputs, outside.in_trip(node, 0));
  }
  EagerRunner& runner;
  const onnx::Graph& body;
  uint64_t node;  // its number
  const Scope& scope;
  const RunContext& outside;
  mutable uint64_t trips = 0;
};

struct EagerRunner::WalkedBodies : Bodies {
  WalkedBodies(EagerRunner& runner, const onnx::Node& node, const Scope& scope, const RunContext& outside) {
    for (const onnx::Attribute& a : node.attributes)
      if (a.graph) bodies.try_emplace(a.name, runner, *a.graph, node.number, scope, outside);
  }
  const Body& of(const std::string& attribute) const override { return bodies.at(attribute); }
  std::map<std::string, Walked> bodies;
};

EagerRunner::EagerRunner(const onnx::Graph& graph, std::shared_ptr<const Engine> engine)
    : graph_(graph), engine_(std::move(engine)) {}
EagerRunner::~EagerRunner() = default;

const EagerRunner::Order& EagerRunner::order_of(const onnx::Graph& graph) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const Order>& known = orders_[&graph];
  if (known) return *known;
  auto order = std::make_unique<Order>();
  order->spent.resize(graph.nodes.size());
  order->needed = needed_nodes(graph, [&](const std::string& name, size_t i) { order->spent[i].push_back(name); });
  known = std::move(order);
  return *known;
}

NodeRunner& EagerRunner::runner_of(const onnx::Node& node, const Scope& scope) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<NodeRunner>& runner = nodes_[&node];
  if (!runner) {
    std::vector<Tensor> constants;
    for (const std::string& name : node.inputs) constants.push_back(name.empty() ? Tensor() : scope.constant(name));
    runner = std::make_unique<NodeRunner>(node, engine_, std::move(constants));
  }
  return *runner;
}

GraphRunner& EagerRunner::tracer_of(const onnx::Graph& body) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<GraphRunner>& tracer = tracers_[&body];
  if (!tracer) {
    auto graph = std::make_shared<onnx::Graph>(body);
    for (onnx::ValueInfo& input : graph->inputs) input.has_shape = false;  // not checked when it is fed
    for (onnx::ValueInfo& output : graph->outputs) output.kind = onnx::ValueInfo::Kind::none;
    for (const std::string& name : body.captures) graph->inputs.emplace_back().name = name;
    graph->captures.clear();
    tracer = std::make_unique<GraphRunner>(std::move(graph), engine_);
  }
  return *tracer;
}

std::vector<Value> EagerRunner::run_node(const onnx::Node& node, const Scope& scope, const RunContext& context) {
  std::vector<Value> inputs;
  for (const std::string& name : node.inputs) inputs.push_back(name.empty() ? Value() : scope.get(name));
  if (node.domain.empty() && node.op_type == "If") {
    const bool condition = !inputs.empty() && truth(inputs[0], "If: the condition");
    return run_graph(graph_attribute(node, condition ? "then_branch" : "else_branch"), {}, &scope, context);
  }
  if (driven_by_host(node))
    return run_driven(node, std::move(inputs), WalkedBodies(*this, node, scope, context), context);
  return runner_of(node, scope).run(std::move(inputs), context);
}

std::vector<Value> EagerRunner::run_graph(const onnx::Graph& graph, const std::vector<Value>& inputs,
                                          const Scope* outer, const RunContext& context) {
  const Order& order = order_of(graph);
  Scope scope{outer, &graph, {}};
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i) {
    if (inputs[i].kind != Value::Kind::none) scope.values[graph.inputs[i].name] = inputs[i];
  }
  for (const auto& [name, tensor] : graph.initializers) scope.values.try_emplace(name, tensor);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!order.needed[n]) continue;
    const onnx::Node& node = graph.nodes[n];
    try {
      std::vector<Value> out = run_node(node, scope, context);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        if (i >= out.size() || out[i].kind == Value::Kind::none) refuse_output(node, i);
        scope.values[node.outputs[i]] = std::move(out[i]);
      }
    } catch (Error& error) {
      error.in(where(node));
      throw;
    }
    for (const std::string& name : order.spent[n]) scope.values.erase(name);
  }
  std::vector<Value> outputs;
  for (const onnx::ValueInfo& output : graph.outputs) outputs.push_back(scope.get(output.name));
  return outputs;
}

std::vector<Value> EagerRunner::run(const std::vector<Value>& inputs, const RunContext& context) {
  RunCounters::add(engine_->state->counters.runs);
  std::vector<Value> outputs = run_graph(graph_, inputs, nullptr, context);
  for (size_t i = 0; i < outputs.size(); ++i)
    check_declared(graph_.outputs[i], outputs[i].is_tensor() ? outputs[i].tensor.dtype() : DType::invalid);
  return outputs;
}

void EagerRunner::trim() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [node, runner] : nodes_) runner->trim();
}

void EagerRunner::forget() {
  engine_->state->arenas.trim();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [node, runner] : nodes_) runner->forget();
}

}  // namespace transmuter::runtime
