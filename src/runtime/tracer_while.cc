// Loop and Scan as a `while` whose trip count is known before it starts. Taken where a loop must be differentiated, and
// on backends that keep values elsewhere than in host memory and have no `loop`.
#include <algorithm>
#include <span>

#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ops/random.h"
#include "runtime/control_flow.h"
#include "runtime/tracer_regions.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Traced;
using ops::TracedPtr;

namespace {

// What a Loop or a Scan comes to.
struct Counted {
  const onnx::Graph* body = nullptr;
  Dim trips;
  bool is_loop = false;
  std::vector<TracedPtr> states, scanned;
  std::vector<int64_t> in_axes, in_directions, out_axes, out_directions;
};

std::vector<int64_t> list_or_zeros(const onnx::Node& node, const char* name, size_t count) {
  const onnx::Attribute* a = node.find(name);
  return a && a->ints.size() == count ? a->ints : std::vector<int64_t>(count, 0);
}

bool same_type(const ir::Type& a, const ir::Type& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i)
    if (!provably_eq(a.shape[i], b.shape[i])) return false;
  return true;
}

ir::Value with_row(ir::Builder& b, ir::Value stacked, ir::Value row, ir::Value at) {
  std::vector<ir::Value> starts(static_cast<size_t>(b.rank(stacked)), b.integer(DType::i64, 0));
  starts[0] = at;
  return b.dynamic_update_slice(stacked, b.expand_dims(row, {0}), std::move(starts));
}

// Reads a node's inputs and attributes; false where the loop must be driven by the host.
bool read_counted(ops::TraceHost& host, const onnx::Node& node, const std::vector<TracedPtr>& inputs, Counted& loop) {
  if (node.op_type == "SequenceMap" || (node.op_type == "Scan" && node.version < 9)) return false;
  loop.body = &graph_attribute(node, "body");
  loop.is_loop = node.op_type == "Loop";
  if (loop.is_loop) {
    if (inputs.empty() || !is_program_tensor(inputs[0]) || !host.make_known(*inputs[0])) return false;
    if (inputs.size() > 1 && inputs[1] && (!host.make_known(*inputs[1]) || !is_known_true(inputs[1]->known)))
      return false;
    const Known& count = inputs[0]->known;
    if (count.kind != Known::Kind::elements || count.size() != 1) return false;
    loop.trips = count.elements[0].dim;
    loop.states.assign(inputs.begin() + std::min<ptrdiff_t>(2, static_cast<ptrdiff_t>(inputs.size())), inputs.end());
    if (loop.body->inputs.size() != loop.states.size() + 2) return false;
    const size_t first = loop.states.size() + 1;
    if (loop.body->outputs.size() < first) return false;
    loop.out_axes.assign(loop.body->outputs.size() - first, 0);
    loop.out_directions = loop.out_axes;
  } else {
    const onnx::Attribute* count = node.find("num_scan_inputs");
    if (!count || count->i < 1 || count->i > static_cast<int64_t>(inputs.size())) return false;
    const size_t scanned = static_cast<size_t>(count->i), carried = inputs.size() - scanned;
    if (loop.body->inputs.size() != inputs.size() || loop.body->outputs.size() < carried) return false;
    loop.states.assign(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(carried));
    loop.scanned.assign(inputs.begin() + static_cast<ptrdiff_t>(carried), inputs.end());
    loop.in_axes = list_or_zeros(node, "scan_input_axes", scanned);
    loop.in_directions = list_or_zeros(node, "scan_input_directions", scanned);
    loop.out_axes = list_or_zeros(node, "scan_output_axes", loop.body->outputs.size() - carried);
    loop.out_directions = list_or_zeros(node, "scan_output_directions", loop.body->outputs.size() - carried);
  }
  return std::all_of(loop.states.begin(), loop.states.end(), is_program_tensor) &&
         std::all_of(loop.scanned.begin(), loop.scanned.end(), is_program_tensor);
}

// The common extent of what is scanned.
bool count_rows(Counted& loop) {
  for (size_t k = 0; k < loop.scanned.size(); ++k) {
    const Dims& shape = loop.scanned[k]->type.shape;
    const int64_t rank = static_cast<int64_t>(shape.size());
    int64_t& axis = loop.in_axes[k];
    if (axis < -rank || axis >= rank) return false;
    if (axis < 0) axis += rank;
    const Dim extent = shape[static_cast<size_t>(axis)];
    if (k == 0) loop.trips = extent;
    if (k > 0) require_eq(extent, loop.trips, "Scan: lengths of the scanned inputs");
  }
  return true;
}

}  // namespace

