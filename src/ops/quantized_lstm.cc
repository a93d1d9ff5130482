// com.microsoft DynamicQuantizeLSTM: an LSTM with weights of eight bits, whose input (as a whole) and state (in every
// step) are quantised by their own range.
#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ops/integer_product.h"
#include "ops/quantize.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/reverse_sequence.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

// A weight [k, 4 h] with its zero point (i32) and scale, 0-d or one a column.
struct Weight {
  Value elements, zero_point, scale;
};

// [..., 4 h] f32
Value product(Builder& b, Value x, const Weight& w) {
  const DynamicallyQuantized q = quantize_dynamically(b, x, DType::u8);
  const Value y = integer_matmul(b, q.y, b.convert(q.zero_point, DType::i32), w.elements, w.zero_point);
  const Value scale = b.multiply(b.broadcast_to(q.scale, b.shape(w.scale)), w.scale);
  return b.multiply(b.convert(y, DType::f32), b.broadcast_to(scale, b.shape(y)));
}

struct Cell {
  double clip;
  bool input_forget, has_peephole;

  Value clipped(Builder& b, Value x) const {
    return clip > 0 ? b.clamp(b.scalar(DType::f32, -clip), x, b.scalar(DType::f32, clip)) : x;
  }
  // gates [b, 4 h] in the order i, o, f, c; the next h and c.
  std::pair<Value, Value> step(Builder& b, Value gates, Value c, Value peephole) const {
    const Dim hidden = b.shape(c)[1];
    const auto gate = [&](int64_t i, Value seen, int64_t peephole_part) {
      Value x = b.slice_axis(gates, 1, hidden * i, hidden * (i + 1));
      if (has_peephole && peephole_part >= 0) {
        const Value part = b.slice_axis(peephole, 0, hidden * peephole_part, hidden * (peephole_part + 1));
        x = b.add(x, b.multiply(seen, b.broadcast_to(part, b.shape(seen))));
      }
      return clipped(b, x);
    };
    const Value i = b.logistic(gate(0, c, 0));
    const Value f = input_forget ? b.subtract(b.like(i, 1), i) : b.logistic(gate(2, c, 2));
    const Value next = b.add(b.multiply(f, c), b.multiply(i, b.tanh(gate(3, {}, -1))));
    const Value o = b.logistic(gate(1, next, 1));
    return {b.multiply(o, b.tanh(next)), next};
  }
};

Value part_of(Builder& b, Value x, int64_t direction) {
  return b.squeeze(b.slice_axis(x, 0, direction, direction + 1), {0});
}

// x [s, b, n] with each sequence from its end.
Value reversed(Builder& b, Value x, Value lengths) {
  return lengths ? reverse_sequences(b, x, lengths, 0) : b.reverse(x, {0});
}

struct Direction {
  Value y, h, c;
};

