#include "ir/passes/match_attention.h"

#include <algorithm>
#include <cmath>

#include "ir/composites/composites.h"
#include "ir/primitives/infer.h"

namespace transmuter::ir {

namespace {

class AttentionMatcher {
 public:
  explicit AttentionMatcher(const Matcher& match) : match_(match) {}

  std::optional<AttentionPattern> match(const Op& op) const {
    const std::optional<Product> values = product(op, false);
    if (!values) return {};
    for (size_t i = 0; i < values->left.order.size(); ++i)
      if (values->left.order[i] != static_cast<int64_t>(i)) return {};
    const std::optional<Weights> weights = this->weights(op.operands[0]);
    if (!weights) return {};
    Scores scores;
    if (!descend(weights->scores, scores)) return {};
    if (weights->zeroed && !settle_zeroed(*weights->zeroed, scores)) return {};
    const Product keys = *product(*scores.product, true);
    if (keys.one_kv_head != values->one_kv_head) return {};
    for (const Mask& mask : scores.masks)
      if (mask.kind != Mask::Kind::added && !(mask.fill * mask.factor <= kLost)) return {};
    // The softmax goes over the keys, and rows keep their places on the way to v.
    const Dims &made = match_.shape(scores.product->results[0]), &read = match_.shape(op.operands[0]);
    if (!provably_eq(match_.shape(weights->scores).back(), made.back()) || !provably_eq(read.back(), made.back()) ||
        !provably_eq(read[read.size() - 2], made[made.size() - 2])) {
      return {};
    }
    const Dims heads = heads_of(scores, keys);
    if (!values->one_kv_head && !provably_eq(transmuter::product(batch_of(match_, values->right)), heads[0] * heads[1]))
      return {};
    if (weights->sink && !provably_eq(match_.shape(weights->scores)[1], heads[1])) return {};
    return AttentionPattern{std::move(scores), *weights, keys, *values, heads};
  }

 private:
  // The axes of one side of a product that are neither batch nor contracted.
  std::vector<int64_t> free_axes(Value value, const std::vector<int64_t>& batch, int64_t contracted) const {
    std::vector<int64_t> free;
    for (int64_t axis = 0; axis < match_.rank(value); ++axis)
      if (axis != contracted && std::find(batch.begin(), batch.end(), axis) == batch.end()) free.push_back(axis);
    return free;
  }

  // Left [batch..., s, d]; right with its free axis first (`right_free_first`: k is [t, d]) or last (v is [t, d]).
  std::optional<Product> product(const Op& op, bool right_free_first) const {
    const auto& a = op.as<DotGeneralAttributes>();
    const DType dtype = match_.type(op.results[0]).dtype;
    if (dtype != DType::f32 && dtype != DType::f64) return {};
    // Keys and values may be stored half (caches are).
    const DType right_dtype = match_.type(op.operands[1]).dtype;
    const bool half = dtype == DType::f32 && (right_dtype == DType::f16 || right_dtype == DType::bf16);
    if (match_.type(op.operands[0]).dtype != dtype || (right_dtype != dtype && !half)) return {};
    if (a.lhs_contracting.size() != 1 || a.lhs_batching.empty()) return {};
    const int64_t left_inner = a.lhs_contracting[0], right_inner = a.rhs_contracting[0];
    const auto left = free_axes(op.operands[0], a.lhs_batching, left_inner);
    const auto right = free_axes(op.operands[1], a.rhs_batching, right_inner);
    const bool one_kv_head = a.lhs_batching.size() == 1 && left.size() == 2;
    if (right.size() != 1 || (left.size() != 1 && !one_kv_head)) return {};
    Product p{{op.operands[0], a.lhs_batching}, {op.operands[1], a.rhs_batching}, one_kv_head};
    p.left.order.insert(p.left.order.end(), left.begin(), left.end());
    p.left.order.push_back(left_inner);
    p.right.order.push_back(right_free_first ? right[0] : right_inner);
    p.right.order.push_back(right_free_first ? right_inner : right[0]);
    return p;
  }

  // ---- from the softmax down to the product of q and k

  // Reshapes keep the order of the elements: a mask over any shape of the scores is one over [b, h, s, t].
  bool through_reshape(const Op& op, Scores& scores) const {
    for (const Value value : {op.operands[0], op.results[0]}) {
      const Dims& shape = match_.shape(value);
      if (!scores.heads && shape.size() == 4) scores.heads = Dims{shape[0], shape[1]};
    }
    return descend(op.operands[0], scores);
  }

  bool through_factor(const Op& op, Scores& scores) const {
    const auto found = scaled(match_, op);
    if (!found) return through_row_factor(op, scores);
    if (found->second < 0) return false;
    scores.scale *= found->second;
    const Op* tanh = match_.defined_by(found->first, prim::tanh);
    if (!tanh) return descend(found->first, scores);
    // factor * tanh(x) = cap * tanh(cap x / cap)
    if (scores.softcap > 0) return false;
    scores.softcap = scores.scale;
    return descend(tanh->operands[0], scores);
  }

