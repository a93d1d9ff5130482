// Runs a finished trace on real values.
#pragma once

#include <vector>

#include "runtime/trace.h"

namespace transmuter::runtime {

// Thrown when a guard on a value that only turned up during the run does not hold: another trace must be tried.
struct GuardFailed {
  std::string what;
};

// `inputs` by graph input position; `bindings` hold their symbols. Returns the graph's outputs by position.
std::vector<Value> run_trace(const Trace& trace, const std::vector<Value>& inputs, const Backend& backend,
                             Bindings& bindings);
// One segment: reads and fills slots.
void run_segment(const Segment& segment, std::vector<Value>& slots, const Backend& backend, Bindings& bindings);
Value resolve(const Ref& ref, const std::vector<Value>& slots);
std::vector<Value> run_eager_step(const EagerStep& step, const std::vector<Value>& slots);

}  // namespace transmuter::runtime
