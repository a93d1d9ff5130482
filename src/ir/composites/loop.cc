// loop: ONNX Loop and Scan; and what runs of regions see of the symbols around them.
#include <functional>

#include "base/memory.h"
#include "base/run_control.h"
#include "ir/composites/common.h"
#include "ir/composites/data_dependent.h"
#include "ir/primitives/primitives.h"
#include "tensor/pieces.h"

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
  std::vector<int32_t> defined = symbols_defined_in(parts.body);  // by each trip anew
  for (size_t k = 0; k < parts.carried; ++k) {
    const Type &before = operands[k], &inside = parts.body.type(parts.body.parameters()[k + 1].value),
               &after = parts.next_state(k);
    check_same_kind(ctx, before, inside, "C4", "a state and its parameter");
    check_same_kind(ctx, before, after, "C4", "a state before and after a trip");
    Type type = before;
    for (size_t axis = 0; axis < type.shape.size(); ++axis) {
      const Dim kept = before.shape[axis];
      const bool varies = !provably_eq(kept, inside.shape[axis]);
      if (varies || !provably_eq(kept, after.shape[axis])) type.shape[axis] = fresh(ctx, kept.hint());
      if (!varies) continue;
      for (const int32_t s : parts.body.scope()->symbols_of(inside.shape[axis].expr())) defined.push_back(s);
    }
    types.push_back(std::move(type));
  }
  Dim trips;
  if (!attributes.has_condition && !attributes.trips.empty()) {
    trips = max(attributes.trips[0], 0);
  } else if (parts.stacked > 0) {
    trips = fresh(ctx, attributes.trips.empty() ? kUnknownTrips : max(attributes.trips[0], 0).hint());
    if (!attributes.trips.empty()) require(less_equal(trips, max(attributes.trips[0], 0)), "Loop: number of trips");
  }
  for (size_t k = 0; k < parts.stacked; ++k) {
    Type type = parts.row(k);
    const int64_t axis = attributes.row_axes[k];
    ctx.check(axis >= -1 && axis < type.rank(), "C5", "rows of rank ", type.rank(), " have no axis ", axis);
    for (Dim& extent : type.shape)
      if (reads_symbol(extent, defined)) extent = fresh(ctx, extent.hint());
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

// Some rows one after another along an axis of theirs, or along a new first one.
Tensor rows_joined(std::vector<Tensor> rows, int64_t axis) {
  const Tensor& first = rows.front();
  for (const Tensor& row : rows) {
    for (int64_t i = 0; i < row.rank(); ++i) {
      if (i != axis && row.dim(i) != first.dim(i))
        throw Error(ErrorCode::invalid_input,
                    str("Loop: the rows of an output differ in shape: ", first.shape(), " and ", row.shape()));
    }
  }
  return axis >= 0 ? joined(rows, axis) : stacked(std::move(rows), 0);
}

size_t bytes_of(const std::vector<Tensor>& tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

// The extents of rows of which there are none: those that a first trip would have given, 0 where that trip would make
// no sense or only running it tells.
Shape shape_without_trips(const Type& row, int64_t axis, const std::function<Bindings*()>& first_trip) {
  Shape shape(row.shape.size(), 0);
  try {
    if (Bindings* bindings = first_trip()) {
      for (size_t i = 0; i < shape.size(); ++i) {
        try {
          shape[i] = bindings->evaluate(row.shape[i]);
        } catch (const Error&) {
          shape[i] = 0;
        }
      }
    }
  } catch (const Error&) {
    // An assertion of the body: nothing is known.
  }
  if (axis >= 0)
    shape[static_cast<size_t>(axis)] = 0;
  else
    shape.insert(shape.begin(), 0);
  return shape;
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
  LoopGrowth growth;
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
    for (size_t k = 0; k < parts.stacked; ++k) {
      rows[k].push_back(std::move(out[parts.first_row + k]));
      growth.add_row(rows[k].back().nbytes());
    }
    growth.check(bytes_of(state), t);
  }
  ctx.results.resize(ctx.op.results.size());
  size_t next = 0;
  const auto first_trip = [&] {
    std::vector<Tensor> in{Tensor::scalar(t)};
    in.insert(in.end(), operands.begin(), operands.end());
    return region.enter(ctx.bindings, in);
  };
  for (Tensor& value : state) {
    define_extents(ctx, next, value.shape());
    ctx.results[next++] = std::move(value);
  }
  for (size_t k = 0; k < parts.stacked; ++k) {
    const int64_t axis = attributes.row_axes[k];
    if (rows[k].empty()) {
      define_extents(ctx, next, shape_without_trips(parts.row(k), axis, first_trip));
      ctx.make_result(next);
    } else {
      ctx.results[next] = rows_joined(rows[k], axis);
      define_extents(ctx, next, ctx.results[next].shape());
    }
    ++next;
    if (axis < 0) continue;
    define_extents(ctx, next, {t});
    int64_t* lengths = ctx.make_result(next++).mutable_data<int64_t>();
    for (const Tensor& row : rows[k]) *lengths++ = row.dim(axis);
  }
}

// An op defines the symbol when it runs.
bool comes_from_op(const ShapeScope& scope, int32_t symbol) {
  return scope.symbols()[static_cast<size_t>(symbol)].source.kind == SymbolSource::Kind::data_dependent;
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

RegionBindings::RegionBindings(const Program& region, const Dims& entry) {
  own_ = std::any_of(region.ops().begin(), region.ops().end(), defines_symbols);
  if (!region.scope()) return;
  if (!entry.empty()) {
    const std::optional<int32_t> symbol = symbol_of(*region.scope(), entry[0]);
    if (!symbol) throw Error(ErrorCode::internal, str(to_string(entry[0]), " is no symbol"));
    entry_ = *symbol;
  }
  for (size_t p = 0; p < region.parameters().size(); ++p) {
    const Dims& shape = region.type(region.parameters()[p].value).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::optional<int32_t> symbol = symbol_of(*region.scope(), shape[axis]);
      if (!symbol || !comes_from_op(*region.scope(), *symbol)) continue;
      extents_.emplace_back(p, axis);
      symbols_.push_back(*symbol);
    }
  }
}

void define_extents(const EvaluateContext& ctx, size_t result, const Shape& shape) {
  if (!ctx.bindings) return;
  const Dims& extents = ctx.result_type(result).shape;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const std::optional<int32_t> symbol = symbol_of(ctx.bindings->scope(), extents[axis]);
    if (symbol && !ctx.bindings->has(*symbol)) ctx.bindings->set(*symbol, shape[axis]);
  }
}

std::vector<int32_t> symbols_defined_in(const Program& region) {
  std::vector<int32_t> found;
  if (!region.scope()) return found;
  const auto add = [&](Dim dim) {
    if (dim.is_constant()) return;
    for (const int32_t s : region.scope()->symbols_of(dim.expr()))
      if (comes_from_op(*region.scope(), s)) found.push_back(s);
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
