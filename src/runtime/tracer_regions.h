// What the tracer's loops and branches share: lowering into a region, and what a region reads from outside.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/control_flow.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {

// While it lives, lowerings write into a region. With `local`, what they learn about sizes is forgotten at the end.
class Tracer::Region {
 public:
  // `random`: the random state that draws inside read, as the region sees it; may be none.
  Region(Tracer& tracer, ir::Builder& builder, bool local, ir::Value random);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // The region has come to something: its assertions stay (ShapeScope::Local::keep).
  Dims keep() { return local_ ? local_->keep() : Dims(); }
  ir::Builder* outer() const { return outer_ ? outer_ : tracer_.build_.get(); }
  // A symbol that each run of the region defines anew.
  bool defines(Dim dim) const;

 private:
  Tracer& tracer_;
  ir::Builder* outer_;
  ir::Value random_;
  int32_t segment_;
  size_t in_use_, symbols_;
  size_t range_ = 0;  // of inner_symbols_, where local
  std::optional<ShapeScope::Local> local_;
};

// Values that a region reads from outside: constants and what is known stay what they are, the rest are operands.
class Tracer::Captures {
 public:
  explicit Captures(Tracer& tracer) : tracer_(tracer) {}
  // Throws NotInProgram for what no program holds.
  void add(const std::string& name, ops::TracedPtr outside);
  // What a graph reads from outside, and its initializers.
  void add_all(const onnx::Graph& graph);

  const std::vector<ir::Value>& operands() const { return operands_; }
  // As the region sees them, given its parameters for the operands.
  Named inside(ir::Builder& region, std::span<const ir::Value> parameters) const;

 private:
  void collect(const ops::TracedPtr& outside);
  ops::TracedPtr enter(ir::Builder& region, const ops::Traced& outside, std::span<const ir::Value> parameters,
                       size_t& next) const;

  Tracer& tracer_;
  Named values_;
  std::vector<ir::Value> operands_;
};

// A Loop or a Scan: what it carries, what it reads row by row, what it stacks.
struct Tracer::LoopParts : LoopSignature {
  const onnx::Graph* body = nullptr;
  bool draws = false;                           // random numbers, anew each trip
  uint64_t number = 0;                          // the node's, for its draws
  bool maps = false;                            // a SequenceMap: states are the sequences that it gives
  std::vector<bool> fixed;                      // of a SequenceMap, by input of the body: the same each trip
  std::vector<ops::TracedPtr> first_rows;       // of a trip that was traced outside, by stacked output
  int64_t done = 0;                             // trips traced outside; `trips` counts those that are left
  std::optional<Dim> trips;                     // none: the condition alone ends it
  ops::TracedPtr condition;                     // before the first trip; null: true
  std::vector<ops::TracedPtr> states, sources;  // sources: what is scanned

  // All but trips and condition. False where the host must drive it; throws as loop_signature() does.
  bool read(const onnx::Node& node, const std::vector<ops::TracedPtr>& inputs);
  // The trips: the number that a Loop is given, or the extent that the inputs of a Scan share. False as read().
  bool take_count(const ops::Known& count);
  bool count_rows();
};

// A tensor that a program can hold.
bool is_program_tensor(const ops::TracedPtr& traced);
bool is_known_true(const ops::Known& known);
ops::TracedPtr known_traced(ops::Known known);
// A value of the builder, as a traced one of the segment.
ops::TracedPtr traced_value(const ir::Builder& builder, ir::Value value, int32_t segment);
// x[at] along an axis, which disappears.
ir::Value row_at(ir::Builder& build, ir::Value x, int64_t axis, ir::Value at);
// The new first axis moves to `axis`.
ir::Value first_axis_to(ir::Builder& build, ir::Value stacked, int64_t axis);

}  // namespace transmuter::runtime
