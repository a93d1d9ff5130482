// GraphRunner: runs one graph by traces. It finds one whose guards hold, or makes one. The graph of a compiled model
// has a runner, and so has each body that the host drives (Loop, Scan, SequenceMap).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/trace.h"
#include "transmuter/model.h"

namespace transmuter::runtime {

class GraphRunner {
 public:
  GraphRunner(std::shared_ptr<const onnx::Graph> graph, std::shared_ptr<const Engine> engine);

  // Inputs by position (kind none: not given, the initializer of that name counts). May be called from several threads
  // at once; they wait for each other only while one traces.
  std::vector<Value> run(const std::vector<Value>& inputs);
  // Traces if no trace fits, without a run.
  void ensure_trace(const std::vector<Value>& inputs);

  RunStats stats() const;
  std::vector<std::shared_ptr<const Trace>> traces() const;  // the one used last comes first

 private:
  using TracePtr = std::shared_ptr<const Trace>;
  // Under the mutex. `tried`: traces that turned out not to fit this run.
  TracePtr find(const std::vector<Value>& inputs, const std::vector<TracePtr>& tried, std::unique_ptr<Bindings>& bound);
  TracePtr make(const std::vector<Value>& inputs);

  std::shared_ptr<const onnx::Graph> graph_;
  std::shared_ptr<const Engine> engine_;
  mutable std::mutex mutex_;
  std::list<TracePtr> traces_;  // most recently used first
  RunStats stats_;
};

}  // namespace transmuter::runtime
