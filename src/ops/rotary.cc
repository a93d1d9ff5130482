// RotaryEmbedding, of ai.onnx and of com.microsoft (there: position_ids second, or one offset for all).
#include "ops/attention_parts.h"
#include "ops/ranks.h"
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
  require_rank(op, cos, 2, 3);
  require_rank(op, sin, 2, 3);
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

// Three streams of positions (time, height, width), each for some of the caches' columns: in runs one after another, or
// with mrope_layout 1 in turns, where what is left over is time's.
void multimodal(OpContext& op) {
  const bool interleaved = op.attribute_int("interleaved", 0) != 0, in_turns = op.attribute_int("mrope_layout", 0) != 0;
  const int64_t heads = op.attribute_int("num_heads", 0), rotated = op.attribute_int("rotary_embedding_dim", 0);
  const std::vector<int64_t> section = op.attribute_ints("mrope_section");
  op.ignore_attributes({"is_packed_batching", "scale"});  // as RotaryEmbedding's
  op.check(section.size() == 3, "mrope_section must have 3 entries, has ", section.size());
  require_float(op, 0);
  Builder& b = op.build();
  const int64_t rank = op.rank(0);
  op.check(rank == 3 || rank == 4, "the input must have rank 3 or 4, has ", rank);
  op.check(op.rank(1) == 3 && op.rank(2) == 2 && op.rank(3) == 2, "position_ids and the caches must have rank 3 and 2");
  require_eq(op.shape(1)[0], 3, "MRotaryEmbedding: streams of positions");
  const int64_t columns = specialize(op.shape(2)[1], "MRotaryEmbedding: columns of the caches");
  for (const int64_t extent : section)
    op.check(extent >= 0 && extent <= columns, "mrope_section has ", extent, " of ", columns, " columns");
  std::vector<int64_t> stream(static_cast<size_t>(columns), 0);
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t turn = i % 3;
    if (in_turns ? turn != 0 && i < section[static_cast<size_t>(turn)] * 3 : i >= section[0])
      stream[static_cast<size_t>(i)] = in_turns ? turn : i < section[0] + section[1] ? 1 : 2;
  }
  if (rotated > 0) op.check(columns == rotated / 2, "the caches have ", columns, " columns for ", rotated);
  const Value of_column = b.constant(Tensor(stream, {columns}));
  const auto rows = [&](size_t cache) {
    const Value all = take_checked_rows(b, op.input(cache), op.input(1));  // [3, b, s, columns]
    Value mixed;
    for (int64_t i = 0; i < 3; ++i) {
      const Value own = b.squeeze(b.slice_axis(all, 0, i, i + 1), {0});
      const Value wide = b.broadcast_in_dim(of_column, b.shape(own), {2});
      const Value takes = b.compare(wide, b.like(wide, static_cast<double>(i)), ir::CompareDirection::eq);
      mixed = mixed ? b.select(takes, own, mixed) : own;
    }
    return mixed;
  };
  const Value c = rows(2), s = rows(3);
  if (rank == 4) return op.output(0, rotate(b, op.input(0), c, s, interleaved));
  const Dim count = heads > 0 ? Dim(heads) : floor_div(op.shape(0)[2], Dim(columns * 2));
  op.output(0, merge_heads(b, rotate(b, split_heads(b, op.input(0), count), c, s, interleaved)));
}

}  // namespace

void register_rotary(Registry& r) {
  r.add("RotaryEmbedding", {23}, standard);
  r.add("RotaryEmbedding", {1}, microsoft, kMicrosoft);
  r.add("MRotaryEmbedding", {1}, multimodal, kMicrosoft);
}

}  // namespace transmuter::ops
