// TensorScatter: rows written into a cache, each sequence of the batch at its own place.
#include "ir/composites/composites.h"
#include "ir/composites/write_rows.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// cache [b, ..., max, ...], update [b, ..., s, ...]: rows start_b + i along the axis; circular: modulo max.
void tensor_scatter(OpContext& op) {
  const std::string mode = op.attribute_string("mode", "linear");
  op.check(mode == "linear" || mode == "circular", "mode ", mode, " is not one of the operator's");
  require_same_dtype(op, 0, 1);
  const int64_t rank = op.rank(0), axis = op.axis(op.attribute_int("axis", -2), rank);
  op.check(axis != 0 && op.rank(1) == rank,
           "the cache and the update must have one rank, the axis must not be the batch");
  Builder& b = op.build();
  const Value cache = op.input(0), update = op.input(1);
  const Dims shape = b.shape(cache);
  const Dim rows = b.shape(update)[static_cast<size_t>(axis)], capacity = shape[static_cast<size_t>(axis)];
  require(less_equal(rows, capacity), "TensorScatter: the update has more rows than the cache");
  if (!op.has_input(2)) {
    const std::vector<Value> zeros(static_cast<size_t>(rank), b.integer(DType::i64, 0));
    return op.output(0, b.dynamic_update_slice(cache, update, zeros));
  }
  require_index(op, 2);
  if (mode == "linear" && provably_eq(shape[0], 1)) {  // one place: written there, not looked for everywhere
    std::vector<Value> starts(static_cast<size_t>(rank), b.integer(DType::i64, 0));
    const Value first = ir::checked_indices(b, b.convert(op.input(2), DType::i64), {capacity - rows + 1}, false,
                                            "TensorScatter: write_indices");
    starts[static_cast<size_t>(axis)] = b.reshape(first, {});
    return op.output(0, b.dynamic_update_slice(cache, update, starts));
  }
  const Value first = b.convert(op.input(2), DType::i64);
  ir::WriteRowsAttributes write;
  write.axis = axis;
  write.circular = mode == "circular";
  op.output(0, ir::write_rows(b, cache, update, first,
                              b.add(first, b.broadcast_to(b.dim_value(rows, DType::i64), {shape[0]})), write));
}

}  // namespace

void register_tensor_scatter(Registry& r) { r.add("TensorScatter", {24}, tensor_scatter); }

}  // namespace transmuter::ops
