// RotaryEmbedding, of ai.onnx and of com.microsoft (there: position_ids second, or one offset for all).
#include "ops/attention_parts.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// The caches' rows for each position: [b or 1, s, r / 2], or as they are without positions.
Value rows_for(OpContext& op, size_t cache, size_t positions, Dim length) {
  Builder& b = op.build();
  const Value table = op.input(cache);
  if (!op.has_input(positions)) return table;
  op.check(b.rank(table) == 2, "a cache with position_ids must have rank 2, has ", b.rank(table));
  if (op.rank(positions) == 2) return take_checked_rows(b, table, op.input(positions));
  // One element: the first position.
  const Value first = b.reshape(op.input(positions), {});
  const Dims shape{1, length};
  return take_checked_rows(b, table, b.add(b.iota(b.dtype(first), shape, 1), b.broadcast_in_dim(first, shape, {})));
}

void rotary(OpContext& op, size_t positions, size_t cos, size_t sin) {
  const bool interleaved = op.attribute_int("interleaved", 0) != 0;
  const int64_t heads = op.attribute_int("num_heads", 0), rotated = op.attribute_int("rotary_embedding_dim", 0);
  require_float(op, 0);
  Builder& b = op.build();
  const int64_t rank = op.rank(0);
  op.check(rank == 3 || rank == 4, "the input must have rank 3 or 4, has ", rank);
  const Dims shape = op.shape(0);
  const Dim length = rank == 3 ? shape[1] : shape[2];
  const Value c = rows_for(op, cos, positions, length), s = rows_for(op, sin, positions, length);
  if (rotated > 0) require_eq(b.shape(c).back(), rotated / 2, "RotaryEmbedding: the caches' width and the attribute");
  if (rank == 4) return op.output(0, rotate(b, op.input(0), c, s, interleaved));
  // Without num_heads the caches are as wide as half a head.
  const Dim count = heads > 0 ? Dim(heads) : floor_div(shape[2], b.shape(c).back() * 2);
  op.output(0, merge_heads(b, rotate(b, split_heads(b, op.input(0), count), c, s, interleaved)));
}

void standard(OpContext& op) { rotary(op, 3, 1, 2); }

void microsoft(OpContext& op) {
  // is_packed_batching says where the batch came from, the shapes are as ever; no kernel of ONNX Runtime reads scale.
  op.ignore_attributes({"is_packed_batching", "scale"});
  rotary(op, 1, 2, 3);
}

}  // namespace

void register_rotary(Registry& r) {
  r.add("RotaryEmbedding", {23}, standard);
  r.add("RotaryEmbedding", {1}, microsoft, kMicrosoft);
}

}  // namespace transmuter::ops
