// Det, and of com.microsoft Inverse and CDist. Elimination with partial pivoting, one column a round.
#include "ir/counted_loop.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// A round of elimination on a [b, n, m], column k: the pivot's row is in place k.
struct Round {
  Value a;        // with the rows exchanged
  Value row;      // [b, 1, m], the pivot's
  Value column;   // [b, n, 1], after the exchange
  Value pivot;    // [b]
  Value changed;  // [b] bool: two rows were exchanged
};

Value across(Builder& b, Value v, const Dims& shape) { return b.broadcast_to(v, shape); }

Round pivoted(Builder& b, Value a, Value k) {
  const Dims shape = b.shape(a), column_shape{shape[0], shape[1], 1}, row_shape{shape[0], 1, shape[2]};
  const Value zero = b.integer(DType::i64, 0);
  const Value place = b.iota(DType::i64, column_shape, 1), at = b.broadcast_in_dim(k, column_shape, {});
  const auto column_of = [&](Value v) { return b.dynamic_slice(v, {zero, zero, k}, column_shape); };
  const auto row_of = [&](Value v) { return b.dynamic_slice(v, {zero, k, zero}, row_shape); };
  // The greatest magnitude at or below the diagonal, the first of equal ones.
  const Value below = b.compare(place, at, CompareDirection::ge);
  const Value sizes = b.abs(column_of(a));
  const Value candidates = b.select(below, sizes, b.like(sizes, -1));
  const Value greatest = across(b, b.reduce_keep(candidates, ir::ReduceKind::max, {1}), column_shape);
  const Value hit = b.compare(candidates, greatest, CompareDirection::eq);
  const Value far = b.broadcast_in_dim(b.dim_value(shape[1], DType::i64), column_shape, {});
  const Value found = b.reduce_keep(b.select(hit, place, far), ir::ReduceKind::min, {1});  // [b, 1, 1]
  // All NaN: the row stays.
  const Value own = b.broadcast_in_dim(k, b.shape(found), {});
  const Value exists =
      b.compare(found, b.broadcast_in_dim(b.dim_value(shape[1], DType::i64), b.shape(found), {}), CompareDirection::lt);
  const Value chosen = b.select(exists, found, own);
  const Value is_chosen = b.compare(place, across(b, chosen, column_shape), CompareDirection::eq);
  const Value is_own = b.compare(place, at, CompareDirection::eq);
  Round round;
  round.row = b.reduce_keep(b.select(across(b, is_chosen, shape), a, b.like(a, 0)), ir::ReduceKind::add, {1});
  const Value displaced = row_of(a);
  const Value moved = b.select(across(b, is_chosen, shape), across(b, displaced, shape), a);
  round.a = b.select(across(b, is_own, shape), across(b, round.row, shape), moved);
  round.column = column_of(round.a);
  round.pivot = b.reshape(b.dynamic_slice(round.row, {zero, zero, k}, {shape[0], 1, 1}), {shape[0]});
  round.changed = b.reshape(b.compare(chosen, own, CompareDirection::ne), {shape[0]});
  return round;
}

Dims check_square(OpContext& op) {
  require_float(op, 0);
  op.check(op.rank(0) >= 2, "the input must have rank 2 or more, has ", op.rank(0));
  const Dims shape = op.shape(0);
  require_eq(shape[shape.size() - 2], shape.back(), str(op.node().op_type, ": the matrix is square"));
  return shape;
}

Value as_batch(OpContext& op, DType inner) {
  Builder& b = op.build();
  const Dims shape = op.shape(0);
  const Dims batch(shape.begin(), shape.end() - 2);
  return b.reshape(b.convert(op.input(0), inner), {product(batch), shape.back(), shape.back()});
}

DType inner_of(OpContext& op) { return op.dtype(0) == DType::f64 ? DType::f64 : DType::f32; }

