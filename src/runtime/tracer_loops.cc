// Loop, Scan and SequenceMap in the program, as the composite `loop`: any number of trips, a condition, states that
// change their size, rows that are stacked, sequences that the body appends to. What it cannot hold (values of the
// host, a decision on what only a trip knows, states that change their rank) the host drives.
#include <algorithm>

#include "ir/composites/composites.h"
#include "ops/random.h"
#include "ops/sequence.h"
#include "runtime/reads.h"
#include "runtime/tracer_regions.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Traced;
using ops::TracedPtr;

namespace {

constexpr size_t kMaxInlined = 64;  // items of a SequenceMap
constexpr int kMaxAttempts = 8;     // each finds further extents that change

}  // namespace

// What one attempt at the body came to.
struct Tracer::LoopBody {
  ir::ProgramPtr program;
  Dims entry;
  bool has_condition = false;
  std::vector<int64_t> row_axes;
  std::vector<bool> appends;  // by state: a sequence to which a trip appends
};

bool Tracer::can_hold_regions() const {
  const Engine& engine = *options_.engine;
  return !options_.single_node && !engine.trainable && engine.backend->capabilities().data_dependent_extents;
}

bool Tracer::read_loop(const onnx::Node& node, const std::vector<TracedPtr>& inputs, LoopParts& loop) {
  if (!loop.read(node, inputs)) return false;
  if (loop.is_loop && !inputs.empty() && inputs[0] &&
      (!is_program_tensor(inputs[0]) || !know(*inputs[0]) || !loop.take_count(inputs[0]->known)))
    return false;
  if (loop.is_loop && inputs.size() > 1 && inputs[1]) {
    if (!is_program_tensor(inputs[1]) || !provably_eq(product(inputs[1]->type.shape), 1)) return false;
    make_known(*inputs[1]);
    if (!is_known_true(inputs[1]->known)) loop.condition = inputs[1];
  }
  for (const TracedPtr& state : loop.states)
    if (!is_program_tensor(state) && !(state && state->is_sequence)) return false;
  return loop.count_rows();
}

bool Tracer::map_items(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  if (node.op_type != "SequenceMap" || options_.single_node || ops::draws_numbers(node)) return false;
  if (inputs.empty() || !inputs[0] || !inputs[0]->is_sequence) return false;
  const size_t count = inputs[0]->items.size();
  if (count > kMaxInlined) return false;
  for (const TracedPtr& input : inputs) {
    if (!input || input->opaque) return false;
    const auto& items = input->items;
    if (input->is_sequence && (items.size() != count || std::any_of(items.begin(), items.end(), [](const TracedPtr& i) {
                                 return i->stack || i->opaque;
                               })))
      return false;
  }
  const onnx::Graph& body = graph_attribute(node, "body");
  std::vector<TracedPtr> results;
  for (const onnx::ValueInfo& declared : body.outputs) {
    results.push_back(std::make_shared<Traced>());
    results.back()->is_sequence = true;
    results.back()->type.dtype = declared.dtype;
  }
  const size_t in_use = in_use_.size();
  in_use_.insert(in_use_.end(), inputs.begin(), inputs.end());
  for (size_t i = 0; i < count; ++i) {
    std::vector<TracedPtr> in;
    for (const TracedPtr& input : inputs) in.push_back(input->is_sequence ? input->items[i] : input);
    const std::vector<TracedPtr> out = inline_graph(body, in);
    for (size_t k = 0; k < results.size(); ++k) results[k]->items.push_back(out.at(k));
    // A break in a later item must keep those of the earlier ones.
    in_use_.insert(in_use_.end(), out.begin(), out.end());
  }
  in_use_.resize(in_use);
  for (size_t k = 0; k < node.outputs.size() && k < results.size(); ++k) define(node.outputs[k], results[k]);
  return true;
}

