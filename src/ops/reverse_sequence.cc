// ReverseSequence: in each batch row the first sequence_lens steps run backwards, the rest stays.
#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::CompareDirection;
using ir::Value;

void reverse_sequence(OpContext& op) {
  const int64_t batch_axis = op.attribute_int("batch_axis", 1), time_axis = op.attribute_int("time_axis", 0);
  op.check(batch_axis + time_axis == 1 && batch_axis * time_axis == 0, "batch_axis and time_axis must be 0 and 1, are ",
           batch_axis, " and ", time_axis);
  const int64_t rank = op.rank(0);
  op.check(rank >= 2 && op.rank(1) == 1, "the input needs rank 2 and sequence_lens rank 1, have ", rank, " and ",
           op.rank(1));
  op.check(op.dtype(1) == DType::i64, "sequence_lens must be int64, are ", name(op.dtype(1)));
  const Dims data = op.shape(0);
  const size_t batch = static_cast<size_t>(batch_axis);
  require_eq(op.shape(1)[0], data[batch], "ReverseSequence: number of sequence_lens");
  ir::Builder& b = op.build();
  const Value lengths =
      ir::checked_indices(b, op.input(1), {data[static_cast<size_t>(time_axis)] + 1}, false, "ReverseSequence: length");
  const Dims plane{data[0], data[1]};
  const Value time = b.iota(DType::i64, plane, time_axis);
  const Value length = b.broadcast_in_dim(lengths, plane, {batch_axis});
  const Value inside = b.compare(time, length, CompareDirection::lt);
  const Value mirrored = b.subtract(b.subtract(length, b.like(length, 1)), time);
  const Value from = b.select(inside, mirrored, time);
  ir::GatherAttributes attributes;
  attributes.operand_batching_dims = attributes.start_indices_batching_dims = {batch_axis};
  attributes.collapsed_slice_dims = attributes.start_index_map = {time_axis};
  attributes.index_vector_dim = 2;
  attributes.slice_sizes = data;
  attributes.slice_sizes[0] = attributes.slice_sizes[1] = 1;
  for (int64_t i = 2; i < rank; ++i) attributes.offset_dims.push_back(i);
  op.output(0, b.gather(op.input(0), from, std::move(attributes)));
}

}  // namespace

void register_reverse_sequence(Registry& r) { r.add("ReverseSequence", {10, 28}, reverse_sequence); }

}  // namespace transmuter::ops
