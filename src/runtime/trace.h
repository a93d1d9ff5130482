// Trace: what tracing a graph for one kind of inputs gave, as data. A list of steps over numbered slots (slots 0..n-1
// are the graph inputs, then come the tensors of those that are spread, see input_values.h), valid while its guards
// hold.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/dim.h"
#include "ir/program.h"
#include "onnx/graph.h"
#include "transmuter/backend.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

class GraphRunner;
class NodeRunner;
struct Rest;

// Where a value comes from: a slot, a constant, a sequence/optional of such, or strings by their places in a list. A
// stack, in a sequence, is the items that lie in one tensor (ops::Stack): items[0], and where they differ in length
// along `axis` items[1].
struct Ref {
  enum class Kind : uint8_t { absent, slot, constant, sequence, optional, texts, stack };
  Kind kind = Kind::absent;
  int32_t slot = -1;
  Tensor constant;
  std::vector<Ref> items;
  DType element = DType::invalid;  // sequence, optional
  std::shared_ptr<const std::vector<std::string>> texts;
  int64_t axis = -1;  // stack
};

// A program without breaks. Compiled when the trace is finished (or at a break, to go on with real values).
struct Segment {
  std::shared_ptr<const ir::Program> program;
  std::vector<int32_t> input_slots;   // of the program's input parameters, in order
  std::vector<int32_t> output_slots;  // of its results
  std::unique_ptr<Executable> executable;
  bool defines_symbols = false;  // guards may depend on what it finds
  size_t number = 0;             // among those of the graph, from trace to trace
  std::string ended_by;          // "node X (If) reads input 0"; empty for the last and before an eager step
};

// A node that runs on real values between segments.
struct EagerStep {
  const onnx::Node* node;
  std::vector<Ref> inputs;
  std::shared_ptr<NodeRunner> runner;  // null for control flow
  // Loop, Scan, SequenceMap, searches: each takes what the operator feeds it, then `captures`, what it reads from
  // outside.
  struct Body {
    std::string attribute;
    std::shared_ptr<GraphRunner> runner;
    std::vector<Ref> captures;
  };
  std::vector<Body> bodies;
  std::vector<int32_t> output_slots;  // -1: not wanted
  std::string reason;
};

// What a slot must hold for the trace to go on (checked for graph inputs and eager results).
struct SlotType {
  Value::Kind kind = Value::Kind::none;  // none: not checked
  DType dtype = DType::invalid;          // tensors
  int64_t rank = -1;
};
SlotType slot_type(const Value& value);
bool fits(const SlotType& type, const Value& value);

// A graph without breaks is one trace. At a break a trace ends (its segments have run, the values are there), and what
// follows has traces of its own, found by guards of their own: continuations. A run goes from trace to trace.
struct Trace {
  std::shared_ptr<ShapeScope> scope;
  std::vector<std::variant<Segment, EagerStep>> steps;
  int32_t slot_count = 0;
  std::vector<std::string> structures;  // by graph input: of those that are spread, structure_of(); else ""
  std::vector<std::pair<int32_t, Value>> static_values;  // graph inputs (slots) whose values the trace was made for
  std::shared_ptr<Rest> rest;                            // null: the trace goes to the end of the graph
  int32_t random_slot = -1;                              // of the random state, where something draws numbers
  std::vector<bool> present;                             // which graph inputs were given
  std::vector<std::string> slot_names;                   // by slot
  std::vector<SlotType> slot_types;                      // by slot
  std::vector<Ref> outputs;
  std::vector<std::string> known;  // "name = value" of the values that steered shapes (on request)
  bool first = false;              // of a compiled model, or what followed it in its first run
  int64_t breaks = 0;
  double trace_ms = 0;
  double compile_ms = 0;
  // Of a continuation: what of the scope, and of the lists here, the traces before it had; else 0.
  struct Before {
    size_t symbols = 0, guards = 0, assertions = 0, specializations = 0, segments = 0;
  } before;
  // By graph input: how many steps read it so far, up to 2; may a run take its memory, since one step of this trace
  // alone reads it?
  std::vector<uint8_t> readers;
  std::vector<bool> takes;
};

// Its continuations, too.
std::string to_text(const Trace& trace);
// Counts readers and says what may be taken; `before`: the trace that it continues, or null.
void find_readers(Trace& trace, const Trace* before);
size_t segments_of(const Trace& trace);

// Throws Error(invalid_input) where an assertion about symbols that are set fails: what was asked for where, and the
// inputs that the sizes are of.
void check_assertions(const Trace& trace, Bindings& bindings);

// Sets the symbols whose slots hold a value and that are not set yet. `slots` may be the first ones only.
void bind_symbols(const ShapeScope& scope, const std::vector<Value>& slots, Bindings& bindings);

}  // namespace transmuter::runtime
