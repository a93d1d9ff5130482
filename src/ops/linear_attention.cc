// Attention with a recurrent state in place of a cache: LinearAttention (also of com.microsoft), com.microsoft
// GatedDeltaNet and LinearAttentionGate. Token after token, with S [d, e] the state of a head:
//   S' = exp(decay) S;  S = S' + k (beta (v - S'^T k))^T;  y = scale S^T q
// "linear" and "gated" add k v^T without beta and retrieval, "linear" and "delta" have no decay.
#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "ops/activation.h"
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

struct Rule {
  bool decays, retrieves;
};

Rule read_rule(OpContext& op) {
  const std::string rule = op.attribute_string("update_rule", "gated_delta");
  op.ignore_attributes({"chunk_size"});  // how a parallel form would cut the sequence
  if (rule == "linear") return {false, false};
  if (rule == "gated") return {true, false};
  if (rule == "delta") return {false, true};
  if (rule == "gated_delta") return {true, true};
  op.invalid("update_rule ", rule, " is not one of the operator's");
}

// All f32. q [t, b, h, g, d] (g query heads share a state), k [t, b, h, d], v [t, b, h, e], decay (the factor) [t, b,
// h, 1 or d], beta [t, b, h], state [b, h, d, e].
struct Recurrence {
  Rule rule;
  Value q, k, v, decay, beta, state;
};

struct Token {
  Value q, k, v, decay, beta;
};

// The state after a token, and y [b, h, g, e].
std::pair<Value, Value> step(Builder& b, const Rule& rule, const Token& token, Value state) {
  const Dims shape = b.shape(state);
  if (rule.decays) {
    const bool one = provably_eq(b.shape(token.decay)[2], 1);
    const Value factor = one ? b.squeeze(token.decay, {2}) : token.decay;
    state = b.multiply(
        state, b.broadcast_in_dim(factor, shape, one ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0, 1, 2}));
  }
  ir::DotGeneralAttributes dot;
  dot.dtype = DType::f32;
  dot.lhs_batching = dot.rhs_batching = {0, 1};
  Value written = token.v;
  if (rule.retrieves) {
    dot.lhs_contracting = {2};
    dot.rhs_contracting = {2};
    written = b.subtract(written, b.dot_general(token.k, state, dot));
    written = b.multiply(written, b.broadcast_in_dim(token.beta, b.shape(written), {0, 1}));
  }
  const Value outer =
      b.multiply(b.broadcast_in_dim(token.k, shape, {0, 1, 2}), b.broadcast_in_dim(written, shape, {0, 1, 3}));
  state = b.add(state, outer);
  dot.lhs_contracting = {3};
  dot.rhs_contracting = {2};
  return {state, b.dot_general(token.q, state, dot)};
}

// x[t] of a list whose first axis is time; an absent one stays absent.
Value at_time(Builder& b, Value x, Value t) {
  if (!x) return {};
  std::vector<Value> starts(static_cast<size_t>(b.rank(x)), b.integer(DType::i64, 0));
  starts[0] = t;
  Dims sizes = b.shape(x);
  sizes[0] = 1;
  return b.squeeze(b.dynamic_slice(x, std::move(starts), std::move(sizes)), {0});
}

// What the loop's body reads: absent operands take no place.
std::vector<Value> there(std::initializer_list<Value> values) {
  std::vector<Value> result;
  for (Value value : values)
    if (value) result.push_back(value);
  return result;
}

struct Fixed {
  Value q, k, v, decay, beta;
  Fixed(const Rule& rule, std::span<const Value> values) : q(values[0]), k(values[1]), v(values[2]) {
    size_t at = 3;
    if (rule.decays) decay = values[at++];
    if (rule.retrieves) beta = values[at];
  }
  Token at(Builder& b, Value t) const {
    return {at_time(b, q, t), at_time(b, k, t), at_time(b, v, t), at_time(b, decay, t), at_time(b, beta, t)};
  }
};