  // A factor for each head: q can have it, if no mask and no cap lie between.
  bool through_row_factor(const Op& op, Scores& scores) const {
    if (op.primitive != &prim::multiply || scores.row_factor) return false;
    const Dims& shape = match_.shape(op.results[0]);
    for (size_t i = 0; i < 2; ++i) {
      View view = match_.strip(match_.whole(op.operands[1 - i]));
      const bool by_row = std::all_of(view.axes.begin(), view.axes.end(),
                                      [&](int64_t axis) { return axis + 2 < static_cast<int64_t>(shape.size()); });
      if (!by_row || !match_.defined_by(op.operands[i], prim::dot_general)) continue;
      scores.row_factor = Mask{Mask::Kind::added, std::move(view), 0, shape, 1};
      return descend(op.operands[i], scores);
    }
    return false;
  }

  bool through_mask(Value below, Mask mask, Scores& scores) const {
    if (scores.softcap > 0) return false;  // a mask under the cap
    Scores tried = scores;
    mask.shape = match_.shape(below);
    mask.factor = scores.scale;
    tried.masks.push_back(std::move(mask));
    if (!descend(below, tried)) return false;
    scores = std::move(tried);
    return true;
  }
  Mask mask(Mask::Kind kind, Value value, double fill) const {
    return Mask{kind, match_.strip(match_.whole(value)), fill, {}, 1};
  }

  bool through_sum(const Op& op, Scores& scores) const {
    for (size_t i = 0; i < 2; ++i)
      if (through_mask(op.operands[i], mask(Mask::Kind::added, op.operands[1 - i], 0), scores)) return true;
    return false;
  }

  bool through_select(const Op& op, Scores& scores) const {
    for (size_t i = 1; i < 3; ++i) {
      const std::optional<double> fill = match_.number(op.operands[3 - i]);
      if (!fill || !(*fill <= kLost)) continue;
      const auto kind = i == 1 ? Mask::Kind::keep : Mask::Kind::drop;
      if (through_mask(op.operands[i], mask(kind, op.operands[0], *fill), scores)) return true;
    }
    return false;
  }

  bool through_floor(const Op& op, Scores& scores) const {
    for (size_t i = 0; i < 2; ++i) {
      const std::optional<double> floor = match_.number(op.operands[1 - i]);
      if (!floor || !(*floor <= kLost)) continue;
      if (through_mask(op.operands[i], Mask{Mask::Kind::floor, {}, *floor, {}, 1}, scores)) return true;
    }
    return false;
  }

  // x where the value is x - max(x) along the last axis: the softmax is the same.
  Value unshifted(Value value) const {
    const Op* op = match_.defined_by(value, prim::subtract);
    const Op* greatest =
        op ? match_.reduction(match_.whole(op->operands[1]), ReduceKind::max, op->operands[0]) : nullptr;
    const bool last = greatest && reduced_axes(*greatest) == std::vector<int64_t>{match_.rank(value) - 1};
    return last ? op->operands[0] : value;
  }

  bool descend(Value value, Scores& scores) const {
    const Op* op = match_.definition(value);
    if (!op) return false;
    const Primitive* p = op->primitive;
    if (p == &prim::reshape) return through_reshape(*op, scores);
    if (p == &prim::multiply || p == &prim::divide) return through_factor(*op, scores);
    if (p == &prim::add) return through_sum(*op, scores);
    if (p == &prim::select) return through_select(*op, scores);
    if (p == &prim::maximum) return through_floor(*op, scores);
    if (p == &prim::subtract) {
      const Value x = unshifted(value);
      return !(x == value) && scores.softcap == 0 && descend(x, scores);
    }
    if (p != &prim::dot_general || !product(*op, true)) return false;
    scores.product = op;
    return true;
  }

  // ---- the weights

  // From the left operand of the product with v up to the scores, if nothing else reads what lies between.
  std::optional<Weights> weights(Value value) const {
    Weights w;
    int32_t readers = 1;
    std::optional<Dim> keys;  // how many of the weights are sliced
    while (const Op* op = match_.definition(value)) {
      if (match_.uses(value) != readers) return {};
      readers = 1;
      if (op->primitive == &composite::softmax) {
        const auto& a = op->as<SoftmaxAttributes>();
        if (a.log || a.axis != match_.rank(value) - 1) return {};
        w.scores = unshifted(op->operands[0]);
        if (keys && !part_from_sink(w, *keys)) return {};
        return w;
      }
      if (op->primitive == &prim::reshape) {
        if (keys || !provably_eq(match_.shape(op->operands[0]).back(), match_.shape(value).back())) return {};
        value = op->operands[0];
      } else if (op->primitive == &prim::slice && !keys) {
        keys = first_of_last_axis(value);
        if (!keys) return {};
        value = op->operands[0];
      } else if (op->primitive == &prim::select && !keys) {
        const int32_t read = through_zeroing(*op, w);
        if (read == 0) return {};
        readers = read;
        value = op->operands[match_.is_number(op->operands[1], 0) ? 2 : 1];
      } else {
        return {};
      }
    }
    return {};
  }

