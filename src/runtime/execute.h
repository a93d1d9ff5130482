// Runs a finished trace on real values.
#pragma once

#include <vector>

#include "runtime/run_context.h"
#include "runtime/trace.h"

namespace transmuter::runtime {

// Thrown when a guard on a value that only turned up during the run does not hold: another trace must be tried.
struct GuardFailed {
  std::string what;
};

// Inputs given to a run (none: the results are dense, as if nothing ever came back).
struct Donation {
  std::vector<bool> donated;  // by graph input: the run may take its memory
};
// Nobody else holds the value's memory, or they agreed to lose it.
bool may_take(const Value& value);

// The steps of a trace. `slots`: the graph's inputs (then the tensors of those that are spread), and what the traces
// before it left, filled further; `bindings` hold the symbols of all these.
void run_trace(const Trace& trace, std::vector<Value>& slots, const Backend& backend, Bindings& bindings,
               const RunContext& context, const Donation* donation = nullptr);
// The graph's outputs by position, after a trace that goes to the end.
std::vector<Value> outputs_of(const Trace& trace, const std::vector<Value>& slots);
// One segment: reads and fills slots. `donated`: by slot, the first ones; null: nothing comes back.
void run_segment(const Segment& segment, std::vector<Value>& slots, const Backend& backend, Bindings& bindings,
                 const std::vector<bool>* donated = nullptr);
Value resolve(const Ref& ref, const std::vector<Value>& slots);
std::vector<Value> run_eager_step(const EagerStep& step, const std::vector<Value>& slots, const RunContext& context);

}  // namespace transmuter::runtime
