// CausalConvWithState (also of com.microsoft): a depthwise convolution that sees the past only, with the last inputs as
// its state. com.microsoft VarlenCausalConvWithState: the same over sequences one after the other.
#include "ir/composites/composites.h"
#include "ops/attention_parts.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::ReduceKind;
using ir::Value;

bool reads_silu(OpContext& op) {
  const std::string activation = op.attribute_string("activation", "none");
  const bool silu = activation == "silu" || activation == "swish";
  op.check(silu || activation == "none", "activation ", activation, " is not one of the operator's");
  return silu;
}

int64_t read_dilation(OpContext& op, bool contrib) {
  const int64_t dilation = contrib ? op.attribute_int("dilation", 1) : 1;
  op.check(dilation >= 1, "dilation must be positive, is ", dilation);
  return dilation;
}

// Channels first: x [b, c, l], kernel [c, 1, k], state [b, c, (k - 1) * dilation].
template <bool contrib>
void causal_conv(OpContext& op) {
  const bool silu = reads_silu(op);
  const int64_t dilation = read_dilation(op, contrib);
  const bool last = contrib && op.attribute_int("channels_last", 0) != 0;
  if (contrib) {
    if (op.attribute_int("ndim", 1) != 1) op.unsupported("ndim other than 1");
    for (const char* name :
         {"state_window", "state_update_capacity", "state_length", "input_channel_offset", "input_channels"})
      if (op.attribute_int(name, 0) != 0) op.unsupported(name);
    if (op.attribute_int("state_channels_last", -1) != -1) op.unsupported("state_channels_last");
  }
  require_float(op, 0);
  op.check(op.rank(1) == 3, "the weight must have rank 3, has ", op.rank(1));
  require_rank(op, 0, 3, last ? 8 : 3);
  require_rank(op, 2, 1);
  require_rank(op, 3, 3, last ? 8 : 3);
  Builder& b = op.build();
  const Dims shape = op.shape(0);
  // Channels may be several last axes.
  const auto first = [&](Value x) {
    if (!last) return x;
    const Dims own = b.shape(x);
    return b.transpose(b.reshape(x, {own[0], own[1], product(Dims(own.begin() + 2, own.end()))}), {0, 2, 1});
  };
  const auto back = [&](Value x) {
    if (!last) return x;
    Dims own = shape;
    own[1] = b.shape(x)[2];
    return b.reshape(b.transpose(x, {0, 2, 1}), own);
  };
  Value x = first(op.input(0));
  op.check(b.rank(x) == 3, "the input must have rank 3, has ", b.rank(x));
  const Value kernel = op.input(1);
  const Dim channels = b.shape(x)[1], kept = (b.shape(kernel)[2] - 1) * Dim(dilation);
  const Value past = op.has_input(3) ? first(op.input(3)) : b.splat(op.dtype(0), 0, {b.shape(x)[0], channels, kept});
  const Value whole = provably_eq(kept, 0) ? x : b.concatenate({past, x}, 2);
  ir::ConvolutionAttributes conv;
  conv.strides = {1};
  conv.pad_low = conv.pad_high = {0};
  conv.lhs_dilation = {1};
  conv.rhs_dilation = {dilation};
  conv.feature_groups = specialize(channels, "CausalConvWithState: channels");
  conv.dtype = DType::f32;
  if (op.dtype(0) == DType::f64) conv.dtype = DType::f64;
  const DType inner = conv.dtype;
  Value y = b.convolution(whole, kernel, std::move(conv));
  if (op.has_input(2)) y = b.add(y, b.broadcast_in_dim(b.convert(op.input(2), inner), b.shape(y), {1}));
  if (silu) y = ir::silu(b, y);
  op.output(0, back(b.convert(y, op.dtype(0))));
  const Dim length = b.shape(whole)[2];
  if (op.wants_output(1)) op.output(1, back(b.slice_axis(whole, 2, length - kept, length)));
}