// A SequenceMap over items that lie in one tensor, or could: what it maps is scanned, what it gives are sequences to
// which each trip appends.
bool Tracer::read_map(const onnx::Node& node, const std::vector<TracedPtr>& inputs, LoopParts& loop) {
  loop.body = &graph_attribute(node, "body");
  loop.maps = true;
  loop.draws = ops::draws_numbers(node);
  loop.number = node.number;
  if (inputs.size() != loop.body->inputs.size()) return false;
  for (const TracedPtr& input : inputs) {
    if (!input) return false;
    loop.fixed.push_back(!input->is_sequence);
    if (!input->is_sequence) continue;
    if (!std::all_of(input->items.begin(), input->items.end(), is_program_tensor)) return false;
    const std::optional<ir::Value> all =
        ops::stacked_items(build(), input->items, [&](Traced& item) { return materialise(item); });
    if (!all) return false;
    loop.sources.push_back(traced_value(build(), *all, segment_));
  }
  loop.scanned = loop.sources.size();
  loop.in_axes = loop.in_directions = std::vector<int64_t>(loop.scanned, 0);
  loop.carried = loop.body->outputs.size();
  for (const onnx::ValueInfo& declared : loop.body->outputs) {
    loop.states.push_back(std::make_shared<Traced>());
    loop.states.back()->is_sequence = true;
    loop.states.back()->type.dtype = declared.dtype;
  }
  return loop.scanned > 0 && loop.count_rows();
}

bool Tracer::lower_loop(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  if (!can_hold_regions()) return lower_while(node, inputs);
  trace_->scope->set_origin(where(node));
  build().set_location(where(node));
  try {
    LoopParts loop;
    const bool maps = node.op_type == "SequenceMap";
    if (!(maps ? read_map(node, inputs, loop) : read_loop(node, inputs, loop))) return false;
    try {
      return emit_loop(node, inputs, loop);
    } catch (const OtherRank&) {
      return peel_trip(loop) && emit_loop(node, inputs, loop);
    }
  } catch (const NotInProgram&) {
    return false;
  } catch (const DataDependentDecision&) {
    return false;
  } catch (const Error& error) {
    // A body that runs no trip need not make sense; if it is a fault, the trip that the host drives says so.
    if (error.code() == ErrorCode::internal) throw;
    return false;
  }
}

