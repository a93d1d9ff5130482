// Inputs of a graph as a trace takes them: a sequence or an optional of tensors may be spread, so that each of its
// tensors has a slot of its own; a static input is a constant of the trace.
#pragma once

#include <string>
#include <vector>

#include "runtime/trace.h"
#include "transmuter/value.h"

namespace transmuter::runtime {

// How a sequence or optional is built, "[..[.]]" for a sequence of two tensors and a sequence of one; "" for what is
// not spread: tensors, strings, maps, more than 64 tensors.
std::string structure_of(const Value& value);
// The tensors in order.
void spread(const Value& value, std::vector<Value>& tensors);
// May the trace be used for these inputs, as far as kinds, dtypes, ranks, structures and static values tell?
bool same_kind(const Trace& trace, const std::vector<Value>& inputs);
// Are they spread in this trace? Then the first slots are with_spread(); otherwise the inputs alone.
bool spreads(const Trace& trace);
std::vector<Value> with_spread(const Trace& trace, const std::vector<Value>& inputs);

// Bit for bit, dtypes and shapes too.
bool same_value(const Value& a, const Value& b);
// With storage of its own.
Value deep_copy(const Value& value);

}  // namespace transmuter::runtime
