// NodeRunner: one node on real values, again and again. Host operators run as they are; any other is traced by itself,
// compiled by the engine's backend, and kept by guards like every graph (so by dtypes, ranks and what its lowering
// decided; the CPU backend binds new sizes). An input whose value the lowering reads becomes a constant of its trace.
#pragma once

#include <memory>
#include <vector>

#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/graph_runner.h"
#include "runtime/run_context.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

class NodeRunner {
 public:
  // A node without subgraphs, which must outlive the runner. `constants[i]`: the value of input i where it is the same
  // in every run (a weight); may be empty or shorter than the inputs.
  NodeRunner(const onnx::Node& node, std::shared_ptr<const Engine> engine, std::vector<Tensor> constants = {});

  // Inputs in node order (kind none = absent; those of `constants` are not read). Thread-safe.
  std::vector<Value> run(std::vector<Value> inputs, const RunContext& context);
  void trim() const;  // frees plans
  void forget();      // frees traces

 private:
  std::vector<Value> run_graph(const std::vector<Value>& given, const RunContext& context);
  std::vector<Value> run_lowered(const std::vector<Value>& inputs, const RunContext& context);

  const onnx::Node& node_;
  std::shared_ptr<const Engine> engine_;
  std::vector<Tensor> constants_;
  std::shared_ptr<const onnx::Graph> graph_;
  std::unique_ptr<GraphRunner> runner_;  // null for host operators
  std::vector<size_t> given_, wanted_;   // inputs and outputs that `runner_` has
};

}  // namespace transmuter::runtime
