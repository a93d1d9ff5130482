// com.microsoft Attention (input projection inside) and MultiHeadAttention.
#include "ops/contrib_attention.h"

#include "ops/matmul.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

namespace {

Value combined(Builder& b, Value (Builder::*fn)(Value, Value), Value x, Value y) {
  if (!x || !y) return x ? x : y;
  const auto [wide_x, wide_y] = b.numpy_broadcast(x, y);
  return (b.*fn)(wide_x, wide_y);
}

// Keys in [start, end) by sequence, [b, 1, 1, keys]; start may be absent.
Value within(Builder& b, Value start, Value end, Dim batch, Dim keys) {
  const Dims shape{batch, 1, 1, keys};
  const Value key = b.iota(b.dtype(end), shape, 3);
  Value inside = b.compare(key, b.broadcast_in_dim(end, shape, {0}), CompareDirection::lt);
  if (start) {
    const Value after = b.compare(key, b.broadcast_in_dim(start, shape, {0}), CompareDirection::ge);
    inside = b.logical_and(inside, after);
  }
  return inside;
}

}  // namespace

Value key_mask(OpContext& op, size_t i, const AttentionShape& shape) {
  Builder& b = op.build();
  const Value mask = op.input(i);
  const Dims own = b.shape(mask);
  if (own.size() == 1) {
    if (provably_eq(own[0], shape.batch)) return within(b, {}, mask, shape.batch, shape.keys);
    if (!decide_eq(own[0], shape.batch * 2, "attention: does the mask hold ends and starts?")) {
      require_eq(own[0], shape.batch, str(op.node().op_type, ": lengths in the mask and the batch"));
      return within(b, {}, mask, shape.batch, shape.keys);
    }
    const Value end = b.slice_axis(mask, 0, 0, shape.batch), start = b.slice_axis(mask, 0, shape.batch, own[0]);
    return within(b, start, end, shape.batch, shape.keys);
  }
  const Value allowed = b.compare(mask, b.like(mask, 0), CompareDirection::gt);
  if (own.size() == 2) return b.reshape(allowed, {own[0], 1, 1, own[1]});
  if (own.size() == 3) return b.reshape(allowed, {own[0], 1, own[1], own[2]});
  op.check(own.size() == 4, "the mask must have rank 1 to 4, has ", own.size());
  // Of a mask for the longest sequence: the rows of these queries, the columns of these keys.
  const Value rows = b.slice_axis(allowed, 2, shape.keys - shape.queries, shape.keys);
  return b.slice_axis(rows, 3, 0, shape.keys);
}

std::vector<Value> contrib_attention(OpContext& op, Value q, Value k, Value v, size_t mask, size_t bias, Dim past,
                                     bool wants_scores) {
  Builder& b = op.build();
  ir::AttentionAttributes attributes;
  attributes.causal = op.attribute_int("unidirectional", 0) != 0;
  attributes.offset = past;
  const float filter = op.attribute_float("mask_filter_value", -10000.0F), scale = op.attribute_float("scale", 0.0F);
  attributes.scale = scale == 0 ? inverse_root(b.shape(q)[3]) : Real(scale);
  if (wants_scores) attributes.scores = ir::AttentionAttributes::Scores::masked;
  ir::AttentionExtras extras;
  if (op.has_input(mask)) {
    const Value allowed = key_mask(op, mask, {b.shape(q)[0], b.shape(q)[2], b.shape(k)[2]});
    const Dims& shape = b.shape(allowed);
    extras.mask = b.select(allowed, b.splat(b.dtype(q), 0, shape), b.splat(b.dtype(q), filter, shape));
  }
  if (op.has_input(bias)) extras.mask = combined(b, &Builder::add, extras.mask, as_rank_4(b, op.input(bias)));
  return ir::attention(b, q, k, v, extras, attributes);
}

