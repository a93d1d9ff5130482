#include "ops/kv_cache.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

namespace {

Value pad_rows(Builder& b, Value x, Dim count) {
  const Dims none(4, Dim(0));
  return b.pad(x, b.scalar(b.dtype(x), 0), none, {0, 0, count, 0}, none);
}

// now[b, h, position - start[b], d] at each position of the cache, whatever lies outside the chunk clamped.
Value spread_rows(Builder& b, Value now, Value places, const Dims& shape) {
  if (provably_eq(b.shape(now)[2], 1)) return b.broadcast_to(now, shape);
  ir::GatherAttributes gather;
  gather.offset_dims = {1, 3};
  gather.collapsed_slice_dims = {2};
  gather.operand_batching_dims = {0};
  gather.start_indices_batching_dims = {0};
  gather.start_index_map = {2};
  gather.index_vector_dim = 2;
  gather.slice_sizes = {1, shape[1], 1, shape[3]};
  return b.gather(now, places, std::move(gather));
}

}  // namespace

CacheResult append_cache(Builder& b, Value past, Value now, const CacheStart& start, Dim total) {
  const Dim held = b.shape(past)[2], length = b.shape(now)[2];
  if (!start.each && !start.totals && decide_eq(held + length, total, "attention cache: does it grow?")) {
    const Value grown = b.concatenate({past, now}, 2);
    return {grown, grown};
  }
  if (decide_lt(held, total, "attention cache: has it room?")) past = pad_rows(b, past, total - held);
  const Dims shape = b.shape(past);
  CacheResult result;
  if (start.each) {
    const Dims places{shape[0], shape[2]};
    const Value place = b.iota(DType::i64, places, 1), first = b.broadcast_in_dim(start.each, places, {0});
    const Value within = b.subtract(place, first);
    const Value end = start.end ? b.broadcast_in_dim(start.end, places, {0})
                                : b.add(first, b.broadcast_to(b.dim_value(length, DType::i64), places));
    const auto before = [&](Value bound) {
      return b.broadcast_in_dim(b.compare(place, bound, CompareDirection::lt), shape, {0, 2});
    };
    const Value behind = start.keeps_rest ? past : b.splat(b.dtype(past), 0, shape);
    const Value rest = b.select(before(end), spread_rows(b, now, within, shape), behind);
    result.present = b.select(before(first), past, rest);
  } else {
    const Value zero = b.integer(DType::i64, 0);
    const Dim rest = shape[2] - start.all - length;
    if (!start.keeps_rest && !provably_eq(rest, 0)) now = pad_rows(b, now, rest);
    result.present = b.dynamic_update_slice(past, now, {zero, zero, b.dim_value(start.all, DType::i64), zero});
  }
  result.visible = provably_eq(shape[2], total) ? result.present : b.slice_axis(result.present, 2, 0, total);
  return result;
}

CacheResult slide_cache(Builder& b, Value past, Value now, Dim start) {
  const Dim capacity = b.shape(past)[2], held = min(start, capacity);
  const Value all = b.concatenate({b.slice_axis(past, 2, 0, held), now}, 2);
  const Dim count = b.shape(all)[2], kept = min(count, capacity);
  const Value last = b.slice_axis(all, 2, count - kept, count);
  return {provably_eq(kept, capacity) ? last : pad_rows(b, last, capacity - kept), all};
}

}  // namespace transmuter::ops
