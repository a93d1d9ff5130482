#include "runtime/control_flow.h"

#include <algorithm>
#include <functional>

#include "base/memory.h"
#include "base/run_control.h"
#include "base/strings.h"
#include "runtime/search.h"
#include "tensor/pieces.h"
#include "transmuter/error.h"

namespace transmuter::runtime {
namespace {

template <class... Pieces>
void check(bool ok, const Pieces&... pieces) {
  if (!ok) throw Error(ErrorCode::invalid_model, str(pieces...));
}

size_t bytes_of(const Value& value) {
  size_t bytes = value.is_tensor() && value.tensor.dtype() != DType::string ? value.tensor.nbytes() : 0;
  for (const Value& item : value.items) bytes += bytes_of(item);
  return bytes;
}

// Rows of each scan output as the trips give them.
using Rows = std::vector<std::vector<Value>>;

void append(Rows& rows, std::vector<Value>& out, size_t first, LoopGrowth& growth) {
  check(out.size() >= first + rows.size(), "the body gives ", out.size(), " outputs");
  for (size_t k = 0; k < rows.size(); ++k) {
    growth.add_row(bytes_of(out[first + k]));
    rows[k].push_back(std::move(out[first + k]));
  }
}

// A loop without a trip has rows of no shape but the one that a trip would give. `first`: what that trip would be fed.
// Where it makes no sense, what the body declares counts, an extent that it leaves open as 0.
std::vector<Outline> outlines(const onnx::Graph& graph, size_t first_row, size_t stacked, const Body& body,
                              const std::function<std::vector<Value>()>& first) {
  std::vector<Outline> rows;
  bool known = true;
  for (size_t k = 0; k < stacked; ++k) {
    const onnx::ValueInfo& declared = graph.outputs[first_row + k];
    rows.push_back({declared.dtype == DType::invalid ? DType::f32 : declared.dtype, {}});
    for (const onnx::DeclaredDim& d : declared.shape) rows.back().shape.push_back(std::max<int64_t>(d.value, 0));
    known = known && declared.has_shape && declared.dtype != DType::invalid &&
            std::all_of(declared.shape.begin(), declared.shape.end(),
                        [](const onnx::DeclaredDim& d) { return d.value >= 0; });
  }
  if (known) return rows;
  try {
    std::vector<Outline> traced = body.outline(first());
    for (size_t k = 0; k < stacked && first_row + k < traced.size(); ++k)
      if (traced[first_row + k].dtype != DType::invalid) rows[k] = std::move(traced[first_row + k]);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled || error.code() == ErrorCode::internal) throw;
  }
  return rows;
}

// Tensors of one dtype and shape along a new axis (negative: from the end of the result). None: an empty tensor of
// rows as `outline` says. Error where they differ.
Tensor stack(const std::vector<Value>& rows, const Outline& outline, int64_t axis) {
  Shape shape = rows.empty() ? outline.shape : static_cast<const Tensor&>(rows[0]).shape();
  const int64_t rank = static_cast<int64_t>(shape.size()) + 1;
  check(normalise(axis, rank), "the axis ", axis, " of a scan output is out of range for rank ", rank);
  if (rows.empty()) {
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), 0);
    return Tensor(outline.dtype, shape);
  }
  std::vector<Tensor> tensors;
  tensors.reserve(rows.size());
  for (const Tensor& row : rows) {
    if (row.dtype() != rows[0].tensor.dtype() || row.shape() != shape)
      throw Error(ErrorCode::invalid_input,
                  str("the rows of a scan output differ: ", describe(rows[0].tensor), " and ", describe(row)));
    tensors.push_back(row);
  }
  return stacked(std::move(tensors), axis);
}

size_t bytes_of(const std::vector<Value>& values) {
  size_t bytes = 0;
  for (const Value& value : values) bytes += bytes_of(value);
  return bytes;
}

