// ReverseSequence: in each batch row the first sequence_lens steps run backwards, the rest stays.
#include "ops/reverse_sequence.h"

#include "ir/composites/composites.h"
#include "ops/attention_parts.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::CompareDirection;
using ir::Value;

Value reverse_sequences(ir::Builder& b, Value x, Value lengths, int64_t time_axis) {
  const Dims shape = b.shape(x), plane{shape[0], shape[1]};
  const int64_t batch_axis = 1 - time_axis;
  const Value time = b.iota(DType::i64, plane, time_axis), batch = b.iota(DType::i64, plane, batch_axis);
  const Value length = b.broadcast_in_dim(lengths, plane, {batch_axis});
  const Value mirrored = b.subtract(b.subtract(length, b.like(length, 1)), time);
  const Value from = b.select(b.compare(time, length, CompareDirection::lt), mirrored, time);
  // Whole rows along one axis, which is what gathers are fast at.
  const Value width = b.broadcast_in_dim(b.dim_value(shape[1], DType::i64), plane, {});
  const Value row = time_axis == 0 ? b.add(b.multiply(from, width), batch) : b.add(b.multiply(batch, width), from);
  Dims flat(shape.begin() + 1, shape.end());
  flat[0] = shape[0] * shape[1];
  return take_rows(b, b.reshape(x, std::move(flat)), row);
}

namespace {

void reverse_sequence(OpContext& op) {
  const int64_t batch_axis = op.attribute_int("batch_axis", 1), time_axis = op.attribute_int("time_axis", 0);
  op.check((batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0),
           "batch_axis and time_axis must be 0 and 1, are ", batch_axis, " and ", time_axis);
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
  op.output(0, reverse_sequences(b, op.input(0), lengths, time_axis));
}

}  // namespace

void register_reverse_sequence(Registry& r) { r.add("ReverseSequence", {10, 28}, reverse_sequence); }

}  // namespace transmuter::ops
