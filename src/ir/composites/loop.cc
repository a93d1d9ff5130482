// loop: ONNX Loop and Scan; and what runs of regions see of the symbols around them.
#include <cstring>

#include "base/memory.h"
#include "base/run_control.h"
#include "ir/composites/common.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {
namespace {

constexpr int64_t kUnknownTrips = 2;  // the hint of a number of trips that nothing bounds

Dim fresh(const InferContext& ctx, int64_t hint) {
  ShapeScope* scope = ShapeScope::current();
  if (!scope) throw Error(ErrorCode::internal, str(ctx.primitive.name, " needs a shape scope"));
  return scope->data_value(hint, {0, INT64_MAX});
}

struct Parts {
  const LoopAttributes& loop;
  const Program& body;
  size_t carried, stacked, first_row;

  Parts(const LoopAttributes& l, const Program& b)
      : loop(l),
        body(b),
        carried(static_cast<size_t>(l.carried)),
        stacked(l.row_axes.size()),
        first_row(carried + l.has_condition) {}
  const Type& next_state(size_t k) const { return body.type(body.results()[k + loop.has_condition]); }
  const Type& row(size_t k) const { return body.type(body.results()[first_row + k]); }
};

void check_same_kind(const InferContext& ctx, const Type& a, const Type& b, const char* constraint, const char* what) {
  ctx.check(a.dtype == b.dtype && a.rank() == b.rank(), constraint, what, ": ", to_string(a), " and ", to_string(b));
}

std::vector<Type> infer_loop(const InferContext& ctx) {
  const auto& attributes = ctx.as<LoopAttributes>();
  ctx.check(ctx.regions.size() == 1, "C0", "takes one body");
  const Parts parts(attributes, *ctx.regions[0]);
  const std::span<const Type> operands = ctx.operands.subspan(attributes.has_condition);
  ctx.check(operands.size() >= parts.carried && parts.body.parameters().size() == operands.size() + 1, "C1",
            "the body takes ", parts.body.parameters().size(), " parameters for ", operands.size(), " operands");
  ctx.check(parts.body.results().size() == parts.first_row + parts.stacked, "C2", "the body gives ",
            parts.body.results().size(), " values");
  if (attributes.has_condition) {
    const Type& truth = parts.body.type(parts.body.results()[0]);
    ctx.check(truth.dtype == DType::boolean && truth.shape.empty(), "C3", "the condition is a 0-d bool");
  }
  std::vector<Type> types;
  for (size_t k = 0; k < parts.carried; ++k) {
    const Type &before = operands[k], &inside = parts.body.type(parts.body.parameters()[k + 1].value),
               &after = parts.next_state(k);
    check_same_kind(ctx, before, inside, "C4", "a state and its parameter");
    check_same_kind(ctx, before, after, "C4", "a state before and after a trip");
    Type type = before;
    for (size_t axis = 0; axis < type.shape.size(); ++axis) {
      const Dim kept = before.shape[axis];
      if (!provably_eq(kept, inside.shape[axis]) || !provably_eq(kept, after.shape[axis]))
        type.shape[axis] = fresh(ctx, kept.hint());
    }
    types.push_back(std::move(type));
  }
  std::vector<int32_t> inside = symbols_defined_in(parts.body);  // what each trip defines anew
  Dim trips;
  if (!attributes.has_condition && !attributes.trips.empty()) {
    trips = max(attributes.trips[0], 0);
  } else if (parts.stacked > 0) {
    trips = fresh(ctx, attributes.trips.empty() ? kUnknownTrips : max(attributes.trips[0], 0).hint());
    if (!attributes.trips.empty()) require(less_equal(trips, max(attributes.trips[0], 0)), "Loop: number of trips");
  }
  for (size_t k = 0; k < parts.carried; ++k) {
    const Dims &before = operands[k].shape, &inside_shape = parts.body.type(parts.body.parameters()[k + 1].value).shape;
    for (size_t axis = 0; axis < before.size(); ++axis) {
      if (provably_eq(before[axis], inside_shape[axis])) continue;
      for (const int32_t s : parts.body.scope()->symbols_of(inside_shape[axis].expr())) inside.push_back(s);
    }
  }
  for (size_t k = 0; k < parts.stacked; ++k) {
    Type type = parts.row(k);
    const int64_t axis = attributes.row_axes[k];
    ctx.check(axis >= -1 && axis < type.rank(), "C5", "rows of rank ", type.rank(), " have no axis ", axis);
    for (Dim& extent : type.shape)
      if (reads_symbol(extent, inside)) extent = fresh(ctx, extent.hint());
    if (axis < 0) {
      type.shape.insert(type.shape.begin(), trips);
      types.push_back(std::move(type));
      continue;
    }
    type.shape[static_cast<size_t>(axis)] = fresh(ctx, type.shape[static_cast<size_t>(axis)].hint());
    types.push_back(std::move(type));
    types.push_back({DType::i64, {trips}});
  }
  return types;
}

// ---- evaluation

bool truth_of(const Tensor& tensor) { return *tensor.data<bool>(); }

// The rows one after another along an axis of theirs, or along a new first one.
void join(const std::vector<Tensor>& rows, int64_t axis, Tensor& result) {
  std::byte* to = result.mutable_bytes();
  int64_t outer = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= result.shape()[static_cast<size_t>(i)];
  for (int64_t o = 0; o < outer; ++o) {
    for (const Tensor& row : rows) {
      const size_t bytes = row.nbytes() / static_cast<size_t>(outer);
      if (bytes) std::memcpy(to, row.bytes() + static_cast<size_t>(o) * bytes, bytes);
      to += bytes;
    }
  }
}

// A state that grows by a factor each trip is stopped while the machine can still breathe: a trip needs the old state,
// the new one and what lies between.
void check_growth(const std::vector<Tensor>& state, int64_t trip) {
  size_t bytes = 0;
  for (const Tensor& tensor : state) bytes += tensor.nbytes();
  if (memory_is_there(8 * bytes)) return;
  throw Error(ErrorCode::out_of_memory, str("Loop: after trip ", trip, " the carried values take ", bytes >> 20,
                                            " MB, more than the free memory allows to go on with"));
}

void evaluate_loop(EvaluateContext& ctx) {
  const auto& attributes = ctx.as<LoopAttributes>();
  const Parts parts(attributes, *ctx.op.regions[0]);
  std::span<const Tensor> operands = ctx.operands;
  bool go_on = true;
  if (attributes.has_condition) {
    go_on = truth_of(operands[0]);
    operands = operands.subspan(1);
  }
  const bool counted = !attributes.trips.empty();
  const int64_t trips = counted ? ctx.value(attributes.trips[0]) : INT64_MAX;
  std::vector<Tensor> state(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(parts.carried));
  const std::span<const Tensor> fixed = operands.subspan(parts.carried);
  std::vector<std::vector<Tensor>> rows(parts.stacked);
  RegionBindings region(parts.body, attributes.entry);
  int64_t t = 0;
  for (; t < trips && go_on; ++t) {
    RunControl::check_trip(t, counted);
    std::vector<Tensor> in{Tensor::scalar(t)};
    in.insert(in.end(), std::make_move_iterator(state.begin()), std::make_move_iterator(state.end()));
    in.insert(in.end(), fixed.begin(), fixed.end());
    Bindings* inner = region.enter(ctx.bindings, in);
    std::vector<Tensor> out = ctx.run_region(0, in, inner);
    region.check();
    if (attributes.has_condition) go_on = truth_of(out[0]);
    for (size_t k = 0; k < parts.carried; ++k) state[k] = std::move(out[k + attributes.has_condition]);
    for (size_t k = 0; k < parts.stacked; ++k) rows[k].push_back(std::move(out[parts.first_row + k]));
    check_growth(state, t);
  }
  size_t next = 0;
  for (Tensor& value : state) {
    define_extents(ctx, next++, value.shape());
    ctx.results.push_back(std::move(value));
  }
  for (size_t k = 0; k < parts.stacked; ++k) {
    const int64_t axis = attributes.row_axes[k];
    const Type& type = ctx.result_type(next);
    Shape shape(static_cast<size_t>(type.rank()));
    if (axis < 0) {
      if (!rows[k].empty()) {
        shape = rows[k][0].shape();
        shape.insert(shape.begin(), t);
      } else {
        shape[0] = 0;
      }
    } else {
      if (!rows[k].empty()) shape = rows[k][0].shape();
      shape[static_cast<size_t>(axis)] = 0;
      for (const Tensor& row : rows[k]) shape[static_cast<size_t>(axis)] += row.dim(axis);
    }
    // Rows that were never made have the extents of their type, as far as they are known.
    define_extents(ctx, next, shape);
    for (const Tensor& row : rows[k]) {
      for (int64_t i = 0; i < row.rank(); ++i) {
        if (i != axis && row.dim(i) != rows[k][0].dim(i))
          throw Error(ErrorCode::invalid_input,
                      str("Loop: the rows of an output differ in shape: ", rows[k][0].shape(), " and ", row.shape()));
      }
    }
    join(rows[k], axis, ctx.make_result(next++));
    if (axis < 0) continue;
    define_extents(ctx, next, {t});
    int64_t* lengths = ctx.make_result(next++).mutable_data<int64_t>();
    for (const Tensor& row : rows[k]) *lengths++ = row.dim(axis);
  }
}

bool defines_symbols(const Op& op) {
  const Primitive* p = op.primitive;
  return !op.regions.empty() || p == &composite::nonzero || p == &composite::nms || p == &composite::unique ||
         p == &composite::compress || p == &composite::read_values;
}

}  // namespace

