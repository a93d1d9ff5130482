// What a Model and a CompiledModel are inside.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onnx/graph.h"
#include "runtime/graph_runner.h"
#include "transmuter/model.h"

namespace transmuter {

struct Model::Impl {
  onnx::Model model;
  LoadOptions options;
  std::vector<ValueSpec> inputs;
  std::vector<ValueSpec> outputs;

  // Inputs by position, checked against what the model declares.
  std::vector<Value> by_position(const TensorMap& inputs) const;
  TensorMap by_name(std::vector<Value> outputs) const;
  // An Error on its way out gets the file's name.
  void locate(Error& error) const;
  // What backends made of the weights, for all compiled models.
  std::shared_ptr<WeightStore> weights_for(const std::string& backend) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<WeightStore>> weights_;  // by backend
};

struct CompiledModel::Impl {
  std::shared_ptr<const Model::Impl> model;
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<runtime::GraphRunner> runner;
};

ValueSpec spec_of(const onnx::ValueInfo& info);
// Operators, attributes and counts of inputs and outputs are as the imported operator sets have them. Throws Error.
void check_model(const onnx::Model& model);

// Every node of the graph (subgraphs included) whose operator is missing: "node X (Op)".
std::vector<std::string> unsupported_nodes(const onnx::Graph& graph);

}  // namespace transmuter
