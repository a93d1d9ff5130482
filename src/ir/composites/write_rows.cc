#include "ir/composites/write_rows.h"

#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer_write_rows(const InferContext& ctx) {
  check_operand_count(ctx, 4);
  const auto& write = ctx.as<WriteRowsAttributes>();
  const Type &cache = ctx.operands[0], &rows = ctx.operands[1];
  ctx.check(cache.dtype == rows.dtype, "C1", "the rows are of another dtype than the cache");
  ctx.check(cache.rank() == rows.rank(), "C2", "the rows are of another rank than the cache");
  ctx.check(write.axis > 0 && write.axis < cache.rank(), "C3", "the axis is none of the cache's, or the batch");
  for (size_t i = 0; i < cache.shape.size(); ++i) {
    if (static_cast<int64_t>(i) != write.axis) require_eq(cache.shape[i], rows.shape[i], "write_rows: C4 extents");
  }
  for (const Type& places : ctx.operands.subspan(2)) {
    ctx.check(places.dtype == DType::i64 && places.rank() == 1, "C5", "places are i64, one for each sequence");
    require_eq(places.shape[0], cache.shape[0], "write_rows: C5 a place for each sequence");
  }
  return {cache};
}

// rows[b, ..., row[b, p], ...] at each place p, a row that isn't there being the nearest.
Value spread_rows(Builder& build, Value rows, Value row, const Dims& shape, int64_t axis) {
  if (provably_eq(build.shape(rows)[static_cast<size_t>(axis)], 1)) return build.broadcast_to(rows, shape);
  GatherAttributes gather;
  for (int64_t i = 1; i < static_cast<int64_t>(shape.size()); ++i)
    if (i != axis) gather.offset_dims.push_back(i);
  gather.collapsed_slice_dims = {axis};
  gather.operand_batching_dims = {0};
  gather.start_indices_batching_dims = {0};
  gather.start_index_map = {axis};
  gather.index_vector_dim = 2;
  gather.slice_sizes = shape;
  gather.slice_sizes[0] = 1;
  gather.slice_sizes[static_cast<size_t>(axis)] = 1;
  return build.gather(rows, row, std::move(gather));
}

std::vector<Value> decompose_write_rows(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& write = static_cast<const WriteRowsAttributes&>(*attributes);
  const Value cache = operands[0], rows = operands[1];
  const Dims shape = build.shape(cache);
  const Dim capacity = shape[static_cast<size_t>(write.axis)];
  const Dims places{shape[0], capacity};
  const auto number = [&](Dim dim) { return build.broadcast_in_dim(build.dim_value(dim, DType::i64), places, {}); };
  const auto over_cache = [&](Value truth) { return build.broadcast_in_dim(truth, shape, {0, write.axis}); };
  const Value start = build.broadcast_in_dim(operands[2], places, {0});
  const Value end = build.broadcast_in_dim(operands[3], places, {0});
  const Value place = build.iota(DType::i64, places, 1);
  Value row = build.subtract(place, start);
  if (write.circular) {
    row = build.remainder(row, number(capacity));
    row = build.select(build.compare(row, number(0), CompareDirection::lt), build.add(row, number(capacity)), row);
    const Value takes = build.compare(row, build.subtract(end, start), CompareDirection::lt);
    return {build.select(over_cache(takes), spread_rows(build, rows, row, shape, write.axis), cache)};
  }
  const Value behind = write.keeps_rest ? cache : build.splat(build.dtype(cache), 0, shape);
  const Value from = build.select(over_cache(build.compare(place, end, CompareDirection::lt)),
                                  spread_rows(build, rows, row, shape, write.axis), behind);
  return {build.select(over_cache(build.compare(place, start, CompareDirection::lt)), cache, from)};
}

}  // namespace

const Primitive composite::write_rows{
    .name = "write_rows", .infer = infer_write_rows, .decompose = decompose_write_rows};

Value write_rows(Builder& build, Value cache, Value rows, Value starts, Value ends, WriteRowsAttributes attributes) {
  return build.emit1(composite::write_rows, {cache, rows, starts, ends},
                     std::make_shared<WriteRowsAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
