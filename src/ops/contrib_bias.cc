// com.microsoft biases of attention: RelativePositionBias (T5), GatedRelativePositionBias (WavLM), BiasSoftmax.
#include <cmath>

#include "ops/attention_parts.h"
#include "ops/matmul.h"
#include "ops/packed_tokens.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// A table of biases by bucket of the distance from query to key: near distances have buckets of their own, farther ones
// share them on a logarithmic scale up to max_distance. Both ways, keys behind the query have the upper half of the
// buckets. The shape says [buckets, heads], but the elements lie head by head.
void relative_position_bias(OpContext& op) {
  const int64_t farthest = op.attribute_int("max_distance");
  const bool both_ways = op.attribute_int("is_bidirectional", 0) != 0;
  require_float(op, 0);
  op.check(op.rank(0) == 2, "bias_table must have rank 2, has ", op.rank(0));
  const Dim heads = op.shape(0)[1];
  const int64_t all = specialize(op.shape(0)[0], "RelativePositionBias: how many buckets");
  const int64_t buckets = both_ways ? all / 2 : all, near = buckets / 2;
  op.check(near >= 1 && farthest > near, "max_distance ", farthest, " for ", all, " buckets");
  Builder& b = op.build();
  const Dims shape{op.require_dim(1), op.require_dim(2)};
  const Value ahead = b.subtract(b.iota(DType::i64, shape, 1), b.iota(DType::i64, shape, 0));  // key - query
  const Value zero = b.like(ahead, 0);
  const Value distance = both_ways ? b.abs(ahead) : b.maximum(b.negate(ahead), zero);
  // log(distance / near) / log(farthest / near) of the buckets that are left, rounded down
  const Value wide = b.convert(b.maximum(distance, b.like(distance, 1)), DType::f32);
  const Value logarithm = b.divide(b.log(b.divide(wide, b.like(wide, static_cast<double>(near)))),
                                   b.like(wide, std::log(static_cast<double>(farthest) / static_cast<double>(near))));
  const Value far =
      b.add(b.convert(b.multiply(logarithm, b.like(wide, static_cast<double>(buckets - near))), DType::i64),
            b.like(distance, static_cast<double>(near)));
  const Value last = b.like(distance, static_cast<double>(buckets - 1));
  const Value is_near = b.compare(distance, b.like(distance, static_cast<double>(near)), CompareDirection::lt);
  Value bucket = b.select(is_near, distance, b.minimum(far, last));
  if (both_ways) {
    const Value upper = b.compare(ahead, zero, CompareDirection::gt);
    bucket = b.add(bucket, b.select(upper, b.like(bucket, static_cast<double>(buckets)), zero));
  }
  const Value table = b.transpose(b.reshape(op.input(0), {heads, all}), {1, 0});
  op.output(0, b.expand_dims(b.transpose(take_rows(b, table, bucket), {2, 0, 1}), {0}));
}

// rel_pos scaled by u * (r * eco_a - 1) + 2 with the gates u and r: sigmoids of the two sums of a projection of each
// query head.
void gated_relative_position_bias(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  op.check(heads >= 1, "num_heads must be positive, is ", heads);
  require_float(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0), inner = is_half(dtype) ? DType::f32 : dtype;
  const auto input = [&](size_t i) { return b.convert(op.input(i), inner); };
  Value given = input(0);
  if (op.has_input(6)) given = restore_padding(b, given, op.input(6));
  const Value query = split_heads(b, b.add(given, b.broadcast_to(input(1), b.shape(given))), heads);
  const Value product = matmul(b, query, input(3), inner);
  const Value projected = b.add(product, b.broadcast_to(input(4), b.shape(product)));
  Dims halves = b.shape(projected);  // [batch, heads, sequence, 2, d / 2]
  const Dim half = floor_div(halves[3], 2);
  halves[3] = 2;
  halves.push_back(half);
  const Value gates = b.logistic(b.reduce(b.reshape(projected, halves), ir::ReduceKind::add, {4}));
  const Value update = b.slice_axis(gates, 3, 0, 1), reset = b.slice_axis(gates, 3, 1, 2);
  const Value scaled = b.multiply(reset, b.broadcast_to(input(5), b.shape(reset)));
  const Value factor = b.add(b.multiply(update, b.subtract(scaled, b.like(scaled, 1))), b.like(scaled, 2));
  const auto [left, right] = b.numpy_broadcast(factor, input(2));
  op.output(0, b.convert(b.multiply(left, right), dtype));
}

// softmax(x + bias) over the axes from `axis` on, taken as one. The bias broadcasts like NumPy's where
// is_inner_broadcast; else its leading axes repeat as a whole: [b, ...] against [b * n, ...].
void bias_softmax(OpContext& op) {
  const int64_t axis = op.axis(op.attribute_int("axis", 1), op.rank(0));
  const bool inner = op.attribute_int("is_inner_broadcast") != 0;
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  const Dims shape = b.shape(x);
  const Dim rows = product(Dims(shape.begin(), shape.begin() + axis));
  const Dim columns = product(Dims(shape.begin() + axis, shape.end()));
  Value bias = op.input(1);
  if (!inner) {
    const Dim given = floor_div(product(b.shape(bias)), columns);
    const Dims repeated{floor_div(rows, given), given, columns};
    bias = b.reshape(b.broadcast_in_dim(b.reshape(bias, {given, columns}), repeated, {1, 2}), shape);
  }
  const Value sum = b.reshape(b.add(x, b.broadcast_to(bias, shape)), {rows, columns});
  op.output(0, b.reshape(ir::softmax(b, sum, 1), shape));
}

}  // namespace

void register_contrib_bias(Registry& r) {
  r.add("RelativePositionBias", {1}, relative_position_bias, kMicrosoft);
  r.add("GatedRelativePositionBias", {1}, gated_relative_position_bias, kMicrosoft);
  r.add("BiasSoftmax", {1}, bias_softmax, kMicrosoft);
}

}  // namespace transmuter::ops
