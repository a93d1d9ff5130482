// The attention of com.microsoft's operators: masks of several forms, a finite filter value, caches in one tensor.
#pragma once

#include "ops/attention_parts.h"

namespace transmuter::ops {

struct AttentionShape {
  Dim batch, queries, keys;
};
// Where keys take part (bool, rank 4), from input i: lengths [b], ends and starts [2 b], or a mask of rank 2, 3 or 4.
ir::Value key_mask(OpContext& op, size_t i, const AttentionShape& shape);

// q, k, v [b, heads, s, d]. Reads unidirectional, mask_filter_value, scale; mask and bias are inputs, `past` keys come
// before the first query. Results: y, and where wanted the scores that the softmax takes.
std::vector<ir::Value> contrib_attention(OpContext& op, ir::Value q, ir::Value k, ir::Value v, size_t mask, size_t bias,
                                         Dim past, bool wants_scores);

// q, k, v of Attention's projection [b, s, q + k + v]; reads qkv_hidden_sizes.
std::vector<ir::Value> project_heads(OpContext& op, ir::Value projected, int64_t heads);
// Attention after its projection: cache, attention, outputs.
void finish_attention(OpContext& op, std::vector<ir::Value> heads, size_t mask, size_t past_input, size_t bias);

}  // namespace transmuter::ops
