#include "ops/attention_parts.h"

#include "ir/composites/composites.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

Value split_heads(Builder& b, Value x, Dim heads) {
  const Dims shape = b.shape(x);
  if (shape.size() != 3)
    throw Error(ErrorCode::invalid_model, str("attention: the operand must have rank 3, has ", shape.size()));
  require(equal(mod(shape[2], heads), 0), "attention: the hidden extent divides by the number of heads");
  return b.transpose(b.reshape(x, {shape[0], shape[1], heads, floor_div(shape[2], heads)}), {0, 2, 1, 3});
}

Value merge_heads(Builder& b, Value x) {
  const Dims shape = b.shape(x);
  if (shape.size() != 4)
    throw Error(ErrorCode::invalid_model, str("attention: heads apart have rank 4, not ", shape.size()));
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Real inverse_root(Dim d) {
  const Real root = real_unary(RealOp::sqrt, real_from(d, RealDType::f64), RealDType::f64);
  return real_unary(RealOp::reciprocal, root, RealDType::f64);
}

Value as_rank_4(Builder& b, Value mask) {
  Dims shape = b.shape(mask);
  if (shape.size() > 4) throw Error(ErrorCode::invalid_model, str("attention: the mask has rank ", shape.size()));
  shape.insert(shape.begin(), 4 - shape.size(), Dim(1));
  return b.reshape(mask, shape);
}

namespace {

void require_rows(Builder& b, Value table) {
  if (b.rank(table) == 0) throw Error(ErrorCode::invalid_model, "a table of rows must have an axis");
}

}  // namespace

Value take_rows(Builder& b, Value table, Value indices) {
  require_rows(b, table);
  const int64_t indices_rank = b.rank(indices);
  ir::GatherAttributes gather;
  for (int64_t i = 1; i < b.rank(table); ++i) gather.offset_dims.push_back(indices_rank + i - 1);
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = indices_rank;
  gather.slice_sizes = b.shape(table);
  gather.slice_sizes[0] = 1;
  return b.gather(table, indices, std::move(gather));
}

Value take_checked_rows(Builder& b, Value table, Value indices) {
  require_rows(b, table);
  return take_rows(b, table, ir::checked_indices(b, indices, {b.shape(table)[0]}, false, "index"));
}

Value rows_from(Builder& b, Value table, Dim start, Dim count) { return b.slice_axis(table, 0, start, start + count); }

Value rotate(Builder& b, Value x, Value cos, Value sin, bool interleaved) {
  const auto prepared = [&](Value table) {
    table = b.convert(table, b.dtype(x));
    return b.rank(table) == 2 ? b.expand_dims(table, {0}) : table;
  };
  return ir::rotary_embedding(b, x, prepared(cos), prepared(sin), interleaved);
}

}  // namespace transmuter::ops
