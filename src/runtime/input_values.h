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
// The first slots of the trace: the inputs, then the tensors of those that it spreads.
std::vector<Value> first_slots(const Trace& trace, const std::vector<Value>& inputs);
// May the trace be used for these inputs, as far as kinds, dtypes, ranks, structures and static values tell? Then
// `slots` are its first.
bool same_kind(const Trace& trace, const std::vector<Value>& inputs, std::vector<Value>& slots);
// May the continuation be used with these slots, by the same?
bool same_kind(const Trace& before, const Trace& continuation, const std::vector<Value>& slots);

// Bit for bit, dtypes and shapes too.
bool same_value(const Value& a, const Value& b);
// With storage of its own.
Value deep_copy(const Value& value);

}  // namespace transmuter::runtime
