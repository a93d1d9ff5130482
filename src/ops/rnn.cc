// LSTM, GRU, RNN: one recurrence for each direction. Layout 1 has the batch first.
#include <algorithm>
#include <array>
#include <cctype>

#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;
using Activation = ir::RnnAttributes::Activation;
using Kind = ir::RnnAttributes::Kind;

struct ActivationRule {
  const char* name;  // lower case
  Activation activation;
  double alpha, beta;  // where the model says nothing
  bool takes_alpha, takes_beta;
};

// Defaults of the operators of the same names.
constexpr std::array<ActivationRule, 11> kActivations{{
    {"sigmoid", Activation::sigmoid, 0, 0, false, false},
    {"tanh", Activation::tanh, 0, 0, false, false},
    {"relu", Activation::relu, 0, 0, false, false},
    {"affine", Activation::affine, 1, 0, true, true},
    {"leakyrelu", Activation::leaky_relu, 0.01, 0, true, false},
    {"thresholdedrelu", Activation::thresholded_relu, 1, 0, true, false},
    {"scaledtanh", Activation::scaled_tanh, 1, 1, true, true},
    {"hardsigmoid", Activation::hard_sigmoid, 0.2, 0.5, true, true},
    {"elu", Activation::elu, 1, 0, true, false},
    {"softsign", Activation::softsign, 0, 0, false, false},
    {"softplus", Activation::softplus, 0, 0, false, false},
}};

const ActivationRule& rule_of(OpContext& op, const std::string& given) {
  std::string lower;
  for (char c : given) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  for (const ActivationRule& rule : kActivations)
    if (lower == rule.name) return rule;
  op.unsupported("activation ", given);
}

// activations, activation_alpha and activation_beta: the latter list values only for those that take one, in order.
std::vector<ir::RnnAttributes> read_directions(OpContext& op, const ir::RnnAttributes& common, size_t directions,
                                               const std::vector<std::string>& usual) {
  std::vector<std::string> names = op.attribute_strings("activations", {});
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  op.check(names.size() == usual.size() * directions, "activations must have ", usual.size() * directions,
           " entries, has ", names.size());
  const std::vector<float> alphas = op.attribute_floats("activation_alpha", {});
  const std::vector<float> betas = op.attribute_floats("activation_beta", {});
  size_t alpha = 0, beta = 0;
  std::vector<ir::RnnAttributes> result(directions, common);
  for (size_t i = 0; i < names.size(); ++i) {
    ir::RnnAttributes& direction = result[i / usual.size()];
    const ActivationRule& rule = rule_of(op, names[i]);
    direction.activations.push_back(rule.activation);
    direction.alpha.push_back(rule.takes_alpha && alpha < alphas.size() ? alphas[alpha++] : rule.alpha);
    direction.beta.push_back(rule.takes_beta && beta < betas.size() ? betas[beta++] : rule.beta);
  }
  return result;
}

struct Recurrence {
  Kind kind;
  int64_t gates;
  size_t initial_c;  // input; 0: none
  size_t peepholes;  // input; 0: none
  std::vector<std::string> activations;
};

Value direction_of(Builder& b, Value x, size_t direction, int64_t axis) {
  const int64_t at = static_cast<int64_t>(direction);
  return b.squeeze(b.slice_axis(x, axis, at, at + 1), {axis});
}