// x [n, c], kernel [c, 1, k], starts and the end [b + 1], state [b, c, s]. Rows of x and of the state are one table, in
// which each tap of each token finds its row.
void varlen_causal_conv(OpContext& op) {
  const bool silu = reads_silu(op);
  const int64_t dilation = read_dilation(op, true);
  if (op.attribute_int("state_update_capacity", 0) != 0) op.unsupported("state_update_capacity");
  op.ignore_attributes({"delta_offset", "group_size"});  // of kernel_delta
  if (op.has_input(6) || op.has_input(7)) op.unsupported("kernel_delta and previous_mask");
  require_float(op, 0);
  require_rank(op, 0, 2);
  require_rank(op, 1, 3);
  require_rank(op, 2, 1);
  require_rank(op, 4, 3);
  Builder& b = op.build();
  const Value x = b.convert(op.input(0), DType::f32), kernel = b.convert(op.input(1), DType::f32);
  const Dim tokens = b.shape(x)[0], channels = b.shape(x)[1], sequences = op.shape(4)[0];
  const int64_t taps = specialize(b.shape(kernel)[2], "VarlenCausalConvWithState: kernel extent");
  const Dim kept = op.shape(4)[2];
  require_eq(kept, (taps - 1) * dilation, "VarlenCausalConvWithState: extent of the state");
  const Value state = b.transpose(b.convert(op.input(4), DType::f32), {0, 2, 1});
  const Value table = b.concatenate({b.reshape(state, {sequences * kept, channels}), x}, 0);
  const Value bounds = b.convert(op.input(2), DType::i64);
  const auto number = [&](Dim value, const Dims& shape) {
    return b.broadcast_to(b.dim_value(value, DType::i64), shape);
  };
  // The row of position `place` (negative: of the state) of a sequence that starts at `start`.
  const auto row_of = [&](Value sequence, Value start, Value place) {
    const Dims shape = b.shape(place);
    const Value in_state = b.add(b.multiply(sequence, number(kept, shape)), b.add(place, number(kept, shape)));
    const Value in_x = b.add(b.add(start, place), number(sequences * kept, shape));
    return b.select(b.compare(place, number(0, shape), CompareDirection::lt), in_state, in_x);
  };
  const Dims list{tokens}, grid{tokens, sequences};
  const Value ends = b.slice_axis(bounds, 0, 1, sequences + 1), starts = b.slice_axis(bounds, 0, 0, sequences);
  const Value passed =
      b.compare(b.broadcast_in_dim(ends, grid, {1}), b.iota(DType::i64, grid, 0), CompareDirection::le);
  const Value sequence = b.reduce(b.convert(passed, DType::i64), ReduceKind::add, {1});
  const Value start = take_rows(b, starts, sequence);
  const Value place = b.subtract(b.iota(DType::i64, list, 0), start);
  Value y = b.splat(DType::f32, 0, b.shape(x));
  for (int64_t tap = 0; tap < taps; ++tap) {
    const Value at = b.subtract(place, number((taps - 1 - tap) * dilation, list));
    const Value column = b.reshape(b.slice_axis(kernel, 2, tap, tap + 1), {channels});
    const Value rows = take_rows(b, table, row_of(sequence, start, at));
    y = b.add(y, b.multiply(rows, b.broadcast_to(column, b.shape(x))));
  }
  if (op.has_input(3)) y = b.add(y, b.broadcast_to(b.convert(op.input(3), DType::f32), b.shape(y)));
  if (silu) y = ir::silu(b, y);
  op.output(0, b.convert(y, op.dtype(0)));
  if (!op.wants_output(1)) return;
  const Dims kept_shape{sequences, kept};
  const auto by_sequence = [&](Value v) { return b.broadcast_in_dim(v, kept_shape, {0}); };
  const Value length = by_sequence(b.subtract(ends, starts));
  const Value from_end = b.subtract(b.iota(DType::i64, kept_shape, 1), number(kept, kept_shape));
  const Value rows = row_of(b.iota(DType::i64, kept_shape, 0), by_sequence(starts), b.add(length, from_end));
  op.output(1, b.convert(b.transpose(take_rows(b, table, rows), {0, 2, 1}), op.dtype(4)));
}

}  // namespace

void register_causal_conv(Registry& r) {
  r.add("CausalConvWithState", {27}, causal_conv<false>);
  r.add("CausalConvWithState", {1}, causal_conv<true>, kMicrosoft);
  r.add("VarlenCausalConvWithState", {1}, varlen_causal_conv, kMicrosoft);
}

}  // namespace transmuter::ops
