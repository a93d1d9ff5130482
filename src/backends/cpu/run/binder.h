// Binder: what a step sees while a plan is bound to concrete sizes: the views of its operands, memory for its results,
// launches.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/run/bound_plan.h"
#include "backends/cpu/run/symbol_bits.h"
#include "backends/cpu/run/value_types.h"
#include "ir/program.h"

namespace transmuter::cpu {

class Binder {
 public:
  Binder(const ir::Program& program, const ValueTypes& types, const SymbolBits& bits, Bindings& bindings, int threads,
         bool describe);

  const ir::Program& program() const { return program_; }
  DType dtype(ir::Value v) const { return types_.dtype(v); }
  int threads() const { return threads_; }
  int64_t value(Dim d) {
    symbols_ |= bits_.of(d.expr());
    return bindings_.evaluate(d);
  }
  std::vector<int64_t> values(const Dims& dims);
  double value(Real r) {
    symbols_ |= bits_.of(r.expr());
    return bindings_.evaluate(r);
  }
  Extents shape(ir::Value v);

  // The operand as it lies (touched by the launch that follows).
  View view(ir::Value v);
  // An input as it was handed in, whatever copies of it have been made since.
  View home(ir::Value v);
  // Dense and row-major: a copy is launched where it lies otherwise.
  View dense(ir::Value v);
  View dense_copy(const View& view, const AxisOrder& order = {});
  // Dense with the channels, axis 1, innermost; copied likewise.
  View channels_last(ir::Value v);
  // Memory for a result, in row-major order or with the given order of axes (outermost first).
  View allocate(ir::Value v, const AxisOrder& order = {});
  // The same, in the memory of an operand that nothing reads later, if it has the same bytes and order; else fresh.
  View allocate_over(ir::Value v, const View& operand, const AxisOrder& order = {});
  void alias(ir::Value v, const View& view) { place(v, view, false); }
  // The same for a result that goes out where it lies, in the memory of an input.
  void grow(ir::Value v, const View& view) { place(v, view, true); }
  int32_t scratch(int64_t bytes);
  int32_t constant(const std::byte* bytes, int64_t count);
  View constant(const Tensor& tensor);  // its memory stays where it is as long as the plan
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

  // The planner's side.
  // `layout`: how the input lies. Of a growing one later values may lie behind its elements.
  void bind_input(ir::Value v, int32_t index, View layout, bool growing);
  void bind_constant(ir::Value v, const Tensor& tensor);
  void set_last_use(const std::vector<int32_t>& last_op) { last_op_ = &last_op; }  // lives longer than this
  // First of all, where the plan starts from nothing: room for what most plans of so many steps take, so that nothing
  // of it moves while it grows. `given`: inputs and constants; `spare` (may be null): a record that nobody needs.
  void expect(size_t given, size_t steps, std::unique_ptr<BindRecord> spare);
  // Or: starts from a plan with a record; `changed`: the bits of the symbols whose values differ. The inputs
  // are bound as ever, the constants are there already. Each step then either is kept or has to be bound; OtherPlan is
  // thrown where it takes other buffers or launches than it took there.
  struct OtherPlan {};
  void start_from(std::shared_ptr<const BoundPlan> plan, uint64_t changed);
  bool keeps_step(size_t step);
  void begin_steps();  // inputs and constants are bound
  void begin_step(size_t step, int32_t location);
  void end_step();
  BoundPlan finish(const std::vector<ir::Value>& outputs);

 private:
  int32_t new_buffer(BoundBuffer buffer);
  void touch(int32_t buffer) { touched_.push_back(buffer); }
  void add_launch(BoundLaunch launch);
  void place(ir::Value v, const View& view, bool grown);
  struct Home {
    ir::Value value;
    View view;
    bool moved;  // it lies in another way than in the plan before
  };
  const Home& home_of(int32_t value) const;
  const View* placed(ir::Value v) const;  // until the next placing; null: nowhere
  BindRecord::Mark mark() const;

  const ir::Program& program_;
  const ValueTypes& types_;
  const SymbolBits& bits_;
  Bindings& bindings_;
  int threads_;
  bool describe_;  // launches say what they read and write, for those who listen to steps
  BoundPlan plan_;
  std::unique_ptr<BindRecord> record_ = std::make_unique<BindRecord>();  // its placings: those made by this binder
  std::vector<int32_t> placing_;  // by value: its last placing, of record_ or (-2 - index) of the plan before; -1: none
  std::vector<std::pair<ir::Value, View>> grown_;
  std::vector<Home> homes_;                        // of the inputs
  const std::vector<int32_t>* last_op_ = nullptr;  // by value: the last step that reads it (aliases not followed)
  std::vector<int32_t> touched_;                   // buffers of the launch being prepared
  int32_t step_ = -1;
  int32_t location_ = -1;
  uint64_t symbols_ = 0;  // that the step's sizes depend on, so far

  // Of a plan that starts from another: what is taken over from it in place of what is made anew.
  const BindRecord* before_ = nullptr;
  bool replacing_ = false;  // buffers, launches and placings of one step take the places from `next_` to `end_`
  BindRecord::Mark next_, end_;
  uint64_t changed_ = 0;
  std::vector<bool> moved_;  // by value: it lies in another way than before
};

}  // namespace transmuter::cpu