// Layout 0: x [s, b, in], y [s, d, b, h], states [d, b, h]. Layout 1: [b, s, in], [b, s, d, h], [b, d, h].
void run(OpContext& op, const Recurrence& recurrence, ir::RnnAttributes common) {
  common.kind = recurrence.kind;
  common.clip = op.attribute_float("clip", 0.0F);
  const std::string direction = op.attribute_string("direction", "forward");
  op.check(direction == "forward" || direction == "reverse" || direction == "bidirectional", "direction ", direction,
           " is not one of the operator's");
  const size_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = op.version() >= 14 && op.attribute_int("layout", 0) != 0;
  const std::vector<ir::RnnAttributes> attributes = read_directions(op, common, directions, recurrence.activations);
  if (op.version() < 7) op.ignore_attributes({"output_sequence"});  // the outputs say it
  require_float(op, 0);
  op.check(op.rank(0) == 3 && op.rank(1) == 3 && op.rank(2) == 3, "X, W and R must have rank 3");
  Builder& b = op.build();
  const Value x = batch_first ? b.transpose(op.input(0), {1, 0, 2}) : op.input(0);
  const Dim hidden = op.shape(2)[2], batch = b.shape(x)[1];
  if (const int64_t given = op.attribute_int("hidden_size", 0); given != 0)
    require_eq(hidden, given, str(op.node().op_type, ": hidden_size and the extent of R"));
  require_eq(op.shape(1)[0], static_cast<int64_t>(directions), str(op.node().op_type, ": directions of W"));
  const auto initial = [&](size_t i, size_t d) {
    if (i == 0 || !op.has_input(i)) return b.splat(op.dtype(0), 0, {batch, hidden});
    return direction_of(b, op.input(i), d, batch_first ? 1 : 0);
  };
  Value lengths;
  if (op.has_input(4))
    lengths = ir::checked_indices(b, op.input(4), {b.shape(x)[0] + 1}, false, op.node().op_type + ": sequence length");
  std::vector<Value> ys, hs, cs;
  for (size_t d = 0; d < directions; ++d) {
    ir::RnnOperands operands;
    operands.x = x;
    operands.w = direction_of(b, op.input(1), d, 0);
    operands.r = direction_of(b, op.input(2), d, 0);
    if (op.has_input(3)) operands.bias = direction_of(b, op.input(3), d, 0);
    operands.lengths = lengths;
    operands.h0 = initial(5, d);
    if (recurrence.kind == Kind::lstm) operands.c0 = initial(recurrence.initial_c, d);
    if (recurrence.peepholes != 0 && op.has_input(recurrence.peepholes))
      operands.peephole = direction_of(b, op.input(recurrence.peepholes), d, 0);
    ir::RnnAttributes own = attributes[d];
    own.reverse = direction == "reverse" || d == 1;
    const std::vector<Value> results = ir::rnn(b, operands, std::move(own));
    ys.push_back(b.expand_dims(results[0], {1}));
    hs.push_back(b.expand_dims(results[1], {0}));
    if (results.size() > 2) cs.push_back(b.expand_dims(results[2], {0}));
  }
  const auto states = [&](const std::vector<Value>& parts) {
    const Value all = b.concatenate(parts, 0);
    return batch_first ? b.transpose(all, {1, 0, 2}) : all;
  };
  if (op.wants_output(0)) {
    const Value y = b.concatenate(ys, 1);
    op.output(0, batch_first ? b.transpose(y, {2, 0, 1, 3}) : y);
  }
  if (op.wants_output(1)) op.output(1, states(hs));
  if (op.wants_output(2)) op.output(2, states(cs));
}

void lstm(OpContext& op) {
  ir::RnnAttributes common;
  common.input_forget = op.attribute_int("input_forget", 0) != 0;
  run(op, {Kind::lstm, 4, 6, 7, {"Sigmoid", "Tanh", "Tanh"}}, std::move(common));
}

void gru(OpContext& op) {
  ir::RnnAttributes common;
  common.linear_before_reset = op.attribute_int("linear_before_reset", 0) != 0;
  run(op, {Kind::gru, 3, 0, 0, {"Sigmoid", "Tanh"}}, std::move(common));
}

void rnn(OpContext& op) { run(op, {Kind::rnn, 1, 0, 0, {"Tanh"}}, {}); }

}  // namespace

void register_rnn(Registry& r) {
  r.add("LSTM", {1, 7, 14, 22}, lstm);
  r.add("GRU", {1, 3, 7, 14, 22}, gru);
  r.add("RNN", {1, 7, 14, 22}, rnn);
}

}  // namespace transmuter::ops
