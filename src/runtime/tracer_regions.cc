#include "runtime/tracer_regions.h"

#include <algorithm>

#include "ir/passes/attribute_record.h"
#include "ops/random.h"
#include "runtime/reads.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Traced;
using ops::TracedPtr;

namespace {

constexpr int64_t kMaxRegionConstant = 64;  // elements; larger constants stay outside, as operands
constexpr int64_t kMaxKnown = 64;           // elements of an integer input that are known inside

// Constants and known values are the same inside.
bool stays(const Traced& traced) {
  if (traced.constant) return !traced.trainable && traced.constant.size() <= kMaxRegionConstant;
  return traced.known.fully_known();
}

}  // namespace

Tracer::Region::Region(Tracer& tracer, ir::Builder& builder, bool local, ir::Value random)
    : tracer_(tracer),
      outer_(tracer.region_),
      random_(tracer.region_random_),
      segment_(tracer.segment_),
      in_use_(tracer.in_use_.size()),
      symbols_(tracer.trace_->scope->symbols().size()) {
  if (local) {
    range_ = tracer.inner_symbols_.size();
    tracer.inner_symbols_.emplace_back(symbols_, symbols_);  // here, where memory may still run out
    local_.emplace(*tracer.trace_->scope);
  }
  tracer_.region_ = &builder;
  tracer_.region_random_ = random;
  tracer_.segment_ = ++tracer_.newest_segment_;
}

Tracer::Region::~Region() {
  tracer_.region_ = outer_;
  tracer_.region_random_ = random_;
  tracer_.segment_ = segment_;
  tracer_.in_use_.resize(in_use_);
  if (local_) tracer_.inner_symbols_[range_].second = tracer_.trace_->scope->symbols().size();
}

bool Tracer::Region::defines(Dim dim) const {
  if (dim.is_constant()) return false;
  for (const int32_t s : tracer_.trace_->scope->symbols_of(dim.expr()))
    if (static_cast<size_t>(s) >= symbols_) return true;
  return false;
}

void Tracer::Captures::collect(const TracedPtr& outside) {
  if (!outside || outside->opaque || outside->is_optional || outside->type.dtype == DType::string) throw NotInProgram{};
  if (outside->texts) throw NotInProgram{};
  if (outside->stack && outside->stack->hidden) throw NotInProgram{};
  for (const TracedPtr& item : outside->items) collect(item);
  if (outside->is_sequence || stays(*outside)) return;
  if (is_packed(outside->type.dtype)) throw NotInProgram{};
  operands_.push_back(tracer_.materialise(*outside));
}

void Tracer::Captures::add(const std::string& name, TracedPtr outside) {
  // A few integers of the model's inputs steer shapes more often than not.
  if (outside && outside->slot >= 0 && is_integer(outside->type.dtype) && ir::all_constant(outside->type.shape) &&
      product(outside->type.shape).hint() <= kMaxKnown)
    tracer_.make_known(*outside);
  collect(outside);
  values_.emplace_back(name, std::move(outside));
}

void Tracer::Captures::add_all(const onnx::Graph& graph) {
  for (const std::string& name : graph.captures) add(name, tracer_.lookup(name));
  for (const auto& [name, tensor] : graph.initializers) add(name, tracer_.initializer(name, tensor));
}

TracedPtr Tracer::Captures::enter(ir::Builder& region, const Traced& outside, std::span<const ir::Value> parameters,
                                  size_t& next) const {
  auto inside = std::make_shared<Traced>();
  inside->is_sequence = outside.is_sequence;
  inside->stack = outside.stack;
  for (const TracedPtr& item : outside.items) inside->items.push_back(enter(region, *item, parameters, next));
  inside->type = outside.type;
  inside->name = outside.name;
  inside->known = outside.known;
  if (outside.is_sequence) return inside;
  if (!outside.trainable) inside->constant = outside.constant;
  if (stays(outside)) return inside;
  inside->value = parameters[next++];
  inside->segment = tracer_.segment_;
  return inside;
}

Tracer::Named Tracer::Captures::inside(ir::Builder& region, std::span<const ir::Value> parameters) const {
  Named named;
  size_t next = 0;
  for (const auto& [name, outside] : values_) named.emplace_back(name, enter(region, *outside, parameters, next));
  return named;
}

bool Tracer::LoopParts::read(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  if (node.op_type == "SequenceMap") return false;
  body = &graph_attribute(node, "body");
  static_cast<LoopSignature&>(*this) = loop_signature(node, *body, inputs.size());
  draws = ops::draws_numbers(node);
  number = node.number;
  const auto first = inputs.end() - static_cast<ptrdiff_t>(scanned);
  states.assign(first - static_cast<ptrdiff_t>(carried), first);
  sources.assign(first, inputs.end());
  return true;
}

bool Tracer::LoopParts::take_count(const Known& count) {
  if (count.kind != Known::Kind::elements || count.size() != 1) return false;
  trips = count.elements[0].dim;
  return true;
}

