// attention: softmax(q k^T * scale, capped and masked) v, with grouped heads.
#include <limits>

#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

using Scores = AttentionAttributes::Scores;

std::vector<Type> infer(const InferContext& ctx) {
  const auto& a = ctx.as<AttentionAttributes>();
  check_operand_count(ctx, 3u + a.has_mask + a.has_lengths + a.has_sink);
  const Type &q = ctx.operands[0], &k = ctx.operands[1], &v = ctx.operands[2];
  for (const Type* type : {&q, &k, &v}) {
    ctx.check(type->rank() == 4, "C1", "takes q, k and v of rank 4");
    check_float(ctx, *type, "C2");
    check_same_extent(ctx, type->shape[0], q.shape[0], "C3", "batch extents");
  }
  check_same_extent(ctx, k.shape[1], v.shape[1], "C4", "heads of k and v");
  check_same_extent(ctx, k.shape[2], v.shape[2], "C5", "lengths of k and v");
  check_same_extent(ctx, q.shape[3], k.shape[3], "C6", "head sizes of q and k");
  require(less(0, k.shape[1]), "attention: C7 k needs heads");
  require(equal(mod(q.shape[1], k.shape[1]), 0), "attention: C7 heads of q divide by those of k");
  const Dims scores{q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  OperandReader<Type> reader(ctx.operands.subspan(3));
  if (a.has_mask) {
    const Type mask = reader.next();
    ctx.check(mask.dtype == DType::boolean || computes(mask.dtype), "C8", "the mask is bool or float");
    ctx.check(mask.rank() == 4, "C8", "the mask has rank 4");
    for (size_t i = 0; i < 4; ++i) {
      if (!provably_eq(mask.shape[i], 1)) check_same_extent(ctx, mask.shape[i], scores[i], "C8", "mask extents");
    }
  }
  if (a.has_lengths) {
    const Type lengths = reader.next();
    ctx.check(is_integer(lengths.dtype) && lengths.rank() == 1, "C9", "lengths are integers [b]");
    check_same_extent(ctx, lengths.shape[0], q.shape[0], "C9", "lengths and the batch");
  }
  if (a.has_sink) {
    const Type sink = reader.next();
    ctx.check(computes(sink.dtype) && sink.rank() == 1, "C10", "sinks are floats [hq]");
    check_same_extent(ctx, sink.shape[0], q.shape[1], "C10", "sinks and heads");
  }
  ctx.check(!(a.has_sink && a.smooth_softmax), "C11", "a sink and smooth_softmax exclude each other");
  std::vector<Type> types{{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}};
  if (a.scores != Scores::none) types.push_back({q.dtype, scores});
  return types;
}

// Writes the body piece by piece; `b` are values that broadcast against the scores.
struct Body {
  Builder& b;
  const AttentionAttributes& a;
  Dims scores;  // [b, hq, sq, sk]

  Value both(Value (Builder::*function)(Value, Value), Value x, Value y) { return broadcast_apply(b, function, x, y); }
  Value index(int64_t axis) {  // 0, 1, ... along one axis of the scores
    Dims shape(4, Dim(1));
    shape[static_cast<size_t>(axis)] = scores[static_cast<size_t>(axis)];
    return b.iota(DType::i64, shape, axis);
  }
  Value compare(Value x, Value y, CompareDirection direction) {
    const auto [p, q] = b.numpy_broadcast(x, y);
    return b.compare(p, q, direction);
  }
  Value shifted(Value x, int64_t by) { return b.add(x, b.like(x, static_cast<double>(by))); }

  // True where query i may see key j by position alone; invalid when every key is seen.
  Value visible(Value lengths) {
    Value allowed;
    const auto restrict_to = [&](Value condition) {
      allowed = allowed ? both(&Builder::logical_and, allowed, condition) : condition;
    };
    const Value key = index(3);
    Value offset = b.dim_value(a.offset, DType::i64);
    if (lengths) {
      const Value wide_lengths = b.reshape(b.convert(lengths, DType::i64), {scores[0], 1, 1, 1});
      restrict_to(compare(key, wide_lengths, CompareDirection::lt));
      offset = both(&Builder::subtract, wide_lengths, b.dim_value(scores[2], DType::i64));
    }
    if (a.causal || a.left_window >= 0 || a.right_window >= 0) {
      const Value position = both(&Builder::add, index(2), offset);
      if (a.causal) restrict_to(compare(key, position, CompareDirection::le));
      if (a.left_window >= 0) restrict_to(compare(key, shifted(position, -a.left_window), CompareDirection::ge));
      if (a.right_window >= 0) restrict_to(compare(key, shifted(position, a.right_window), CompareDirection::le));
    }
    return allowed;
  }

  Value only_where(Value allowed, Value x) {
    return b.select(b.broadcast_to(allowed, scores), x, b.like(x, -std::numeric_limits<double>::infinity()));
  }

  // Rows without any weight give 0 unless they shall be NaN.
  Value normalised(Value x, Value sink) {
    Value greatest = b.reduce_keep(x, ReduceKind::max, {3});
    if (sink) greatest = both(&Builder::maximum, greatest, sink);
    if (!a.empty_rows_nan) {
      const Value none = b.like(greatest, -std::numeric_limits<double>::infinity());
      greatest = b.select(b.compare(greatest, none, CompareDirection::eq), b.like(greatest, 0), greatest);
    }
    const Value weights = b.exponential(both(&Builder::subtract, x, greatest));
    Value sum = b.reduce_keep(weights, ReduceKind::add, {3});
    if (sink) sum = b.add(sum, b.exponential(both(&Builder::subtract, sink, greatest)));
    if (!a.empty_rows_nan) sum = b.select(b.compare(sum, b.like(sum, 0), CompareDirection::eq), b.like(sum, 1), sum);
    return both(&Builder::divide, weights, sum);
  }
};

std::vector<Value> decompose(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& a = static_cast<const AttentionAttributes&>(*attributes);
  OperandReader<Value> reader(operands);
  const Value q = reader.next(), k = reader.next(), v = reader.next();
  const Value mask = reader.next_if(a.has_mask), lengths = reader.next_if(a.has_lengths);
  const Dims qs = build.shape(q), ks = build.shape(k), vs = build.shape(v);
  Body body{build, a, {qs[0], qs[1], qs[2], ks[2]}};
  const DType dtype = wide(build.dtype(q));

  // The query heads of one kv head are further rows of the same product.
  const Dim rows = floor_div(qs[1], ks[1]) * qs[2];
  DotGeneralAttributes dot;
  dot.lhs_batching = dot.rhs_batching = {0, 1};
  dot.lhs_contracting = dot.rhs_contracting = {3};
  dot.dtype = dtype;
  Value x = build.dot_general(build.reshape(q, {qs[0], ks[1], rows, qs[3]}), k, dot);
  x = build.reshape(x, body.scores);
  x = build.multiply(x, build.broadcast_to(build.real_value(a.scale, dtype), body.scores));
  const Value scaled = x;
  if (a.softcap > 0) {
    const Value cap = build.like(x, a.softcap);
    x = build.multiply(build.tanh(build.divide(x, cap)), cap);
  }
  const Value capped = x;
  if (mask) {
    x = build.dtype(mask) == DType::boolean ? body.only_where(mask, x)
                                            : body.both(&Builder::add, x, build.convert(mask, dtype));
  }
  if (const Value allowed = body.visible(lengths)) x = body.only_where(allowed, x);
  const Value masked = x;
  Value sink;
  if (a.has_sink) sink = build.reshape(build.convert(reader.next(), dtype), {1, qs[1], 1, 1});
  if (a.smooth_softmax) sink = build.splat(dtype, 0, {1, 1, 1, 1});
  const Value weights = body.normalised(x, sink);

  dot.rhs_contracting = {2};
  const Value grouped = build.reshape(weights, {qs[0], ks[1], rows, ks[2]});
  const Value y = build.reshape(build.dot_general(grouped, v, dot), {qs[0], qs[1], qs[2], vs[3]});
  std::vector<Value> results{build.convert(y, build.dtype(q))};
  const Value stages[] = {{}, scaled, masked, capped, weights};
  if (a.scores != Scores::none) results.push_back(build.convert(stages[static_cast<size_t>(a.scores)], build.dtype(q)));
  return results;
}

}  // namespace

const Primitive composite::attention{.name = "attention", .infer = infer, .decompose = decompose};

std::vector<Value> attention(Builder& build, Value q, Value k, Value v, AttentionExtras extras,
                             AttentionAttributes attributes) {
  attributes.has_mask = static_cast<bool>(extras.mask);
  attributes.has_lengths = static_cast<bool>(extras.lengths);
  attributes.has_sink = static_cast<bool>(extras.sink);
  return build.emit(composite::attention, present({q, k, v, extras.mask, extras.lengths, extras.sink}),
                    std::make_shared<AttentionAttributes>(attributes));
}

}  // namespace transmuter::ir
