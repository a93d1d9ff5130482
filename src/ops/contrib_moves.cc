// com.microsoft operators that only move elements: ExpandDims, UnfoldTensor.
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

void expand_dims(OpContext& op) {
  const int64_t axis = op.axis(op.require_int(1), op.rank(0) + 1);
  op.output(0, op.build().expand_dims(op.input(0), {axis}));
}

// All slices of `size` along an axis, `step` apart; their elements become the last axis.
void unfold(OpContext& op) {
  const int64_t size = op.attribute_int("size"), step = op.attribute_int("step", 1);
  const int64_t rank = op.rank(0), axis = op.axis(op.attribute_int("dim", -1), rank);
  op.check(size >= 1 && step >= 1, "size and step must be positive");
  Builder& b = op.build();
  const Value x = op.input(0);
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  require(less_equal(size, extent), "UnfoldTensor: the slice is longer than the axis");
  const Dims places{floor_div(extent - size, step) + 1, size};
  const Value first = b.iota(DType::i64, places, 0);
  const Value index = b.add(b.multiply(first, b.like(first, static_cast<double>(step))), b.iota(DType::i64, places, 1));
  ir::GatherAttributes gather;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) gather.offset_dims.push_back(i);
  gather.collapsed_slice_dims = {axis};
  gather.start_index_map = {axis};
  gather.index_vector_dim = 2;
  gather.slice_sizes = op.shape(0);
  gather.slice_sizes[static_cast<size_t>(axis)] = 1;
  op.output(0, b.gather(x, index, std::move(gather)));
}

}  // namespace

void register_contrib_moves(Registry& r) {
  r.add("ExpandDims", {1}, expand_dims, kMicrosoft);
  r.add("UnfoldTensor", {1}, unfold, kMicrosoft);
}

}  // namespace transmuter::ops