Value put(Builder& b, Value all, Value one, Value at) {
  std::vector<Value> starts(static_cast<size_t>(b.rank(all)), b.integer(DType::i64, 0));
  starts[0] = at;
  return b.dynamic_update_slice(all, b.expand_dims(one, {0}), std::move(starts));
}

struct Result {
  Value y;  // [t, b, h, g, e]
  Value state;
};

Result run(Builder& b, const Recurrence& r) {
  const Dim steps = b.shape(r.q)[0];
  const std::vector<Value> fixed =
      there({r.q, r.k, r.v, r.rule.decays ? r.decay : Value(), r.rule.retrieves ? r.beta : Value()});
  Dims shape = b.shape(r.q);
  shape.back() = b.shape(r.v).back();
  if (provably_eq(steps, 1)) {
    const auto [state, y] = step(b, r.rule, Fixed(r.rule, fixed).at(b, b.integer(DType::i64, 0)), r.state);
    return {b.expand_dims(y, {0}), state};
  }
  const std::vector<Value> state{r.state, b.splat(DType::f32, 0, shape)};
  const std::vector<Value> last =
      ir::counted_loop(b, steps, state, fixed,
                       [&](Builder& body, Value t, std::span<const Value> current, std::span<const Value> outside) {
                         const auto [next, y] = step(body, r.rule, Fixed(r.rule, outside).at(body, t), current[0]);
                         return std::vector<Value>{next, put(body, current[1], y, t)};
                       });
  return {last[1], last[0]};
}

// The same for sequences one after the other, b = 1 in the operands: token t belongs to sequence[t] (i64) of the state.
Result run_ragged(Builder& b, const Recurrence& r, Value sequence) {
  std::vector<Value> fixed =
      there({r.q, r.k, r.v, r.rule.decays ? r.decay : Value(), r.rule.retrieves ? r.beta : Value()});
  fixed.push_back(sequence);
  Dims shape = b.shape(r.q);
  shape.back() = b.shape(r.v).back();
  const std::vector<Value> state{r.state, b.splat(DType::f32, 0, shape)};
  const std::vector<Value> last = ir::counted_loop(
      b, b.shape(r.q)[0], state, fixed,
      [&](Builder& body, Value t, std::span<const Value> current, std::span<const Value> outside) {
        const Value own = at_time(body, outside.back(), t);
        const Value before = body.expand_dims(at_time(body, current[0], own), {0});
        const auto [next, y] = step(body, r.rule, Fixed(r.rule, outside).at(body, t), before);
        return std::vector<Value>{put(body, current[0], body.squeeze(next, {0}), own), put(body, current[1], y, t)};
      });
  return {last[1], last[0]};
}

Value scaled_queries(OpContext& op, Value q, float scale) {
  Builder& b = op.build();
  const Value factor =
      scale == 0 ? b.real_value(inverse_root(b.shape(q).back()), DType::f32) : b.scalar(DType::f32, scale);
  return b.multiply(q, b.broadcast_to(factor, b.shape(q)));
}

void require_parts(OpContext& op, const Rule& rule, size_t decay, size_t beta) {
  const bool has_decay = op.has_input(decay), has_beta = op.has_input(beta);  // either may be given for nothing
  op.check(!rule.decays || has_decay, "this update_rule needs a decay");
  op.check(!rule.retrieves || has_beta, "this update_rule needs a beta");
}

// Heads repeated `times` along an axis, each beside its copies.
Value repeat_heads(Builder& b, Value x, int64_t axis, Dim times) {
  if (provably_eq(times, 1)) return x;
  const Dims shape = b.shape(x);
  Dims wide = shape, merged = shape;
  wide.insert(wide.begin() + axis + 1, times);
  merged[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)] * times;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) axes.push_back(i <= axis ? i : i + 1);
  return b.reshape(b.broadcast_in_dim(x, wide, axes), merged);
}

