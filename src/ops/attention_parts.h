// What the attention operators share: heads in and out of the hidden axis, caches, masks, rotation.
#pragma once

#include "ir/composites/composites.h"
#include "ops/context.h"

namespace transmuter::ops {

// [b, s, heads * d] -> [b, heads, s, d] and back.
ir::Value split_heads(ir::Builder& build, ir::Value x, Dim heads);
ir::Value merge_heads(ir::Builder& build, ir::Value x);
// 1 / sqrt(d)
Real inverse_root(Dim d);
// Rank 4 by leading extents of 1.
ir::Value as_rank_4(ir::Builder& build, ir::Value mask);
// Elements of a table [n, ...] by indices of any shape: [indices..., ...]. The indices are in range, or checked in the
// run.
ir::Value take_rows(ir::Builder& build, ir::Value table, ir::Value indices);
ir::Value take_checked_rows(ir::Builder& build, ir::Value table, ir::Value indices);
// table[start .. start + count) along the first axis.
ir::Value rows_from(ir::Builder& build, ir::Value table, Dim start, Dim count);

// x [b, h, s, d] rotated by cos and sin: [s, r / 2] or [b or 1, s, r / 2], any float dtype.
ir::Value rotate(ir::Builder& build, ir::Value x, ir::Value cos, ir::Value sin, bool interleaved);

}  // namespace transmuter::ops
