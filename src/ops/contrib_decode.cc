// com.microsoft DecoderMaskedMultiHeadAttention (one query) and SparseAttention (blocks of keys by a layout).
#include "ops/contrib_attention.h"
#include "ops/kv_cache.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// Inputs: query, key, value, mask, attention bias, past key, past value, past length, beam width, cache indirection,
// bias. Keys with heads already apart are another sequence's, which nothing is added to.
void decoder_masked(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  const bool shared = op.attribute_int("past_present_share_buffer", 0) != 0;
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  op.ignore_attributes({"output_qk"});  // the outputs say it
  if (op.has_input(9)) op.unsupported("cache_indirection");
  require_float(op, 0);
  require_rank(op, 0, 3);
  require_rank(op, 1, 3, 4);
  op.check(!op.has_input(1) || op.has_input(2), "key without value");
  if (op.has_input(1)) require_rank(op, 2, op.rank(1));
  for (const size_t past : {5, 6}) require_rank(op, past, 4);
  require_rank(op, 10, 1);
  Builder& b = op.build();
  Value query = op.input(0), key, value;
  if (op.has_input(1)) {
    key = op.input(1);
    value = op.input(2);
  } else {
    const Dim width = floor_div(op.shape(0)[2], 3);
    key = b.slice_axis(query, 2, width, width * 2);
    value = b.slice_axis(query, 2, width * 2, width * 3);
    query = b.slice_axis(query, 2, 0, width);
  }
  const Dim width = b.shape(query)[2];
  const auto with_heads = [&](Value x, Dim from) {
    if (op.has_input(10)) {
      const Value bias = b.slice_axis(op.input(10), 0, from, from + b.shape(x)[2]);
      x = b.add(x, b.broadcast_to(bias, b.shape(x)));
    }
    return split_heads(b, x, heads);
  };
  const Value q = with_heads(query, 0);
  const bool apart = b.rank(key) == 4;
  Value k = apart ? key : with_heads(key, width), v = apart ? value : with_heads(value, width * 2);
  if (!apart && op.has_input(5)) {
    CacheStart start;
    start.all = shared ? op.require_dim(7) : op.shape(5)[2];
    const Dim total = start.all + b.shape(k)[2];
    const auto appended = [&](size_t past, Value now, size_t output) {
      const Value zero = b.integer(DType::i64, 0);
      const Value present =
          shared ? b.dynamic_update_slice(op.input(past), now, {zero, zero, b.dim_value(start.all, DType::i64), zero})
                 : b.concatenate({op.input(past), now}, 2);
      if (op.wants_output(output)) op.output(output, present);
      return shared ? b.slice_axis(present, 2, 0, total) : present;
    };
    k = appended(5, k, 1);
    v = appended(6, v, 2);
  }
  const std::vector<Value> results = contrib_attention(op, q, k, v, 3, 4, 0, op.wants_output(3));
  op.output(0, merge_heads(b, results[0]));
  if (op.wants_output(3)) op.output(3, results[1]);
}

// The layouts' blocks, rows by offsets and columns by lists, as bool [layouts, positions, positions].
Value dense_layout(Builder& b, Value offsets, Value columns, int64_t block) {
  const Dim layouts = b.shape(offsets)[0], rows = b.shape(offsets)[1] - 1, entries = b.shape(columns)[1];
  const Dims listed{layouts, rows, entries};
  const Value entry = b.iota(b.dtype(offsets), listed, 2);
  const auto bound = [&](Dim from) {
    return b.broadcast_in_dim(b.slice_axis(offsets, 1, from, from + rows), listed, {0, 1});
  };
  const Value owned =
      b.logical_and(b.compare(entry, bound(0), CompareDirection::ge), b.compare(entry, bound(1), CompareDirection::lt));
  const Dims hits{layouts, rows, entries, rows};
  const Value wide = b.broadcast_in_dim(columns, hits, {0, 2});
  const Value hit = b.logical_and(b.compare(wide, b.iota(b.dtype(columns), hits, 3), CompareDirection::eq),
                                  b.broadcast_in_dim(owned, hits, {0, 1, 2}));
  const Value blocks = b.reduce(hit, ir::ReduceKind::logical_or, {2});  // [layouts, rows, columns]
  const Dims cells{layouts, rows, block, rows, block};
  return b.reshape(b.broadcast_in_dim(blocks, cells, {0, 1, 3}), {layouts, rows * block, rows * block});
}

