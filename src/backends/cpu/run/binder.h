// Binder: what a step sees while a plan is bound to concrete sizes: the views of its operands, memory for its results,
// launches.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/run/bound_plan.h"
#include "ir/program.h"

namespace transmuter::cpu {

class Binder {
 public:
  Binder(const ir::Program& program, Bindings& bindings, int threads, bool verbose);

  const ir::Program& program() const { return program_; }
  int threads() const { return threads_; }
  int64_t value(Dim d) { return bindings_.evaluate(d); }
  std::vector<int64_t> values(const Dims& dims) { return bindings_.evaluate(dims); }
  double value(Real r) { return bindings_.evaluate(r); }
  Extents shape(ir::Value v);

  // The operand as it lies (touched by the launch that follows).
  View view(ir::Value v);
  // Dense and row-major: a copy is launched where it lies otherwise.
  View dense(ir::Value v);
  View dense_copy(const View& view);
  // Memory for a result, in row-major order or with the given order of axes (outermost first).
  View allocate(ir::Value v, const SmallVector<int64_t, 6>& order = {});
  // The same, in the memory of an operand that nothing reads later, if it has the same bytes and order; else fresh.
  View allocate_over(ir::Value v, const View& operand);
  void alias(ir::Value v, const View& view);
  // The same for a result that goes out where it lies, in the memory of an input.
  void grow(ir::Value v, const View& view);
  int32_t scratch(int64_t bytes);
  int32_t constant(const std::byte* bytes, int64_t count);
  // Keeps a table made while binding.
  const Tensor& keep(Tensor tensor);
  // Adds a launch, `run(context)`; it touches what was seen since the last one.
  template <class Fn>
  void launch(const char* kernel, double flops, Fn run) {
    const Fn& kept = plan_.callables.keep(std::move(run));
    add_launch({[](const void* state, const RunContext& context) { (*static_cast<const Fn*>(state))(context); }, &kept,
                kernel, flops});
  }
  void touch_again(int32_t buffer) { touch(buffer); }
  void untouch() { touched_.clear(); }  // a step that launches nothing
  void set_location(int32_t location) { location_ = location; }

  // The planner's side.
  // `layout`: how the input lies. Of a growing one later values may lie behind its elements.
  void bind_input(ir::Value v, int32_t index, View layout, bool growing);
  void bind_constant(ir::Value v, const Tensor& tensor);
  void set_last_use(const std::vector<int32_t>& last_op) { last_op_ = &last_op; }  // lives longer than this
  void set_op(int32_t index) { op_ = index; }
  BoundPlan finish(const std::vector<ir::Value>& outputs);

 private:
  int32_t new_buffer(BoundBuffer buffer);
  void touch(int32_t buffer);
  void add_launch(BoundLaunch launch);

  const ir::Program& program_;
  Bindings& bindings_;
  int threads_;
  bool verbose_;
  BoundPlan plan_;
  // A value that lies in a buffer, and the next in the buffer's list.
  struct Lying {
    int32_t value, next;
  };

  std::vector<View> views_;  // by value
  std::vector<std::pair<ir::Value, View>> grown_;
  std::vector<Lying> lying_;
  std::vector<int32_t> lying_in_;                  // by buffer: the head of its list in lying_
  const std::vector<int32_t>* last_op_ = nullptr;  // by value: the last step that reads it (aliases not followed)
  std::vector<int32_t> touched_;                   // buffers of the launch being prepared
  int32_t op_ = 0;
  int32_t location_ = -1;
};

}  // namespace transmuter::cpu
