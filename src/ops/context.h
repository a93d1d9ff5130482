// OpContext: what the lowering of one ONNX node sees. A lowering reads attributes and inputs, writes IR through
// build(), and sets its outputs. Every attribute of the node must be read, or the node is refused by the attribute's
// name.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "onnx/graph.h"
#include "ops/known.h"

namespace transmuter::ops {

// Thrown by require_*: the operator needs a value that tracing cannot know. The segment ends, the node runs eagerly.
struct GraphBreak {
  const onnx::Node* node;
  size_t input;
};

struct Traced;
using TracedPtr = std::shared_ptr<Traced>;

// What an item of a traced sequence is when it stands for several, which lie in its one tensor: what a Loop inserted
// trip by trip, say.
struct Stack {
  Dim count;
  int64_t axis = -1;    // -1: item i is tensor[i]; else they lie one after another along this axis, and items[0] of the
                        // Traced has their extents there (i64 [count])
  bool hidden = false;  // in the body of a loop: what the sequence held before this trip
};

// A value while tracing: in the segment being built, or something it can be made from on demand.
struct Traced {
  ir::Type type;
  ir::Value value;  // in the segment numbered `segment`
  int32_t segment = -1;
  int32_t slot = -1;         // the tracer's: a graph input, or what an earlier segment or an eager node left
  Tensor constant;           // an initializer or Constant (never trainable)
  Known known;               // what is known of the elements
  std::string name;          // for parameters and messages
  bool trainable = false;    // `constant` may change between runs: no value rule may read it
  bool is_sequence = false;  // a sequence of traced values (SplitToSequence ...), known length
  bool is_optional = false;  // zero or one item
  bool opaque = false;       // a host value in `slot` that no program can hold (strings, a sequence of unknown length)
  std::vector<TracedPtr> items;
  // Strings that a program can tell but not hold: items[0] gives the place of each element in this list.
  std::shared_ptr<const std::vector<std::string>> texts;
  std::shared_ptr<const Stack> stack;  // of an item of a sequence that stands for several
};

// What the tracer does for a lowering.
class TraceHost {
 public:
  virtual ~TraceHost() = default;
  virtual ir::Builder& build() = 0;
  virtual ir::Value materialise(Traced& traced) = 0;
  // Makes every element known if it can be: constants, constant sub-programs, small integer graph inputs (symbols;
  // bools by a guard). False: only a break would help.
  virtual bool make_known(Traced& traced) = 0;
  // Lowers a subgraph in place with the given inputs; outer names are visible. Returns its outputs.
  virtual std::vector<TracedPtr> inline_graph(const onnx::Graph& graph, const std::vector<TracedPtr>& inputs) = 0;
  // The state that the run draws random numbers from: u64 [2], see ir::random_bits.
  virtual ir::Value random_state() = 0;
};

class OpContext {
 public:
  OpContext(TraceHost& host, const onnx::Node& node, std::vector<TracedPtr> inputs);

  const onnx::Node& node() const { return node_; }
  int64_t version() const { return node_.version; }  // the opset the node was written for
  ir::Builder& build() { return host_.build(); }

  // inputs
  size_t input_count() const {  // trailing absent inputs counted as written
    asked_inputs_ = inputs_.size();
    return inputs_.size();
  }
  bool has_input(size_t i) const {
    asked_inputs_ = std::max(asked_inputs_, i + 1);
    return i < inputs_.size() && inputs_[i] != nullptr;
  }
  ir::Value input(size_t i);  // in the program; Error when absent
  const ir::Type& type(size_t i);
  DType dtype(size_t i) { return type(i).dtype; }
  const Dims& shape(size_t i) { return type(i).shape; }
  int64_t rank(size_t i) { return type(i).rank(); }
  const Tensor* constant(size_t i);  // concrete bytes of an initializer or Constant; null otherwise
  const Known& known(size_t i);      // kind none when nothing is known (never breaks)
  const TracedPtr& traced(size_t i) {
    asked_inputs_ = std::max(asked_inputs_, i + 1);
    return inputs_.at(i);
  }
  ir::Value value_of(Traced& traced) { return host_.materialise(traced); }  // of an item of a sequence