void sparse_attention(OpContext& op) {
  const Dim heads = op.attribute_int("num_heads"), kv_heads = op.attribute_int("kv_num_heads");
  const int64_t block = op.attribute_int("sparse_block_size");
  const bool rotates = op.attribute_int("do_rotary", 0) != 0;
  const bool interleaved = op.attribute_int("rotary_interleaved", 0) != 0;
  const float scale = op.attribute_float("scale", 0.0F);
  op.check(heads.hint() > 0 && kv_heads.hint() > 0 && block > 0, "heads and sparse_block_size must be positive");
  require_float(op, 0);
  for (const size_t past : {3, 4}) require_rank(op, past, 4);
  for (const size_t table : {5, 6, 9, 10}) require_rank(op, table, 2);
  Builder& b = op.build();
  Value q, k, v;
  if (op.has_input(1)) {
    q = split_heads(b, op.input(0), heads);
    k = split_heads(b, op.input(1), kv_heads);
    v = split_heads(b, op.input(2), kv_heads);
  } else {
    const Value all = split_heads(b, op.input(0), heads + kv_heads * 2);
    q = b.slice_axis(all, 1, 0, heads);
    k = b.slice_axis(all, 1, heads, heads + kv_heads);
    v = b.slice_axis(all, 1, heads + kv_heads, heads + kv_heads * 2);
  }
  const Dims shape = b.shape(q);
  const Dim batch = shape[0], length = shape[2], total = op.require_dim(7);
  CacheStart start;
  op.check(op.has_input(8), "input 8 is missing");
  const bool has_caches = op.has_input(10) && op.has_input(9);
  op.check(!rotates || has_caches, "do_rotary needs cos_cache and sin_cache");
  start.keeps_rest = true;
  if (provably_eq(batch, 1)) {
    start.all = total - length;
  } else if (!decide_eq(total, length, "SparseAttention: is it a prompt?")) {
    const Value totals = b.reshape(b.convert(op.input(8), DType::i64), {batch});
    start.each = b.subtract(totals, b.broadcast_to(b.dim_value(length, DType::i64), {batch}));
  }
  const Dims places{batch, length};
  const Value position =
      start.each ? b.add(b.iota(DType::i64, places, 1), b.broadcast_in_dim(start.each, places, {0})) : Value();
  const auto rows_of = [&](Value table) {
    return position ? take_checked_rows(b, table, position)
                    : b.expand_dims(rows_from(b, table, start.all, length), {0});
  };
  if (rotates) {
    const Value cos = rows_of(op.input(9)), sin = rows_of(op.input(10));
    q = rotate(b, q, cos, sin, interleaved);
    k = rotate(b, k, cos, sin, interleaved);
  }
  const CacheResult keys = append_cache(b, op.input(3), k, start, total);
  const CacheResult values = append_cache(b, op.input(4), v, start, total);
  // Rows of the layout by query, then its layouts repeated over the heads.
  const Value layout = b.transpose(dense_layout(b, op.input(5), op.input(6), block), {1, 0, 2});
  const Value rows = b.slice_axis(rows_of(layout), 3, 0, total);  // [b or 1, s, layouts, keys]
  const Dim sheets = b.shape(rows)[0], layouts = b.shape(rows)[2];
  require(equal(mod(heads, layouts), 0), "SparseAttention: heads divide by the layouts");
  const Dims repeated{sheets, floor_div(heads, layouts), layouts, length, total};
  const Value wide = b.broadcast_in_dim(b.transpose(rows, {0, 2, 1, 3}), repeated, {0, 2, 3, 4});
  ir::AttentionExtras extras;
  extras.mask = b.reshape(wide, {sheets, heads, length, total});
  ir::AttentionAttributes attributes;
  attributes.causal = true;
  attributes.offset = start.all;
  attributes.scale = scale == 0 ? inverse_root(shape[3]) : Real(scale);
  if (start.each) extras.lengths = b.add(start.each, b.broadcast_to(b.dim_value(length, DType::i64), {batch}));
  op.output(0, merge_heads(b, ir::attention(b, q, keys.visible, values.visible, extras, attributes)[0]));
  op.output(1, keys.present);
  op.output(2, values.present);
}

}  // namespace

void register_contrib_decode(Registry& r) {
  r.add("DecoderMaskedMultiHeadAttention", {1}, decoder_masked, kMicrosoft);
  r.add("SparseAttention", {1}, sparse_attention, kMicrosoft);
}

}  // namespace transmuter::ops