namespace {

void multi_head(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  if (op.has_input(9)) op.unsupported("cache_indirection");
  require_float(op, 0);
  require_rank(op, 0, 3, 5);
  op.check(op.rank(0) != 4, "the query must have rank 3, or 5 where all is packed, has 4");
  require_rank(op, 1, 3, 5);
  require_rank(op, 2, op.has_input(1) ? op.rank(1) : 3);
  require_rank(op, 3, 1);
  require_rank(op, 6, 4);
  require_rank(op, 7, 4);
  op.check(op.rank(0) == 5 || (op.has_input(1) && (op.rank(1) == 5 || op.has_input(2))),
           "there are no keys and values");
  Builder& b = op.build();
  Value q, k, v;
  // One of the packed operands [b, s, heads, n, d] as [b, heads, s, d].
  const auto unpack = [&](Value packed, int64_t part) {
    return b.transpose(b.squeeze(b.slice_axis(packed, 3, part, part + 1), {3}), {0, 2, 1, 3});
  };
  const Value bias = op.has_input(3) ? op.input(3) : Value();
  // Heads of x [b, s, heads * d] or [b, heads, s, d] with the bias from `from` on.
  const auto with_bias = [&](Value x, Dim from) {
    if (!bias) return b.rank(x) == 3 ? split_heads(b, x, heads) : x;
    if (b.rank(x) == 4) x = merge_heads(b, x);
    const Value part = b.slice_axis(bias, 0, from, from + b.shape(x)[2]);
    return split_heads(b, b.add(x, b.broadcast_to(part, b.shape(x))), heads);
  };
  if (op.rank(0) == 5) {
    const Value packed = op.input(0);
    const Dim width = Dim(heads) * b.shape(packed)[4];
    q = with_bias(unpack(packed, 0), 0);
    k = with_bias(unpack(packed, 1), width);
    v = with_bias(unpack(packed, 2), width * 2);
  } else {
    const Value x = op.input(0);
    const Dim width = b.shape(x)[2];
    q = with_bias(x, 0);
    if (op.rank(1) == 5) {
      const Value packed = op.input(1);
      k = with_bias(unpack(packed, 0), width);
      v = with_bias(unpack(packed, 1), width * 2);
    } else {
      // Keys and values with heads already apart are another sequence's: the bias is the query's alone.
      const bool apart = op.rank(1) == 4;
      k = apart ? op.input(1) : with_bias(op.input(1), width);
      v = apart ? op.input(2) : with_bias(op.input(2), width * 2);
    }
  }
  Dim past = 0;
  Value present_k = k, present_v = v;
  if (op.has_input(6) && op.has_input(7)) {
    // With a past_sequence_length the caches have room behind it, and keep their extent.
    const bool has_room = op.has_input(8);
    op.check(op.rank(6) == 4 && op.rank(7) == 4, "the caches must have rank 4, have ", op.rank(6), " and ", op.rank(7));
    past = has_room ? op.require_dim(8) : op.shape(6)[2];
    const Dim total = past + b.shape(k)[2];
    if (has_room) require(less_equal(total, op.shape(6)[2]), "MultiHeadAttention: room in the caches");
    const auto appended = [&](size_t i, Value now, Value& present) {
      const Value zero = b.integer(DType::i64, 0);
      present = has_room ? b.dynamic_update_slice(op.input(i), now, {zero, zero, b.dim_value(past, DType::i64), zero})
                         : b.concatenate({op.input(i), now}, 2);
      return has_room ? b.slice_axis(present, 2, 0, total) : present;
    };
    k = appended(6, k, present_k);
    v = appended(7, v, present_v);
  }
  const std::vector<Value> results = contrib_attention(op, q, k, v, 4, 5, past, op.wants_output(3));
  op.output(0, merge_heads(b, results[0]));
  if (op.wants_output(1)) op.output(1, present_k);
  if (op.wants_output(2)) op.output(2, present_v);
  if (op.wants_output(3)) op.output(3, results[1]);
}

}  // namespace

std::vector<Value> project_heads(OpContext& op, Value projected, int64_t heads) {
  Builder& b = op.build();
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  const Dim width = b.shape(projected)[2];
  Dims sizes(3, floor_div(width, 3));
  if (const auto given = op.attribute_ints_optional("qkv_hidden_sizes"); given && !given->empty()) {
    op.check(given->size() == 3, "qkv_hidden_sizes must have 3 entries, has ", given->size());
    sizes.assign(given->begin(), given->end());
  }
  std::vector<Value> parts;
  Dim at = 0;
  for (Dim size : sizes) {
    parts.push_back(split_heads(b, b.slice_axis(projected, 2, at, at + size), heads));
    at = at + size;
  }
  return parts;
}

void finish_attention(OpContext& op, std::vector<Value> heads, size_t mask, size_t past_input, size_t bias) {
  Builder& b = op.build();
  Dim past = 0;
  const bool wanted = op.wants_output(1);
  const auto both = [&] { return b.concatenate({b.expand_dims(heads[1], {0}), b.expand_dims(heads[2], {0})}, 0); };
  Value present;  // [2, b, heads, s, d], as the cache is
  if (op.has_input(past_input)) {
    require_rank(op, past_input, 5);
    const Value cache = op.input(past_input);
    past = b.shape(cache)[3];
    present = b.concatenate({cache, both()}, 3);
    for (int64_t i = 0; i < 2; ++i)
      heads[static_cast<size_t>(i + 1)] = b.squeeze(b.slice_axis(present, 0, i, i + 1), {0});
  } else if (wanted) {
    present = both();
  }
  op.output(0, merge_heads(b, contrib_attention(op, heads[0], heads[1], heads[2], mask, bias, past, false)[0]));
  if (wanted) op.output(1, present);
}

namespace {

void attention(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  if (op.attribute_int("do_rotary", 0) != 0) op.unsupported("do_rotary");
  if (op.attribute_int("past_present_share_buffer", 0) != 0) op.unsupported("past_present_share_buffer");
  op.ignore_attributes({"rotary_embedding_dim"});  // of do_rotary
  require_float(op, 0);
  require_rank(op, 0, 3);
  require_rank(op, 1, 2);
  Builder& b = op.build();
  Value projected = matmul(b, op.input(0), op.input(1), op.dtype(0));
  if (op.has_input(2)) projected = b.add(projected, b.broadcast_to(op.input(2), b.shape(projected)));
  finish_attention(op, project_heads(op, projected, heads), 3, 4, 5);
}

// One token after the ones of a cache; buffers of the longest text have an order of their own on GPUs.
void decoder_masked_self_attention(OpContext& op) {
  op.check(op.has_input(4), "past is missing");
  if (op.has_input(8)) op.unsupported("cache_indirection");
  op.has_input(7);  // the width of a beam says something of cache_indirection alone
  attention(op);
}

}  // namespace

void register_contrib_attention(Registry& r) {
  r.add("MultiHeadAttention", {1}, multi_head, kMicrosoft);
  r.add("Attention", {1}, attention, kMicrosoft);
  r.add("DecoderMaskedSelfAttention", {1}, decoder_masked_self_attention, kMicrosoft);
}

}  // namespace transmuter::ops
