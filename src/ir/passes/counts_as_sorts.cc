#include "ir/passes/counts_as_sorts.h"

#include "ir/composites/common.h"
#include "ir/composites/composites.h"
#include "ir/passes/copier.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {
namespace {

// Where a bool [n] holds: i64 [count], ascending; `count` is a symbol that this defines.
Value places(Builder& build, Value holds, Dim count) {
  const Dims shape = build.shape(holds);
  const Value one = build.splat(DType::i32, 1, shape), none = build.splat(DType::i32, 0, shape);
  const Value order = build.sort({build.select(holds, none, one), build.iota(DType::i64, shape, 0)}, {})[1];
  const Value found = build.reduce(build.convert(holds, DType::i64), ReduceKind::add, {0});
  read_values(build, build.expand_dims(found, {0}), {count});
  return build.slice(order, {0}, {count}, {1});
}

// [rank, count] coordinates.
Value nonzero_places(Builder& build, Value x, Dim count) {
  const Dims shape = build.shape(x);
  const DType dtype = build.dtype(x);
  const Value holds = dtype == DType::boolean ? x : build.compare(x, build.like(x, 0), CompareDirection::ne);
  const Value flat = places(build, build.reshape(holds, {product(shape)}), count);
  const auto all = [&](Dim value) { return build.broadcast_in_dim(build.dim_value(value, DType::i64), {count}, {}); };
  std::vector<Value> coordinates;
  Dim stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const Value at = build.remainder(build.divide(flat, all(stride)), all(shape[axis]));
    coordinates.insert(coordinates.begin(), build.expand_dims(at, {0}));
    stride = stride * shape[axis];
  }
  return build.concatenate(std::move(coordinates), 0);
}

// The size that an op defines; none where it is known.
std::optional<Dim> defined(const Program& program, const Op& op, size_t axis) {
  const Dim count = program.type(op.results[0]).shape[axis];
  if (!program.scope() || !symbol_of(*program.scope(), count)) return {};
  return count;
}

std::optional<Value> rewritten(Copier& copier, const Op& op) {
  if (op.primitive != &composite::nonzero && op.primitive != &composite::compress) return {};
  Builder& build = copier.build();
  const Type& x = copier.from().type(op.operands[0]);
  if (op.primitive == &composite::nonzero) {
    const std::optional<Dim> count = defined(copier.from(), op, 1);
    if (!count || x.shape.empty() || is_complex(x.dtype) || is_packed(x.dtype)) return {};
    return nonzero_places(build, copier[op.operands[0]], *count);
  }
  const int64_t axis = op.as<AxisAttributes>().axis;
  const std::optional<Dim> count = defined(copier.from(), op, axis < 0 ? 0 : static_cast<size_t>(axis));
  if (!count) return {};
  Value from = copier[op.operands[0]];
  if (axis < 0) from = build.reshape(from, {product(x.shape)});
  return take(build, from, places(build, copier[op.operands[1]], *count), std::max<int64_t>(axis, 0));
}

}  // namespace

Program counts_as_sorts(const Program& program) {
  Copier copier(program);
  for (const Op& op : program.ops()) {
    copier.locate(op);
    if (const std::optional<Value> made = rewritten(copier, op)) {
      copier.set(op.results[0], *made);
    } else {
      copier.copy(op, changed_regions(op, counts_as_sorts));
    }
  }
  return copier.finish();
}

}  // namespace transmuter::ir
