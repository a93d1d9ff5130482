#include "runtime/execute.h"

#include "base/strings.h"
#include "runtime/eager.h"
#include "runtime/graph_runner.h"

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
      Value value =
          ref.kind == Ref::Kind::sequence ? Value::sequence(std::move(items)) : Value::optional(std::move(items));
      value.element = ref.element;
      return value;
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

namespace {

// A body by its own traces: what the operator feeds it, then what it reads from outside.
struct TracedBody : Body {
  TracedBody(GraphRunner& r, std::vector<Value> c) : runner(r), captures(std::move(c)) {}
  std::vector<Value> run(std::vector<Value> inputs) const override {
    inputs.insert(inputs.end(), captures.begin(), captures.end());
    return runner.run(inputs);
  }
  GraphRunner& runner;
  std::vector<Value> captures;
};

}  // namespace

std::vector<Value> run_eager_step(const EagerStep& step, const std::vector<Value>& slots) {
  std::vector<Value> inputs, captures;
  for (const Ref& ref : step.inputs) inputs.push_back(resolve(ref, slots));
  if (!step.body) return run_node(*step.node, std::move(inputs));
  for (const Ref& ref : step.captures) captures.push_back(resolve(ref, slots));
  return run_driven(*step.node, std::move(inputs), TracedBody(*step.body, std::move(captures)));
}

namespace {

std::vector<Value> run_named(const EagerStep& step, const std::vector<Value>& slots) try {
  return run_eager_step(step, slots);
} catch (Error& error) {
  error.in(str("node ", step.node->label, " (", step.node->op_type, ")"));
  throw;
}

}  // namespace

std::vector<Value> run_trace(const Trace& trace, const std::vector<Value>& inputs, const Backend& backend,
                             Bindings& bindings) {
  std::vector<Value> slots(static_cast<size_t>(trace.slot_count));
  for (size_t i = 0; i < inputs.size(); ++i) slots[i] = inputs[i];
  bindings.check_assertions();
  for (const auto& step : trace.steps) {
    bool check = false;
    if (const auto* segment = std::get_if<Segment>(&step)) {
      run_segment(*segment, slots, backend, bindings);
      check = segment->defines_symbols;
    } else {
      const auto& eager = std::get<EagerStep>(step);
      std::vector<Value> results = run_named(eager, slots);
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
