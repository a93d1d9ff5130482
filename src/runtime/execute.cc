#include "runtime/execute.h"

#include "base/strings.h"
#include "runtime/eager.h"

namespace transmuter::runtime {

Value resolve(const Ref& ref, const std::vector<Value>& slots) {
  switch (ref.kind) {
    case Ref::Kind::absent:
      return {};
    case Ref::Kind::slot:
      return slots[static_cast<size_t>(ref.slot)];
    case Ref::Kind::constant:
      return ref.constant;
    case Ref::Kind::sequence:
    case Ref::Kind::optional: {
      std::vector<Value> items;
      for (const Ref& item : ref.items) items.push_back(resolve(item, slots));
      return ref.kind == Ref::Kind::sequence ? Value::sequence(std::move(items)) : Value::optional(std::move(items));
    }
  }
  return {};
}

void run_segment(const Segment& segment, std::vector<Value>& slots, const Backend& backend, Bindings& bindings) {
  std::vector<Buffer> inputs;
  inputs.reserve(segment.input_slots.size());
  for (int32_t slot : segment.input_slots) inputs.push_back(backend.upload(slots[static_cast<size_t>(slot)].tensor));
  std::vector<Buffer> results = segment.executable->run(inputs, bindings);
  for (size_t i = 0; i < results.size(); ++i) {
    slots[static_cast<size_t>(segment.output_slots[i])] = backend.download(results[i]);
  }
}

std::vector<Value> run_eager_step(const EagerStep& step, const std::vector<Value>& slots) {
  Environment outer;
  for (const auto& [name, ref] : step.captures) outer.values[name] = resolve(ref, slots);
  std::vector<Value> inputs;
  for (const Ref& ref : step.inputs) inputs.push_back(resolve(ref, slots));
  return run_node(*step.node, std::move(inputs), outer);
}

namespace {

bool fits(const SlotType& type, const Value& value) {
  if (type.dtype == DType::invalid || !value.is_tensor()) return true;
  return value.tensor.dtype() == type.dtype && value.tensor.rank() == type.rank;
}

}  // namespace

std::vector<Value> run_trace(const Trace& trace, const std::vector<Value>& inputs, const Backend& backend,
                             Bindings& bindings) {
  std::vector<Value> slots(static_cast<size_t>(trace.slot_count));
  for (size_t i = 0; i < inputs.size(); ++i) slots[i] = inputs[i];
  bind_symbols(*trace.scope, slots, bindings);
  bindings.check_assertions();
  for (const auto& step : trace.steps) {
    bool check = false;
    if (const auto* segment = std::get_if<Segment>(&step)) {
      run_segment(*segment, slots, backend, bindings);
      check = segment->defines_symbols;
    } else {
      const auto& eager = std::get<EagerStep>(step);
      std::vector<Value> results = run_eager_step(eager, slots);
      for (size_t i = 0; i < results.size() && i < eager.output_slots.size(); ++i) {
        const int32_t slot = eager.output_slots[i];
        if (slot < 0) continue;
        if (!fits(trace.slot_types[static_cast<size_t>(slot)], results[i]))
          throw GuardFailed{"the type of a computed value changed"};
        slots[static_cast<size_t>(slot)] = std::move(results[i]);
      }
      check = true;
    }
    if (!check && &step == &trace.steps.back()) break;
    bind_symbols(*trace.scope, slots, bindings);
    if (auto failed = bindings.explain()) throw GuardFailed{*failed};
    bindings.check_assertions();
  }
  std::vector<Value> outputs;
  outputs.reserve(trace.outputs.size());
  for (const Ref& ref : trace.outputs) outputs.push_back(resolve(ref, slots));
  return outputs;
}

}  // namespace transmuter::runtime
