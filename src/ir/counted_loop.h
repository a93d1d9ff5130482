// while loops whose trip count is known before they start.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/builder.h"

namespace transmuter::ir {

// Runs body(builder, t, state, fixed) for t = 0 ... trips - 1 (0-d i64) and returns the last state. `fixed` are outer
// values that the body reads. The body is called once, with a builder of the region.
// The loop is a while over (t, state..., fixed...) of the form that trip_count recognises.
template <class Body>
std::vector<Value> counted_loop(Builder& build, Dim trips, std::span<const Value> state, std::span<const Value> fixed,
                                const Body& body);

// The number of rounds of a while op whose state 0 is an i64 that starts at the constant 0 and grows by 1 while it is
// less than a constant or a Dim; nothing for any other.
std::optional<Dim> trip_count(const Builder& build, const Op& while_op);

// Copies a program's ops into a builder; `arguments` stand for its parameters (invalid ones are not read by any op).
std::vector<Value> inline_into(Builder& build, const Program& program, const std::vector<Value>& arguments);
// stacked with stacked[at] = row.
Value with_row(Builder& build, Value stacked, Value row, Value at);

// Shared by every counted_loop: the region builders with their parameters in place.
struct CountedRegion {
  Builder build;
  Value t;
  std::vector<Value> state, fixed;
  CountedRegion(Builder& outer, std::span<const Value> state_outside, std::span<const Value> fixed_outside);
};
std::vector<Value> emit_counted(Builder& build, Dim trips, std::span<const Value> state, std::span<const Value> fixed,
                                CountedRegion& region, std::vector<Value> next);

template <class Body>
std::vector<Value> counted_loop(Builder& build, Dim trips, std::span<const Value> state, std::span<const Value> fixed,
                                const Body& body) {
  CountedRegion region(build, state, fixed);
  std::vector<Value> next =
      body(region.build, region.t, std::span<const Value>(region.state), std::span<const Value>(region.fixed));
  return emit_counted(build, trips, state, fixed, region, std::move(next));
}

}  // namespace transmuter::ir
