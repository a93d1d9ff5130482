#include "ir/composites/rnn_cell.h"

namespace transmuter::ir {

using Activation = RnnAttributes::Activation;

Value RnnCell::activate(size_t which, Value x, bool clipped) {
  const auto number = [&](double value) { return b.like(x, value); };
  const double alpha = rnn.alpha[which], beta = rnn.beta[which];
  if (clipped && rnn.clip > 0) x = b.clamp(b.scalar(dtype, -rnn.clip), x, b.scalar(dtype, rnn.clip));
  const auto linear = [&] { return b.add(b.multiply(x, number(alpha)), number(beta)); };
  const auto where_negative = [&](Value negative, Value otherwise) {
    return b.select(b.compare(x, number(0), CompareDirection::lt), negative, otherwise);
  };
  switch (rnn.activations[which]) {
    case Activation::sigmoid:
      return b.logistic(x);
    case Activation::tanh:
      return b.tanh(x);
    case Activation::relu:
      return b.maximum(x, number(0));
    case Activation::affine:
      return linear();
    case Activation::leaky_relu:
      return where_negative(b.multiply(x, number(alpha)), x);
    case Activation::thresholded_relu:
      return b.select(b.compare(x, number(alpha), CompareDirection::gt), x, number(0));
    case Activation::scaled_tanh:
      return b.multiply(b.tanh(b.multiply(x, number(beta))), number(alpha));
    case Activation::hard_sigmoid:
      return b.clamp(b.scalar(dtype, 0), linear(), b.scalar(dtype, 1));
    case Activation::elu:
      return where_negative(b.multiply(b.exponential_minus_one(x), number(alpha)), x);
    case Activation::softsign:
      return b.divide(x, b.add(b.abs(x), number(1)));
    default:
      return b.add(b.log_plus_one(b.exponential(b.negate(b.abs(x)))), b.maximum(x, number(0)));
  }
}

// h times the rows of r that belong to some gates.
Value RnnCell::recurrent(Value h, int64_t first_gate, int64_t end_gate) {
  DotGeneralAttributes dot;
  dot.lhs_contracting = dot.rhs_contracting = {1};
  dot.dtype = dtype;
  return b.dot_general(h, b.slice_axis(r, 0, hidden * first_gate, hidden * end_gate), dot);
}

Value RnnCell::peep(Value x, Value c, int64_t index) {
  if (!peephole) return x;
  const Value weights = b.slice_axis(peephole, 0, hidden * index, hidden * (index + 1));
  return b.add(x, b.multiply(b.broadcast_in_dim(weights, b.shape(c), {1}), c));
}

std::pair<Value, Value> RnnCell::step_lstm(Value input, Value h, Value c) {
  const Value gates = b.add(input, recurrent(h, 0, 4));
  const Value i = activate(0, peep(gate(gates, 0), c, 0));
  const Value f = rnn.input_forget ? b.subtract(b.like(i, 1), i) : activate(0, peep(gate(gates, 2), c, 2));
  const Value next_c = b.add(b.multiply(f, c), b.multiply(i, activate(1, gate(gates, 3))));
  const Value o = activate(0, peep(gate(gates, 1), next_c, 1));
  return {b.multiply(o, activate(2, next_c, false)), next_c};
}

Value RnnCell::step_gru(Value input, Value h) {
  const Value gates = b.add(b.slice_axis(input, 1, 0, hidden * 2), recurrent(h, 0, 2));
  const Value z = activate(0, gate(gates, 0)), reset = activate(0, gate(gates, 1));
  Value part;
  if (rnn.linear_before_reset) {
    part = recurrent(h, 2, 3);
    if (recurrent_bias) part = b.add(part, b.broadcast_in_dim(recurrent_bias, b.shape(part), {1}));
    part = b.multiply(reset, part);
  } else {
    part = recurrent(b.multiply(reset, h), 2, 3);
  }
  const Value fresh = activate(1, b.add(gate(input, 2), part));
  return b.add(b.multiply(b.subtract(b.like(z, 1), z), fresh), b.multiply(z, h));
}

std::pair<Value, Value> RnnCell::step(Value input, Value h, Value c) {
  switch (rnn.kind) {
    case RnnAttributes::Kind::lstm:
      return step_lstm(input, h, c);
    case RnnAttributes::Kind::gru:
      return {step_gru(input, h), {}};
    default:
      return {activate(0, b.add(input, recurrent(h, 0, 1))), {}};
  }
}

}  // namespace transmuter::ir