const Primitive composite::loop{.name = "loop", .infer = infer_loop, .evaluate = evaluate_loop};

std::vector<Value> loop(Builder& build, std::vector<Value> operands, LoopAttributes attributes, ProgramPtr body) {
  return build.emit(composite::loop, std::move(operands), std::make_shared<LoopAttributes>(std::move(attributes)),
                    {std::move(body)});
}

std::optional<size_t> fixed_operand(const Op& op, size_t parameter) {
  if (op.primitive == &prim::case_of) return parameter + 1;
  if (op.primitive != &composite::loop) return {};
  const auto& attributes = op.as<LoopAttributes>();
  if (parameter <= static_cast<size_t>(attributes.carried)) return {};
  return parameter - 1 + attributes.has_condition;
}

namespace {

int32_t symbol_index(const ShapeScope& scope, Dim dim) {
  const auto& symbols = scope.symbols();
  for (size_t s = 0; s < symbols.size(); ++s)
    if (symbols[s].expr == dim.expr()) return static_cast<int32_t>(s);
  throw Error(ErrorCode::internal, str(to_string(dim), " is no symbol"));
}

}  // namespace

RegionBindings::RegionBindings(const Program& region, const Dims& entry) {
  own_ = std::any_of(region.ops().begin(), region.ops().end(), defines_symbols);
  if (!region.scope()) return;
  if (!entry.empty()) entry_ = symbol_index(*region.scope(), entry[0]);
  const auto& symbols = region.scope()->symbols();
  for (size_t p = 0; p < region.parameters().size(); ++p) {
    const Dims& shape = region.type(region.parameters()[p].value).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis].is_constant()) continue;
      for (size_t s = 0; s < symbols.size(); ++s) {
        if (symbols[s].source.kind != SymbolSource::Kind::data_dependent || symbols[s].expr != shape[axis].expr())
          continue;
        extents_.emplace_back(p, axis);
        symbols_.push_back(static_cast<int32_t>(s));
      }
    }
  }
}