bool Tracer::lower_while(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  const Engine& engine = *options_.engine;
  if (options_.single_node || !(engine.trainable || !engine.backend->capabilities().host_memory)) return false;
  trace_->scope->set_origin(where(node));
  build().set_location(where(node));
  try {
    Counted loop;
    if (!read_counted(*this, node, inputs, loop) || !count_rows(loop)) return false;
    if (!decide_lt(0, loop.trips, "Loop: is there a trip")) return false;
    return emit_while(node, loop);
  } catch (const NotInProgram&) {
    return false;
  } catch (const DataDependentDecision&) {
    return false;
  }
}

template <class Loop>
bool Tracer::emit_while(const onnx::Node& node, Loop& loop) {
  const onnx::Graph& body = *loop.body;
  Captures captures(*this);
  captures.add_all(body);
  std::vector<ir::Value> fixed = captures.operands(), state;
  const bool draws = ops::draws_numbers(node);
  if (draws) fixed.push_back(random_state());
  for (const TracedPtr& traced : loop.scanned) fixed.push_back(materialise(*traced));
  for (const TracedPtr& traced : loop.states) state.push_back(materialise(*traced));
  const size_t carried = state.size(), stacked = loop.out_axes.size();

  // One trip in a region: the next states, then the rows.
  const auto trip = [&](ir::Builder& b, ir::Value t, std::span<const ir::Value> states,
                        std::span<const ir::Value> operands) -> std::vector<ir::Value> {
    // The operands: captured values, the random state, what is scanned.
    size_t next = captures.operands().size();
    ir::Value random;
    if (draws) random = ir::random_state_in_trip(b, operands[next++], node.number, t);
    const Region region(*this, b, false, random);
    const auto in_region = [&](ir::Value value) { return traced_value(b, value, segment_); };
    const Named given = captures.inside(b, operands);
    std::vector<TracedPtr> in;
    if (loop.is_loop) in = {in_region(t), known_traced(Known::scalar(DType::boolean, ops::Scalar(Dim(1))))};
    for (size_t i = 0; i < carried; ++i) in.push_back(in_region(states[i]));
    const ir::Value last = b.dim_value(loop.trips - 1, DType::i64);
    for (size_t k = 0; k < loop.scanned.size(); ++k) {
      const ir::Value at = loop.in_directions[k] ? b.subtract(last, t) : t;
      in.push_back(in_region(row_at(b, operands[next++], loop.in_axes[k], at)));
    }
    std::vector<TracedPtr> out = inline_graph(body, in, given);
    if (loop.is_loop) {
      if (!is_known_true(out[0]->known)) throw NotInProgram{};
      out.erase(out.begin());
    }
    std::vector<ir::Value> results;
    for (const TracedPtr& traced : out) {
      if (!is_program_tensor(traced)) throw NotInProgram{};
      results.push_back(materialise(*traced));
    }
    return results;
  };

  // A first trip shows what the rows are, and whether the states keep their types.
  std::vector<ir::Type> rows;
  const size_t counts = count_data_dependent();
  {
    ir::CountedRegion probe(build(), state, fixed);
    const std::vector<ir::Value> out = trip(probe.build, probe.t, probe.state, probe.fixed);
    for (size_t i = 0; i < carried; ++i)
      if (!same_type(probe.build.type(out[i]), build().type(state[i]))) return false;
    for (size_t k = 0; k < stacked; ++k) rows.push_back(probe.build.type(out[carried + k]));
  }
  if (count_data_dependent() != counts) return false;
  for (size_t k = 0; k < stacked; ++k) {
    const int64_t rank = rows[k].rank() + 1;
    int64_t& axis = loop.out_axes[k];
    if (axis < -rank || axis >= rank) return false;
    if (axis < 0) axis += rank;
    Dims shape = rows[k].shape;
    shape.insert(shape.begin(), loop.trips);
    state.push_back(build().splat(rows[k].dtype, 0, std::move(shape)));
  }
  std::vector<ir::Value> results = ir::counted_loop(
      build(), loop.trips, state, fixed,
      [&](ir::Builder& b, ir::Value t, std::span<const ir::Value> states, std::span<const ir::Value> operands) {
        std::vector<ir::Value> out = trip(b, t, states.first(carried), operands);
        for (size_t k = 0; k < stacked; ++k) {
          const ir::Value at = loop.out_directions[k] ? b.subtract(b.dim_value(loop.trips - 1, DType::i64), t) : t;
          out[carried + k] = with_row(b, states[carried + k], out[carried + k], at);
        }
        return out;
      });
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    ir::Value value = results.at(i);
    if (i >= carried) value = first_axis_to(build(), value, loop.out_axes[i - carried]);
    auto traced = std::make_shared<Traced>();
    traced->type = build().type(value);
    traced->value = value;
    traced->segment = segment_;
    traced->name = node.outputs[i];
    define(node.outputs[i], std::move(traced));
  }
  return true;
}

}  // namespace transmuter::runtime
