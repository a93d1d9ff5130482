// MatMul, Gemm, and of com.microsoft FusedMatMul.
#include <cmath>

#include "ops/matmul.h"

#include <algorithm>

#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

// What the batch axes of one operand of a product are, by their position in the result.
struct Batch {
  std::vector<int64_t> shared;          // in both
  std::vector<int64_t> only_a, only_b;  // the other operand lacks it or has 1
  std::vector<int64_t> a_axes, b_axes;  // of the operand, for each result axis; -1: lacks it
  Dims extents;
};

Dim extent_or_one(Builder& build, Value x, int64_t axis) {
  return axis < 0 ? Dim(1) : build.shape(x)[static_cast<size_t>(axis)];
}

Batch batch_of(Builder& build, Value& a, Value& b) {
  const int64_t a_batch = build.rank(a) - 2, b_batch = build.rank(b) - 2, count = std::max(a_batch, b_batch);
  Batch batch;
  std::vector<int64_t> a_drop, b_drop;
  for (int64_t i = 0; i < count; ++i) {
    int64_t a_axis = i - (count - a_batch), b_axis = i - (count - b_batch);
    const Dim a_extent = extent_or_one(build, a, a_axis), b_extent = extent_or_one(build, b, b_axis);
    const Dim extent = ir::broadcast_dim(a_extent, b_extent, "MatMul");
    batch.extents.push_back(extent);
    const auto widen = [&](Value& x, int64_t axis, Dim own) {
      if (axis < 0 || provably_eq(own, extent) || provably_eq(own, 1)) return;
      Dims shape = build.shape(x);  // a count known only when the program runs: 1 or the other's
      shape[static_cast<size_t>(axis)] = extent;
      x = build.broadcast_to(x, shape);
    };
    widen(a, a_axis, a_extent);
    widen(b, b_axis, b_extent);
    const bool a_one = provably_eq(extent_or_one(build, a, a_axis), 1);
    const bool b_one = provably_eq(extent_or_one(build, b, b_axis), 1);
    if (a_axis >= 0 && b_axis >= 0 && a_one == b_one) {
      batch.shared.push_back(i);
    } else if (a_axis >= 0 && (b_axis < 0 || b_one)) {
      batch.only_a.push_back(i);
      if (b_axis >= 0) b_drop.push_back(b_axis);
      b_axis = -1;
    } else {
      batch.only_b.push_back(i);
      if (a_axis >= 0) a_drop.push_back(a_axis);
      a_axis = -1;
    }
    batch.a_axes.push_back(a_axis);
    batch.b_axes.push_back(b_axis);
  }
  const auto renumber = [](std::vector<int64_t>& axes, const std::vector<int64_t>& dropped) {
    for (int64_t& axis : axes)
      axis -= std::count_if(dropped.begin(), dropped.end(), [&](int64_t d) { return d < axis; });
  };
  if (!a_drop.empty()) a = build.squeeze(a, a_drop);
  if (!b_drop.empty()) b = build.squeeze(b, b_drop);
  renumber(batch.a_axes, a_drop);
  renumber(batch.b_axes, b_drop);
  return batch;
}

}  // namespace

Value swap_last_axes(Builder& build, Value x) {
  const int64_t rank = build.rank(x);
  if (rank < 2) return x;
  std::vector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i) permutation.push_back(i);
  std::swap(permutation[static_cast<size_t>(rank - 1)], permutation[static_cast<size_t>(rank - 2)]);
  return build.transpose(x, permutation);
}

Value matmul(Builder& build, Value a, Value b, DType result) {
  if (build.rank(a) == 0 || build.rank(b) == 0)
    throw Error(ErrorCode::invalid_model, "MatMul: the operands must have at least one axis");
  ir::DotGeneralAttributes dot;
  dot.dtype = result;
  if (build.rank(a) == 1 || build.rank(b) <= 2) {  // no common batch axes: the free axes come out in order
    dot.lhs_contracting = {build.rank(a) - 1};
    dot.rhs_contracting = {std::max<int64_t>(build.rank(b) - 2, 0)};
    return build.dot_general(a, b, dot);
  }
  const Batch batch = batch_of(build, a, b);
  for (int64_t i : batch.shared) {
    dot.lhs_batching.push_back(batch.a_axes[static_cast<size_t>(i)]);
    dot.rhs_batching.push_back(batch.b_axes[static_cast<size_t>(i)]);
  }
  dot.lhs_contracting = {build.rank(a) - 1};
  dot.rhs_contracting = {build.rank(b) - 2};
  const Value y = build.dot_general(a, b, dot);
  // It has [shared..., only a..., m, only b..., n].
  const int64_t count = static_cast<int64_t>(batch.extents.size());
  std::vector<int64_t> permutation(static_cast<size_t>(count + 2));
  int64_t at = 0;
  for (int64_t i : batch.shared) permutation[static_cast<size_t>(i)] = at++;
  for (int64_t i : batch.only_a) permutation[static_cast<size_t>(i)] = at++;
  permutation[static_cast<size_t>(count)] = at++;
  for (int64_t i : batch.only_b) permutation[static_cast<size_t>(i)] = at++;
  permutation[static_cast<size_t>(count + 1)] = at;
  return build.transpose(y, permutation);
}

