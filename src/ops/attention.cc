// Attention of ai.onnx: grouped heads, caches, masks, windows.
#include <limits>

#include "ops/attention_parts.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;
using Scores = ir::AttentionAttributes::Scores;

// Numbers of any kind are added to the scores as those of the query. A mask may end before the keys do: the rest takes
// no part.
Value whole_mask(OpContext& op, Value mask, Dim keys) {
  Builder& b = op.build();
  if (b.dtype(mask) != DType::boolean) mask = b.convert(mask, op.dtype(0));
  const DType dtype = b.dtype(mask);
  const Dim extent = b.shape(mask)[3];
  if (provably_eq(extent, 1) || provably_eq(extent, keys)) return mask;
  if (!decide_lt(extent, keys, "Attention: is the mask shorter than the keys?")) return mask;
  const bool is_bool = dtype == DType::boolean;
  const Value fill = b.scalar(dtype, is_bool ? 0 : -std::numeric_limits<double>::infinity());
  const Dims none(4, Dim(0));
  return b.pad(mask, fill, none, {0, 0, 0, keys - extent}, none);
}

Scores scores_wanted(OpContext& op) {
  constexpr Scores kModes[] = {Scores::scaled, Scores::capped, Scores::masked, Scores::softmax};
  const int64_t mode = op.attribute_int("qk_matmul_output_mode", 0);
  op.check(mode >= 0 && mode <= 3, "qk_matmul_output_mode must be in [0, 3], is ", mode);
  return op.wants_output(3) ? kModes[mode] : Scores::none;
}

// 23; 24 adds nonpad_kv_seqlen (the keys that count, the last of them the last query's own), 25 windows.
void attention(OpContext& op) {
  ir::AttentionAttributes attributes;
  attributes.causal = op.attribute_int("is_causal", 0) != 0;
  attributes.softcap = op.attribute_float("softcap", 0.0F);
  if (op.version() >= 25) {
    attributes.left_window = op.attribute_int("left_window_size", -1);
    attributes.right_window = op.attribute_int("right_window_size", -1);
    op.check(attributes.left_window >= -1 && attributes.right_window >= -1, "a window size must be -1 or more");
  }
  attributes.scores = scores_wanted(op);
  op.ignore_attributes({"softmax_precision"});  // the softmax is in f32 at least
  const int64_t q_heads = op.attribute_int("q_num_heads", 0), kv_heads = op.attribute_int("kv_num_heads", 0);
  for (size_t i = 0; i < 3; ++i) {
    require_float(op, i);
    op.check(op.rank(i) == op.rank(0) && (op.rank(i) == 3 || op.rank(i) == 4), "Q, K and V must have rank 3 or 4");
  }
  Builder& b = op.build();
  const bool flat = op.rank(0) == 3;
  op.check(!flat || (q_heads > 0 && kv_heads > 0), "inputs of rank 3 need q_num_heads and kv_num_heads");
  const auto heads_of = [&](size_t i, int64_t heads) {
    return flat ? split_heads(b, op.input(i), heads) : op.input(i);
  };
  const Value q = heads_of(0, q_heads);
  Value k = heads_of(1, kv_heads), v = heads_of(2, kv_heads);
  if (op.has_input(4)) {
    op.check(op.has_input(5), "past_key without past_value");
    require_rank(op, 4, 4);
    require_rank(op, 5, 4);
    const Value past = op.input(4);
    attributes.offset = b.shape(past)[2];
    k = b.concatenate({past, k}, 2);
    v = b.concatenate({op.input(5), v}, 2);
  }
  if (op.wants_output(1)) op.output(1, k);
  if (op.wants_output(2)) op.output(2, v);
  ir::AttentionExtras extras;
  if (op.has_input(3)) extras.mask = whole_mask(op, as_rank_4(b, op.input(3)), b.shape(k)[2]);
  if (op.has_input(6)) extras.lengths = op.input(6);
  attributes.scale = op.has_attribute("scale") ? Real(op.attribute_float("scale")) : inverse_root(b.shape(q)[3]);
  const std::vector<Value> results = ir::attention(b, q, k, v, extras, attributes);
  op.output(0, flat ? merge_heads(b, results[0]) : results[0]);
  if (op.wants_output(3)) op.output(3, results[1]);
}

}  // namespace

void register_attention(Registry& r) { r.add("Attention", {23, 24, 25}, attention); }

}  // namespace transmuter::ops
