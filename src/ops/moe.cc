// com.microsoft mixtures of experts: MoE, QMoE, MoEGroupRouter. Every expert runs on every token and counts by its
// routing weight, zero for the experts that a token does not choose: no shape depends on the routing.
#include <cmath>

#include "ir/composites/composites.h"
#include "ops/matmul.h"
#include "ops/nbits.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::ReduceKind;
using ir::Value;

struct ExpertActivation {
  std::string kind;
  int64_t fusion;  // of gate and linear part: 0 apart, 1 interleaved, 2 one after the other
  float alpha, beta;
  std::optional<float> limit;
  bool limits_activated = false;  // the activated gate instead of the gate

  bool gated() const { return kind == "swiglu" || kind == "geglu"; }
  Dim hidden(Dim rows) const { return gated() && fusion != 0 ? floor_div(rows, 2) : rows; }
};

ExpertActivation read_activation(OpContext& op) {
  ExpertActivation a;
  a.kind = op.attribute_string("activation_type", "relu");
  a.fusion = op.attribute_int("swiglu_fusion", 0);
  a.alpha = op.attribute_float("activation_alpha", 1.0F);
  a.beta = op.attribute_float("activation_beta", 0.0F);
  if (op.has_attribute("swiglu_limit")) a.limit = op.attribute_float("swiglu_limit");
  a.limits_activated = op.attribute_int("swiglu_limit_after_activation", 0) != 0;
  op.check(!a.limits_activated || a.kind == "swiglu", "swiglu_limit_after_activation needs activation_type swiglu");
  op.check(a.fusion >= 0 && a.fusion <= 2, "swiglu_fusion must be 0, 1 or 2, is ", a.fusion);
  return a;
}

// The first layer's result, along its last axis, through the activation; `linear` is the third layer's (fusion 0).
Value activated(OpContext& op, const ExpertActivation& a, Value x, Value linear) {
  Builder& b = op.build();
  const int64_t last = b.rank(x) - 1;
  if (a.gated()) {
    if (a.fusion != 0) {
      const Dim rows = b.shape(x).back(), half = floor_div(rows, 2);
      const Value whole = x;
      x = a.fusion == 1 ? b.slice_axis(whole, last, 0, rows, 2) : b.slice_axis(whole, last, 0, half);
      linear = a.fusion == 1 ? b.slice_axis(whole, last, 1, rows, 2) : b.slice_axis(whole, last, half, rows);
    }
    if (!linear) op.invalid(a.kind, " needs a third layer or swiglu_fusion");
    if (a.kind == "geglu") return b.multiply(ir::gelu(b, x, ir::GeluKind::tanh), linear);
    if (a.limit) {
      if (!a.limits_activated) x = b.minimum(x, b.like(x, *a.limit));
      linear = b.clamp(b.scalar(b.dtype(x), -*a.limit), linear, b.scalar(b.dtype(x), *a.limit));
    }
    Value gate = ir::silu(b, x, a.alpha);
    if (a.limit && a.limits_activated) gate = b.minimum(gate, b.like(gate, *a.limit));
    return b.multiply(gate, a.beta == 0 ? linear : b.add(linear, b.like(linear, a.beta)));
  }
  Value y;
  if (a.kind == "relu") {
    y = b.maximum(x, b.like(x, 0));
  } else if (a.kind == "relu2") {
    const Value positive = b.maximum(x, b.like(x, 0));
    y = b.multiply(positive, positive);
  } else if (a.kind == "gelu") {
    y = ir::gelu(b, x, ir::GeluKind::tanh);
  } else if (a.kind == "silu") {
    y = ir::silu(b, x);
  } else if (a.kind == "identity") {
    y = x;
  } else {
    op.unsupported("activation_type ", a.kind);
  }
  return linear ? b.multiply(y, linear) : y;
}