namespace {

void matmul_op(OpContext& op) {
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  op.output(0, matmul(op.build(), op.input(0), op.input(1), op.dtype(0)));
}

// v * factor where the dtype may be an integer: then in f64, truncated.
Value scaled(Builder& build, Value x, float factor) {
  if (factor == 1.0F) return x;
  const DType dtype = build.dtype(x);
  if (is_float(dtype)) return build.multiply(x, build.like(x, factor));
  const Value wide = build.convert(x, DType::f64);
  return build.convert(build.multiply(wide, build.like(wide, factor)), dtype);
}

}  // namespace

// alpha * A' B' + beta * C. C broadcasts one way; before opset 7 only with `broadcast`; absent from 11 on.
Value gemm(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F), beta = op.attribute_float("beta", 1.0F);
  const bool trans_a = op.attribute_int("transA", 0) != 0, trans_b = op.attribute_int("transB", 0) != 0;
  if (op.version() < 7) op.ignore_attributes({"broadcast"});  // the shapes say it
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  op.check(op.rank(0) == 2 && op.rank(1) == 2, "A and B must have rank 2, have ", op.rank(0), " and ", op.rank(1));
  Builder& build = op.build();
  // Factors that are no integers: what they give of integers is truncated once, at the end.
  const bool fractions = is_integer(op.dtype(0)) && (std::trunc(alpha) != alpha || std::trunc(beta) != beta);
  const DType dtype = op.dtype(0), inner = is_half(dtype) ? DType::f32 : fractions ? DType::f64 : dtype;
  ir::DotGeneralAttributes dot;
  dot.dtype = is_half(dtype) ? DType::f32 : dtype;
  dot.lhs_contracting = {trans_a ? 0 : 1};
  dot.rhs_contracting = {trans_b ? 1 : 0};
  Value y = scaled(build, build.convert(build.dot_general(op.input(0), op.input(1), dot), inner), alpha);
  if (op.has_input(2) && beta != 0) {
    require_same_dtype(op, 0, 2);
    const Value c = scaled(build, build.convert(op.input(2), inner), beta);
    y = build.add(y, build.broadcast_to(c, build.shape(y)));
  }
  return build.convert(y, dtype);
}

namespace {

void gemm_op(OpContext& op) { op.output(0, gemm(op)); }

// The leading axis of the batch moves to the front of the matrix: [m, batch..., k] is read as [batch..., m, k].
Value batch_first(Builder& build, Value x) {
  const int64_t rank = build.rank(x);
  if (rank < 3) return x;
  std::vector<int64_t> permutation;
  for (int64_t i = 1; i < rank - 1; ++i) permutation.push_back(i);
  permutation.push_back(0);
  permutation.push_back(rank - 1);
  return build.transpose(x, permutation);
}

void fused_matmul(OpContext& op) {
  const float alpha = op.attribute_float("alpha", 1.0F);
  const bool trans_a = op.attribute_int("transA", 0) != 0, trans_b = op.attribute_int("transB", 0) != 0;
  const bool batch_a = op.attribute_int("transBatchA", 0) != 0, batch_b = op.attribute_int("transBatchB", 0) != 0;
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& build = op.build();
  const auto arranged = [&](size_t i, bool batch, bool transposed) {
    const Value x = batch ? batch_first(build, op.input(i)) : op.input(i);
    return transposed ? swap_last_axes(build, x) : x;
  };
  const DType dtype = op.dtype(0), inner = is_half(dtype) && alpha != 1.0F ? DType::f32 : dtype;
  const Value y = matmul(build, arranged(0, batch_a, trans_a), arranged(1, batch_b, trans_b), inner);
  op.output(0, build.convert(scaled(build, y, alpha), dtype));
}

}  // namespace

void register_matmul(Registry& r) {
  r.add("MatMul", {1, 9, 13}, matmul_op);
  r.add("Gemm", {1, 6, 7, 9, 11, 13}, gemm_op);
  r.add("FusedMatMul", {1}, fused_matmul, kMicrosoft);
  r.add("TransposeMatMul", {1}, fused_matmul, kMicrosoft);
}

}  // namespace transmuter::ops
