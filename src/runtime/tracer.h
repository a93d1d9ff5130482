// Tracer: walks a graph once with concrete inputs (the hints) and emits a Trace. Lowerings (ops/) write IR; values that
// only steer shapes stay known values and never reach the program; what needs other values ends the segment.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/context.h"
#include "ops/registry.h"
#include "runtime/trace.h"

namespace transmuter::runtime {

struct TraceOptions {
  bool trainable = false;
  // Compiles a program for the backend in use; passes included.
  std::unique_ptr<Executable> (*compile)(const void* context, const ir::Program& program) = nullptr;
  const void* context = nullptr;
  const Backend* backend = nullptr;
  bool inputs_are_constants = false;  // an eager run: every input value may be read
};

class Tracer : public ops::TraceHost {
 public:
  Tracer(const onnx::Graph& graph, TraceOptions options);
  ~Tracer() override;

  // `inputs` by position in graph.inputs; kind none = not given (the initializer of that name is used, or Error).
  std::unique_ptr<Trace> trace(const std::vector<Value>& inputs);

  // TraceHost
  ir::Builder& build() override { return *build_; }
  ir::Value materialise(ops::Traced& traced) override;
  bool make_known(ops::Traced& traced) override;
  std::vector<ops::TracedPtr> inline_graph(const onnx::Graph& graph,
                                           const std::vector<ops::TracedPtr>& inputs) override;

 private:
  struct Frame {
    const onnx::Graph* graph;
    std::unordered_map<std::string, ops::TracedPtr> values;
    std::unordered_map<std::string, size_t> last_use;  // node index; outputs: the number of nodes
    size_t current = 0;
  };

  // Thrown while tracing: these graph inputs must be known values from the start.
  struct ReadValues {
    std::vector<int32_t> slots;
  };

  std::unique_ptr<Trace> trace_once(const std::vector<Value>& inputs);
  // The small graph inputs that `value` is computed from, when those alone (and weights) determine it.
  std::vector<int32_t> deciding_inputs(ir::Value value) const;
  void push_frame(const onnx::Graph& graph);
  void trace_nodes();
  void trace_node(const onnx::Node& node);
  void lower(const onnx::Node& node, const ops::Operator& op, const std::vector<ops::TracedPtr>& inputs);
  void run_eagerly(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs, std::string reason);
  void define(const std::string& name, ops::TracedPtr traced);
  ops::TracedPtr lookup(const std::string& name);
  ops::TracedPtr graph_input(const onnx::ValueInfo& info, int32_t slot, const Value& value);
  ops::TracedPtr from_slot(int32_t slot, const Value& value, std::string name);

  void begin_segment();
  // Ends the segment: everything still needed gets a slot. `execute` runs it, so that real values are there.
  void end_segment(bool execute);
  bool in_segment(const ops::Traced& traced) const { return traced.value && traced.segment == segment_; }
  int32_t new_slot(SlotType type);
  void keep(ops::Traced& traced, std::vector<ir::Value>& results, std::vector<int32_t>& slots);
  Ref ref(ops::Traced& traced);
  void execute(Segment& segment);

  const onnx::Graph& graph_;
  TraceOptions options_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<ir::Builder> build_;
  int32_t segment_ = 0;
  std::vector<int32_t> segment_inputs_;
  std::vector<ops::TracedPtr> graph_inputs_;  // by slot
  std::vector<int32_t> read_values_;          // slots of graph inputs whose values are read while tracing
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<ops::TracedPtr> outputs_;  // of the whole graph, once reached
  std::vector<ops::TracedPtr> in_use_;   // inputs of the node being lowered: kept over a break
  std::vector<Value> actual_;            // by slot, as far as known while tracing
  std::vector<std::pair<int32_t, int64_t>> defined_symbols_;
};

}  // namespace transmuter::runtime
