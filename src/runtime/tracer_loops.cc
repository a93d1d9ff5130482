// Loop and Scan inside a program: a `while` whose trip count is known before it starts. Taken where a loop must be
// differentiated, and on backends that keep values elsewhere than in host memory; elsewhere the host drives the body,
// which costs a few microseconds a trip and copies no stacked rows.
#include <algorithm>
#include <span>

#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ops/random.h"
#include "runtime/control_flow.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Traced;
using ops::TracedPtr;

namespace {

constexpr int64_t kMaxRegionConstant = 64;  // elements; larger constants stay outside, as operands

// What a Loop or a Scan comes to.
struct Counted {
  const onnx::Graph* body = nullptr;
  Dim trips;
  bool is_loop = false;
  std::vector<TracedPtr> states, scanned;
  std::vector<int64_t> in_axes, in_directions, out_axes, out_directions;
};

// What the body reads from outside, as its frame sees it: constants and known values as they are, the rest as operands.
struct Captures {
  std::vector<std::string> names;
  std::vector<TracedPtr> values;  // outside
  std::vector<bool> as_operand;
};

std::vector<int64_t> list_or_zeros(const onnx::Node& node, const char* name, size_t count) {
  const onnx::Attribute* a = node.find(name);
  return a && a->ints.size() == count ? a->ints : std::vector<int64_t>(count, 0);
}

bool is_tensor(const TracedPtr& traced) {
  return traced && !traced->opaque && !traced->is_sequence && !traced->is_optional &&
         traced->type.dtype != DType::string;
}

bool is_true(const Known& known) {
  return known.kind == Known::Kind::elements && known.size() == 1 && known.fully_known() &&
         provably_eq(known.elements[0].dim, 1);
}

bool same_type(const ir::Type& a, const ir::Type& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i)
    if (!provably_eq(a.shape[i], b.shape[i])) return false;
  return true;
}

TracedPtr known_traced(Known known) {
  auto traced = std::make_shared<Traced>();
  traced->type = {known.dtype, known.shape};
  traced->known = std::move(known);
  return traced;
}

// x[at] along an axis, which disappears.
ir::Value row_at(ir::Builder& b, ir::Value x, int64_t axis, ir::Value at) {
  Dims sizes = b.shape(x);
  std::vector<ir::Value> starts(sizes.size(), b.integer(DType::i64, 0));
  starts[static_cast<size_t>(axis)] = at;
  sizes[static_cast<size_t>(axis)] = 1;
  const ir::Value row = b.dynamic_slice(x, std::move(starts), sizes);
  return b.squeeze(row, {axis});
}

ir::Value with_row(ir::Builder& b, ir::Value stacked, ir::Value row, ir::Value at) {
  std::vector<ir::Value> starts(static_cast<size_t>(b.rank(stacked)), b.integer(DType::i64, 0));
  starts[0] = at;
  return b.dynamic_update_slice(stacked, b.expand_dims(row, {0}), std::move(starts));
}

// The new first axis moves to `axis`.
ir::Value first_axis_to(ir::Builder& b, ir::Value stacked, int64_t axis) {
  std::vector<int64_t> order;
  for (int64_t i = 1; i < b.rank(stacked); ++i) order.push_back(i);
  order.insert(order.begin() + axis, 0);
  return b.transpose(stacked, std::move(order));
}

}  // namespace

