#include "runtime/input_values.h"

#include <algorithm>
#include <cstring>

#include "runtime/rest.h"

namespace transmuter::runtime {
namespace {

constexpr size_t kMaxSpread = 64;  // tensors

bool is_container(const Value& value) {
  return value.kind == Value::Kind::sequence || value.kind == Value::Kind::optional;
}

// False where something cannot have a slot that a program reads.
bool describe(const Value& value, std::string& text, size_t& tensors) {
  if (value.is_tensor()) {
    text += '.';
    return value.tensor.dtype() != DType::string && ++tensors <= kMaxSpread;
  }
  if (!is_container(value)) return false;
  text += value.kind == Value::Kind::sequence ? '[' : '(';
  for (const Value& item : value.items)
    if (!describe(item, text, tensors)) return false;
  text += value.kind == Value::Kind::sequence ? ']' : ')';
  return true;
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (!a || a.bytes() == b.bytes()) return true;
  if (a.dtype() == DType::string) return a.strings() == b.strings();
  return a.nbytes() == 0 || std::memcmp(a.bytes(), b.bytes(), a.nbytes()) == 0;
}

bool has_static_values(const Trace& trace, const std::vector<Value>& slots) {
  return std::all_of(trace.static_values.begin(), trace.static_values.end(), [&](const auto& known) {
    return same_value(known.second, slots[static_cast<size_t>(known.first)]);
  });
}

}  // namespace

std::string structure_of(const Value& value) {
  std::string text;
  size_t tensors = 0;
  return is_container(value) && describe(value, text, tensors) ? text : std::string();
}

void spread(const Value& value, std::vector<Value>& tensors) {
  if (value.is_tensor()) tensors.push_back(value);
  for (const Value& item : value.items) spread(item, tensors);
}

std::vector<Value> first_slots(const Trace& trace, const std::vector<Value>& inputs) {
  std::vector<Value> slots = inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!trace.structures[i].empty()) spread(inputs[i], slots);
  return slots;
}

bool same_kind(const Trace& trace, const std::vector<Value>& inputs, std::vector<Value>& slots) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool given = inputs[i].kind != Value::Kind::none;
    if (given != trace.present[i]) return false;
    if (!given) continue;
    if (!fits(trace.slot_types[i], inputs[i])) return false;
    if (!trace.structures[i].empty() && structure_of(inputs[i]) != trace.structures[i]) return false;
  }
  if (!has_static_values(trace, inputs)) return false;
  slots = first_slots(trace, inputs);
  for (size_t i = inputs.size(); i < slots.size(); ++i)
    if (!fits(trace.slot_types[i], slots[i])) return false;
  return true;
}

bool same_kind(const Trace& before, const Trace& continuation, const std::vector<Value>& slots) {
  for (const auto& [name, slot] : before.rest->made) {
    if (slot >= 0 && !fits(continuation.slot_types[static_cast<size_t>(slot)], slots[static_cast<size_t>(slot)]))
      return false;
  }
  return has_static_values(continuation, slots);
}

bool same_value(const Value& a, const Value& b) {
  return a.kind == b.kind && same_tensor(a.tensor, b.tensor) && same_tensor(a.keys, b.keys) &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_value);
}

Value deep_copy(const Value& value) {
  Value copy = value;
  if (copy.tensor) copy.tensor = copy.tensor.clone();
  if (copy.keys) copy.keys = copy.keys.clone();
  for (Value& item : copy.items) item = deep_copy(item);
  return copy;
}

}  // namespace transmuter::runtime
