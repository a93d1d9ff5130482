// com.microsoft LongformerAttention and QOrderedLongformerAttention. A token attends to those at most `window` places
// away and to the global ones; a global token to all, by a projection of its own. All scores are computed and those
// outside are masked.
#include <limits>

#include "ops/attention_parts.h"
#include "ops/matmul.h"
#include "ops/ordered.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// The heads of q, k and v in x [b, s, 3 * heads * d].
std::vector<Value> heads_of(Builder& b, Value x, int64_t heads) {
  const Dim width = floor_div(b.shape(x)[2], 3);
  std::vector<Value> parts;
  for (int64_t i = 0; i < 3; ++i)
    parts.push_back(split_heads(b, b.slice_axis(x, 2, width * i, width * (i + 1)), heads));
  return parts;
}

// `near`, `far`: q, k and v for local and for global tokens [b, s, 3 * heads * d]; mask [b, s] is added to the scores
// of a key; flags [b, s]: global where positive.
Value attend(OpContext& op, Value near, Value far, Value mask, Value flags) {
  const int64_t heads = op.attribute_int("num_heads"), window = op.attribute_int("window");
  op.check(heads > 0 && window > 0, "num_heads and window must be positive, are ", heads, " and ", window);
  Builder& b = op.build();
  require_eq(floor_div(b.shape(near)[2], 3 * heads) * (3 * heads), b.shape(near)[2], "heads in the hidden size");
  const std::vector<Value> n = heads_of(b, near, heads), f = heads_of(b, far, heads);
  const DType dtype = b.dtype(near);
  const Dim batch = b.shape(near)[0], tokens = b.shape(near)[1];
  const Dims square{tokens, tokens}, wide{batch, 1, tokens, tokens};
  const Value distance = b.abs(b.subtract(b.iota(DType::i32, square, 0), b.iota(DType::i32, square, 1)));
  const Value local = b.compare(distance, b.like(distance, static_cast<double>(window)), CompareDirection::le);
  const Value global = b.compare(flags, b.like(flags, 0), CompareDirection::gt);
  const Value seen = b.logical_or(b.broadcast_in_dim(local, wide, {2, 3}), b.broadcast_in_dim(global, wide, {0, 3}));
  const Value added = b.broadcast_in_dim(b.convert(mask, dtype), wide, {0, 3});
  ir::AttentionAttributes attributes;
  attributes.scale = inverse_root(b.shape(n[0])[3]);
  const auto attended = [&](const std::vector<Value>& parts, Value bias) {
    ir::AttentionExtras extras;
    extras.mask = bias;
    return merge_heads(b, ir::attention(b, parts[0], parts[1], parts[2], extras, attributes)[0]);
  };
  const Value outside = b.splat(dtype, -std::numeric_limits<double>::infinity(), wide);
  const Value near_y = attended(n, b.select(seen, added, outside)), far_y = attended(f, added);
  return b.select(b.broadcast_in_dim(global, b.shape(near_y), {0, 1}), far_y, near_y);
}

// x, weight, bias, mask, the global tokens' weight and bias, flags.
void longformer(OpContext& op) {
  require_float(op, 0);
  op.check(op.rank(0) == 3 && op.rank(3) == 2 && op.rank(6) == 2,
           "the input must have rank 3, mask and global flags 2, have ", op.rank(0), ", ", op.rank(3), " and ",
           op.rank(6));
  Builder& b = op.build();
  const auto projected = [&](size_t i) {
    op.check(op.rank(i) == 2 && op.rank(i + 1) == 1, "weights must be matrices, biases vectors");
    const Value y = matmul(b, op.input(0), op.input(i), op.dtype(0));
    return b.add(y, b.broadcast_to(op.input(i + 1), b.shape(y)));
  };
  op.output(0, attend(op, projected(1), projected(4), op.input(3), op.input(6)));
}

// x, scale, weight, scale, bias, (a scale of it that is not used), scale of the product, mask; the global tokens'
// weight, scale, bias, scale of the product; flags, the result's scale. Biases are in units of their product already.
void ordered_longformer(OpContext& op) {
  order_attribute(op, "order_input", {Order::rows});
  order_attribute(op, "order_output", {Order::rows});
  const Order weight_order = order_attribute(op, "order_weight", {Order::columns});
  const Order global_order = order_attribute(op, "order_global_weight", {Order::columns});
  op.check(op.rank(0) == 3 && op.rank(7) == 2 && op.rank(12) == 2,
           "the input must have rank 3, mask and global flags 2, have ", op.rank(0), ", ", op.rank(7), " and ",
           op.rank(12));
  op.has_input(5);
  Builder& b = op.build();
  const auto projected = [&](size_t weight, Order order, size_t bias, size_t result) {
    op.check(op.rank(weight) == 2, "weights must be matrices");
    const Value by_row = by_rows(b, op.input(weight), order);
    const Value product = ordered_product(op, op.input(0), 1, by_row, weight + 1, {}, result);
    const Value y = b.add(product, b.broadcast_to(b.convert(op.input(bias), DType::f32), b.shape(product)));
    return dequantized_by(op, to_int8(b, y), result);
  };
  const Value near = projected(2, weight_order, 4, 6), far = projected(8, global_order, 10, 11);
  op.output(0, quantized_by(op, attend(op, near, far, op.input(7), op.input(12)), 13));
}

}  // namespace

void register_longformer(Registry& r) {
  r.add("LongformerAttention", {1}, longformer, kMicrosoft);
  r.add("QOrderedLongformerAttention", {1}, ordered_longformer, kMicrosoft, "matrices by rows, weights by columns");
}

}  // namespace transmuter::ops