// One trip in a region, where the extents of states that `changes` says are the trip's own. False: more of them do.
bool Tracer::trace_trip(const LoopParts& loop, const Captures& captures, const std::vector<ir::Value>& outside,
                        std::vector<std::vector<bool>>& changes, LoopBody& body) {
  ir::Builder b(trace_->scope);
  Region region(*this, b, true, {});
  const auto in_region = [&](ir::Value value) { return traced_value(b, value, segment_); };
  ir::Value t = b.input({DType::i64, {}}, "t");
  if (loop.done > 0) t = b.add(t, b.integer(DType::i64, loop.done));
  std::vector<TracedPtr> in;
  if (loop.is_loop) in = {in_region(t), known_traced(Known::scalar(DType::boolean, ops::Scalar(Dim(1))))};
  ir::Builder& around = *(region.outer());
  std::vector<ir::Value> states;  // parameters
  for (const TracedPtr& state : loop.states) {
    if (loop.maps) break;
    if (state->is_sequence) {
      auto inside = std::make_shared<Traced>();
      inside->is_sequence = true;
      inside->type.dtype = state->type.dtype;
      inside->items.push_back(std::make_shared<Traced>());
      inside->items[0]->type = state->items.empty() ? ir::Type{state->type.dtype, {}} : state->items[0]->type;
      ops::Stack before;
      before.hidden = true;
      inside->items[0]->stack = std::make_shared<const ops::Stack>(before);
      in.push_back(std::move(inside));
      continue;
    }
    const size_t k = states.size();
    ir::Type type = around.type(outside[k]);
    for (size_t axis = 0; axis < type.shape.size(); ++axis)
      if (changes[k][axis]) type.shape[axis] = trace_->scope->data_value(type.shape[axis].hint(), {0, INT64_MAX});
    states.push_back(b.input(std::move(type), "state"));
    in.push_back(in_region(states.back()));
  }
  std::vector<ir::Value> fixed;
  for (size_t i = states.size(); i < outside.size(); ++i) fixed.push_back(b.input(around.type(outside[i]), "fixed"));
  const Named given = captures.inside(b, fixed);
  size_t next = captures.operands().size();
  if (loop.draws) region_random_ = ir::random_state_in_trip(b, fixed[next++], loop.number, t);
  for (size_t k = 0; k < loop.scanned; ++k) {
    const ir::Value last = b.dim_value(*loop.trips + (loop.done - 1), DType::i64);
    const ir::Value at = loop.in_directions[k] ? b.subtract(last, t) : t;
    while (in.size() < loop.fixed.size() && loop.fixed[in.size()]) in.push_back(nullptr);  // among what is given
    in.push_back(in_region(row_at(b, fixed[next++], loop.in_axes[k], at)));
  }
  std::vector<TracedPtr> out = inline_graph(*loop.body, in, given);

  std::vector<ir::Value> results;
  body = LoopBody();
  if (loop.is_loop) {
    if (!is_program_tensor(out[0]) || out[0]->type.dtype != DType::boolean) throw NotInProgram{};
    body.has_condition = loop.condition != nullptr || !is_known_true(out[0]->known);
    if (body.has_condition) results.push_back(b.reshape(materialise(*out[0]), {}));
    out.erase(out.begin());
  }
  bool same = true;
  // Scan outputs, then what sequences got.
  std::vector<TracedPtr> rows(out.begin() + static_cast<ptrdiff_t>(loop.carried), out.end());
  size_t tensor = 0;
  for (size_t i = 0; i < loop.states.size(); ++i) {
    const bool is_sequence = loop.states[i]->is_sequence;
    body.appends.push_back(loop.maps);
    if (loop.maps) {
      rows.push_back(out[i]);
      continue;
    }
    if (!is_sequence) {
      if (!is_program_tensor(out[i])) throw NotInProgram{};
      const ir::Value value = materialise(*out[i]);
      const ir::Type &before = b.type(states[tensor]), &after = b.type(value);
      if (before.rank() != after.rank()) throw OtherRank{};
      if (before.dtype != after.dtype) throw NotInProgram{};
      for (size_t axis = 0; axis < before.shape.size(); ++axis) {
        if (changes[tensor][axis] || provably_eq(before.shape[axis], after.shape[axis])) continue;
        changes[tensor][axis] = true;
        same = false;
      }
      results.push_back(value);
      ++tensor;
      continue;
    }
    // The sequence as it was, and at most one item more.
    const std::vector<TracedPtr>& items = out[i]->items;
    if (!out[i]->is_sequence || items.empty() || items[0] != in[i + (loop.is_loop ? 2 : 0)]->items[0] ||
        items.size() > 2)
      throw NotInProgram{};
    if (items.size() == 1) continue;
    if (items[1]->stack) throw NotInProgram{};
    body.appends.back() = true;
    rows.push_back(items[1]);
  }
  if (!same) return false;
  for (size_t k = 0; k < rows.size(); ++k) {
    if (!is_program_tensor(rows[k])) throw NotInProgram{};
    results.push_back(materialise(*rows[k]));
    int64_t ragged = -1;
    const Dims& shape = b.shape(results.back());
    for (size_t axis = 0; axis < shape.size() && k >= loop.stacked; ++axis) {
      if (!region.defines(shape[axis])) continue;
      if (ragged >= 0) throw NotInProgram{};
      ragged = static_cast<int64_t>(axis);
    }
    body.row_axes.push_back(ragged);
  }
  body.entry = region.keep();
  body.program = std::make_shared<const ir::Program>(b.finish(std::move(results)));
  return true;
}

// A state whose rank another one follows after the first trip (a scalar that becomes a list): that trip is traced where
// the loop stands, for calls that have one, and the loop makes the rest.
bool Tracer::peel_trip(LoopParts& loop) {
  if (loop.condition || loop.draws || loop.maps || !loop.trips || !decide_lt(0, *loop.trips, "Loop: is there a trip"))
    return false;
  std::vector<TracedPtr> in;
  if (loop.is_loop)
    in = {known_traced(Known::scalar(DType::i64, ops::Scalar(Dim(0)))),
          known_traced(Known::scalar(DType::boolean, ops::Scalar(Dim(1))))};
  in.insert(in.end(), loop.states.begin(), loop.states.end());
  for (size_t k = 0; k < loop.scanned; ++k) {
    const ir::Value at = build().dim_value(loop.in_directions[k] ? *loop.trips - 1 : Dim(0), DType::i64);
    const ir::Value source = materialise(*loop.sources[k]);
    in.push_back(traced_value(build(), row_at(build(), source, loop.in_axes[k], at), segment_));
  }
  std::vector<TracedPtr> out = inline_graph(*loop.body, in);
  if (loop.is_loop) {
    if (!is_program_tensor(out[0])) return false;
    if (!is_known_true(out[0]->known)) loop.condition = out[0];
    out.erase(out.begin());
  }
  const auto first_row = out.begin() + static_cast<ptrdiff_t>(loop.carried);
  loop.states.assign(out.begin(), first_row);
  loop.first_rows.assign(first_row, out.end());
  for (const TracedPtr& state : loop.states)
    if (!is_program_tensor(state) && !(state && state->is_sequence)) return false;
  if (!std::all_of(loop.first_rows.begin(), loop.first_rows.end(), is_program_tensor)) return false;
  loop.done = 1;
  loop.trips = *loop.trips - 1;
  return true;
}

