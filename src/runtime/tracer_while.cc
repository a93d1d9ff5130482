// Loop and Scan as a `while` whose trip count is known before it starts. Taken where a loop must be differentiated, and
// on backends that keep values elsewhere than in host memory and have no `loop`.
#include <algorithm>
#include <span>

#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ir/primitives/infer.h"
#include "runtime/reads.h"
#include "runtime/tracer_regions.h"

namespace transmuter::runtime {

using ops::Known;
using ops::TracedPtr;

bool Tracer::read_while(const onnx::Node& node, const std::vector<TracedPtr>& inputs, LoopParts& loop) {
  if (!loop.read(node, inputs)) return false;
  if (loop.is_loop) {
    if (inputs.empty() || !is_program_tensor(inputs[0]) || !make_known(*inputs[0])) return false;
    if (inputs.size() > 1 && inputs[1] && (!make_known(*inputs[1]) || !is_known_true(inputs[1]->known))) return false;
    if (!loop.take_count(inputs[0]->known)) return false;
  }
  return std::all_of(loop.states.begin(), loop.states.end(), is_program_tensor) && loop.count_rows();
}

bool Tracer::lower_while(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  const Engine& engine = *options_.engine;
  if (options_.single_node || !(engine.trainable || !engine.backend->capabilities().host_memory)) return false;
  trace_->scope->set_origin(where(node));
  build().set_location(where(node));
  try {
    LoopParts loop;
    return read_while(node, inputs, loop) && decide_lt(0, *loop.trips, "Loop: is there a trip") &&
           emit_while(node, loop);
  } catch (const NotInProgram&) {
    return false;
  } catch (const DataDependentDecision&) {
    return false;
  }
}

bool Tracer::emit_while(const onnx::Node& node, LoopParts& loop) {
  const onnx::Graph& body = *loop.body;
  Captures captures(*this);
  captures.add_all(body);
  std::vector<ir::Value> fixed = captures.operands(), state;
  if (loop.draws) fixed.push_back(random_state());
  for (const TracedPtr& traced : loop.sources) fixed.push_back(materialise(*traced));
  for (const TracedPtr& traced : loop.states) state.push_back(materialise(*traced));
  const size_t carried = loop.carried, stacked = loop.stacked;
  const Dim trips = *loop.trips;

  // One trip in a region: the next states, then the rows.
  const auto trip = [&](ir::Builder& b, ir::Value t, std::span<const ir::Value> states,
                        std::span<const ir::Value> operands) -> std::vector<ir::Value> {
    // The operands: captured values, the random state, what is scanned.
    size_t next = captures.operands().size();
    ir::Value random;
    if (loop.draws) random = ir::random_state_in_trip(b, operands[next++], loop.number, t);
    const Region region(*this, b, false, random);
    const auto in_region = [&](ir::Value value) { return traced_value(b, value, segment_); };
    const Named given = captures.inside(b, operands);
    std::vector<TracedPtr> in;
    if (loop.is_loop) in = {in_region(t), known_traced(Known::scalar(DType::boolean, ops::Scalar(Dim(1))))};
    for (size_t i = 0; i < carried; ++i) in.push_back(in_region(states[i]));
    const ir::Value last = b.dim_value(trips - 1, DType::i64);
    for (size_t k = 0; k < loop.scanned; ++k) {
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
    for (size_t i = 0; i < carried; ++i) {
      const ir::Type &after = probe.build.type(out[i]), &before = build().type(state[i]);
      if (after.dtype != before.dtype || !ir::provably_same(after.shape, before.shape)) return false;
    }
    for (size_t k = 0; k < stacked; ++k) rows.push_back(probe.build.type(out[carried + k]));
  }
  if (count_data_dependent() != counts) return false;
  for (size_t k = 0; k < stacked; ++k) {
    if (!normalise(loop.out_axes[k], rows[k].rank() + 1)) return false;
    Dims shape = rows[k].shape;
    shape.insert(shape.begin(), trips);
    state.push_back(build().splat(rows[k].dtype, 0, std::move(shape)));
  }
  std::vector<ir::Value> results = ir::counted_loop(
      build(), trips, state, fixed,
      [&](ir::Builder& b, ir::Value t, std::span<const ir::Value> states, std::span<const ir::Value> operands) {
        std::vector<ir::Value> out = trip(b, t, states.first(carried), operands);
        for (size_t k = 0; k < stacked; ++k) {
          const ir::Value at = loop.out_directions[k] ? b.subtract(b.dim_value(trips - 1, DType::i64), t) : t;
          out[carried + k] = with_row(b, states[carried + k], out[carried + k], at);
        }
        return out;
      });
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    ir::Value value = results.at(i);
    if (i >= carried) value = first_axis_to(build(), value, loop.out_axes[i - carried]);
    TracedPtr traced = traced_value(build(), value, segment_);
    traced->name = node.outputs[i];
    define(node.outputs[i], std::move(traced));
  }
  return true;
}

}  // namespace transmuter::runtime