bool Tracer::LoopParts::count_rows() {
  if (!std::all_of(sources.begin(), sources.end(), is_program_tensor)) return false;
  for (size_t k = 0; k < sources.size(); ++k) {
    const Dims& shape = sources[k]->type.shape;
    if (!normalise(in_axes[k], static_cast<int64_t>(shape.size()))) return false;
    const Dim extent = shape[static_cast<size_t>(in_axes[k])];
    if (k > 0) require_eq(extent, *trips, "Scan: lengths of the scanned inputs");
    if (k == 0) trips = extent;
  }
  return true;
}

bool is_program_tensor(const TracedPtr& traced) {
  return traced && !traced->opaque && !traced->is_sequence && !traced->is_optional &&
         traced->type.dtype != DType::string && !is_packed(traced->type.dtype);
}

bool is_known_true(const Known& known) {
  return known.kind == Known::Kind::elements && known.size() == 1 && known.fully_known() &&
         provably_eq(known.elements[0].dim, 1);
}

TracedPtr known_traced(Known known) {
  auto traced = std::make_shared<Traced>();
  traced->type = {known.dtype, known.shape};
  traced->known = std::move(known);
  return traced;
}

TracedPtr traced_value(const ir::Builder& builder, ir::Value value, int32_t segment) {
  auto traced = std::make_shared<Traced>();
  traced->type = builder.type(value);
  traced->value = value;
  traced->segment = segment;
  return traced;
}

ir::Value row_at(ir::Builder& build, ir::Value x, int64_t axis, ir::Value at) {
  Dims sizes = build.shape(x);
  std::vector<ir::Value> starts(sizes.size(), build.integer(DType::i64, 0));
  starts[static_cast<size_t>(axis)] = at;
  sizes[static_cast<size_t>(axis)] = 1;
  const ir::Value row = build.dynamic_slice(x, std::move(starts), sizes);
  return build.squeeze(row, {axis});
}

ir::Value first_axis_to(ir::Builder& build, ir::Value stacked, int64_t axis) {
  std::vector<int64_t> order;
  for (int64_t i = 1; i < build.rank(stacked); ++i) order.push_back(i);
  order.insert(order.begin() + axis, 0);
  return build.transpose(stacked, std::move(order));
}

// If whose condition only the run knows: both branches in the program, as a `case`.
bool Tracer::lower_branches(const onnx::Node& node, const std::vector<TracedPtr>& inputs) {
  if (!can_hold_regions() || inputs.size() != 1 || !is_program_tensor(inputs[0])) return false;
  Traced& condition = *inputs[0];
  if (condition.type.dtype != DType::boolean || !provably_eq(product(condition.type.shape), 1)) return false;
  trace_->scope->set_origin(where(node));
  build().set_location(where(node));
  if (make_known(condition)) {
    if (!depends_on_data(condition.known.elements.at(0).dim)) return false;
  } else if (!in_segment(condition) || condition.slot >= 0) {
    return false;
  } else if (auto slots = deciding_inputs(condition.value); !slots.empty()) {
    throw ReadValues{std::move(slots)};
  }
  try {
    const onnx::Graph* graphs[] = {&graph_attribute(node, "else_branch"), &graph_attribute(node, "then_branch")};
    Captures captures(*this);
    for (const onnx::Graph* graph : graphs) captures.add_all(*graph);
    std::vector<ir::Value> operands = captures.operands();
    if (ops::draws_numbers(node)) operands.push_back(random_state());
    const ir::Value truth = build().reshape(materialise(condition), {});
    std::vector<ir::ProgramPtr> programs;
    std::vector<Dims> entries;
    std::vector<std::vector<ir::Type>> types;
    for (const onnx::Graph* graph : graphs) {
      ir::Builder branch(trace_->scope);
      std::vector<ir::Value> parameters;
      for (const ir::Value operand : operands) parameters.push_back(branch.input(build().type(operand), "outside"));
      const bool draws = operands.size() > captures.operands().size();
      Region region(*this, branch, true, draws ? parameters.back() : ir::Value());
      const std::vector<TracedPtr> out = inline_graph(*graph, {}, captures.inside(branch, parameters));
      std::vector<ir::Value> results;
      types.emplace_back();
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        if (i >= out.size() || !is_program_tensor(out[i])) return false;
        results.push_back(materialise(*out[i]));
        types.back().push_back(branch.type(results.back()));
      }
      entries.push_back(region.keep());
      programs.push_back(std::make_shared<const ir::Program>(branch.finish(std::move(results))));
    }
    for (size_t i = 0; i < types[0].size(); ++i)
      if (types[0][i].dtype != types[1][i].dtype || types[0][i].rank() != types[1][i].rank()) return false;
    if (types[0].empty()) return true;
    const std::vector<ir::Value> results =
        build().case_of(build().convert(truth, DType::i32), operands, std::move(programs), entries);
    size_t next = 0;
    for (const std::string& name : node.outputs) {
      if (name.empty()) continue;
      TracedPtr traced = traced_value(build(), results[next++], segment_);
      traced->name = name;
      define(name, std::move(traced));
    }
    return true;
  } catch (const NotInProgram&) {
    return false;
  } catch (const Error& error) {
    // A branch that this run does not take need not make sense for its sizes: the host decides.
    if (error.code() == ErrorCode::internal) throw;
    return false;
  }
}

}  // namespace transmuter::runtime