bool Tracer::emit_loop(const onnx::Node& node, const std::vector<TracedPtr>& inputs, LoopParts& loop) {
  Captures captures(*this);
  captures.add_all(*loop.body);
  for (size_t i = 0; i < loop.fixed.size(); ++i)
    if (loop.fixed[i]) captures.add(loop.body->inputs[i].name, inputs[i]);
  std::vector<ir::Value> operands;
  std::vector<std::vector<bool>> changes;
  for (const TracedPtr& state : loop.states) {
    if (state->is_sequence) continue;
    operands.push_back(materialise(*state));
    changes.emplace_back(static_cast<size_t>(state->type.rank()));
  }
  ir::LoopAttributes attributes;
  attributes.carried = static_cast<int64_t>(operands.size());
  operands.insert(operands.end(), captures.operands().begin(), captures.operands().end());
  if (loop.draws) operands.push_back(random_state());
  for (const TracedPtr& source : loop.sources) operands.push_back(materialise(*source));

  LoopBody body;
  int attempts = 0;
  while (!trace_trip(loop, captures, operands, changes, body))
    if (++attempts == kMaxAttempts) return false;
  if (loop.trips) attributes.trips = {*loop.trips};
  attributes.has_condition = body.has_condition;
  attributes.row_axes = body.row_axes;
  attributes.entry = body.entry;
  if (body.has_condition) {
    const ir::Value first = loop.condition
                                ? build().reshape(materialise(*loop.condition), {})
                                : build().constant(Tensor(std::vector<uint8_t>{1}, {}).bitcast(DType::boolean));
    operands.insert(operands.begin(), first);
  }
  const std::vector<ir::Value> results = ir::loop(build(), std::move(operands), attributes, body.program);

  size_t next_state = 0, next_row = static_cast<size_t>(attributes.carried), row = 0;
  std::vector<TracedPtr> rows;  // scan outputs, then those of sequences
  for (; row < body.row_axes.size(); ++row) {
    TracedPtr traced = traced_value(build(), results[next_row++], segment_);
    if (row >= loop.stacked) {
      ops::Stack stack;
      stack.axis = body.row_axes[row];
      stack.count = traced->type.shape.empty() ? Dim(0) : traced->type.shape[0];
      if (stack.axis >= 0) {
        traced->items.push_back(traced_value(build(), results[next_row++], segment_));
        stack.count = traced->items[0]->type.shape[0];
      }
      traced->stack = std::make_shared<const ops::Stack>(stack);
    }
    rows.push_back(std::move(traced));
  }
  size_t next_sequence = loop.stacked;
  for (size_t i = 0; i < loop.states.size() + loop.stacked; ++i) {
    TracedPtr traced;
    if (i >= loop.states.size()) {
      const size_t k = i - loop.states.size();
      ir::Value value = rows[k]->value;
      if (!loop.first_rows.empty()) {
        const ir::Value first = build().expand_dims(materialise(*loop.first_rows[k]), {0});
        if (build().rank(first) != build().rank(value)) return false;
        value = build().concatenate({first, value}, 0);
      }
      int64_t axis = loop.out_axes[k];
      if (!normalise(axis, build().rank(value))) return false;
      if (loop.out_directions[k]) value = build().reverse(value, {0});
      traced = traced_value(build(), first_axis_to(build(), value, axis), segment_);
    } else if (loop.states[i]->is_sequence) {
      traced = std::make_shared<Traced>(*loop.states[i]);
      if (body.appends[i]) {
        traced->items.push_back(rows[next_sequence++]);
        if (traced->type.dtype == DType::invalid) traced->type.dtype = traced->items.back()->type.dtype;
      }
    } else {
      traced = traced_value(build(), results[next_state++], segment_);
    }
    if (i >= node.outputs.size() || node.outputs[i].empty()) continue;
    traced->name = node.outputs[i];
    define(node.outputs[i], std::move(traced));
  }
  return true;
}

}  // namespace transmuter::runtime
