// EagerRunner: a graph node by node on real values. Each node is compiled on its first use by the engine's backend
// (node_runner.h); control flow is walked. What Model::run and CompileOptions::eager are made of.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/graph_runner.h"
#include "runtime/node_runner.h"
#include "runtime/run_context.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

class EagerRunner {
 public:
  // The graph must outlive the runner.
  EagerRunner(const onnx::Graph& graph, std::shared_ptr<const Engine> engine);
  ~EagerRunner();

  // Inputs by position (kind none: not given, the initializer of that name counts); returns the graph's outputs by
  // position. Thread-safe.
  std::vector<Value> run(const std::vector<Value>& inputs, const RunContext& context);
  void trim() const;  // frees the nodes' plans
  void forget();      // frees their traces, and working memory

 private:
  struct Scope;         // names visible to a graph: its own, then those around it
  struct Order;         // of a graph: which nodes are needed, and when values are read last
  struct Walked;        // a body of a node
  struct WalkedBodies;  // all of them
  std::vector<Value> run_graph(const onnx::Graph& graph, const std::vector<Value>& inputs, const Scope* outer,
                               const RunContext& context);
  std::vector<Value> run_node(const onnx::Node& node, const Scope& scope, const RunContext& context);
  NodeRunner& runner_of(const onnx::Node& node, const Scope& scope);
  const Order& order_of(const onnx::Graph& graph);
  // Of a loop's body, whose captures follow its inputs: what its rows would be when no trip runs.
  GraphRunner& tracer_of(const onnx::Graph& body);

  const onnx::Graph& graph_;
  std::shared_ptr<const Engine> engine_;
  mutable std::mutex mutex_;
  std::unordered_map<const onnx::Node*, std::unique_ptr<NodeRunner>> nodes_;
  std::unordered_map<const onnx::Graph*, std::unique_ptr<const Order>> orders_;
  std::unordered_map<const onnx::Graph*, std::unique_ptr<GraphRunner>> tracers_;
};

}  // namespace transmuter::runtime
