// What a CompiledModel keeps: traces by guards, least recently used last.
#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "onnx/graph.h"
#include "runtime/trace.h"
#include "transmuter/model.h"

namespace transmuter {

struct Model::Impl {
  onnx::Model model;
  LoadOptions options;
  std::vector<ValueSpec> inputs;
  std::vector<ValueSpec> outputs;
};

struct CompiledModel::Impl {
  std::shared_ptr<const Model::Impl> model;
  CompileOptions options;
  std::shared_ptr<Backend> backend;
  BackendOptions backend_options;

  mutable std::mutex mutex;  // the cache and the statistics; a run holds it only to look up
  mutable std::list<std::shared_ptr<const runtime::Trace>> traces;
  mutable RunStats stats;

  std::vector<Value> by_position(const TensorMap& inputs) const;  // checked against the declared inputs
  TensorMap run(const TensorMap& inputs) const;
  void ensure_trace(const TensorMap& inputs) const;
  std::unique_ptr<Executable> compile(const ir::Program& program) const;

 private:
  std::shared_ptr<const runtime::Trace> find(const std::vector<Value>& inputs) const;
  std::shared_ptr<const runtime::Trace> trace(const std::vector<Value>& inputs) const;
};

// Throws Error(unsupported) that lists every node of the graph (subgraphs included) whose operator is missing.
std::vector<std::string> unsupported_nodes(const onnx::Graph& graph);

}  // namespace transmuter
