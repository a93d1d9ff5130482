// Tracer: walks a graph once with concrete inputs (the hints) and emits a Trace. Lowerings (ops/) write IR; values that
// only steer shapes stay known values and never reach the program; what needs other values ends the segment.
//
// Nodes that no output depends on are left out, and a graph input gets its symbols and guards when the first node reads
// it: what nothing reads (the pasts of the branch not taken in a merged decoder) decides nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/context.h"
#include "ops/registry.h"
#include "runtime/engine.h"
#include "runtime/run_context.h"
#include "runtime/trace.h"

namespace transmuter::runtime {

struct TraceOptions {
  std::shared_ptr<const Engine> engine;
  std::vector<int32_t> static_inputs;  // positions; see GraphOptions
  bool single_node = false;
  std::vector<std::string> structures;                   // by graph input: how it is spread (input_values.h), or ""
  RunContext context;                                    // of the call that traces
  std::map<std::string, int64_t>* composites = nullptr;  // counts those of programs compiled while tracing
};

class Tracer : public ops::TraceHost {
 public:
  Tracer(const onnx::Graph& graph, TraceOptions options);
  ~Tracer() override;

  // `inputs` by position in graph.inputs; kind none = not given (the initializer of that name is used, or Error).
  std::unique_ptr<Trace> trace(const std::vector<Value>& inputs);
  // From the break at which `before` ended, with the values of a run that came there: its slots and symbols.
  std::unique_ptr<Trace> trace_rest(const Trace& before, const std::vector<Value>& slots, const Bindings& run);

  // TraceHost
  ir::Builder& build() override { return region_ ? *region_ : *build_; }
  ir::Value materialise(ops::Traced& traced) override;
  bool make_known(ops::Traced& traced) override;
  std::vector<ops::TracedPtr> inline_graph(const onnx::Graph& graph,
                                           const std::vector<ops::TracedPtr>& inputs) override {
    return inline_graph(graph, inputs, {});
  }
  ir::Value random_state() override;

 private:
  using Named = std::vector<std::pair<std::string, ops::TracedPtr>>;
  struct Frame {
    const onnx::Graph* graph;
    std::unordered_map<std::string, ops::TracedPtr> values;
    std::unordered_map<std::string, size_t> last_use;  // node index; outputs: the number of nodes
    std::vector<bool> needed;                          // by node
    size_t current = 0;
  };

  // Thrown while tracing: these graph inputs must be known values from the start.
  struct ReadValues {
    std::vector<int32_t> slots;
  };

  // Thrown while a single node is traced: this graph input must be static.
  struct ReadStatic {
    int32_t slot;
  };

  // Thrown while a region is traced: what it holds cannot stand in a program; the host drives the loop.
  struct NotInProgram {};
  struct OtherRank : NotInProgram {};  // a state has another rank after a trip

  // Thrown where the trace ends at a break.
  struct Paused {};

  // tracer.cc: nodes
  template <class Fn>
  std::unique_ptr<Trace> retried(const Fn& fn);
  void forget();
  std::unique_ptr<Trace> trace_once(const std::vector<Value>& inputs);
  void trace_to_end(size_t first);
  void push_frame(const onnx::Graph& graph);
  void trace_nodes(size_t first = 0);
  void trace_node(const onnx::Node& node);
  void lower(const onnx::Node& node, const ops::Operator& op, const std::vector<ops::TracedPtr>& inputs);
  bool lower_once(const onnx::Node& node, const ops::Operator& op, const std::vector<ops::TracedPtr>& inputs);
  void take_outputs(const onnx::Node& node, std::vector<ops::TracedPtr>& outputs);
  void define(const std::string& name, ops::TracedPtr traced);
  ops::TracedPtr lookup(const std::string& name);
  ops::TracedPtr initializer(const std::string& name, const Tensor& tensor) const;
  ops::TracedPtr static_value(const std::string& name, const Value& value) const;  // null for a map
  ops::TracedPtr spread_input(const std::string& name, const Value& value, int32_t& slot);
  ops::TracedPtr graph_input(const onnx::ValueInfo& info, int32_t slot, const Value& value);
  ops::TracedPtr from_slot(int32_t slot, const Value& value, std::string name);

  // `around`: values that the graph captures, in place of those of the frames.
  std::vector<ops::TracedPtr> inline_graph(const onnx::Graph& graph, const std::vector<ops::TracedPtr>& inputs,
                                           const Named& around);

  // tracer_regions.cc: control flow in the program; true where it is there now
  class Region;
  class Captures;
  bool lower_branches(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs);
  // The backend runs `loop`, `case` and what they define.
  bool can_hold_regions() const;

