// com.microsoft RemovePadding, RestorePadding, PackedAttention, PackedMultiHeadAttention: what ONNX Runtime's packing
// of BERT-like models writes. Attention puts the padding back, where the keys are masked, and takes the tokens out
// again.
#include <limits>

#include "ops/contrib_attention.h"
#include "ops/matmul.h"
#include "ops/packed_tokens.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

namespace {

// The places of the tokens in the padded batch, i64 [tokens].
Value places_of(Builder& b, Value token_offset, Dim tokens) {
  const Value all = b.reshape(b.convert(token_offset, DType::i64), {product(b.shape(token_offset))});
  return b.slice_axis(all, 0, 0, tokens);
}

}  // namespace

Value restore_padding(Builder& b, Value rows, Value token_offset) {
  const Dims shape = b.shape(rows), grid = b.shape(token_offset);
  if (shape.size() != 2 || grid.size() != 2)
    throw Error(ErrorCode::invalid_model,
                str("takes tokens [tokens, hidden] and token_offset [batch, sequence], not ranks ", shape.size(),
                    " and ", grid.size()));
  const Dim cells = grid[0] * grid[1];
  require(less_equal(shape[0], cells), "token_offset holds an entry for each token");
  const Value places = ir::checked_indices(b, b.expand_dims(places_of(b, token_offset, shape[0]), {1}), {cells}, false,
                                           "token_offset lies in the batch");
  ir::ScatterAttributes scatter;
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  const Value zeros = b.splat(b.dtype(rows), 0, {cells, shape[1]});
  return b.reshape(b.scatter(zeros, places, rows, std::move(scatter)), {grid[0], grid[1], shape[1]});
}

