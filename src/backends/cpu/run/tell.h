// Words of the engine's events (transmuter/telemetry.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/run/bound_plan.h"
#include "ir/program.h"
#include "telemetry/span.h"

namespace transmuter::cpu {

// "batch=2, sequence=16". `values`: of the program's symbols, by number, perhaps followed by others; INT64_MIN: none.
std::string sizes_text(const ir::Program& program, const std::vector<int64_t>& values);

// A plan that was there, was not, or was dropped.
void tell_plan(telemetry::Kind kind, const ir::Program& program, const std::vector<int64_t>& values);

// Is anything to be told of each launch?
inline bool steps_are_told() {
  return (telemetry::wanted_kinds.load(std::memory_order_relaxed) &
          telemetry::kinds({telemetry::Kind::stage, telemetry::Kind::step})) != 0;
}

// A plan ran: all of it, then each launch. `times`: when the first began, and when each ended.
void tell_steps(const ir::Program& program, const BoundPlan& plan,
                const std::vector<std::chrono::steady_clock::time_point>& times);

}  // namespace transmuter::cpu
