// GraphRunner: runs one graph by traces. It finds one whose guards hold, or makes one. The graph of a compiled model
// has a runner, and so has each body that the host drives (Loop, Scan, SequenceMap) and each node that runs alone.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/run_context.h"
#include "runtime/trace.h"

namespace transmuter::runtime {

struct Donation;  // execute.h

struct GraphOptions {
  std::vector<int32_t> static_inputs;  // positions of inputs whose values are known while tracing
};

class GraphRunner {
 public:
  // Whose figures its traces count in. A node runs by itself: an input whose value its lowering reads becomes static.
  enum class Role { model, body, node };
  GraphRunner(std::shared_ptr<const onnx::Graph> graph, std::shared_ptr<const Engine> engine, Role role = Role::body,
              GraphOptions options = {});

  // Inputs by position (kind none: not given, the initializer of that name counts); `donation`: what the run may take
  // of them. May be called from several threads at once: one traces at a time, and who needs a trace waits for it,
  // since it may be the one; who has a trace goes on. When tracing fails nothing is kept, and the next thread traces
  // for itself.
  std::vector<Value> run(const std::vector<Value>& inputs, const RunContext& context,
                         const Donation* donation = nullptr);
  // Traces if no trace fits, without a run.
  void ensure_trace(const std::vector<Value>& inputs, const RunContext& context);
  // Frees the plans of all traces.
  void trim() const;

  std::vector<std::shared_ptr<const Trace>> traces() const;  // the one used last comes first

 private:
  using TracePtr = std::shared_ptr<const Trace>;
  struct Chosen {
    TracePtr trace;
    std::unique_ptr<Bindings> bindings;  // with the symbols of the inputs
    bool fresh = false;
  };
  // `tried`: traces that turned out not to fit this run.
  Chosen find(const std::vector<Value>& inputs, const std::vector<TracePtr>& tried);
  Chosen find_or_make(const std::vector<Value>& inputs, const std::vector<TracePtr>& tried, const RunContext& context);
  std::vector<std::string> structures(const std::vector<Value>& inputs);
  TracePtr make(const std::vector<Value>& inputs, const RunContext& context);
  void keep(TracePtr trace);

  std::shared_ptr<const onnx::Graph> graph_;
  std::shared_ptr<const Engine> engine_;
  Role role_;
  std::mutex tracing_;    // held by the thread that traces; taken before mutex_
  GraphOptions options_;  // under tracing_, and what follows
  // By input: the structure that it had in the first trace, and whether another has come since; then it is no longer
  // spread, so that a sequence of growing length does not make trace after trace.
  std::vector<std::string> structures_;
  std::vector<bool> structure_changes_;
  mutable std::mutex mutex_;
  std::list<TracePtr> traces_;  // under mutex_, most recently used first
};

}  // namespace transmuter::runtime