namespace {

void remove_padding(OpContext& op) {
  op.check(op.rank(0) == 3 && op.rank(1) == 1, "takes [batch, sequence, hidden] and [batch], not ranks ", op.rank(0),
           " and ", op.rank(1));
  Builder& b = op.build();
  const Dims shape = op.shape(0);
  const Dim batch = shape[0], length = shape[1], cells = batch * length;
  require_eq(op.shape(1)[0], batch, "RemovePadding: counts and the batch");
  const Value counts = b.convert(op.input(1), DType::i64);
  const Value place = b.iota(DType::i64, {batch, length}, 1);
  const Value real = b.compare(place, b.broadcast_in_dim(counts, {batch, length}, {0}), CompareDirection::lt);
  const Value flags = b.reshape(real, {cells});
  if (op.wants_output(0)) op.output(0, ir::compress(b, b.reshape(op.input(0), {cells, shape[2]}), flags, 0));
  if (op.wants_output(1)) {
    // Places in order, those of the padding behind all others.
    const Value size = b.broadcast_in_dim(b.dim_value(cells, DType::i64), {cells}, {});
    const Value behind = b.multiply(b.convert(b.logical_not(flags), DType::i64), size);
    ir::SortAttributes sort;
    sort.axis = 0;
    const Value sorted = b.sort({b.add(b.iota(DType::i64, {cells}, 0), behind)}, std::move(sort))[0];
    op.output(1, b.reshape(b.convert(b.remainder(sorted, size), DType::i32), {batch, length}));
  }
  if (op.wants_output(2)) {
    const Value sums = ir::cumulative(b, counts, ir::ReduceKind::add, 0);
    op.output(2, b.convert(b.concatenate({b.splat(DType::i64, 0, {1}), sums}, 0), DType::i32));
  }
  if (op.wants_output(3))
    op.output(3, b.convert(b.reshape(b.reduce(counts, ir::ReduceKind::max, {0}), {1}), DType::i32));
}

void restore(OpContext& op) {
  op.check(op.rank(0) == 2 && op.rank(1) == 2, "takes [tokens, hidden] and [batch, sequence], not ranks ", op.rank(0),
           " and ", op.rank(1));
  op.output(0, restore_padding(op.build(), op.input(0), op.input(1)));
}

struct Packed {
  Value q, k, v;  // [tokens, heads * d]
  size_t offset, lengths, bias;
};

void attend(OpContext& op, const Packed& packed, int64_t heads) {
  Builder& b = op.build();
  op.check(op.rank(packed.offset) == 2 && op.rank(packed.lengths) == 1,
           "token_offset must have rank 2 and cumulative_sequence_length rank 1");
  const Value offset = op.input(packed.offset);
  const Dims grid = b.shape(offset);
  require_eq(op.shape(packed.lengths)[0], grid[0] + 1, str(op.node().op_type, ": cumulative_sequence_length"));
  const auto heads_of = [&](Value rows) { return split_heads(b, restore_padding(b, rows, offset), heads); };
  const Value q = heads_of(packed.q), k = heads_of(packed.k), v = heads_of(packed.v);
  const Value starts = b.convert(op.input(packed.lengths), DType::i64);
  const Value lengths = b.subtract(b.slice_axis(starts, 0, 1, grid[0] + 1), b.slice_axis(starts, 0, 0, grid[0]));
  const Dims keys{grid[0], 1, 1, grid[1]};
  const Value seen =
      b.compare(b.iota(DType::i64, keys, 3), b.broadcast_in_dim(lengths, keys, {0}), CompareDirection::lt);
  ir::AttentionAttributes attributes;
  const float scale = op.attribute_float("scale", 0.0F);
  attributes.scale = scale == 0 ? inverse_root(b.shape(q)[3]) : Real(scale);
  ir::AttentionExtras extras;
  extras.mask = seen;
  if (op.has_input(packed.bias)) {
    const DType dtype = b.dtype(q);
    const Value hidden = b.splat(dtype, -std::numeric_limits<double>::infinity(), keys);
    const auto [bias, mask] =
        b.numpy_broadcast(as_rank_4(b, op.input(packed.bias)), b.select(seen, b.splat(dtype, 0, keys), hidden));
    extras.mask = b.add(bias, mask);
  }
  const Value y = merge_heads(b, ir::attention(b, q, k, v, extras, attributes)[0]);
  const Dims shape = b.shape(y);
  const Value rows = b.reshape(y, {shape[0] * shape[1], shape[2]});
  op.output(0, take_rows(b, rows, places_of(b, offset, b.shape(packed.q)[0])));
}

void packed_attention(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  for (const size_t i : {0, 1}) require_rank(op, i, 2);
  require_float(op, 0);
  Builder& b = op.build();
  Value projected = matmul(b, op.input(0), op.input(1), op.dtype(0));
  projected = b.add(projected, b.broadcast_to(op.input(2), b.shape(projected)));
  const Dim width = b.shape(projected)[1];
  Dims sizes(3, floor_div(width, 3));
  if (const auto given = op.attribute_ints_optional("qkv_hidden_sizes"); given && !given->empty()) {
    op.check(given->size() == 3, "qkv_hidden_sizes must have 3 entries, has ", given->size());
    sizes.assign(given->begin(), given->end());
  }
  require_eq(sizes[0] + sizes[1] + sizes[2], width, "PackedAttention: qkv_hidden_sizes and the weights");
  attend(op,
         {b.slice_axis(projected, 1, 0, sizes[0]), b.slice_axis(projected, 1, sizes[0], sizes[0] + sizes[1]),
          b.slice_axis(projected, 1, sizes[0] + sizes[1], width), 3, 4, 5},
         heads);
}

void packed_multi_head(OpContext& op) {
  const int64_t heads = op.attribute_int("num_heads");
  op.check(heads > 0, "num_heads must be positive, is ", heads);
  op.ignore_attributes({"mask_filter_value"});  // padding takes no part at all
  require_float(op, 0);
  Builder& b = op.build();
  Value q = op.input(0), k, v;
  if (op.rank(0) == 4) {  // [tokens, heads, 3, d]
    const Dims shape = b.shape(q);
    const auto part = [&](int64_t i) {
      return b.reshape(b.slice_axis(op.input(0), 2, i, i + 1), {shape[0], shape[1] * shape[3]});
    };
    q = part(0);
    k = part(1);
    v = part(2);
  } else {
    op.check(op.rank(0) == 2 && op.has_input(1) && op.has_input(2), "query has rank ", op.rank(0),
             ": it must have rank 4 (with keys and values), or 2 with key and value beside it");
    for (const size_t i : {1, 2}) require_rank(op, i, 2);
    k = op.input(1);
    v = op.input(2);
  }
  if (op.has_input(3)) {
    Dim at = 0;
    for (Value* x : {&q, &k, &v}) {
      const Dims shape = b.shape(*x);
      *x = b.add(*x, b.broadcast_to(b.slice_axis(op.input(3), 0, at, at + shape[1]), shape));
      at = at + shape[1];
    }
  }
  attend(op, {q, k, v, 4, 5, 6}, heads);
}

}  // namespace

void register_packed_attention(Registry& r) {
  r.add("RemovePadding", {1}, remove_padding, kMicrosoft);
  r.add("RestorePadding", {1}, restore, kMicrosoft);
  r.add("PackedAttention", {1}, packed_attention, kMicrosoft);
  r.add("PackedMultiHeadAttention", {1}, packed_multi_head, kMicrosoft);
}

}  // namespace transmuter::ops
