// com.microsoft DecoderAttention, as fairseq's decoders have it: tokens come first, then the batch.
#include "ops/attention_parts.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// query and key [s, b, h], weights of q [h, h] and of k and v [h, 2 h], bias [3 h], padding of keys (true: none there),
// caches [b, heads, s, d]; then four truths. Keys and values are of the query (self-attention) or of the key; with a
// cache the query's go behind it, and those of the key are it.
void decoder_attention(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  op.ignore_attributes({"mask_filter_value"});  // masked keys take no part
  require_float(op, 0);
  op.check(op.rank(0) == 3 && op.rank(1) == 3 && op.rank(2) == 2 && op.rank(3) == 2 && op.rank(4) == 1,
           "query and key must have rank 3, the weights 2, the bias 1");
  const auto truth = [&](size_t i) { return op.require_int(i) != 0; };
  const bool cross = truth(8), cached = truth(9) && truth(10), padded = truth(11);
  Builder& b = op.build();
  const Dim width = op.shape(0)[2];
  const auto projected = [&](size_t x, size_t weight, Dim from, Dim count) {
    const Value y = matmul(b, op.input(x), op.input(weight), op.dtype(0));
    const Value bias = b.slice_axis(op.input(4), 0, from, from + count);
    return b.transpose(b.add(y, b.broadcast_to(bias, b.shape(y))), {1, 0, 2});
  };
  const Value q = split_heads(b, projected(0, 2, 0, width), heads);
  Value k, v;
  if (cached && cross) {
    k = op.input(6);
    v = op.input(7);
  } else {
    const Value both = projected(cross ? 1 : 0, 3, width, width * 2);
    k = split_heads(b, b.slice_axis(both, 2, 0, width), heads);
    v = split_heads(b, b.slice_axis(both, 2, width, width * 2), heads);
    if (cached) {
      k = b.concatenate({op.input(6), k}, 2);
      v = b.concatenate({op.input(7), v}, 2);
    }
  }
  ir::AttentionAttributes attributes;
  attributes.scale = inverse_root(b.shape(q)[3]);
  ir::AttentionExtras extras;
  if (padded) {
    op.check(op.dtype(5) == DType::boolean && op.rank(5) == 2, "key_padding_mask must be bool of rank 2");
    extras.mask = b.logical_not(b.reshape(op.input(5), {op.shape(5)[0], 1, 1, op.shape(5)[1]}));
  }
  const Value y = merge_heads(b, ir::attention(b, q, k, v, extras, attributes)[0]);
  op.output(0, b.transpose(y, {1, 0, 2}));
  if (op.wants_output(1)) op.output(1, k);
  if (op.wants_output(2)) op.output(2, v);
  for (const size_t i : {1, 5, 6, 7}) op.has_input(i);
}

}  // namespace

void register_decoder_attention(Registry& r) { r.add("DecoderAttention", {1}, decoder_attention, kMicrosoft); }

}  // namespace transmuter::ops
