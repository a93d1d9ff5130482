// com.microsoft GroupQueryAttention. Keys and values are appended to a cache that either grows with each step or is a
// buffer longer than what is in it. A batch of one knows its lengths as extents; in larger batches each sequence has a
// length of its own, which only the run knows.
#include <limits>

#include "ops/attention_parts.h"
#include "ops/cache_coding.h"
#include "ops/kv_cache.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;
using Scores = ir::AttentionAttributes::Scores;

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
  kQueryLengths
};

struct Heads {
  Value q, k, v;  // [b, heads, s, d]
};

// One tensor of q, k and v side by side, or three.
Heads read_heads(OpContext& op) {
  Builder& b = op.build();
  const Dim heads = op.attribute_int("num_heads"), kv_heads = op.attribute_int("kv_num_heads");
  op.check(heads.hint() > 0 && kv_heads.hint() > 0, "num_heads and kv_num_heads must be positive");
  const Value query = op.input(kQuery);
  if (op.has_input(kKey))
    return {split_heads(b, query, heads), split_heads(b, op.input(kKey), kv_heads),
            split_heads(b, op.input(kValue), kv_heads)};
  const Value all = split_heads(b, query, heads + kv_heads * 2);
  return {b.slice_axis(all, 1, 0, heads), b.slice_axis(all, 1, heads, heads + kv_heads),
          b.slice_axis(all, 1, heads + kv_heads, heads + kv_heads * 2)};
}

// Each head by itself, before the rotation.
void normalise_heads(OpContext& op, Heads& heads) {
  const float common = op.attribute_float("qk_norm_epsilon", 1e-6F);
  const float q_epsilon = op.attribute_float("q_norm_epsilon", common);
  const float k_epsilon = op.attribute_float("k_norm_epsilon", common);
  if (!op.has_input(kQueryNorm)) return;
  op.check(op.has_input(kKeyNorm), "q_norm_weight without k_norm_weight");
  heads.q = ir::rms_norm(op.build(), heads.q, op.input(kQueryNorm), 3, q_epsilon)[0];
  heads.k = ir::rms_norm(op.build(), heads.k, op.input(kKeyNorm), 3, k_epsilon)[0];
}

void rotate_heads(OpContext& op, Heads& heads, const CacheStart& start) {
  const bool interleaved = op.attribute_int("rotary_interleaved", 0) != 0;
  if (op.attribute_int("do_rotary", 0) == 0) return;
  op.check(op.has_input(kCos) && op.has_input(kSin), "do_rotary needs cos_cache and sin_cache");
  Builder& b = op.build();
  const Dims shape = b.shape(heads.q);
  const auto rows = [&](size_t cache) {
    const Value table = op.input(cache);
    if (op.has_input(kPositions)) return take_checked_rows(b, table, op.input(kPositions));
    if (!start.each) return rows_from(b, table, start.all, shape[2]);
    const Dims positions{shape[0], shape[2]};
    return take_checked_rows(b, table,
                             b.add(b.iota(DType::i64, positions, 1), b.broadcast_in_dim(start.each, positions, {0})));
  };
  const Value cos = rows(kCos), sin = rows(kSin);
  heads.q = rotate(b, heads.q, cos, sin, interleaved);
  heads.k = rotate(b, heads.k, cos, sin, interleaved);
}

// A cache of integers of eight or four bits; scales for the tensor or for each head and channel.
CacheCoding read_coding(OpContext& op, const char* attribute, size_t input) {
  const std::string kind = op.attribute_string(attribute, "NONE");
  CacheCoding coding;
  coding.dtype = op.dtype(kQuery);
  if (kind == "NONE") return coding;
  op.check(kind == "PER_TENSOR" || kind == "PER_CHANNEL", attribute, " ", kind, " is not one of the operator's");
  const int64_t width = op.attribute_int("kv_cache_bit_width", 8);
  if (width != 8 && width != 4) op.unsupported("kv_cache_bit_width ", width);
  coding.codes = width == 4 ? CacheCodes::i4_above_8 : CacheCodes::i8;
  Builder& b = op.build();
  const Value scale = b.convert(op.input(input), DType::f32);
  coding.scale = kind == "PER_TENSOR" ? b.reshape(scale, {1, 1, 1, 1}) : as_rank_4(b, scale);
  return coding;
}

// Where each sequence's new tokens start: total - length of the chunk, 0 for a prompt.
CacheStart read_start(OpContext& op, Dim batch, Dim length, Dim total) {
  Builder& b = op.build();
  CacheStart start;
  constexpr const char* kLengthsFit = "GroupQueryAttention: seqlens_k below total_sequence_length";
  if (provably_eq(batch, 1) && !op.has_input(kQueryLengths)) {
    // What is fed can be checked; the program itself has no use for it.
    if (op.has_input(kLengths) && op.traced(kLengths)->slot >= 0)
      for (Dim last : op.require_dims(kLengths)) require(min(less_equal(0, last), less(last, total)), kLengthsFit);
    start.all = total - length;
    return start;
  }
  const Value given = b.reshape(b.convert(op.input(kLengths), DType::i64), {batch, 1});
  const Value lengths = b.reshape(ir::checked_indices(b, given, {total}, false, kLengthsFit), {batch});
  const Value totals = b.add(lengths, b.like(lengths, 1));
  if (op.has_input(kQueryLengths)) {
    start.each = b.subtract(totals, b.convert(op.input(kQueryLengths), DType::i64));
    start.end = totals;
  } else if (!decide_eq(total, length, "GroupQueryAttention: is it a prompt?")) {
    start.each = b.subtract(totals, b.broadcast_to(b.dim_value(length, DType::i64), {batch}));
  } else {
    start.totals = totals;
  }
  return start;
}