// Packed operands [b, t, heads * n].
void linear_attention(OpContext& op) {
  const Rule rule = read_rule(op);
  const int64_t query_heads = op.attribute_int("q_num_heads"), heads = op.attribute_int("kv_num_heads");
  const float scale = op.attribute_float("scale", 0.0F);
  if (op.attribute_int("state_window", 0) != 0) op.unsupported("state_window");
  op.check(query_heads > 0 && heads > 0, "the numbers of heads must be positive");
  require_float(op, 0);
  require_parts(op, rule, 4, 5);
  require_rank(op, 0, 3);
  require_rank(op, 3, 4);
  require_rank(op, 5, 3);
  Builder& b = op.build();
  op.check(op.rank(0) == 3, "input 0 must have rank 3, has ", op.rank(0));
  const Dim batch = op.shape(0)[0], steps = op.shape(0)[1];
  // [t, b, n, ...]
  const auto unpacked = [&](size_t i, int64_t n) {
    op.check(op.rank(i) == 3, "input ", i, " must have rank 3, has ", op.rank(i));
    const Dim width = floor_div(op.shape(i)[2], n);
    return b.transpose(b.reshape(b.convert(op.input(i), DType::f32), {batch, steps, n, width}), {1, 0, 2, 3});
  };
  Recurrence r{rule, {}, unpacked(1, heads), unpacked(2, heads), {}, {}, {}};
  const Value queries = scaled_queries(op, unpacked(0, query_heads), scale);
  const Dim inner = b.shape(queries)[3], outer = b.shape(r.v)[3];
  if (heads > query_heads) {
    op.check(heads % query_heads == 0, "kv_num_heads must be a multiple of q_num_heads");
    r.q = b.expand_dims(repeat_heads(b, queries, 2, heads / query_heads), {3});
  } else {
    op.check(query_heads % heads == 0, "q_num_heads must be a multiple of kv_num_heads");
    r.q = b.reshape(queries, {steps, batch, heads, query_heads / heads, inner});
  }
  if (rule.decays) r.decay = b.exponential(unpacked(4, heads));
  if (rule.retrieves) {
    op.check(op.rank(5) == 3, "input 5 must have rank 3, has ", op.rank(5));
    const bool shared = heads != 1 && provably_eq(op.shape(5)[2], 1);
    const Value beta = unpacked(5, shared ? 1 : heads);
    r.beta = b.broadcast_in_dim(b.squeeze(beta, {3}), {steps, batch, heads}, {0, 1, 2});
  }
  const Dims state{batch, heads, inner, outer};
  r.state = op.has_input(3) ? b.convert(op.input(3), DType::f32) : b.splat(DType::f32, 0, state);
  const Result result = run(b, r);
  const Value y =
      b.reshape(b.transpose(result.y, {1, 0, 2, 3, 4}), {batch, steps, Dim(std::max(heads, query_heads)) * outer});
  op.output(0, b.convert(y, op.dtype(0)));
  if (op.wants_output(1)) op.output(1, b.convert(result.state, op.dtype(op.has_input(3) ? 3 : 0)));
}

Value unit_length(Builder& b, Value x) {
  const Value square = b.reduce_keep(b.multiply(x, x), ReduceKind::add, {b.rank(x) - 1});
  return b.multiply(x, b.broadcast_to(b.rsqrt(b.add(square, b.like(square, 1e-6))), b.shape(x)));
}

