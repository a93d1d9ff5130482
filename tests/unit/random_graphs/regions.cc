#include <algorithm>
#include <tuple>

#include "base/strings.h"
#include "maker.h"

namespace transmuter::runtime::testing {

bool GraphMaker::region() {
  if (depth_ >= 2) return false;
  switch (below(3)) {
    case 0:
      return branch();
    case 1:
      return loop();
    default:
      return scan();
  }
}

// What `make` writes goes to a graph of its own; it may read whatever lies around it.
GraphMaker::Body GraphMaker::body(const std::function<void()>& make) {
  Body inner;
  Strings* const around = nodes_;
  const size_t before = values_.size();
  nodes_ = &inner.nodes;
  ++depth_;
  make();
  --depth_;
  nodes_ = around;
  inner.made.assign(values_.begin() + static_cast<ptrdiff_t>(before), values_.end());
  values_.resize(before);
  return inner;
}

std::string GraphMaker::close_body(const Body& body, const std::vector<RandomValue>& inputs,
                                   const std::vector<RandomValue>& outputs) {
  GraphParts parts;
  parts.name = str("body", names_++);
  parts.nodes = body.nodes;
  for (const RandomValue& v : inputs) parts.inputs.push_back(value(v.name, type_number(v.dtype)));
  for (const RandomValue& v : outputs) {
    parts.outputs.push_back(value(v.name, type_number(v.dtype)));
    read_.push_back(v.name);
  }
  return graph(parts);
}

bool GraphMaker::branch() {
  const RandomValue condition = input(DType::boolean, coin() ? Shape{} : Shape{1}, 0, 1);
  const bool taken = graph_.feeds.at(condition.name).tensor.bitcast(DType::u8).aligned().to_vector<uint8_t>()[0] != 0;
  const auto steps = [&] {
    const int64_t wanted = 1 + below(3);
    for (int64_t made = 0, tries = 0; made < wanted && tries < 40; ++tries) made += step();
    // Inputs that steps asked for are the main graph's: the last value may be one of them, or nothing was made.
    if (const RandomValue* x = pick([](const RandomValue&) { return true; })) emit("Identity", {x->name}, *x);
  };
  graph_.text += "then\n";
  Body first = body(steps);
  const auto inner = [](const Body& made) {
    std::vector<RandomValue> out;
    for (const RandomValue& v : made.made)
      if (!v.terminal && v.name.starts_with('v')) out.push_back(v);
    return out;
  };
  const std::vector<RandomValue> from = inner(first);
  if (from.empty()) return false;
  const RandomValue chosen = from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  RandomValue other;
  graph_.text += "else\n";
  Body second = body([&] {
    steps();
    for (const RandomValue& v : values_)
      if (!v.terminal && v.dtype == chosen.dtype && v.shape.size() == chosen.shape.size()) other = v;
    if (other.name.empty()) {
      const bool is_unsigned = !is_real(chosen.dtype) && !is_signed_integer(chosen.dtype);
      other = weight(chosen.dtype, chosen.shape, is_unsigned ? 0 : -1, 1, true);
    }
    emit("Identity", {other.name}, other);
    other = last();
  });
  if (other.name.empty() || !other.name.starts_with('v')) return false;
  graph_.text += "end\n";
  RandomValue y = taken ? chosen : other;
  y.bound = std::max(chosen.bound, other.bound);
  y.error = std::max(chosen.error, other.error);
  const std::string yes = close_body(first, {}, {chosen}), no = close_body(second, {}, {other});
  return emit("If", {condition.name}, y, {graph_attribute("then_branch", yes), graph_attribute("else_branch", no)});
}

// What a trip makes of the state: of its shape and dtype, exact, and within the bound that the state has.
RandomValue GraphMaker::carried(const RandomValue& state) {
  RandomValue next = state;
  for (size_t i = values_.size(); i-- > 0;) {
    const RandomValue& v = values_[i];
    if (!v.terminal && v.name != state.name && v.dtype == state.dtype && v.shape == state.shape && v.error == 0 &&
        v.name.starts_with('v')) {
      next = v;
      break;
    }
  }
  if (is_real(state.dtype)) {
    const auto limit = [&](double number) {
      return constant(Tensor(std::vector<double>{number}, {}).cast(state.dtype));
    };
    next.bound = state.bound;
    emit("Clip", {next.name, limit(-state.bound), limit(state.bound)}, next);
  } else {
    emit("Identity", {next.name}, next);
  }
  return last();
}

std::pair<RandomValue, RandomValue> GraphMaker::trip_of(const RandomValue& state) {
  const int64_t wanted = 1 + below(3);
  for (int64_t steps = 0, tries = 0; steps < wanted && tries < 40; ++tries) steps += step();
  RandomValue row;
  if (const RandomValue* x = pick([](const RandomValue&) { return true; })) row = *x;
  const RandomValue next = carried(state);
  if (row.name.empty()) row = next;
  emit("Identity", {row.name}, row);
  return {next, last()};
}

bool GraphMaker::loop() {
  const RandomValue* found = pick([](const RandomValue& v) { return v.error == 0 && v.dtype != DType::bf16; });
  if (!found) return false;
  const RandomValue start = *found;
  const int64_t most = below(4), stop = below(5);
  const bool ends_itself = below(3) == 0;
  const std::string trips = coin() ? input(DType::i64, {}, most, most).name : constant({most}, true);
  const int64_t count = ends_itself ? std::min(most, stop + 1) : most;
  RandomValue trip, going, state = start;
  trip.name = str("v", names_++), trip.dtype = DType::i64;
  going.name = str("v", names_++), going.dtype = DType::boolean;
  state.name = str("v", names_++);
  RandomValue goes_on, next, row;
  graph_.text += str("loop, ", most, " trips, ", going.name, " ", state.name, "\n");
  const Body made = body([&] {
    values_.push_back(trip);
    values_.push_back(state);
    std::tie(next, row) = trip_of(state);
    goes_on = going;
    if (ends_itself)
      emit("Less", {trip.name, constant({stop}, true)}, goes_on);
    else
      emit("Identity", {going.name}, goes_on);
    goes_on = last();
  });
  graph_.text += "end\n";
  const std::string inner = close_body(made, {trip, going, state}, {goes_on, next, row});
  RandomValue stacked = row;
  stacked.shape.insert(stacked.shape.begin(), count);
  const std::string condition = coin() ? "" : constant(truth(true));
  next.name.clear();
  return emit_all("Loop", {trips, condition, start.name}, {next, stacked}, {graph_attribute("body", inner)});
}

bool GraphMaker::scan() {
  const RandomValue* found = pick([](const RandomValue& v) { return !v.shape.empty() && v.dtype != DType::boolean; });
  const RandomValue* initial = pick([](const RandomValue& v) { return v.error == 0 && v.dtype != DType::bf16; });
  if (!found || !initial) return false;
  const RandomValue over = *found, start = *initial;
  const int64_t axis = coin() ? 0 : below(static_cast<int64_t>(over.shape.size()));
  const int64_t count = over.shape[static_cast<size_t>(axis)];
  if (count > 20) return false;
  RandomValue slice = over, state = start, next, row;
  slice.shape.erase(slice.shape.begin() + axis);
  slice.name = str("v", names_++);
  state.name = str("v", names_++);
  graph_.text += str("scan, state ", state.name, ", slice ", slice.name, "\n");
  const Body made = body([&] {
    values_.push_back(slice);
    values_.push_back(state);
    std::tie(next, row) = trip_of(state);
  });
  graph_.text += "end\n";
  const std::string inner = close_body(made, {state, slice}, {next, row});
  RandomValue stacked = row;
  const int64_t to = coin() ? 0 : below(static_cast<int64_t>(row.shape.size()) + 1);
  stacked.shape.insert(stacked.shape.begin() + to, count);
  next.name.clear();
  return emit_all("Scan", {start.name, over.name}, {next, stacked},
                  {graph_attribute("body", inner), int_attribute("num_scan_inputs", 1),
                   ints_attribute("scan_input_axes", {axis}), ints_attribute("scan_input_directions", {below(2)}),
                   ints_attribute("scan_output_axes", {to}), ints_attribute("scan_output_directions", {below(2)})});
}

}  // namespace transmuter::runtime::testing
