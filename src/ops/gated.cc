// com.microsoft norms with gates and streams: GatedRMSNorm, BranchwiseRMSNorm, GatedAdd, HyperConnection*. All in f32,
// rounded once.
#include "ir/composites/composites.h"
#include "ops/matmul.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

Value wide(OpContext& op, size_t i) {
  const DType dtype = op.dtype(i);
  return is_half(dtype) ? op.build().convert(op.input(i), DType::f32) : op.input(i);
}

// norm(x) * scale * activation(gate) over groups as long as the scale.
void gated_rms_norm(OpContext& op) {
  const std::string activation = op.attribute_string("activation", "silu");
  const float epsilon = op.attribute_float("epsilon", 1e-5F);
  op.check(activation == "silu" || activation == "swish" || activation == "sigmoid", "activation ", activation,
           " is not one of the operator's");
  require_float(op, 0);
  op.check(op.rank(0) >= 1 && op.rank(1) == 1, "X must have an axis, the scale rank 1");
  Builder& b = op.build();
  const Dims shape = op.shape(0);
  const Dim group = op.shape(1)[0];
  require(equal(mod(shape.back(), group), 0), "GatedRMSNorm: the last extent divides by the scale's");
  Dims grouped = shape;
  grouped.back() = floor_div(shape.back(), group);
  grouped.push_back(group);
  const int64_t axis = static_cast<int64_t>(grouped.size()) - 1;
  const Value x = b.reshape(wide(op, 0), grouped);
  const Value y = ir::rms_norm(b, x, b.convert(op.input(1), b.dtype(x)), axis, epsilon)[0];
  const Value gate = wide(op, 2);
  const Value factor = activation == "sigmoid" ? b.logistic(gate) : ir::silu(b, gate);
  op.output(0, b.convert(b.multiply(b.reshape(y, shape), factor), op.dtype(0)));
}

// Streams [..., c, h], as they are or flattened with num_branches saying c.
Dims streams_shape(OpContext& op) {
  const int64_t branches = op.attribute_int("num_branches", 0);
  Dims shape = op.shape(0);
  if (branches <= 0) {
    op.check(shape.size() >= 2, "grouped streams must have rank 2 or more, have ", shape.size());
    return shape;
  }
  op.check(!shape.empty(), "the streams must have an axis");
  require(equal(mod(shape.back(), branches), 0), str(op.node().op_type, ": streams divide by num_branches"));
  const Dim features = floor_div(shape.back(), branches);
  shape.back() = branches;
  shape.push_back(features);
  return shape;
}

void branchwise_rms_norm(OpContext& op) {
  const float epsilon = op.attribute_float("epsilon", 1e-5F);
  require_float(op, 0);
  Builder& b = op.build();
  const Dims grouped = streams_shape(op);
  const int64_t axis = static_cast<int64_t>(grouped.size()) - 1;
  const Value x = b.reshape(wide(op, 0), grouped);
  Value y = ir::rms_norm(b, x, {}, axis, epsilon)[0];
  if (op.has_input(1)) {
    Value scale = wide(op, 1);
    const Dim features = grouped.back(), branches = grouped[grouped.size() - 2];
    if (b.rank(scale) == 1 && !decide_eq(b.shape(scale)[0], features, "BranchwiseRMSNorm: one scale for all?"))
      scale = b.reshape(scale, {branches, features});
    y = b.multiply(y, b.broadcast_to(scale, grouped));
  }
  op.output(0, b.convert(b.reshape(y, op.shape(0)), op.dtype(0)));
}

// x + y * gate, the product rounded first; the gate is one number a row, or the sigmoid of a projection to one, both
// rounded.
void gated_add(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  Value row = op.input(2);
  if (op.has_input(3)) {
    op.check(op.rank(3) == 2 && op.rank(2) == op.rank(0), "gate_weight must be [k, 1] and gate have x's rank");
    const DType dtype = op.dtype(0);
    const Value projected = matmul(b, b.convert(row, DType::f32), b.convert(op.input(3), DType::f32), DType::f32);
    row = b.convert(b.logistic(b.convert(b.convert(projected, dtype), DType::f32)), dtype);
  }
  const Value gate = b.broadcast_to(row, b.shape(x));
  op.output(0, b.add(x, b.multiply(op.input(1), gate)));
}

// A mix [..., c], [..., c, 1], [..., c, h] or [..., c * h] against streams.
Value mix_of(OpContext& op, size_t i, const Dims& streams) {
  Builder& b = op.build();
  Value mix = wide(op, i);
  const size_t rank = streams.size();
  op.check(rank >= 2, "streams of rank ", rank);
  if (static_cast<size_t>(b.rank(mix)) == rank - 1) {
    const bool by_branch = decide_eq(b.shape(mix).back(), streams[rank - 2], "streams: is the mix by branch?");
    Dims shape = streams;
    if (by_branch) shape.back() = 1;
    mix = b.reshape(mix, shape);
  }
  return b.broadcast_to(mix, streams);
}

void pre_mix(OpContext& op) {
  const float factor = op.attribute_float("reduction_scale", 1.0F);
  require_float(op, 0);
  Builder& b = op.build();
  const Dims shape = streams_shape(op);
  const Value streams = b.reshape(wide(op, 0), shape);
  const Value sum = b.reduce(b.multiply(streams, mix_of(op, 1, shape)), ir::ReduceKind::add,
                             {static_cast<int64_t>(shape.size()) - 2});
  op.output(0, b.convert(b.multiply(sum, b.like(sum, factor)), op.dtype(0)));
}

// sum over c of mix[c, k] streams[c], and the branch's output into each stream by its gate.
void post_mix(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  const Dims shape = streams_shape(op);
  const int64_t rank = static_cast<int64_t>(shape.size());
  Value streams = b.reshape(wide(op, 0), shape);
  if (op.has_input(3)) {
    ir::DotGeneralAttributes dot;
    dot.dtype = b.dtype(streams);
    for (int64_t i = 0; i < rank - 2; ++i) dot.lhs_batching.push_back(i);
    dot.rhs_batching = dot.lhs_batching;
    dot.lhs_contracting = dot.rhs_contracting = {rank - 2};
    streams = b.dot_general(wide(op, 3), streams, std::move(dot));
  }
  const Value block = b.broadcast_to(b.expand_dims(wide(op, 1), {rank - 2}), shape);
  const Value y = b.add(streams, b.multiply(mix_of(op, 2, shape), block));
  op.output(0, b.convert(b.reshape(y, op.shape(0)), op.dtype(0)));
}

}  // namespace

void register_gated(Registry& r) {
  r.add("GatedRMSNorm", {1}, gated_rms_norm, kMicrosoft);
  r.add("BranchwiseRMSNorm", {1}, branchwise_rms_norm, kMicrosoft);
  r.add("GatedAdd", {1}, gated_add, kMicrosoft);
  r.add("HyperConnectionPreMix", {1}, pre_mix, kMicrosoft);
  r.add("HyperConnectionPostMix", {1}, post_mix, kMicrosoft);
}

}  // namespace transmuter::ops