  // These break when the value cannot be known.
  const Known& require_known(size_t i);         // Elements or Splat/Iota without unknown elements
  Dims require_dims(size_t i);                  // integers, 0-d or 1-D
  std::vector<int64_t> require_ints(size_t i);  // as require_dims, then pinned (axes and the like)
  int64_t require_int(size_t i) { return require_ints(i).at(0); }
  Dim require_dim(size_t i);
  std::vector<Real> require_reals(size_t i);  // floats, 0-d or 1-D
  double require_number(size_t i);            // one float or integer, pinned

  // attributes; without a default the attribute is required
  int64_t attribute_int(const char* name);
  int64_t attribute_int(const char* name, int64_t otherwise);
  float attribute_float(const char* name);
  float attribute_float(const char* name, float otherwise);
  std::string attribute_string(const char* name);
  std::string attribute_string(const char* name, std::string otherwise);
  std::vector<int64_t> attribute_ints(const char* name);
  std::optional<std::vector<int64_t>> attribute_ints_optional(const char* name);
  std::vector<float> attribute_floats(const char* name, std::vector<float> otherwise);
  std::vector<std::string> attribute_strings(const char* name, std::vector<std::string> otherwise);
  std::optional<Tensor> attribute_tensor(const char* name);
  const onnx::Graph& attribute_graph(const char* name);
  bool has_attribute(const char* name) const { return node_.find(name) != nullptr; }
  const onnx::Attribute* attribute(const char* name);  // marks it read; null when absent
  void ignore_attributes(
      std::initializer_list<const char*> names);  // those that change nothing here (say why beside the call)
  // axis in [-rank, rank) -> [0, rank); Error otherwise.
  int64_t axis(int64_t axis, int64_t rank) const;

  // outputs
  size_t output_count() const { return node_.outputs.size(); }
  bool wants_output(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  void output(size_t i, ir::Value value);
  void output(size_t i, Known known);                   // materialised only if something reads it as a tensor
  void output(size_t i, ir::Value value, Known known);  // e.g. partly unknown elements
  void output(size_t i, TracedPtr traced);              // passes a value through
  void output_constant(size_t i, Tensor tensor);
  void output_texts(size_t i, ir::Value places, std::vector<std::string> texts);  // texts[place] for each element

  ir::Value random_state() { return host_.random_state(); }
  std::vector<TracedPtr> inline_graph(const onnx::Graph& graph, const std::vector<TracedPtr>& inputs) {
    return host_.inline_graph(graph, inputs);
  }

  // errors that name the node
  template <class... Pieces>
  [[noreturn]] void unsupported(const Pieces&... pieces) const {
    throw Error(ErrorCode::unsupported, str(node_.op_type, ": ", pieces...));
  }
  template <class... Pieces>
  [[noreturn]] void invalid(const Pieces&... pieces) const {
    throw Error(ErrorCode::invalid_model, str(node_.op_type, ": ", pieces...));
  }
  template <class... Pieces>
  void check(bool ok, const Pieces&... pieces) const {
    if (!ok) invalid(pieces...);
  }

  // The tracer's side.
  std::vector<TracedPtr>& outputs() { return outputs_; }
  void check_all_attributes_read() const;
  void check_all_inputs_read() const;  // Error where the node has more inputs than the lowering asked about

 private:
  TraceHost& host_;
  const onnx::Node& node_;
  std::vector<TracedPtr> inputs_;
  std::vector<TracedPtr> outputs_;
  std::vector<bool> read_;
  mutable size_t asked_inputs_ = 0;
};

}  // namespace transmuter::ops
