#include "ops/kv_cache.h"

#include "ir/composites/write_rows.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

Value pad_rows(Builder& b, Value x, Dim count) {
  const Dims none(4, Dim(0));
  return b.pad(x, b.scalar(b.dtype(x), 0), none, {0, 0, count, 0}, none);
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
    ir::WriteRowsAttributes write;
    write.axis = 2;
    write.keeps_rest = start.keeps_rest;
    const Value end =
        start.end ? start.end : b.add(start.each, b.broadcast_to(b.dim_value(length, DType::i64), {shape[0]}));
    result.present = ir::write_rows(b, past, now, start.each, end, write);
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