  // A select between weights and 0: how often it reads the weights (0: it is something else).
  int32_t through_zeroing(const Op& op, Weights& w) const {
    if (w.zero_rows || w.zeroed) return 0;
    const bool keep = !match_.is_number(op.operands[1], 0);
    if (keep && !match_.is_number(op.operands[2], 0)) return 0;
    const Op* compare = match_.defined_by(op.operands[0], prim::compare);
    if (!keep && compare && compare->operands[0] == op.operands[2] && compare->operands[1] == op.operands[2] &&
        compare->as<CompareAttributes>().direction == CompareDirection::ne) {
      w.zero_rows = true;
      return match_.uses(op.operands[0]) == 1 ? 3 : 0;
    }
    w.zeroed = mask(keep ? Mask::Kind::keep : Mask::Kind::drop, op.operands[0], 0);
    w.zeroed->shape = match_.shape(op.results[0]);
    return 1;
  }

  // The limit where the value is a slice [0, limit) of the last axis and all of the others.
  std::optional<Dim> first_of_last_axis(Value value) const {
    const Op* op = match_.slice_of_last_axis(value);
    if (!op) return {};
    const auto& a = op->as<SliceAttributes>();
    if (!provably_eq(a.start.back(), 0) || !provably_eq(a.stride.back(), 1)) return {};
    return a.limit.back();
  }

  // The scores are `keys` scores and one more that every query of a head has alike.
  bool part_from_sink(Weights& w, Dim keys) const {
    const Op* op = match_.defined_by(w.scores, prim::concatenate);
    if (!op || op->operands.size() != 2 || match_.rank(w.scores) != 4 || op->as<AxisAttributes>().axis != 3)
      return false;
    if (!provably_eq(match_.shape(op->operands[0])[3], keys) || !provably_eq(match_.shape(op->operands[1])[3], 1))
      return false;
    View sink = match_.strip(match_.whole(op->operands[1]));
    for (const int64_t axis : sink.axes)
      if (axis >= 0 && axis != 1) return false;
    w.sink = std::move(sink);
    w.scores = op->operands[0];
    return true;
  }

  // Weights that a mask sets to 0 after the softmax: the same mask as the uppermost before it. It leaves the others as
  // they are, but rows without any key become 0.
  static bool settle_zeroed(const Mask& zeroed, Scores& scores) {
    if (scores.masks.empty()) return false;
    Mask& top = scores.masks.front();
    if (top.kind != zeroed.kind || !provably_same(top.shape, zeroed.shape) || !(top.view.base == zeroed.view.base) ||
        top.view.axes != zeroed.view.axes) {
      return false;
    }
    top.fill = -kInfinity;
    return true;
  }

  // [b, h] of q's batch axes. One axis may be merged: then as the scores' reshapes or q's say, else every item is its
  // own batch.
  Dims heads_of(const Scores& scores, const Product& p) const {
    if (p.one_kv_head) {
      const Dims& shape = match_.shape(p.left.value);
      return {shape[static_cast<size_t>(p.left.order[0])], shape[static_cast<size_t>(p.left.order[1])]};
    }
    Dims batch = batch_of(match_, p.left);
    if (batch.size() == 2) return batch;
    if (batch.size() > 2) {
      const Dim last = batch.back();
      batch.pop_back();
      return {transmuter::product(batch), last};
    }
    const auto splits = [&](const Dims& heads) { return provably_eq(heads[0] * heads[1], batch[0]); };
    if (scores.heads && splits(*scores.heads)) return *scores.heads;
    const Op* reshape = match_.definition(p.left.value);
    while (const auto x = reshape ? scaled(match_, *reshape) : std::nullopt) reshape = match_.definition(x->first);
    if (reshape && reshape->primitive == &prim::reshape && p.left.order[0] == 0) {
      const Dims& four = match_.shape(reshape->operands[0]);
      if (four.size() == 4 && splits(four)) return {four[0], four[1]};
    }
    return {batch[0], 1};
  }

  const Matcher& match_;
};

}  // namespace

std::optional<AttentionPattern> match_attention(const Matcher& match, const Op& op) {
  return AttentionMatcher(match).match(op);
}

std::optional<std::pair<Value, double>> scaled(const Matcher& match, const Op& op) {
  if (op.primitive != &prim::multiply && op.primitive != &prim::divide) return {};
  for (size_t i = 0; i < (op.primitive == &prim::divide ? 1u : 2u); ++i) {
    const std::optional<double> number = match.number(op.operands[1 - i]);
    if (number && std::isfinite(*number) && *number != 0)
      return std::pair{op.operands[i], op.primitive == &prim::divide ? 1 / *number : *number};
  }
  return {};
}

Dims batch_of(const Matcher& match, const Side& side) {
  Dims batch;
  for (size_t i = 0; i + 2 < side.order.size(); ++i)
    batch.push_back(match.shape(side.value)[static_cast<size_t>(side.order[i])]);
  return batch;
}

}  // namespace transmuter::ir
