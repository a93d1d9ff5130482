#include "runtime/execute.h"

#include <map>

#include "backends/kept_buffer.h"
#include "base/run_control.h"
#include "runtime/control_flow.h"
#include "runtime/graph_runner.h"
#include "runtime/node_runner.h"
#include "runtime/reads.h"
#include "runtime/tell.h"
#include "tensor/pieces.h"

namespace transmuter::runtime {

namespace {

void unstack(const Ref& ref, const std::vector<Value>& slots, std::vector<Value>& items) {
  const Tensor values = resolve(ref.items[0], slots).tensor;
  if (ref.axis < 0) {
    for (int64_t i = 0; i < values.dim(0); ++i) items.emplace_back(row_of(values, 0, i));
    return;
  }
  const Tensor lengths = resolve(ref.items[1], slots).tensor;
  int64_t start = 0;
  for (int64_t i = 0; i < lengths.size(); ++i) {
    const int64_t length = lengths.data<int64_t>()[i];
    items.emplace_back(piece_of(values, ref.axis, start, length));
    start += length;
  }
}

}  // namespace

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
      for (const Ref& item : ref.items) {
        if (item.kind == Ref::Kind::stack)
          unstack(item, slots, items);
        else
          items.push_back(resolve(item, slots));
      }
      Value value =
          ref.kind == Ref::Kind::sequence ? Value::sequence(std::move(items)) : Value::optional(std::move(items));
      value.element = ref.element;
      return value;
    }
    case Ref::Kind::texts: {
      const Tensor places = resolve(ref.items[0], slots).tensor.aligned().cast(DType::i64);
      std::vector<std::string> texts;
      for (int64_t i = 0; i < places.size(); ++i)
        texts.push_back(ref.texts->at(static_cast<size_t>(places.data<int64_t>()[i])));
      return Tensor::of_strings(std::move(texts), places.shape());
    }
    case Ref::Kind::stack:
      break;  // only in a sequence
  }
  return {};
}

bool may_take(const Value& value) {
  if (!value.is_tensor() || value.donated) return value.donated;
  const auto* kept = dynamic_cast<const KeptBuffer*>(value.tensor.elsewhere().get());
  return value.tensor.unique() && (!kept || kept->buffer().growing.use_count() <= 1);
}

void run_segment(const Segment& segment, std::vector<Value>& slots, const Backend& backend, Bindings& bindings,
                 const std::vector<bool>* donated) {
  telemetry::Span span(telemetry::Kind::segment);
  std::vector<Buffer> inputs;
  inputs.reserve(segment.input_slots.size());
  for (int32_t slot : segment.input_slots) {
    const size_t index = static_cast<size_t>(slot);
    inputs.push_back(backend.upload(slots[index].tensor));
    if (!donated) continue;
    inputs.back().donated = index < donated->size() && (*donated)[index];
    inputs.back().keeps_room = true;
  }
  if (span) {
    ShapesText shapes;
    size_t next = 0;
    for (const ir::Parameter& p : segment.program->parameters())
      if (p.kind == ir::Parameter::Kind::input)
        shapes.add(p.name, slots[static_cast<size_t>(segment.input_slots[next++])]);
    span.add("segment", segment.number);
    span.add("ops", segment.program->ops().size());
    span.add("inputs", shapes.text());
  }
  std::vector<Buffer> results = segment.executable->run(inputs, bindings);
  for (size_t i = 0; i < results.size(); ++i) {
    Value& slot = slots[static_cast<size_t>(segment.output_slots[i])];
    if (results[i].host) {
      slot = std::move(results[i].host);
    } else if (results[i].growing || results[i].device) {
      const DType dtype = segment.program->type(segment.program->results()[i]).dtype;
      const Shape shape = results[i].shape;
      slot = Tensor::deferred(dtype, shape,
                              std::make_shared<KeptBuffer>(std::move(results[i]), backend.shared_from_this()));
    } else {
      slot = backend.download(results[i]);
    }
  }
}