// The k greatest along the last axis of scores [t, n]; among equal ones the later come first, as in ONNX Runtime.
std::pair<Value, Value> greatest(Builder& b, Value scores, Dim k) {
  const auto [values, positions] = ir::topk(b, b.reverse(scores, {1}), 1, k);
  const Value last = b.broadcast_to(b.dim_value(b.shape(scores)[1] - 1, DType::i64), b.shape(positions));
  return {values, b.subtract(last, positions)};
}

// [t, k, n]: where a choice is the place along the last axis.
Value chosen(Builder& b, Value choices, Dim n) {
  const Dims shape{b.shape(choices)[0], b.shape(choices)[1], n};
  return b.compare(b.broadcast_in_dim(choices, shape, {0, 1}), b.iota(DType::i64, shape, 2), CompareDirection::eq);
}

Value over_sum(Builder& b, Value x) {
  return b.divide(x, b.broadcast_to(b.reduce_keep(x, ReduceKind::add, {1}), b.shape(x)));
}

enum class Normalise { as_asked, always };

// [t, experts] f32: the weight of each expert for each token, zero for those not chosen. `weights` (optional) has the
// weights of the experts that the logits choose.
Value routing(OpContext& op, Value logits, Value weights, Normalise normalise) {
  const int64_t k = op.attribute_int("k", 1);
  op.ignore_attributes({"use_sparse_mixer"});  // ONNX Runtime's CPU kernels choose without it
  const bool asked = op.attribute_int("normalize_routing_weights", 0) != 0;
  Builder& b = op.build();
  logits = b.convert(logits, DType::f32);
  const Dim experts = b.shape(logits)[1];
  require(less_equal(k, experts), str(op.node().op_type, ": k is greater than the number of experts"));
  const Value probabilities = ir::softmax(b, logits, 1);
  auto [values, positions] = greatest(b, probabilities, k);
  const Value hits = chosen(b, positions, experts);
  const Dims shape = b.shape(hits);
  if (weights) {
    const Value all = b.broadcast_in_dim(b.convert(weights, DType::f32), shape, {0, 2});
    values = b.reduce(b.select(hits, all, b.like(all, 0)), ReduceKind::add, {2});
  }
  if (asked || (normalise == Normalise::always && !weights)) values = over_sum(b, values);
  const Value wide = b.broadcast_in_dim(values, shape, {0, 1});
  return b.reduce(b.select(hits, wide, b.like(wide, 0)), ReduceKind::add, {1});
}

// Input i as rows of tokens, f32.
Value tokens_of(OpContext& op, size_t i) {
  Builder& b = op.build();
  require_float(op, i);
  op.check(op.rank(i) == 2 || op.rank(i) == 3, "the input must have rank 2 or 3, has ", op.rank(i));
  const Dim width = op.shape(i).back();
  const Dims leading(op.shape(i).begin(), op.shape(i).end() - 1);
  return b.reshape(b.convert(op.input(i), DType::f32), {product(leading), width});
}

void moe(OpContext& op) {
  require_rank(op, 1, 2);
  const ExpertActivation activation = read_activation(op);
  Builder& b = op.build();
  const Value x = tokens_of(op, 0);
  const Value weights = routing(op, op.input(1), {}, Normalise::as_asked);  // [t, e]
  const auto parameter = [&](size_t i) { return b.convert(op.input(i), DType::f32); };
  // [t, e, n]
  const auto layer = [&](size_t i) {
    op.check(op.rank(i) == 3, "weight input ", i, " must have rank 3, has ", op.rank(i));
    ir::DotGeneralAttributes dot;
    dot.dtype = DType::f32;
    dot.lhs_contracting = {1};
    dot.rhs_contracting = {2};
    const Value y = b.dot_general(x, parameter(i), std::move(dot));
    return op.has_input(i + 1) ? b.add(y, b.broadcast_to(parameter(i + 1), b.shape(y))) : y;
  };
  const Value linear = op.has_input(6) ? layer(6) : Value();
  const Value inner = activated(op, activation, layer(2), linear);
  // The weights count before the second product, which then sums over experts too.
  const Value wide = b.broadcast_in_dim(weights, b.shape(inner), {0, 1});
  const Value counted =
      b.select(b.compare(wide, b.like(wide, 0), CompareDirection::ne), b.multiply(inner, wide), b.like(wide, 0));
  ir::DotGeneralAttributes dot;
  dot.dtype = DType::f32;
  dot.lhs_contracting = {1, 2};
  dot.rhs_contracting = {0, 2};
  Value y = b.dot_general(counted, parameter(4), std::move(dot));
  if (op.has_input(5)) y = b.add(y, matmul(b, weights, parameter(5), DType::f32));
  op.output(0, b.reshape(b.convert(y, op.dtype(0)), op.shape(0)));
}