// The product of the pivots, its sign turned by each exchange.
void det(OpContext& op) {
  const Dims shape = check_square(op);
  Builder& b = op.build();
  const DType inner = inner_of(op);
  const Value a = as_batch(op, inner);
  const Dims batch{b.shape(a)[0]};
  const std::vector<Value> state{a, b.splat(inner, 1, batch)};
  const auto round = [](Builder& body, Value k, std::span<const Value> s,
                        std::span<const Value>) -> std::vector<Value> {
    const Round r = pivoted(body, s[0], k);
    const Dims whole = body.shape(s[0]);
    const Value signed_pivot = body.select(r.changed, body.negate(r.pivot), r.pivot);
    const Value usable = body.compare(r.pivot, body.like(r.pivot, 0), CompareDirection::ne);
    const Value divisor =
        body.broadcast_in_dim(body.select(usable, r.pivot, body.like(r.pivot, 1)), body.shape(r.column), {0});
    // Rows above take part too: nothing reads them any more.
    const Value factors = body.broadcast_to(body.divide(r.column, divisor), whole);
    const Value place = body.iota(DType::i64, whole, 1);
    const Value later = body.compare(place, body.broadcast_in_dim(k, whole, {}), CompareDirection::gt);
    const Value eliminated = body.subtract(r.a, body.multiply(factors, body.broadcast_to(r.row, whole)));
    return {body.select(later, eliminated, r.a), body.multiply(s[1], signed_pivot)};
  };
  const Value product_of = ir::counted_loop(b, b.shape(a)[1], state, {}, round)[1];
  op.output(0, b.convert(b.reshape(product_of, Dims(shape.begin(), shape.end() - 2)), op.dtype(0)));
}

// Gauss-Jordan on [a | 1].
void inverse(OpContext& op) {
  const Dims shape = check_square(op);
  Builder& b = op.build();
  const DType inner = inner_of(op);
  const Value a = as_batch(op, inner);
  const Dims square = b.shape(a);
  const Value unit =
      b.convert(b.compare(b.iota(DType::i64, square, 1), b.iota(DType::i64, square, 2), CompareDirection::eq), inner);
  const std::vector<Value> state{b.concatenate({a, unit}, 2)};
  const auto round = [](Builder& body, Value k, std::span<const Value> s,
                        std::span<const Value>) -> std::vector<Value> {
    const Round r = pivoted(body, s[0], k);
    const Dims whole = body.shape(s[0]);
    const Value row = body.divide(r.row, body.broadcast_in_dim(r.pivot, body.shape(r.row), {0}));
    const Value wide_row = body.broadcast_to(row, whole);
    const Value place = body.iota(DType::i64, whole, 1);
    const Value own = body.compare(place, body.broadcast_in_dim(k, whole, {}), CompareDirection::eq);
    const Value cleared = body.subtract(r.a, body.multiply(body.broadcast_to(r.column, whole), wide_row));
    return {body.select(own, wide_row, cleared)};
  };
  const Value both = ir::counted_loop(b, square[1], state, {}, round)[0];
  op.output(0, b.convert(b.reshape(b.slice_axis(both, 2, square[1], square[1] * 2), shape), op.dtype(0)));
}

// Distances of the rows of [m, n] and [k, n].
void cdist(OpContext& op) {
  const std::string metric = op.attribute_string("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean") op.unsupported("metric ", metric);
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  op.check(op.rank(0) == 2 && op.rank(1) == 2, "the inputs must have rank 2");
  require_eq(op.shape(0)[1], op.shape(1)[1], "CDist: extents of a row");
  Builder& b = op.build();
  const Dims whole{op.shape(0)[0], op.shape(1)[0], op.shape(0)[1]};
  const Value difference =
      b.subtract(b.broadcast_in_dim(op.input(0), whole, {0, 2}), b.broadcast_in_dim(op.input(1), whole, {1, 2}));
  const Value sum = b.reduce(b.multiply(difference, difference), ir::ReduceKind::add, {2});
  op.output(0, metric == "euclidean" ? b.sqrt(sum) : sum);
}

}  // namespace

void register_linear_algebra(Registry& r) {
  r.add("Det", {11, 22}, det);
  r.add("Inverse", {1}, inverse, kMicrosoft);
  r.add("CDist", {1}, cdist, kMicrosoft);
}

}  // namespace transmuter::ops