namespace {

// A body by its own traces: what the operator feeds it, then what it reads from outside.
struct TracedBody : Body {
  TracedBody(GraphRunner& r, uint64_t n, std::vector<Value> c, const RunContext& o)
      : runner(r), node(n), captures(std::move(c)), outside(o) {}
  std::vector<Value> run(std::vector<Value> inputs, bool gives) const override {
    Donation donation;
    for (const Value& input : inputs) donation.donated.push_back(gives && may_take(input));
    inputs.insert(inputs.end(), captures.begin(), captures.end());
    donation.donated.resize(inputs.size());
    return runner.run(inputs, outside.in_trip(node, trips++), gives ? &donation : nullptr);
  }
  std::vector<Outline> outline(std::vector<Value> inputs) const override {
    inputs.insert(inputs.end(), captures.begin(), captures.end());
    return runner.outline(inputs, outside.in_trip(node, 0));
  }
  GraphRunner& runner;
  uint64_t node;  // its number
  std::vector<Value> captures;
  const RunContext& outside;
  mutable uint64_t trips = 0;
};

struct TracedBodies : Bodies {
  TracedBodies(const EagerStep& step, const std::vector<Value>& slots, const RunContext& context) {
    for (const EagerStep::Body& body : step.bodies) {
      std::vector<Value> captures;
      for (const Ref& ref : body.captures) captures.push_back(resolve(ref, slots));
      bodies.try_emplace(body.attribute, *body.runner, step.node->number, std::move(captures), context);
    }
  }
  const Body& of(const std::string& attribute) const override { return bodies.at(attribute); }
  std::map<std::string, TracedBody> bodies;
};

}  // namespace

std::vector<Value> run_eager_step(const EagerStep& step, const std::vector<Value>& slots, const RunContext& context) {
  std::vector<Value> inputs;
  for (const Ref& ref : step.inputs) inputs.push_back(resolve(ref, slots));
  if (step.runner) return step.runner->run(std::move(inputs), context);
  return run_driven(*step.node, std::move(inputs), TracedBodies(step, slots, context), context);
}

namespace {

std::vector<Value> run_named(const EagerStep& step, const Trace& trace, size_t segments,
                             const std::vector<Value>& slots, const RunContext& context) try {
  telemetry::Span span(telemetry::Kind::graph_break);
  if (span) {
    std::vector<int32_t> read;
    for (const Ref& ref : step.inputs)
      if (ref.kind == Ref::Kind::slot) read.push_back(ref.slot);
    span.add("segment", static_cast<int64_t>(segments) - 1);
    span.add("node", where(*step.node));
    span.add("reason", step.reason);
    span.add("inputs", shapes_of(trace, read, slots));
  }
  return run_eager_step(step, slots, context);
} catch (Error& error) {
  error.in(where(*step.node));
  throw;
}

}  // namespace

void run_trace(const Trace& trace, std::vector<Value>& slots, const Backend& backend, Bindings& bindings,
               const RunContext& context, const Donation* donation) {
  std::vector<bool> donated = donation ? donation->donated : std::vector<bool>();
  for (size_t i = 0; i < donated.size(); ++i) donated[i] = donated[i] && trace.takes[i];
  slots.resize(static_cast<size_t>(trace.slot_count));
  if (trace.random_slot >= 0) slots[static_cast<size_t>(trace.random_slot)] = context.random_words();
  check_assertions(trace, bindings);
  size_t segments = trace.before.segments;  // that have run
  for (const auto& step : trace.steps) {
    RunControl::check();
    bool check = false;
    if (const auto* segment = std::get_if<Segment>(&step)) {
      run_segment(*segment, slots, backend, bindings, donation ? &donated : nullptr);
      check = segment->defines_symbols;
      segments = segment->number + 1;
    } else {
      const auto& eager = std::get<EagerStep>(step);
      std::vector<Value> results = run_named(eager, trace, segments, slots, context);
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
    check_assertions(trace, bindings);
  }
}

std::vector<Value> outputs_of(const Trace& trace, const std::vector<Value>& slots) {
  std::vector<Value> outputs;
  outputs.reserve(trace.outputs.size());
  for (const Ref& ref : trace.outputs) outputs.push_back(resolve(ref, slots));
  return outputs;
}

}  // namespace transmuter::runtime