// One of QMoE's layers: weights [e, n, k], scales [e, n] or [e, n, blocks], zero points, bias [e, n].
struct QuantisedLayer {
  OpContext& op;
  size_t weight, scale, bias, zeros;  // inputs
  int64_t bits, block;                // block 0: the whole row

  Value apply(Value x, int64_t expert) const {
    Builder& b = op.build();
    const Dim n = op.shape(weight)[1], k = b.shape(x).back();
    const bool blocked = block > 0;
    const int64_t length = blocked ? block : specialize(k, "QMoE: the extent of the inner axis");
    const Dim blocks = ceil_div(k, length);
    const auto part = [&](size_t i, Dims shape) {
      const Value x = b.slice_axis(op.input(i), 0, expert, expert + 1);
      return b.reshape(x, std::move(shape));
    };
    ir::QuantizedDotAttributes attributes;
    attributes.block = length;
    attributes.zero_point = static_cast<double>(int64_t{1} << (bits - 1));
    const Value w = unpack_bits_of(op, weight, bits, expert, {n, k});
    const Value scales = b.convert(part(scale, {n, blocks}), DType::f32);
    Value zero_points;
    if (op.has_input(zeros)) {
      const Dim row = blocked ? op.shape(zeros)[2] * Dim(8 / bits) : op.shape(zeros)[1] * Dim(8 / bits);
      if (blocked) {
        zero_points = b.slice_axis(unpack_bits_of(op, zeros, bits, expert, {n, row}), 1, 0, blocks);
      } else {
        zero_points = b.slice_axis(unpack_bits_of(op, zeros, bits, expert, {row, 1}), 0, 0, n);
      }
      zero_points = b.convert(zero_points, DType::f32);
    }
    const Value y = ir::quantized_dot(b, x, w, scales, zero_points, std::move(attributes));
    if (!op.has_input(bias)) return y;
    return b.add(y, b.broadcast_to(b.convert(part(bias, {n}), DType::f32), b.shape(y)));
  }
};

void qmoe(OpContext& op) {
  const ExpertActivation activation = read_activation(op);
  if (const std::string type = op.attribute_string("quant_type", "int"); type != "int")
    op.unsupported("quant_type ", type);
  op.ignore_attributes({"weights_prepacked", "accuracy_level"});  // raw weights; activations are never rounded
  const int64_t bits = op.attribute_int("expert_weight_bits", 4), block = op.attribute_int("block_size", 0);
  const auto layer = [&](size_t weight, size_t zeros, const char* own_bits) {
    const QuantisedLayer l{op, weight, weight + 1, weight + 2, zeros, op.attribute_int(own_bits, bits), block};
    if (l.bits != 2 && l.bits != 4 && l.bits != 8) op.unsupported("weights of ", l.bits, " bits");
    return l;
  };
  const QuantisedLayer first = layer(2, 11, "fc1_expert_weight_bits"), second = layer(5, 12, "fc2_expert_weight_bits"),
                       third = layer(8, 13, "fc3_expert_weight_bits");
  require_rank(op, 1, 2);
  for (const size_t weight : {2, 5, 8}) {
    require_rank(op, weight, 3);
    require_rank(op, weight + 1, 2, 3);
    require_rank(op, weight + 2, 2);
  }
  for (const size_t zeros : {11, 12, 13}) require_rank(op, zeros, block > 0 ? 3 : 2);
  require_rank(op, 14, 2);
  Builder& b = op.build();
  const Value x = tokens_of(op, 0);
  const Value weights = routing(op, op.input(1), op.has_input(14) ? op.input(14) : Value(), Normalise::always);
  const int64_t experts = specialize(op.shape(2)[0], "QMoE: the number of experts");
  op.check(experts > 0, "there are no experts");
  Value sum;
  for (int64_t e = 0; e < experts; ++e) {
    const Value linear = op.has_input(8) ? third.apply(x, e) : Value();
    const Value y = second.apply(activated(op, activation, first.apply(x, e), linear), e);
    const Value wide = b.broadcast_in_dim(b.slice_axis(weights, 1, e, e + 1), b.shape(y), {0, 1});
    const Value counts = b.compare(wide, b.like(wide, 0), CompareDirection::ne);
    const Value counted = b.select(counts, b.multiply(y, wide), b.like(y, 0));
    sum = sum ? b.add(sum, counted) : counted;
  }
  op.output(0, b.reshape(b.convert(sum, op.dtype(0)), op.shape(0)));
}