std::vector<Value> run_loop(const onnx::Node& node, const std::vector<Value>& inputs, const onnx::Graph& graph,
                            const Body& body) {
  const bool counted = !inputs.empty() && inputs[0].kind != Value::Kind::none;
  int64_t trips = INT64_MAX;
  if (counted) {
    const Tensor& count = inputs[0];
    check(count.size() == 1, "Loop: the trip count must be one number, got ", describe(count));
    trips = count.aligned().cast(DType::i64).data<int64_t>()[0];
  }
  const bool conditional = inputs.size() > 1 && inputs[1].kind != Value::Kind::none;
  bool go_on = !conditional || truth(inputs[1], "Loop: the condition");
  const LoopSignature loop = loop_signature(node, graph, inputs.size());
  std::vector<Value> state(inputs.end() - static_cast<ptrdiff_t>(loop.carried), inputs.end());
  Rows rows(loop.stacked);
  LoopGrowth growth;
  // What trip `i` is fed; takes the state.
  const auto feed = [&](int64_t i) {
    std::vector<Value> in{Tensor::scalar(i), Tensor(std::vector<uint8_t>{1}, {}).bitcast(DType::boolean)};
    in.insert(in.end(), std::make_move_iterator(state.begin()), std::make_move_iterator(state.end()));
    return in;
  };
  std::vector<Outline> empty(loop.stacked);
  if (loop.stacked > 0 && (trips <= 0 || !go_on)) {
    const std::vector<Value> kept = state;
    empty = outlines(graph, 1 + state.size(), loop.stacked, body, [&] { return feed(0); });
    state = kept;
  }
  for (int64_t i = 0; i < trips && go_on; ++i) {
    RunControl::check_trip(i, counted);
    std::vector<Value> out = body.run(feed(i), false);
    go_on = truth(out.at(0), "Loop: the condition");
    append(rows, out, 1 + state.size(), growth);
    for (size_t k = 0; k < state.size(); ++k) state[k] = std::move(out[1 + k]);
    if (go_on && i + 1 < trips) growth.check(bytes_of(state), i);
  }
  for (size_t k = 0; k < rows.size(); ++k) state.emplace_back(stack(rows[k], empty[k], 0));
  return state;
}

std::vector<int64_t> ints_or_zeros(const onnx::Node& node, const char* name, size_t count) {
  const onnx::Attribute* a = node.find(name);
  if (!a) return std::vector<int64_t>(count, 0);
  check(a->ints.size() == count, "Scan: ", name, " needs ", count, " values");
  return a->ints;
}

// The extent that the scanned inputs share; makes their axes positive.
int64_t count_trips(LoopSignature& scan, const std::vector<Value>& inputs) {
  int64_t trips = -1;
  for (size_t k = 0; k < scan.scanned; ++k) {
    const Tensor& x = inputs[scan.carried + k];
    int64_t& axis = scan.in_axes[k];
    check(normalise(axis, x.rank()), "Scan: input axis ", axis, " is out of range for rank ", x.rank());
    if (trips >= 0 && x.dim(axis) != trips)
      throw Error(ErrorCode::invalid_input,
                  str("Scan: the scanned inputs differ in length, ", trips, " and ", x.dim(axis)));
    trips = x.dim(axis);
  }
  return trips;
}

std::vector<Value> run_scan(const onnx::Node& node, const std::vector<Value>& inputs, const onnx::Graph& graph,
                            const Body& body) {
  LoopSignature scan = loop_signature(node, graph, inputs.size());
  const int64_t trips = count_trips(scan, inputs);
  std::vector<Value> state(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(scan.carried));
  Rows rows(scan.stacked);
  LoopGrowth growth;
  std::vector<Outline> empty(scan.stacked);
  if (scan.stacked > 0 && trips == 0) {
    empty = outlines(graph, scan.carried, scan.stacked, body, [&] {
      std::vector<Value> in = state;
      for (size_t k = 0; k < scan.scanned; ++k) {
        const Tensor& x = inputs[scan.carried + k];
        Shape shape = x.shape();
        shape.erase(shape.begin() + static_cast<ptrdiff_t>(scan.in_axes[k]));
        in.emplace_back(Tensor::zeros(x.dtype(), std::move(shape)));
      }
      return in;
    });
  }
  for (int64_t i = 0; i < trips; ++i) {
    RunControl::check();
    std::vector<Value> in = state;
    for (size_t k = 0; k < scan.scanned; ++k) {
      in.emplace_back(row_of(inputs[scan.carried + k], scan.in_axes[k], scan.in_directions[k] ? trips - 1 - i : i));
    }
    std::vector<Value> out = body.run(std::move(in), false);
    append(rows, out, scan.carried, growth);
    for (size_t k = 0; k < scan.carried; ++k) state[k] = std::move(out[k]);
    growth.check(bytes_of(state), i);
  }
  for (size_t k = 0; k < scan.stacked; ++k) {
    if (scan.out_directions[k]) std::reverse(rows[k].begin(), rows[k].end());
    state.emplace_back(stack(rows[k], empty[k], scan.out_axes[k]));
  }
  return state;
}