// The log of the decay from its projection: [n, h] or [n, h, d].
Value gate(OpContext& op, const std::string& kind, Value decay, float lower) {
  Builder& b = op.build();
  if (kind == "none") return decay;
  op.check(op.has_input(7) && op.has_input(8), "gate_activation needs a_log and dt_bias");
  const Dims shape = b.shape(decay);
  const Dims own(shape.begin() + 1, shape.end());
  const auto parameter = [&](size_t i) {
    const Value x = b.convert(op.input(i), DType::f32);
    const bool whole = b.rank(x) == static_cast<int64_t>(own.size());
    if (whole && own.size() > 1) return b.broadcast_in_dim(x, shape, {1, 2});
    if (own.size() > 1 && i == 8 && !provably_eq(b.shape(x)[0], own[0]))
      return b.broadcast_in_dim(b.reshape(x, own), shape, {1, 2});
    return b.broadcast_in_dim(x, shape, {1});
  };
  const Value slope = b.exponential(parameter(7)), shifted = b.add(decay, parameter(8));
  if (kind == "softplus" || kind == "qwen") return b.negate(b.multiply(slope, softplus_of(b, shifted)));
  if (kind == "sigmoid" || kind == "kda") {
    const Value share = b.logistic(b.multiply(slope, shifted));
    return b.multiply(share, b.like(share, lower));
  }
  op.invalid("gate_activation ", kind, " is not one of the operator's");
}

