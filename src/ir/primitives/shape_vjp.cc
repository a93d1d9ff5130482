// Gradient rules of the ops that move elements about.
#include <algorithm>

#include "ir/primitives/vjp.h"

namespace transmuter::ir::vjp {

namespace {

bool is_one(Dim a) { return a.is_constant() ? a.hint() == 1 : provably_eq(a, 1); }

std::vector<int64_t> all_axes(Builder& b, Value x) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.rank(x); ++i) axes.push_back(i);
  return axes;
}

}  // namespace

// Sums over the axes that repeat, then puts the others in the operand's order.
std::vector<Value> broadcast_in_dim(VjpContext& c) {
  Builder& b = c.build;
  const std::vector<int64_t>& dimensions = c.op.as<BroadcastInDimAttributes>().dimensions;
  const Dims &from = b.shape(c.operands[0]), &to = b.shape(c.gradients[0]);
  std::vector<int64_t> repeated, kept;
  for (int64_t axis = 0; axis < static_cast<int64_t>(to.size()); ++axis) {
    auto source = std::find(dimensions.begin(), dimensions.end(), axis);
    bool repeats = source == dimensions.end();
    if (!repeats) {
      Dim extent = from[static_cast<size_t>(source - dimensions.begin())];
      repeats = !provably_eq(extent, to[static_cast<size_t>(axis)]) && (is_one(extent) || extent.hint() == 1);
    }
    (repeats ? repeated : kept).push_back(axis);
  }
  Value g = repeated.empty() ? c.gradients[0] : b.reduce(c.gradients[0], ReduceKind::add, repeated);
  std::vector<int64_t> permutation;
  for (int64_t axis : dimensions) {
    auto position = std::find(kept.begin(), kept.end(), axis);
    if (position != kept.end()) permutation.push_back(position - kept.begin());
  }
  return {b.reshape(b.transpose(g, permutation), from)};
}

std::vector<Value> reshape(VjpContext& c) { return {c.build.reshape(c.gradients[0], c.build.shape(c.operands[0]))}; }

std::vector<Value> transpose(VjpContext& c) {
  const std::vector<int64_t>& permutation = c.op.as<AxesAttributes>().axes;
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  return {c.build.transpose(c.gradients[0], std::move(inverse))};
}

std::vector<Value> concatenate(VjpContext& c) {
  int64_t axis = c.op.as<AxisAttributes>().axis;
  std::vector<Value> out;
  Dim start = 0;
  for (Value operand : c.operands) {
    Dim limit = start + c.build.shape(operand)[static_cast<size_t>(axis)];
    out.push_back(c.build.slice_axis(c.gradients[0], axis, start, limit));
    start = limit;
  }
  return out;
}

// Zeros where nothing was taken: strides become interior padding.
std::vector<Value> slice(VjpContext& c) {
  Builder& b = c.build;
  const auto& a = c.op.as<SliceAttributes>();
  const Dims &full = b.shape(c.operands[0]), &taken = b.shape(c.gradients[0]);
  Dims high, interior;
  for (size_t i = 0; i < full.size(); ++i) {
    interior.push_back(a.stride[i] - 1);
    high.push_back(full[i] - a.start[i] - taken[i] - max(taken[i] - 1, 0) * interior[i]);
  }
  return {b.pad(c.gradients[0], b.scalar(b.dtype(c.gradients[0]), 0), a.start, std::move(high), std::move(interior))};
}

// Padding undone: the negated edges crop, a stride skips the interior; the padding value gets what is left of the sum.
std::vector<Value> pad(VjpContext& c) {
  Builder& b = c.build;
  const auto& a = c.op.as<PadAttributes>();
  Value g = c.gradients[0], zero = b.scalar(b.dtype(g), 0);
  Dims low, high, none(a.low.size(), 0), stride;
  bool strided = false;
  for (size_t i = 0; i < a.low.size(); ++i) {
    low.push_back(-a.low[i]);
    high.push_back(-a.high[i]);
    stride.push_back(a.interior[i] + 1);
    strided = strided || !is_one(stride[i]);
  }
  Value x = b.pad(g, zero, std::move(low), std::move(high), none);
  if (strided) x = b.slice(x, none, b.shape(x), std::move(stride));
  if (b.rank(g) == 0) return {x, zero};
  Value total = b.reduce(g, ReduceKind::add, all_axes(b, g));
  return {x, b.subtract(total, b.reduce(x, ReduceKind::add, all_axes(b, x)))};
}

std::vector<Value> reverse(VjpContext& c) { return {c.build.reverse(c.gradients[0], c.op.as<AxesAttributes>().axes)}; }

}  // namespace transmuter::ir::vjp