Direction run(OpContext& op, const Cell& cell, int64_t d, bool reverse) {
  Builder& b = op.build();
  const Dim steps = op.shape(0)[0], batch = op.shape(0)[1], hidden = op.shape(2)[1];
  const auto weight = [&](size_t i, size_t scale) {
    const Value own_scale = part_of(b, op.input(scale), d);
    return Weight{part_of(b, op.input(i), d), b.convert(part_of(b, op.input(scale + 1), d), DType::i32), own_scale};
  };
  const Weight r = weight(2, 10);
  const Value lengths = op.has_input(4) ? b.convert(op.input(4), DType::i64) : Value();
  Value input = product(b, op.input(0), weight(1, 8));
  if (op.has_input(3)) {
    const Value bias = part_of(b, op.input(3), d);
    const Value sum = b.add(b.slice_axis(bias, 0, 0, hidden * 4), b.slice_axis(bias, 0, hidden * 4, hidden * 8));
    input = b.add(input, b.broadcast_to(sum, b.shape(input)));
  }
  if (reverse) input = reversed(b, input, lengths);
  const auto initial = [&](size_t i) {
    return op.has_input(i) ? part_of(b, op.input(i), d) : b.splat(DType::f32, 0, {batch, hidden});
  };
  // The state's range is over what the last step put out: zeros for sequences that have ended.
  const Value h0 = initial(5);
  const std::vector<Value> state{h0, initial(6), b.splat(DType::f32, 0, {steps, batch, hidden}), h0};
  std::vector<Value> fixed{input, r.elements, r.zero_point, r.scale};
  if (cell.has_peephole) fixed.push_back(part_of(b, op.input(7), d));
  if (lengths) fixed.push_back(lengths);
  const std::vector<Value> last = ir::counted_loop(
      b, steps, state, fixed,
      [&](Builder& body, Value t, std::span<const Value> current, std::span<const Value> outside) {
        const Value zero = body.integer(DType::i64, 0);
        const Value now = body.squeeze(body.dynamic_slice(outside[0], {t, zero, zero}, {1, batch, hidden * 4}), {0});
        const Value gates = body.add(now, product(body, current[3], {outside[1], outside[2], outside[3]}));
        auto [h, c] = cell.step(body, gates, current[1], cell.has_peephole ? outside[4] : Value());
        Value y = h;
        if (lengths) {
          const Value runs = body.compare(body.broadcast_to(t, {batch}), outside.back(), CompareDirection::lt);
          const Value wide = body.broadcast_in_dim(runs, body.shape(h), {0});
          h = body.select(wide, h, current[0]);
          c = body.select(wide, c, current[1]);
          y = body.select(wide, h, body.like(h, 0));
        }
        const Value ys = body.dynamic_update_slice(current[2], body.expand_dims(y, {0}), {t, zero, zero});
        return std::vector<Value>{h, c, ys, y};
      });
  return {reverse ? reversed(b, last[2], lengths) : last[2], last[0], last[1]};
}

void dynamic_quantize_lstm(OpContext& op) {
  Cell cell;
  cell.clip = op.attribute_float("clip", 0.0F);
  cell.input_forget = op.attribute_int("input_forget", 0) != 0;
  cell.has_peephole = op.has_input(7);
  const std::string direction = op.attribute_string("direction", "forward");
  op.check(direction == "forward" || direction == "reverse" || direction == "bidirectional", "direction ", direction,
           " is not one of the operator's");
  const std::vector<std::string> activations = op.attribute_strings("activations", {});
  for (size_t i = 0; i < activations.size(); ++i)
    if (activations[i] != (i % 3 == 0 ? "Sigmoid" : "Tanh")) op.unsupported("activation ", activations[i]);
  op.ignore_attributes({"activation_alpha", "activation_beta"});  // of other activations
  op.check(op.dtype(0) == DType::f32, "X must be float32, is ", name(op.dtype(0)));
  for (const size_t i : {0, 1, 2, 5, 6}) require_rank(op, i, 3);
  for (const size_t i : {3, 7}) require_rank(op, i, 2);
  require_rank(op, 4, 1);
  for (const size_t i : {8, 9, 10, 11})
    require_rank(op, i, 1, 2);  // scales and zero points: one a direction, or a column
  if (const int64_t given = op.attribute_int("hidden_size", 0); given != 0)
    require_eq(op.shape(2)[1], given, "DynamicQuantizeLSTM: hidden_size and the extent of R");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  require_eq(op.shape(1)[0], directions, "DynamicQuantizeLSTM: directions of W");
  Builder& b = op.build();
  std::vector<Value> ys, hs, cs;
  for (int64_t d = 0; d < directions; ++d) {
    const Direction result = run(op, cell, d, direction == "reverse" || d == 1);
    ys.push_back(b.expand_dims(result.y, {1}));
    hs.push_back(b.expand_dims(result.h, {0}));
    cs.push_back(b.expand_dims(result.c, {0}));
  }
  if (op.wants_output(0)) op.output(0, b.concatenate(std::move(ys), 1));
  if (op.wants_output(1)) op.output(1, b.concatenate(std::move(hs), 0));
  if (op.wants_output(2)) op.output(2, b.concatenate(std::move(cs), 0));
}

}  // namespace

void register_quantized_lstm(Registry& r) {
  r.add("DynamicQuantizeLSTM", {1}, dynamic_quantize_lstm, kMicrosoft, "sigmoid and tanh");
}

}  // namespace transmuter::ops
