// rnn: one direction of LSTM, GRU or RNN. The evaluation steps through time in double; the decomposition projects all
// inputs at once and runs a counted loop.
#include <cmath>

#include "ir/composites/common.h"
#include "ir/composites/rnn_cell.h"
#include "ir/counted_loop.h"

namespace transmuter::ir {

int64_t gate_count(RnnAttributes::Kind kind) {
  switch (kind) {
    case RnnAttributes::Kind::lstm:
      return 4;
    case RnnAttributes::Kind::gru:
      return 3;
    default:
      return 1;
  }
}

namespace {

using Kind = RnnAttributes::Kind;
using Activation = RnnAttributes::Activation;

std::vector<Type> infer(const InferContext& ctx) {
  const auto& rnn = ctx.as<RnnAttributes>();
  const bool lstm = rnn.kind == Kind::lstm;
  check_operand_count(ctx, 4u + lstm + rnn.has_bias + rnn.has_lengths + rnn.has_peephole);
  const size_t activations = lstm ? 3 : rnn.kind == Kind::gru ? 2 : 1;
  ctx.check(rnn.activations.size() == activations && rnn.alpha.size() == activations && rnn.beta.size() == activations,
            "C1", "takes ", activations, " activations with alpha and beta");
  ctx.check(!rnn.has_peephole || lstm, "C2", "only LSTM has a peephole");
  const Type &x = ctx.operands[0], &w = ctx.operands[1], &r = ctx.operands[2];
  check_float(ctx, x, "C3");
  ctx.check(x.rank() == 3 && w.rank() == 2 && r.rank() == 2, "C4", "x has rank 3, w and r have rank 2");
  const Dim hidden = r.shape[1], gates = hidden * gate_count(rnn.kind), batch = x.shape[1];
  const auto expect = [&](const Type& type, const Dims& shape, const char* constraint) {
    check_same_dtype(ctx, type, x, constraint);
    check_same_shape(ctx, type, {x.dtype, shape}, constraint);
  };
  OperandReader<Type> reader(ctx.operands.subspan(1));
  expect(reader.next(), {gates, x.shape[2]}, "C5");
  expect(reader.next(), {gates, hidden}, "C6");
  expect(reader.next(), {batch, hidden}, "C7");
  if (lstm) expect(reader.next(), {batch, hidden}, "C8");
  if (rnn.has_bias) expect(reader.next(), {gates * 2}, "C9");
  if (rnn.has_lengths) {
    const Type lengths = reader.next();
    ctx.check(is_integer(lengths.dtype) && lengths.rank() == 1, "C10", "lengths are integers [b]");
    check_same_extent(ctx, lengths.shape[0], batch, "C10", "lengths and the batch");
  }
  if (rnn.has_peephole) expect(reader.next(), {hidden * 3}, "C11");
  std::vector<Type> types{{x.dtype, {x.shape[0], batch, hidden}}, {x.dtype, {batch, hidden}}};
  if (lstm) types.push_back(types[1]);
  return types;
}

double activate(Activation activation, double alpha, double beta, double x) {
  switch (activation) {
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::affine:
      return alpha * x + beta;
    case Activation::leaky_relu:
      return x < 0 ? alpha * x : x;
    case Activation::thresholded_relu:
      return x > alpha ? x : 0;
    case Activation::scaled_tanh:
      return alpha * std::tanh(beta * x);
    case Activation::hard_sigmoid:
      return std::min(std::max(alpha * x + beta, 0.0), 1.0);
    case Activation::elu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case Activation::softsign:
      return x / (1 + std::abs(x));
    default:
      return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0);
  }
}

// One sequence: the state of one batch entry steps through time.
class Sequence {
 public:
  explicit Sequence(const EvaluateContext& ctx) : rnn_(ctx.as<RnnAttributes>()), hidden_(ctx.operands[2].dim(1)) {
    OperandReader<Tensor> reader(ctx.operands.subspan(1));
    const auto read = [&](bool there) { return there ? elements_as<double>(reader.next()) : std::vector<double>{}; };
    w_ = read(true);
    r_ = read(true);
    h0_ = read(true);
    c0_ = read(rnn_.kind == Kind::lstm);
    bias_ = read(rnn_.has_bias);
    lengths_ = read(rnn_.has_lengths);
    peephole_ = read(rnn_.has_peephole);
  }

  int64_t length(int64_t batch, int64_t steps) const {
    return rnn_.has_lengths ? std::clamp<int64_t>(static_cast<int64_t>(lengths_[batch]), 0, steps) : steps;
  }
  void start(int64_t batch) {
    h_.assign(h0_.begin() + batch * hidden_, h0_.begin() + (batch + 1) * hidden_);
    if (rnn_.kind == Kind::lstm) c_.assign(c0_.begin() + batch * hidden_, c0_.begin() + (batch + 1) * hidden_);
  }
  const std::vector<double>& h() const { return h_; }
  const std::vector<double>& c() const { return c_; }

