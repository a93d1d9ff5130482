// GraphRunner: runs one graph by traces. It finds one whose guards hold, or makes one; at a break, the same for what
// follows. The graph of a compiled model
// has a runner, and so has each body that the host drives (Loop, Scan, SequenceMap) and each node that runs alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/rest.h"
#include "runtime/run_context.h"
#include "runtime/trace.h"

namespace transmuter::runtime {

struct Donation;  // execute.h
struct Outline;   // control_flow.h

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
  // Traces if no trace fits. Only what leads to breaks runs.
  void ensure_trace(const std::vector<Value>& inputs, const RunContext& context);
  // What the outputs would be, from a trace, which is made if none fits. Only what leads to breaks runs.
  std::vector<Outline> outline(const std::vector<Value>& inputs, const RunContext& context);
  // Frees the plans of all traces.
  void trim() const;
  // Frees the traces, with all that belongs to them.
  void forget();

  std::vector<std::shared_ptr<const Trace>> traces() const;  // the one used last comes first

 private:
  using TracePtr = std::shared_ptr<const Trace>;
  struct Chosen {
    TracePtr trace;
    std::unique_ptr<Bindings> bindings;  // with the symbols of the slots
    bool fresh = false;
  };
  // Where a run stands: at the start (no trace), or behind a trace.
  struct Place {
    const std::vector<Value>& inputs;
    Chosen at;
    std::vector<Value> slots;

    TraceList& list(GraphRunner& runner) const { return at.trace ? at.trace->rest->traces : runner.traces_; }
  };
  // The trace to go on with; `slots`: those that it starts with. `tried`: traces that turned out not to fit this run.
  Chosen find(const Place& place, const std::vector<TracePtr>& tried, std::vector<Value>& slots);
  Chosen find_or_make(const Place& place, const std::vector<TracePtr>& tried, const RunContext& context,
                      std::vector<Value>& slots);
  // The same, and tells of the break behind which it goes on.
  Chosen go_on(const Place& place, const std::vector<TracePtr>& tried, const RunContext& context,
               std::vector<Value>& slots);
  // Runs the next trace and moves behind it. Not `last`: unless it goes to the end.
  bool advance(Place& place, const RunContext& context, const Donation* donation, bool last);
  std::vector<std::string> structures(const std::vector<Value>& inputs);
  TracePtr make(const Place& place, const RunContext& context);
  void count(const Trace& made, bool is_rest, const std::map<std::string, int64_t>& composites);
  void keep(TraceList& list, TracePtr trace);

  std::shared_ptr<const onnx::Graph> graph_;
  std::shared_ptr<const Engine> engine_;
  Role role_;
  TraceList traces_;
  GraphOptions options_;  // under traces_.tracing, and what follows
  // By input: the structure that it had in the first trace, and whether another has come since; then it is no longer
  // spread, so that a sequence of growing length does not make trace after trace.
  std::vector<std::string> structures_;
  std::vector<bool> structure_changes_;
};

}  // namespace transmuter::runtime