// While it lives, lowerings write into a region.
class Tracer::Region {
 public:
  Region(Tracer& tracer, ir::Builder& builder, ir::Value random)
      : tracer_(tracer),
        outer_(tracer.region_),
        random_(tracer.region_random_),
        segment_(tracer.segment_),
        in_use_(tracer.in_use_.size()) {
    tracer_.region_ = &builder;
    tracer_.region_random_ = random;
    tracer_.segment_ = ++tracer_.newest_segment_;
  }
  ~Region() {
    tracer_.region_ = outer_;
    tracer_.region_random_ = random_;
    tracer_.segment_ = segment_;
    tracer_.in_use_.resize(in_use_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  Tracer& tracer_;
  ir::Builder* outer_;
  ir::Value random_;
  int32_t segment_;
  size_t in_use_;
};

namespace {

// Reads a node's inputs and attributes; false where the loop must be driven by the host.
bool read_counted(ops::TraceHost& host, const onnx::Node& node, const std::vector<TracedPtr>& inputs, Counted& loop) {
  if (node.op_type == "SequenceMap" || (node.op_type == "Scan" && node.version < 9)) return false;
  loop.body = &graph_attribute(node, "body");
  loop.is_loop = node.op_type == "Loop";
  if (loop.is_loop) {
    if (inputs.empty() || !is_tensor(inputs[0]) || !host.make_known(*inputs[0])) return false;
    if (inputs.size() > 1 && inputs[1] && (!host.make_known(*inputs[1]) || !is_true(inputs[1]->known))) return false;
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
  return std::all_of(loop.states.begin(), loop.states.end(), is_tensor) &&
         std::all_of(loop.scanned.begin(), loop.scanned.end(), is_tensor);
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

bool Tracer::lower_loop(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  const Engine& engine = *options_.engine;
  if (!engine.trainable && engine.backend->capabilities().host_memory) return false;
  trace_->scope->set_origin(where(node));
  build().set_location(where(node));
  try {
    Counted loop;
    if (!read_counted(*this, node, inputs, loop) || !count_rows(loop)) return false;
    if (!decide_lt(0, loop.trips, "Loop: is there a trip")) return false;
    return emit_loop(node, loop);
  } catch (const NotInProgram&) {
    return false;
  } catch (const DataDependentDecision&) {
    return false;
  }
}

template <class Loop>
bool Tracer::emit_loop(const onnx::Node& node, Loop& loop) {
  const onnx::Graph& body = *loop.body;
  Captures captures;
  std::vector<ir::Value> fixed, state;
  const auto capture = [&](const std::string& name, TracedPtr traced) {
    const bool small = traced->constant && !traced->trainable && traced->constant.size() <= kMaxRegionConstant;
    const bool inside = small || (!traced->constant && traced->known.fully_known());
    if (!inside) fixed.push_back(materialise(*traced));
    captures.names.push_back(name);
    captures.values.push_back(std::move(traced));
    captures.as_operand.push_back(!inside);
  };
  for (const std::string& name : body.captures) {
    TracedPtr traced = lookup(name);
    if (!is_tensor(traced)) return false;
    capture(name, std::move(traced));
  }
  for (const auto& [name, tensor] : body.initializers) {
    TracedPtr traced = initializer(name, tensor);
    if (!is_tensor(traced)) return false;
    capture(name, std::move(traced));
  }
  const bool draws = ops::draws_numbers(node);
  if (draws) fixed.push_back(random_state());
  for (const TracedPtr& traced : loop.scanned) fixed.push_back(materialise(*traced));
  for (const TracedPtr& traced : loop.states) state.push_back(materialise(*traced));
  const size_t carried = state.size(), stacked = loop.out_axes.size();

  // One trip in a region: the next states, then the rows.
  const auto trip = [&](ir::Builder& b, ir::Value t, std::span<const ir::Value> states,
                        std::span<const ir::Value> operands) -> std::vector<ir::Value> {
    // What the operands are: captured values, the random state, what is scanned.
    const size_t captured =
        static_cast<size_t>(std::count(captures.as_operand.begin(), captures.as_operand.end(), true));
    ir::Value random;
    if (draws) random = ir::random_state_in_trip(b, operands[captured], node.number, t);
    const Region region(*this, b, random);
    const auto in_region = [&](ir::Value value) {
      auto traced = std::make_shared<Traced>();
      traced->type = b.type(value);
      traced->value = value;
      traced->segment = segment_;
      return traced;
    };
    std::vector<std::pair<std::string, TracedPtr>> given;
    size_t next = 0;
    for (size_t i = 0; i < captures.names.size(); ++i) {
      const Traced& outside = *captures.values[i];
      TracedPtr inside = captures.as_operand[i] ? in_region(operands[next++]) : std::make_shared<Traced>();
      inside->type = outside.type;
      inside->name = outside.name;
      inside->known = outside.known;
      if (!outside.trainable) inside->constant = outside.constant;
      given.emplace_back(captures.names[i], std::move(inside));
    }
    if (draws) ++next;
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
      if (!is_true(out[0]->known)) throw NotInProgram{};
      out.erase(out.begin());
    }
    std::vector<ir::Value> results;
    for (const TracedPtr& traced : out) {
      if (!is_tensor(traced)) throw NotInProgram{};
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