  void step(const double* x, int64_t inputs) {
    x_ = x;
    inputs_ = inputs;
    std::vector<double> next(h_.size());
    switch (rnn_.kind) {
      case Kind::lstm:
        step_lstm(next);
        break;
      case Kind::gru:
        step_gru(next);
        break;
      case Kind::rnn:
        for (int64_t j = 0; j < hidden_; ++j) next[j] = act(0, input(0, j) + recurrent(0, j, h_));
        break;
    }
    h_ = std::move(next);
  }

 private:
  double act(size_t which, double x) const {
    return unclipped(which, rnn_.clip > 0 ? std::clamp(x, -rnn_.clip, rnn_.clip) : x);
  }
  double unclipped(size_t which, double x) const {
    return activate(rnn_.activations[which], rnn_.alpha[which], rnn_.beta[which], x);
  }
  double input(int64_t gate, int64_t j) const {
    const int64_t row = gate * hidden_ + j;
    double sum = bias_.empty() ? 0 : bias_[row];
    for (int64_t i = 0; i < inputs_; ++i) sum += w_[row * inputs_ + i] * x_[i];
    return sum;
  }
  double recurrent(int64_t gate, int64_t j, const std::vector<double>& h) const {
    const int64_t row = gate * hidden_ + j;
    double sum = bias_.empty() ? 0 : bias_[gate_count(rnn_.kind) * hidden_ + row];
    for (int64_t i = 0; i < hidden_; ++i) sum += r_[row * hidden_ + i] * h[i];
    return sum;
  }
  double peephole(int64_t gate, int64_t j, double c) const {
    return peephole_.empty() ? 0 : peephole_[gate * hidden_ + j] * c;
  }

  void step_lstm(std::vector<double>& next) {
    for (int64_t j = 0; j < hidden_; ++j) {
      const double c = c_[j];
      const double i = act(0, input(0, j) + recurrent(0, j, h_) + peephole(0, j, c));
      const double f = rnn_.input_forget ? 1 - i : act(0, input(2, j) + recurrent(2, j, h_) + peephole(2, j, c));
      c_[j] = f * c + i * act(1, input(3, j) + recurrent(3, j, h_));
      const double o = act(0, input(1, j) + recurrent(1, j, h_) + peephole(1, j, c_[j]));
      next[j] = o * unclipped(2, c_[j]);
    }
  }
  void step_gru(std::vector<double>& next) {
    std::vector<double> r(h_.size()), reset(h_.size());
    for (int64_t j = 0; j < hidden_; ++j) {
      r[j] = act(0, input(1, j) + recurrent(1, j, h_));
      reset[j] = r[j] * h_[j];
    }
    for (int64_t j = 0; j < hidden_; ++j) {
      const double z = act(0, input(0, j) + recurrent(0, j, h_));
      const double before = rnn_.linear_before_reset ? r[j] * recurrent(2, j, h_) : recurrent(2, j, reset);
      next[j] = (1 - z) * act(1, input(2, j) + before) + z * h_[j];
    }
  }

  const RnnAttributes& rnn_;
  int64_t hidden_, inputs_ = 0;
  const double* x_ = nullptr;
  std::vector<double> w_, r_, h0_, c0_, bias_, lengths_, peephole_, h_, c_;
};

void evaluate(EvaluateContext& ctx) {
  const auto& rnn = ctx.as<RnnAttributes>();
  const Tensor& input = ctx.operands[0];
  const std::vector<double> x = elements_as<double>(input);
  const int64_t steps = input.dim(0), batch = input.dim(1), inputs = input.dim(2), hidden = ctx.operands[2].dim(1);
  std::vector<double> y(static_cast<size_t>(steps * batch * hidden), 0), h, c;
  Sequence sequence(ctx);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = sequence.length(b, steps);
    sequence.start(b);
    for (int64_t t = 0; t < length; ++t) {
      const int64_t row = (rnn.reverse ? length - 1 - t : t) * batch + b;
      sequence.step(x.data() + row * inputs, inputs);
      std::copy(sequence.h().begin(), sequence.h().end(), y.begin() + row * hidden);
    }
    h.insert(h.end(), sequence.h().begin(), sequence.h().end());
    c.insert(c.end(), sequence.c().begin(), sequence.c().end());
  }
  store_elements(y, ctx.make_result(0));
  store_elements(h, ctx.make_result(1));
  if (rnn.kind == Kind::lstm) store_elements(c, ctx.make_result(2));
}

