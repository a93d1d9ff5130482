// com.microsoft operators that the optimizer writes into diffusion models, most of them channels last: GroupNorm,
// SkipGroupNorm, BiasAdd, BiasSplitGelu, NhwcConv.
#include "ir/composites/composites.h"
#include "ops/conv.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// The norm over groups of channels, then silu for activation 1; in f32.
Value grouped(OpContext& op, Value x, bool channels_at_end) {
  const float epsilon = op.attribute_float("epsilon", 1e-5F);
  const int64_t groups = op.attribute_int("groups"), activation = op.attribute_int("activation");
  op.check(groups >= 1, "groups must be positive, is ", groups);
  op.check(activation == 0 || activation == 1, "activation must be 0 or 1, is ", activation);
  Builder& b = op.build();
  const auto parameter = [&](size_t i) { return b.convert(op.input(i), b.dtype(x)); };
  if (channels_at_end) x = channels_second(b, x);
  Value y = ir::group_norm(b, x, parameter(1), parameter(2), groups, epsilon);
  if (activation == 1) y = ir::silu(b, y, 1);
  return channels_at_end ? channels_last(b, y) : y;
}

Value in_f32(Builder& b, Value x) { return is_half(b.dtype(x)) ? b.convert(x, DType::f32) : x; }

void group_norm(OpContext& op) {
  require_float(op, 0);
  op.check(op.rank(0) == 4, "the input must have rank 4, has ", op.rank(0));
  const bool channels_at_end = op.attribute_int("channels_last", 1) != 0;
  Builder& b = op.build();
  op.output(0, b.convert(grouped(op, in_f32(b, op.input(0)), channels_at_end), op.dtype(0)));
}

// The residual may be [n, c]: the same at every place.
void skip_group_norm(OpContext& op) {
  require_float(op, 0);
  op.check(op.rank(0) == 4, "the input must have rank 4, has ", op.rank(0));
  op.check(op.rank(3) == 4 || op.rank(3) == 2, "skip must have rank 2 or 4, has ", op.rank(3));
  const bool channels_at_end = op.attribute_int("channels_last", 1) != 0;
  Builder& b = op.build();
  const Value x = in_f32(b, op.input(0));
  const Dims shape = b.shape(x);
  const std::vector<int64_t> spatial = channels_at_end ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3};
  Value skip = b.convert(op.input(3), b.dtype(x));
  if (op.rank(3) == 2) skip = b.expand_dims(skip, spatial);
  Value sum = b.add(x, b.broadcast_to(skip, shape));
  if (op.has_input(4)) {
    const Value bias = b.convert(op.input(4), b.dtype(x));
    sum = b.add(sum, b.broadcast_in_dim(bias, shape, {channels_at_end ? 3 : 1}));
  }
  op.output(0, b.convert(grouped(op, sum, channels_at_end), op.dtype(0)));
  if (op.wants_output(1)) op.output(1, b.convert(sum, op.dtype(0)));
}

void bias_add(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  const Value x = in_f32(b, op.input(0));
  const auto term = [&](size_t i) { return b.broadcast_to(in_f32(b, op.input(i)), b.shape(x)); };
  op.output(0, b.convert(b.add(b.add(x, term(1)), term(2)), dtype));
}

// The left half of the channels times gelu of the right half.
void bias_split_gelu(OpContext& op) {
  require_float(op, 0);
  require_rank(op, 0, 1, 8);
  Builder& b = op.build();
  const DType dtype = op.dtype(0);
  const Value x = in_f32(b, op.input(0));
  const Value sum = b.add(x, b.broadcast_to(in_f32(b, op.input(1)), b.shape(x)));
  const int64_t last = op.rank(0) - 1;
  const Dim channels = op.shape(0).back(), half = floor_div(channels, 2);
  require(equal(mod(channels, 2), 0), "BiasSplitGelu: the channels make two halves");
  const Value gate = ir::gelu(b, b.slice_axis(sum, last, half, channels), ir::GeluKind::erf);
  op.output(0, b.convert(b.multiply(b.slice_axis(sum, last, 0, half), gate), dtype));
}

void nhwc_conv(OpContext& op) { op.output(0, conv(op, true)); }

}  // namespace

void register_contrib_diffusion(Registry& r) {
  r.add("GroupNorm", {1}, group_norm, kMicrosoft);
  r.add("SkipGroupNorm", {1}, skip_group_norm, kMicrosoft);
  r.add("BiasAdd", {1}, bias_add, kMicrosoft);
  r.add("BiasSplitGelu", {1}, bias_split_gelu, kMicrosoft);
  r.add("NhwcConv", {1}, nhwc_conv, kMicrosoft);
}

}  // namespace transmuter::ops