// Groups of experts compete by the sum of their best scores, then experts within the best groups.
void moe_group_router(OpContext& op) {
  const int64_t k = op.attribute_int("top_k"), groups = op.attribute_int("n_group", 1);
  const int64_t best_groups = op.attribute_int("topk_group", 1), in_group = op.attribute_int("group_topk", 2);
  const float sentinel = op.attribute_float("router_sentinel", -10000.0F);
  op.check(k > 0 && groups > 0 && best_groups > 0 && in_group > 0, "the counts must be positive");
  require_rank(op, 0, 1, 8);
  require_rank(op, 2, 2);
  Builder& b = op.build();
  Value logits = op.input(0);
  if (op.has_input(2)) {
    logits =
        matmul(b, b.convert(logits, DType::f32), swap_last_axes(b, b.convert(op.input(2), DType::f32)), DType::f32);
  }
  const Dim experts = b.shape(logits).back();
  const Dims leading(b.shape(logits).begin(), b.shape(logits).end() - 1);
  const Dim tokens = product(leading), size = floor_div(experts, groups);
  require_eq(size * Dim(groups), experts, "MoEGroupRouter: experts in groups");
  const Value score = b.logistic(b.reshape(b.convert(logits, DType::f32), {tokens, experts}));
  const Value biased = b.add(score, b.broadcast_to(b.convert(op.input(1), DType::f32), b.shape(score)));
  if (op.wants_output(1)) op.output(1, biased);
  if (op.wants_output(2)) op.output(2, score);
  if (!op.wants_output(0)) return;
  Value candidates = biased;
  if (groups > 1) {
    const Value grouped = b.reshape(biased, {tokens, groups, size});
    const Value best = b.reduce(ir::topk(b, grouped, 2, min(in_group, size)).first, ReduceKind::add, {2});
    const Value winners = chosen(b, ir::topk(b, best, 1, best_groups).second, groups);
    const Value open = b.reduce(winners, ReduceKind::logical_or, {1});
    const Value wide = b.broadcast_in_dim(open, b.shape(grouped), {0, 1});
    candidates = b.reshape(b.select(wide, grouped, b.like(grouped, -HUGE_VAL)), {tokens, experts});
  }
  const Value hits = b.reduce(chosen(b, ir::topk(b, candidates, 1, k).second, experts), ReduceKind::logical_or, {1});
  const Value logs = b.log(b.maximum(score, b.like(score, 1e-20)));
  op.output(0, b.convert(b.select(hits, logs, b.like(logs, sentinel)), op.dtype(0)));
}

}  // namespace

void register_moe(Registry& r) {
  r.add("MoE", {1}, moe, kMicrosoft);
  r.add("QMoE", {1}, qmoe, kMicrosoft);
  r.add("MoEGroupRouter", {1}, moe_group_router, kMicrosoft);
}

}  // namespace transmuter::ops