void define_extents(const EvaluateContext& ctx, size_t result, const Shape& shape) {
  if (!ctx.bindings) return;
  const auto& symbols = ctx.bindings->scope().symbols();
  const Dims& extents = ctx.result_type(result).shape;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis].is_constant()) continue;
    for (size_t s = 0; s < symbols.size(); ++s) {
      const int32_t symbol = static_cast<int32_t>(s);
      if (symbols[s].expr == extents[axis].expr() && !ctx.bindings->has(symbol)) ctx.bindings->set(symbol, shape[axis]);
    }
  }
}

std::vector<int32_t> symbols_defined_in(const Program& region) {
  std::vector<int32_t> found;
  if (!region.scope()) return found;
  const auto add = [&](Dim dim) {
    if (dim.is_constant()) return;
    for (const int32_t s : region.scope()->symbols_of(dim.expr())) {
      if (region.scope()->symbols()[static_cast<size_t>(s)].source.kind == SymbolSource::Kind::data_dependent)
        found.push_back(s);
    }
  };
  for (const Op& op : region.ops()) {
    if (!defines_symbols(op)) continue;
    for (const Value result : op.results)
      for (const Dim extent : region.type(result).shape) add(extent);
    if (op.primitive == &composite::read_values)
      for (const Dim symbol : op.as<ReadValuesAttributes>().symbols) add(symbol);
  }
  return found;
}

bool reads_symbol(Dim extent, const std::vector<int32_t>& symbols) {
  if (extent.is_constant() || symbols.empty()) return false;
  for (const int32_t s : ShapeScope::current()->symbols_of(extent.expr()))
    if (std::find(symbols.begin(), symbols.end(), s) != symbols.end()) return true;
  return false;
}

Bindings* RegionBindings::enter(Bindings* outer, std::span<const Tensor> operands) {
  if (!outer) return outer;
  bool own = own_;
  for (size_t i = 0; i < symbols_.size() && !own; ++i) own = !outer->has(symbols_[i]);
  if (!own && entry_ < 0) return outer;
  if (inner_ && !own) return &*inner_;  // what held for the first trip holds for all
  inner_.emplace(*outer);
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const auto [parameter, axis] = extents_[i];
    if (!outer->has(symbols_[i])) inner_->set(symbols_[i], operands[parameter].shape()[axis]);
  }
  if (entry_ >= 0) inner_->set(entry_, 1);
  inner_->check_assertions();
  return &*inner_;
}

void RegionBindings::check() {
  if (inner_ && own_) inner_->check_assertions();
}

}  // namespace transmuter::ir
