// Reduce*, ArgMax, ArgMin. The axes are an attribute; an input for ReduceSum from opset 13, for the others from 18.
// Without axes all are reduced, or none with noop_with_empty_axes (the elementwise part of the function remains).
#include <algorithm>

#include "ir/composites/composites.h"
#include "ops/known_moves.h"
#include "ops/reduce_known.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::ReduceKind;
using ir::Value;

struct Reduction {
  std::vector<int64_t> axes;  // ascending; none: nothing is reduced
  bool keep = true;
};

Reduction read_reduction(OpContext& op, int64_t axes_are_input_from) {
  Reduction r;
  r.keep = op.attribute_int("keepdims", 1) != 0;
  bool noop = false;
  if (op.version() >= axes_are_input_from) {
    noop = op.attribute_int("noop_with_empty_axes", 0) != 0;
    if (op.has_input(1)) r.axes = op.require_ints(1);
  } else {
    r.axes = op.attribute_ints_optional("axes").value_or(std::vector<int64_t>{});
  }
  const int64_t rank = op.rank(0);
  r.axes = normalised_axes(op, std::move(r.axes), rank);
  std::sort(r.axes.begin(), r.axes.end());
  if (r.axes.empty() && !noop)
    for (int64_t i = 0; i < rank; ++i) r.axes.push_back(i);
  return r;
}

Value reduced(Builder& b, Value x, const Reduction& r, ReduceKind kind) {
  if (r.axes.empty()) return x;
  return r.keep ? b.reduce_keep(x, kind, r.axes) : b.reduce(x, kind, r.axes);
}

// The number of elements that come together in one, as a value of x's dtype and shape.
Value count_like(Builder& b, Value like, const Dims& shape, const Reduction& r) {
  Dim count = 1;
  for (int64_t axis : r.axes) count = count * shape[static_cast<size_t>(axis)];
  return b.broadcast_to(b.dim_value(count, b.dtype(like)), b.shape(like));
}

// The formulas take floats; of integers only those that stay integers.
Value sum_of(Builder& b, Value x, const Reduction& r) { return reduced(b, x, r, ReduceKind::add); }
Value mean_of(Builder& b, Value x, const Reduction& r) {
  const Value sum = reduced(b, x, r, ReduceKind::add);
  return b.divide(sum, count_like(b, sum, b.shape(x), r));
}
Value l1_of(Builder& b, Value x, const Reduction& r) {
  return reduced(b, is_unsigned_integer(b.dtype(x)) ? x : b.abs(x), r, ReduceKind::add);
}
Value sum_square_of(Builder& b, Value x, const Reduction& r) {
  return reduced(b, b.multiply(x, x), r, ReduceKind::add);
}
Value l2_of(Builder& b, Value x, const Reduction& r) { return b.sqrt(sum_square_of(b, x, r)); }
Value log_sum_of(Builder& b, Value x, const Reduction& r) { return b.log(sum_of(b, x, r)); }
// The greatest element is taken out of the exponentials, where it is finite.
Value log_sum_exp_of(Builder& b, Value x, const Reduction& r) {
  if (r.axes.empty()) return x;
  const Value peak = b.reduce_keep(x, ReduceKind::max, r.axes);
  const Value shift = b.select(b.is_finite(peak), peak, b.like(peak, 0));
  const Value powers = b.exponential(b.subtract(x, b.broadcast_to(shift, b.shape(x))));
  const Value total = b.log(reduced(b, powers, r, ReduceKind::add));
  return b.add(total, r.keep ? shift : b.squeeze(shift, r.axes));
}

using Formula = Value(Builder&, Value, const Reduction&);

// `through_floats`: the formula leaves the integers (square roots, logarithms); they go through f64 and truncate.
template <Formula formula, bool through_floats = false>
void reduce_op(OpContext& op) {
  const Reduction r = read_reduction(op, 18);
  require_numeric(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  const Value x = op.input(0);
  if (through_floats && is_integer(dtype))
    return op.output(0, b.convert(formula(b, b.convert(x, DType::f64), r), dtype));
  op.output(0, in_single(b, x, [&](Value v) { return formula(b, v, r); }));
}

template <ReduceKind kind, int64_t axes_are_input_from>
void reduce_with_rule(OpContext& op) {
  const Reduction r = read_reduction(op, axes_are_input_from);
  if (op.dtype(0) != DType::boolean || kind == ReduceKind::add || kind == ReduceKind::mul) require_numeric(op, 0);
  if (r.axes.empty()) return op.output(0, op.traced(0));
  output_known_or(op, 0, reduce_known(op.known(0), kind, r.axes, r.keep),
                  [&] { return reduced(op.build(), op.input(0), r, kind); });
}

template <bool greatest>
void arg_extreme(OpContext& op) {
  const bool keep = op.attribute_int("keepdims", 1) != 0;
  const bool last = op.attribute_int("select_last_index", 0) != 0;
  require_numeric(op, 0);
  const int64_t axis = op.axis(op.attribute_int("axis", 0), op.rank(0));
  Builder& b = op.build();
  const Value x = op.input(0);
  const Value at = greatest ? ir::argmax(b, x, axis, last) : ir::argmin(b, x, axis, last);
  op.output(0, keep ? b.expand_dims(at, {axis}) : at);
}

}  // namespace

void register_reduce(Registry& r) {
  r.add("ReduceSum", {1, 11, 13}, reduce_with_rule<ReduceKind::add, 13>);
  r.add("ReduceProd", {1, 11, 13, 18}, reduce_with_rule<ReduceKind::mul, 18>);
  r.add("ReduceMax", {1, 11, 12, 13, 18, 20}, reduce_with_rule<ReduceKind::max, 18>);
  r.add("ReduceMin", {1, 11, 12, 13, 18, 20}, reduce_with_rule<ReduceKind::min, 18>);
  r.add("ReduceMean", {1, 11, 13, 18}, reduce_op<mean_of>);
  r.add("ReduceL1", {1, 11, 13, 18}, reduce_op<l1_of>);
  r.add("ReduceL2", {1, 11, 13, 18}, reduce_op<l2_of, true>);
  r.add("ReduceSumSquare", {1, 11, 13, 18}, reduce_op<sum_square_of>);
  r.add("ReduceLogSum", {1, 11, 13, 18}, reduce_op<log_sum_of, true>);
  r.add("ReduceLogSumExp", {1, 11, 13, 18}, reduce_op<log_sum_exp_of, true>);
  r.add("ArgMax", {1, 11, 12, 13}, arg_extreme<true>);
  r.add("ArgMin", {1, 11, 12, 13}, arg_extreme<false>);
}

}  // namespace transmuter::ops