std::vector<Value> run_sequence_map(const std::vector<Value>& inputs, const onnx::Graph& graph, const Body& body) {
  check(!inputs.empty() && inputs[0].kind == Value::Kind::sequence, "SequenceMap: the first input must be a sequence");
  std::vector<Value> outputs;
  for (const onnx::ValueInfo& declared : graph.outputs) {
    outputs.push_back(Value::sequence({}));
    outputs.back().element = declared.dtype;
  }
  for (size_t i = 0; i < inputs[0].items.size(); ++i) {
    RunControl::check();
    std::vector<Value> in;
    for (const Value& input : inputs) {
      if (input.kind == Value::Kind::sequence && input.items.size() != inputs[0].items.size())
        throw Error(ErrorCode::invalid_input, "SequenceMap: the sequences differ in length");
      in.push_back(input.kind == Value::Kind::sequence ? input.items[i] : input);
    }
    std::vector<Value> out = body.run(std::move(in), false);
    for (size_t k = 0; k < outputs.size(); ++k) outputs[k].items.push_back(std::move(out.at(k)));
  }
  return outputs;
}

}  // namespace

LoopSignature loop_signature(const onnx::Node& node, const onnx::Graph& body, size_t inputs) {
  LoopSignature loop;
  loop.is_loop = node.op_type == "Loop";
  if (loop.is_loop) {
    loop.carried = inputs > 2 ? inputs - 2 : 0;
  } else {
    const onnx::Attribute* count = node.find("num_scan_inputs");
    check(count != nullptr, "Scan: attribute num_scan_inputs is required");
    check(count->i >= 1 && count->i <= static_cast<int64_t>(inputs), "Scan: num_scan_inputs is ", count->i, " of ",
          inputs, " inputs");
    loop.scanned = static_cast<size_t>(count->i);
    loop.carried = inputs - loop.scanned;
  }
  const size_t own = loop.is_loop ? 2 : 0, results = loop.carried + (loop.is_loop ? 1 : 0);
  check(body.inputs.size() == own + loop.carried + loop.scanned && body.outputs.size() >= results, node.op_type,
        ": the body's inputs do not match the node's");
  loop.stacked = body.outputs.size() - results;
  loop.out_axes = loop.out_directions = std::vector<int64_t>(loop.stacked, 0);
  if (loop.is_loop) return loop;
  loop.in_directions = ints_or_zeros(node, "scan_input_directions", loop.scanned);
  loop.out_directions = ints_or_zeros(node, "scan_output_directions", loop.stacked);
  loop.in_axes = ints_or_zeros(node, "scan_input_axes", loop.scanned);
  loop.out_axes = ints_or_zeros(node, "scan_output_axes", loop.stacked);
  return loop;
}

bool normalise(int64_t& axis, int64_t rank) {
  if (axis < -rank || axis >= rank) return false;
  if (axis < 0) axis += rank;
  return true;
}

bool driven_by_host(const onnx::Node& node) {
  return is_search(node) ||
         (node.domain.empty() && (node.op_type == "Loop" || node.op_type == "Scan" || node.op_type == "SequenceMap"));
}

const onnx::Graph& graph_attribute(const onnx::Node& node, const char* name) {
  const onnx::Attribute* a = node.find(name);
  check(a && a->graph, node.op_type, ": attribute ", name, " is required");
  return *a->graph;
}

bool truth(const Value& value, const char* what) {
  const Tensor& tensor = value;
  check(tensor.dtype() == DType::boolean && tensor.size() == 1, what, " must be one bool, got ", describe(tensor));
  return static_cast<bool>(tensor.bytes()[0]);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the caller's are done with; a copy is never made
std::vector<Value> run_driven(const onnx::Node& node, std::vector<Value> inputs, const Bodies& bodies,
                              const RunContext& context) {
  if (is_search(node)) return run_search(node, inputs, bodies, context);
  const onnx::Graph& graph = graph_attribute(node, "body");
  const Body& body = bodies.of("body");
  if (node.op_type == "Loop") return run_loop(node, inputs, graph, body);
  if (node.op_type == "SequenceMap") return run_sequence_map(inputs, graph, body);
  return run_scan(node, inputs, graph, body);
}

}  // namespace transmuter::runtime
