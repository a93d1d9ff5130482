#include "runtime/node_runner.h"

#include "base/strings.h"
#include "ops/registry.h"
#include "ops/schema.h"
#include "runtime/string_ranks.h"

namespace transmuter::runtime {

NodeRunner::NodeRunner(const onnx::Node& node, std::shared_ptr<const Engine> engine, std::vector<Tensor> constants)
    : node_(node), engine_(std::move(engine)), constants_(std::move(constants)) {
  constants_.resize(node_.inputs.size());
  const ops::Operator* op = ops::registry().find(node_.domain, node_.op_type);
  if (!op || op->host) return;
  auto graph = std::make_shared<onnx::Graph>();
  onnx::Node copy = node_;
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (copy.inputs[i].empty()) continue;
    copy.inputs[i] = str("in", i);
    if (constants_[i] && constants_[i].dtype() != DType::string) {
      graph->initializers[copy.inputs[i]] = constants_[i];
      continue;
    }
    onnx::ValueInfo info;
    info.name = copy.inputs[i];
    graph->inputs.push_back(std::move(info));
    given_.push_back(i);
  }
  for (size_t i = 0; i < copy.outputs.size(); ++i) {
    if (copy.outputs[i].empty()) continue;
    copy.outputs[i] = str("out", i);  // a function call may give a value the name that an input has outside
    onnx::ValueInfo info;
    info.name = copy.outputs[i];
    graph->outputs.push_back(std::move(info));
    wanted_.push_back(i);
  }
  graph->nodes.push_back(std::move(copy));
  graph_ = std::move(graph);
  runner_ = std::make_unique<GraphRunner>(graph_, engine_, GraphRunner::Role::node);
}

// What the backend cannot hold, an op that finds its own extent, the reference evaluates.
std::vector<Value> NodeRunner::run_graph(const std::vector<Value>& given, const RunContext& context) {
  try {
    return runner_->run(given, context);
  } catch (const DataDependentDecision&) {
    if (engine_->backend->capabilities().data_dependent_extents) throw;
  }
  auto reference = std::make_shared<Engine>(*engine_);
  reference->backend = Backend::get("reference");
  return GraphRunner(graph_, std::move(reference), GraphRunner::Role::node).run(given, context);
}

std::vector<Value> NodeRunner::run_lowered(const std::vector<Value>& inputs, const RunContext& context) {
  std::vector<Value> given;
  for (const size_t i : given_) given.push_back(inputs[i]);
  std::vector<Value> results = run_graph(given, context);
  std::vector<Value> outputs(node_.outputs.size());
  for (size_t i = 0; i < wanted_.size(); ++i) outputs[wanted_[i]] = std::move(results[i]);
  return outputs;
}

std::vector<Value> NodeRunner::run(std::vector<Value> inputs, const RunContext& context) {
  inputs.resize(node_.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (constants_[i]) inputs[i] = constants_[i];
  const ops::Operator* op = ops::registry().find(node_.domain, node_.op_type);
  if (!op) throw Error(ErrorCode::unsupported, str("operator ", node_.op_type, " is not implemented"));
  std::vector<DType> dtypes;
  for (const Value& input : inputs) dtypes.push_back(input.is_tensor() ? input.tensor.dtype() : DType::invalid);
  ops::check_types(node_, dtypes);
  if (op->host) return op->host(node_, std::move(inputs));
  if (!moves_strings(node_, inputs)) return run_lowered(inputs, context);
  return run_on_ranks(node_, inputs, [&](const std::vector<Value>& ranks) { return run_lowered(ranks, context); });
}

void NodeRunner::trim() const {
  if (runner_) runner_->trim();
}

void NodeRunner::forget() {
  if (runner_) runner_->forget();
}

}  // namespace transmuter::runtime