// The bias of the input projection, and (GRU with linear_before_reset) what stays with the recurrent one.
std::pair<Value, Value> split_bias(Builder& build, Value bias, const RnnAttributes& rnn, Dim hidden) {
  const Dim gates = hidden * gate_count(rnn.kind);
  const Value of_w = build.slice_axis(bias, 0, 0, gates), of_r = build.slice_axis(bias, 0, gates, gates * 2);
  if (rnn.kind != Kind::gru || !rnn.linear_before_reset) return {build.add(of_w, of_r), {}};
  const Value zr = build.add(build.slice_axis(of_w, 0, 0, hidden * 2), build.slice_axis(of_r, 0, 0, hidden * 2));
  return {build.concatenate({zr, build.slice_axis(of_w, 0, hidden * 2, gates)}, 0),
          build.slice_axis(of_r, 0, hidden * 2, gates)};
}

std::vector<Value> decompose(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& rnn = static_cast<const RnnAttributes&>(*attributes);
  const bool lstm = rnn.kind == Kind::lstm;
  OperandReader<Value> reader(operands);
  const auto next_wide = [&](bool there) { return there ? widened(build, reader.next()) : Value{}; };
  const Value x = next_wide(true), w = next_wide(true), r = next_wide(true), h0 = next_wide(true);
  const Value c0 = next_wide(lstm), bias = next_wide(rnn.has_bias);
  const Value lengths = rnn.has_lengths ? build.convert(reader.next(), DType::i64) : Value{};
  const Value peephole = next_wide(rnn.has_peephole);
  const Dims shape = build.shape(x), state_shape = build.shape(h0);
  const DType dtype = build.dtype(x);
  const Dim steps = shape[0], batch = shape[1], hidden = state_shape[1], gates = build.shape(w)[0];

  DotGeneralAttributes project;
  project.lhs_contracting = {2};
  project.rhs_contracting = {1};
  project.dtype = dtype;
  Value projected = build.dot_general(x, w, project), recurrent_bias;
  if (bias) {
    Value of_input;
    std::tie(of_input, recurrent_bias) = split_bias(build, bias, rnn, hidden);
    projected = build.add(projected, build.broadcast_in_dim(of_input, build.shape(projected), {2}));
  }

  const Value y0 = build.splat(dtype, 0, {steps, batch, hidden});
  const std::vector<Value> state = present({h0, c0, y0}),
                           fixed = present({projected, r, recurrent_bias, lengths, peephole});
  std::vector<Value> results = counted_loop(
      build, steps, state, fixed,
      [&](Builder& b, Value t, std::span<const Value> now, std::span<const Value> constants) -> std::vector<Value> {
        OperandReader<Value> fixed_reader(constants);
        const Value all = fixed_reader.next();
        RnnCell cell{b, rnn, hidden, dtype};
        cell.r = fixed_reader.next();
        cell.recurrent_bias = fixed_reader.next_if(static_cast<bool>(recurrent_bias));
        const Value ends = fixed_reader.next_if(rnn.has_lengths);
        cell.peephole = fixed_reader.next_if(rnn.has_peephole);
        const Value h = now[0], c = lstm ? now[1] : Value{}, y = now.back();
        const Value last = b.dim_value(steps - 1, DType::i64), zero = b.integer(DType::i64, 0);
        const Value time = rnn.reverse ? b.subtract(last, t) : t;
        const Value input = b.reshape(b.dynamic_slice(all, {time, zero, zero}, {1, batch, gates}), {batch, gates});
        auto [next_h, next_c] = cell.step(input, h, c);
        Value output = next_h;
        if (ends) {
          const Value here = b.compare(b.broadcast_in_dim(time, {batch}, {}), ends, CompareDirection::lt);
          const Value active = b.broadcast_in_dim(here, state_shape, {0});
          output = b.select(active, next_h, b.like(next_h, 0));
          next_h = b.select(active, next_h, h);
          if (lstm) next_c = b.select(active, next_c, c);
        }
        const Value placed = b.dynamic_update_slice(y, b.reshape(output, {1, batch, hidden}), {time, zero, zero});
        return present({next_h, next_c, placed});
      });
  const DType wanted = build.dtype(operands[0]);
  std::vector<Value> out{build.convert(results.back(), wanted), build.convert(results[0], wanted)};
  if (lstm) out.push_back(build.convert(results[1], wanted));
  return out;
}

}  // namespace

const Primitive composite::rnn{.name = "rnn", .infer = infer, .evaluate = evaluate, .decompose = decompose};

std::vector<Value> rnn(Builder& build, const RnnOperands& o, RnnAttributes attributes) {
  attributes.has_bias = static_cast<bool>(o.bias);
  attributes.has_lengths = static_cast<bool>(o.lengths);
  attributes.has_peephole = static_cast<bool>(o.peephole);
  return build.emit(composite::rnn, present({o.x, o.w, o.r, o.h0, o.c0, o.bias, o.lengths, o.peephole}),
                    std::make_shared<RnnAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