// Tokens packed [n, heads, d], one sequence after the other; states [b, heads, e, d].
void gated_delta_net(OpContext& op) {
  const Rule rule = read_rule(op);
  const float scale = op.attribute_float("scale", 0.0F), lower = op.attribute_float("gate_lower_bound", -5.0F);
  const bool unit = op.attribute_int("qk_l2_norm", 0) != 0;
  const std::string gate_kind = op.attribute_string("gate_activation", "none");
  const std::string beta_kind = op.attribute_string("beta_activation", "none");
  if (op.attribute_int("state_update_capacity", 0) != 0) op.unsupported("state_update_capacity");
  op.check(beta_kind == "none" || beta_kind == "sigmoid", "beta_activation ", beta_kind,
           " is not one of the operator's");
  require_float(op, 0);
  require_parts(op, rule, 4, 5);
  // Packed operands have one axis less.
  const int64_t packed = op.has_input(1) ? 0 : 1;
  require_rank(op, 0, 3 - packed, 4 - packed);
  op.check(packed == 1 || op.has_input(2), "there are no values");
  require_rank(op, 1, op.rank(0));
  require_rank(op, 2, op.rank(0));
  require_rank(op, 3, 1);
  require_rank(op, 6, 4);
  require_rank(op, 7, 1, 2);
  require_rank(op, 8, 1, 2);
  Builder& b = op.build();
  const Dims leading(op.shape(0).begin(), op.shape(0).begin() + (op.rank(0) == 4 - packed ? 2 : 1));
  const Dim tokens = product(leading);
  const size_t skip = leading.size();
  const auto flat = [&](size_t i) {
    op.check(op.rank(i) > static_cast<int64_t>(skip), "input ", i, " has only rank ", op.rank(i));
    Dims shape(op.shape(i).begin() + static_cast<std::ptrdiff_t>(skip), op.shape(i).end());
    shape.insert(shape.begin(), tokens);
    return b.reshape(b.convert(op.input(i), DType::f32), shape);
  };
  Value q, k, v;
  if (op.has_input(1)) {
    q = flat(0);
    k = flat(1);
    v = flat(2);
  } else {
    op.check(op.has_input(6), "packed operands need an initial_state");
    const Dim value_width = op.shape(6)[1] * op.shape(6)[2], inner = op.shape(6)[3];
    const Value all = flat(0);
    const Dim width = b.shape(all)[1], query_width = floor_div(width - value_width, 2);
    const Dim heads = floor_div(query_width, inner);
    const auto part = [&](Dim from, Dim to, Dim n, Dim d) {
      return b.reshape(b.slice_axis(all, 1, from, to), {tokens, n, d});
    };
    q = part(0, query_width, heads, inner);
    k = part(query_width, query_width * 2, heads, inner);
    v = part(query_width * 2, width, op.shape(6)[1], op.shape(6)[2]);
  }
  if (unit) {
    q = unit_length(b, q);
    k = unit_length(b, k);
  }
  const Dim heads = b.shape(v)[1], outer = b.shape(v)[2], inner = b.shape(q)[2];
  const Dim shared = floor_div(heads, b.shape(q)[1]);
  require_eq(shared * b.shape(q)[1], heads, "GatedDeltaNet: value heads in groups of the query's");
  q = scaled_queries(op, repeat_heads(b, q, 1, shared), scale);
  k = repeat_heads(b, k, 1, shared);
  const bool ragged = op.has_input(3);
  op.check(ragged || op.has_input(6), "needs cu_seqlens or an initial_state");
  const Dim batch = op.has_input(6) ? op.shape(6)[0] : op.shape(3)[0] - 1;
  // [n, ...] as [t, b, ...]; ragged: [n, 1, ...]
  const auto by_time = [&](Value x) {
    if (ragged) return b.expand_dims(x, {1});
    Dims shape(b.shape(x).begin() + 1, b.shape(x).end());
    shape.insert(shape.begin(), {batch, floor_div(tokens, batch)});
    std::vector<int64_t> order{1, 0};
    for (int64_t i = 2; i < static_cast<int64_t>(shape.size()); ++i) order.push_back(i);
    return b.transpose(b.reshape(x, shape), order);
  };
  Recurrence r{rule, b.expand_dims(by_time(q), {3}), by_time(k), by_time(v), {}, {}, {}};
  if (rule.decays) {
    const Value log = gate(op, gate_kind, flat(4), lower);
    r.decay = by_time(b.exponential(b.rank(log) == 2 ? b.expand_dims(log, {2}) : log));
  }
  if (rule.retrieves) r.beta = by_time(beta_kind == "sigmoid" ? b.logistic(flat(5)) : flat(5));
  r.state = op.has_input(6) ? b.transpose(b.convert(op.input(6), DType::f32), {0, 1, 3, 2})
                            : b.splat(DType::f32, 0, {batch, heads, inner, outer});
  Result result;
  if (ragged) {
    // How many sequences end at or before a token.
    const Value ends = b.slice_axis(b.convert(op.input(3), DType::i64), 0, 1, batch + 1);
    const Dims shape{tokens, batch};
    const Value passed =
        b.compare(b.broadcast_in_dim(ends, shape, {1}), b.iota(DType::i64, shape, 0), CompareDirection::le);
    result = run_ragged(b, r, b.reduce(b.convert(passed, DType::i64), ReduceKind::add, {1}));
  } else {
    result = run(b, r);
    result.y = b.transpose(result.y, {1, 0, 2, 3, 4});
  }
  Dims shape = leading;
  shape.push_back(heads);
  shape.push_back(outer);
  op.output(0, b.convert(b.reshape(result.y, shape), op.dtype(0)));
  if (op.wants_output(1)) op.output(1, b.transpose(result.state, {0, 1, 3, 2}));
}

// decay = decay_scale * softplus(a + dt_bias), beta = sigmoid(b)
void linear_attention_gate(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  const Value a = b.convert(op.input(0), DType::f32);
  const auto parameter = [&](size_t i) { return b.broadcast_to(b.convert(op.input(i), DType::f32), b.shape(a)); };
  const Value decay = b.multiply(parameter(2), softplus_of(b, b.add(a, parameter(1))));
  op.output(0, b.convert(decay, op.dtype(0)));
  if (op.wants_output(1)) op.output(1, in_single(b, op.input(3), [&](Value x) { return b.logistic(x); }));
}

}  // namespace

void register_linear_attention(Registry& r) {
  r.add("LinearAttention", {27}, linear_attention);
  r.add("LinearAttention", {1}, linear_attention, kMicrosoft);
  r.add("GatedDeltaNet", {1}, gated_delta_net, kMicrosoft);
  r.add("LinearAttentionGate", {1}, linear_attention_gate, kMicrosoft);
}

}  // namespace transmuter::ops