// Of a padded prompt only the keys below `totals` [b] take part; added to a bias where there is one.
Value counted_keys(Builder& b, Value totals, Value bias, Dim keys, DType dtype) {
  const Dims shape{b.shape(totals)[0], 1, 1, keys};
  const Value counts =
      b.compare(b.iota(DType::i64, shape, 3), b.broadcast_in_dim(totals, shape, {0}), CompareDirection::lt);
  if (!bias) return counts;
  const Value none = b.splat(dtype, -std::numeric_limits<double>::infinity(), shape);
  const auto [wide, additive] = b.numpy_broadcast(bias, b.select(counts, b.splat(dtype, 0, shape), none));
  return b.add(wide, additive);
}

ir::AttentionAttributes read_attributes(OpContext& op, Dim head_size) {
  ir::AttentionAttributes a;
  const float scale = op.attribute_float("scale", 0.0F);
  a.scale = scale == 0 ? inverse_root(head_size) : Real(scale);
  a.softcap = op.attribute_float("softcap", 0.0F);
  a.causal = op.attribute_int("causal", 1) != 0;
  // The attribute counts the query's own position.
  if (const int64_t window = op.attribute_int("local_window_size", -1); window > 0) a.left_window = window - 1;
  a.smooth_softmax = op.attribute_int("smooth_softmax", -1) == 1;
  const int64_t wanted = op.attribute_int("qk_output", 0);
  op.check(wanted >= 0 && wanted <= 2, "qk_output must be in [0, 2], is ", wanted);
  if (op.wants_output(3)) a.scores = wanted == 2 ? Scores::softmax : Scores::masked;
  return a;
}

void group_query(OpContext& op) {
  require_float(op, kQuery);
  for (const size_t past : {kPastKey, kPastValue}) require_rank(op, past, 4);
  for (const size_t table : {kCos, kSin}) require_rank(op, table, 2);
  Builder& b = op.build();
  Heads heads = read_heads(op);
  const Dims shape = b.shape(heads.q);
  const Dim batch = shape[0], length = shape[2], total = op.require_dim(kTotal);
  ir::AttentionAttributes attributes = read_attributes(op, shape[3]);
  const CacheStart start = read_start(op, batch, length, total);
  normalise_heads(op, heads);
  rotate_heads(op, heads, start);
  const CacheCoding k_coding = read_coding(op, "k_quant_type", kKeyScale);
  const CacheCoding v_coding = read_coding(op, "v_quant_type", kValueScale);
  op.ignore_attributes({"kv_cache_bit_width"});  // read where the cache is coded

  const bool windowed = op.attribute_int("sliding_window_cache", 0) != 0;
  op.check(op.has_input(kPastKey) == op.has_input(kPastValue), "past_key and past_value belong together");
  ir::AttentionExtras extras;
  if (op.has_input(kBias)) extras.mask = as_rank_4(b, op.input(kBias));
  attributes.offset = start.all;
  const auto cached = [&](size_t past, Value now, const CacheCoding& coding, size_t output) {
    now = coding.encode(b, now);
    CacheResult result{now, now};
    if (op.has_input(past)) {
      if (windowed && start.each) op.unsupported("sliding_window_cache with a batch");
      result = windowed ? slide_cache(b, op.input(past), now, start.all)
                        : append_cache(b, op.input(past), now, start, total);
    }
    op.output(output, result.present);
    return coding.decode(b, result.visible, shape[3]);
  };
  const Value k = cached(kPastKey, heads.k, k_coding, 1), v = cached(kPastValue, heads.v, v_coding, 2);
  const Dim keys = b.shape(k)[2];
  if (windowed) {
    attributes.offset = keys - length;  // positions count from the oldest key that is left
    if (extras.mask) extras.mask = b.slice_axis(extras.mask, 3, total - keys, total);
  }
  if (start.each)
    extras.lengths = b.add(start.each, b.broadcast_to(b.dim_value(length, DType::i64), {batch}));
  else if (start.totals)
    extras.mask = counted_keys(b, start.totals, extras.mask, keys, op.dtype(kQuery));
  if (op.has_input(kSink)) extras.sink = op.input(kSink);
  const std::vector<Value> results = ir::attention(b, heads.q, k, v, extras, attributes);
  op.output(0, merge_heads(b, results[0]));
  if (!op.wants_output(3)) return;
  const Value none = b.like(results[1], -std::numeric_limits<double>::infinity());
  const Value hidden = b.compare(results[1], none, CompareDirection::eq);
  op.output(3, b.select(hidden, b.like(results[1], 0), results[1]));
}

}  // namespace

void register_group_query(Registry& r) { r.add("GroupQueryAttention", {1}, group_query, kMicrosoft); }

}  // namespace transmuter::ops