  // tracer_loops.cc: a `loop`; tracer_while.cc: a `while` of known length
  bool map_items(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs);  // SequenceMap, item by item
  bool lower_loop(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs);
  struct LoopParts;
  struct LoopBody;
  bool trace_trip(const LoopParts& loop, const Captures& captures, const std::vector<ir::Value>& outside,
                  std::vector<std::vector<bool>>& changes, LoopBody& body);
  bool read_loop(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs, LoopParts& loop);
  bool read_map(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs, LoopParts& loop);
  bool peel_trip(LoopParts& loop);
  bool emit_loop(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs, LoopParts& loop);
  bool lower_while(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs);
  bool read_while(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs, LoopParts& loop);
  bool emit_while(const onnx::Node& node, LoopParts& loop);

  // tracer_rest.cc: breaks at which the trace ends, also inside of branches that are inlined. Inside of a body, and for
  // a single node, the segment is run while tracing instead, and tracing goes on.
  bool can_pause() const;
  [[noreturn]] void pause(size_t next_node, std::vector<std::pair<std::string, int32_t>> made = {});
  std::unique_ptr<Trace> resume(const Trace& before, const std::vector<Value>& slots, const Bindings& run);
  size_t end_branches();  // those that a break stood in; returns the next node of the whole graph
  class Copies;

  // tracer_values.cc: integers that the program computes become symbols; false where they can't
  bool read_values(ops::Traced& traced);
  bool know(ops::Traced& traced);  // make_known or that
  Dims read_back(ir::Value value, int depth);
  Dims leaf_symbols(ir::Value value);

  // tracer_segments.cc: segments, slots, eager steps
  // The small graph inputs that `value` is computed from, when those alone (and weights) determine it.
  std::vector<int32_t> deciding_inputs(ir::Value value) const;
  bool run_on_constants(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs);
  void run_eagerly(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs, std::string reason);
  EagerStep::Body prepare_body(const onnx::Attribute& attribute, std::vector<ops::TracedPtr>& captured);
  void begin_segment();
  // Ends the segment: everything still needed gets a slot. `at_break`: for the nodes that follow as well; where the
  // trace cannot end here the segment runs, so that real values are there and counts that it finds become symbols like
  // any other.
  void end_segment(bool at_break, std::string ended_by = "");
  bool in_segment(const ops::Traced& traced) const { return traced.value && traced.segment == segment_; }
  bool needs_place(const ops::Traced& traced) const {
    return !traced.is_sequence && !traced.is_optional && !traced.texts && !traced.opaque && !traced.constant &&
           traced.slot < 0;
  }
  int32_t new_slot(SlotType type, std::string name);
  void keep(ops::Traced& traced, std::vector<ir::Value>& results, std::vector<int32_t>& slots);
  void keep_counts(std::vector<ir::Value>& results, std::vector<int32_t>& slots);
  template <class Fn>
  void for_each_visible(const Fn& fn);  // values that later nodes may read, items of sequences included
  Ref ref(ops::Traced& traced);
  void execute(Segment& segment);
  bool settle(Bindings& bindings);  // true when a count became known
  void refresh(ops::Traced& traced);
  bool has_unsettled_counts() const;
  size_t count_data_dependent() const;
  // A data-dependent symbol that the program itself defines, not a region of it.
  bool is_count(size_t symbol) const;
  void describe_known(const ops::Traced& traced);

  const onnx::Graph& graph_;
  TraceOptions options_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<ir::Builder> build_;
  ir::Builder* region_ = nullptr;  // of the loop that is being traced
  ir::Value region_random_;        // its random state, where it was handed in
  ops::TracedPtr random_;          // the random state of the run; null until something draws
  int32_t segment_ = 0, newest_segment_ = 0;
  std::vector<int32_t> segment_inputs_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::unordered_map<std::string, int32_t> given_;        // graph inputs -> slot
  std::vector<int32_t> first_items_;                      // graph input -> slot of the first tensor, where it is spread
  int32_t input_slots_ = 0;                               // graph inputs and the tensors of those that are spread
  std::vector<ops::TracedPtr> graph_inputs_;              // by slot; null where nothing has read it yet
  std::vector<int32_t> read_values_;                      // slots of graph inputs whose values are known from the start
  std::vector<ops::TracedPtr> outputs_;                   // of the whole graph, once reached
  std::vector<ops::TracedPtr> in_use_;                    // inputs of the nodes being lowered: kept over a break
  std::vector<Value> actual_;                             // by slot, as far as known while tracing
  int64_t retried_ = -1;                                  // node that a break had stopped before
  std::unordered_map<int32_t, int64_t> settled_;          // data-dependent symbols that a segment has defined
  std::vector<std::pair<size_t, size_t>> inner_symbols_;  // ranges of symbols that regions define
  std::map<std::pair<int32_t, int32_t>, Dims> leaves_;    // by segment and value: the symbols that it defines
};

}  // namespace transmuter::runtime
