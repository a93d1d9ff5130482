// Raises attention.
// Pattern:   softmax(scores) v over one or more batch axes, where scores is q k^T with any of: numbers multiplied (on
//            q, on k, on the product), a factor for each head, a softcap, masks added, masks selected, a floor, a shift
//            by the maximum, reshapes; one more score for each head (a sink), whose weight is sliced off; and k and v
//            may repeat each kv head for several query heads. Weights may be set to 0 where they are NaN (rows without
//            a key) or where a selected mask says so.
// Condition: f32 or f64, k and v perhaps stored half; nothing else reads the weights. A selected fill and a floor are
//            -infinity, or so low (-1e30) that a score added to them is lost, which is what the additive mask that
//            replaces them does. Rows without any key stay NaN where they were (empty_rows_nan).
// Gain:      no scores and no weights in memory, kv heads not repeated, masks not spread.
#include <algorithm>
#include <cmath>

#include "ir/composites/composites.h"
#include "ir/passes/match_attention.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

class AttentionRaiser {
 public:
  explicit AttentionRaiser(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) {
      if (op.primitive == &composite::attention) return ungrouped(op);
      const auto found = op.primitive == &prim::dot_general ? match_attention(match_, op) : std::nullopt;
      return found ? emit(op, *found) : Value{};
    });
  }

 private:
  // The new value without the numbers that it is multiplied with, under transposes and reshapes too.
  Value unscaled(Value value, double& factor) {
    const Op* op = match_.definition(value);
    if (!op) return copier_[value];
    if (const auto found = scaled(match_, *op)) {
      factor *= found->second;
      return unscaled(found->first, factor);
    }
    if (op->primitive != &prim::transpose && op->primitive != &prim::reshape) return copier_[value];
    double inner_factor = 1;
    const Value inner = unscaled(op->operands[0], inner_factor);
    if (inner_factor == 1) return copier_[value];
    factor *= inner_factor;
    return op->primitive == &prim::transpose ? build_.transpose(inner, op->as<AxesAttributes>().axes)
                                             : build_.reshape(inner, match_.shape(value));
  }

  // Where the side's heads repeat those of fewer kv heads, the side that has each once.
  std::optional<Side> without_repeats(Side side, double& factor) const {
    if (side.order.size() != 4) return {};
    const Op* op = match_.definition(side.value);
    double found = 1;
    while (op) {
      if (op->primitive == &prim::transpose) {
        for (int64_t& axis : side.order) axis = op->as<AxesAttributes>().axes[static_cast<size_t>(axis)];
        side.value = op->operands[0];
      } else if (const auto x = scaled(match_, *op)) {
        found *= x->second;
        side.value = x->first;
      } else {
        break;
      }
      op = match_.definition(side.value);
    }
    const std::optional<View> once = op ? repeated_heads(*op, side) : std::nullopt;
    if (!once) return {};
    factor *= found;
    // Where the axes of what is repeated are among those of its base.
    for (int64_t& axis : side.order) axis = std::find(once->axes.begin(), once->axes.end(), axis) - once->axes.begin();
    side.value = once->base;
    return side;
  }

  // What `op`, which gives side.value, repeats for several query heads, seen from side.value: base axis i lies along
  // its axis axes[i].
  std::optional<View> repeated_heads(const Op& op, const Side& side) const {
    const size_t heads = static_cast<size_t>(side.order[1]);
    const Dims& joined = match_.shape(side.value);
    const auto same = [](Dim a, Dim b) { return provably_eq(a, b); };
    if (joined.size() != 4) return {};
    if (op.primitive == &prim::broadcast_in_dim) {  // one kv head
      const Dims& from = match_.shape(op.operands[0]);
      if (op.as<BroadcastInDimAttributes>().dimensions != std::vector<int64_t>{0, 1, 2, 3}) return {};
      for (size_t i = 0; i < 4; ++i)
        if (!same(from[i], i == heads ? Dim(1) : joined[i])) return {};
      return View{op.operands[0], {0, 1, 2, 3}};
    }
    if (op.primitive != &prim::reshape || !match_.defined_by(op.operands[0], prim::broadcast_in_dim)) return {};
    const Dims& split = match_.shape(op.operands[0]);
    if (!joins_axes(split, joined, heads)) return {};
    // It has every axis but that after the kv heads.
    View view = match_.strip(match_.whole(op.operands[0]));
    const int64_t repeated = static_cast<int64_t>(heads) + 1;
    std::vector<int64_t> missing;
    for (int64_t axis = 0; axis < 5; ++axis) {
      const bool has = std::find(view.axes.begin(), view.axes.end(), axis) != view.axes.end();
      if (axis == repeated ? has : !has && !same(split[static_cast<size_t>(axis)], 1)) return {};
      if (axis != repeated && !has) missing.push_back(axis);
    }
    // Extents of 1 are wherever there is one; others of them are left over.
    size_t next = 0;
    for (int64_t& axis : view.axes) {
      if (axis < 0 && next < missing.size()) axis = missing[next++];
      if (axis > repeated) --axis;
    }
    return next == missing.size() ? std::optional(std::move(view)) : std::nullopt;
  }

  // These axes of the value in this order; it has no others but extents of 1.
  Value in_order(Value value, std::vector<int64_t> order) {
    if (static_cast<int64_t>(order.size()) < build_.rank(value)) {
      std::vector<int64_t> kept = order;
      std::sort(kept.begin(), kept.end());
      Dims shape;
      for (const int64_t axis : kept) shape.push_back(build_.shape(value)[static_cast<size_t>(axis)]);
      value = build_.reshape(value, std::move(shape));
      for (int64_t& axis : order) axis = std::find(kept.begin(), kept.end(), axis) - kept.begin();
    }
    return build_.transpose(value, std::move(order));
  }

  // [b, h, s, d] from a side's new value.
  Value arranged(Value value, const Side& side, const Dims& heads, bool one_head) {
    const Value flat = in_order(value, side.order);
    const Dims shape = build_.shape(flat);
    if (one_head) return build_.reshape(flat, {shape[0], 1, shape[1], shape[2]});
    if (shape.size() == 4 && provably_eq(shape[0], heads[0])) return flat;  // perhaps with fewer kv heads
    return build_.reshape(flat, {heads[0], heads[1], shape[shape.size() - 2], shape.back()});
  }

  // The mask as [b, h, s, t], with extents of 1 where it repeats: batch axes that it does not have stay away, those
  // that the composite takes together are spread if it has one of them.
  Value four_axes(const Mask& mask, const Dims& scores) {
    const Dims& shape = mask.shape;
    const size_t rank = shape.size();
    const auto has = [&](size_t axis) {
      return std::find(mask.view.axes.begin(), mask.view.axes.end(), static_cast<int64_t>(axis)) !=
             mask.view.axes.end();
    };
    Dims wide = shape, four = scores;
    if (rank < 2 || !provably_eq(shape[rank - 1], scores[3]) || !provably_eq(shape[rank - 2], scores[2]))
      return build_.reshape(spread_over(copier_, mask.view, 0, wide), four);
    for (size_t i = 0; i < 2; ++i)
      if (!has(rank - 2 + i)) wide[rank - 2 + i] = four[2 + i] = 1;
    // Leading axes [0, cut) make b, [cut, rank - 2) make h; if that cannot be seen, all of them make both.
    size_t cut = 0;
    const auto part = [&](size_t from, size_t to) { return product(Dims(shape.begin() + from, shape.begin() + to)); };
    while (cut <= rank - 2 && !(provably_eq(part(0, cut), scores[0]) && provably_eq(part(cut, rank - 2), scores[1])))
      ++cut;
    const auto leave_out = [&](size_t from, size_t to, std::initializer_list<size_t> result) {
      for (size_t i = from; i < to; ++i)
        if (has(i)) return;
      for (size_t i = from; i < to; ++i) wide[i] = 1;
      for (const size_t i : result) four[i] = 1;
    };
    if (cut <= rank - 2) {
      leave_out(0, cut, {0});
      leave_out(cut, rank - 2, {1});
    } else {
      leave_out(0, rank - 2, {0, 1});
    }
    return build_.reshape(spread_over(copier_, mask.view, 0, wide), four);
  }

  Value chosen(Value keep, Value x, double fill, DType dtype) {
    const Dims shape = broadcast_shapes(build_.shape(keep), x ? build_.shape(x) : Dims(), "attention: masks");
    const Value yes = x ? build_.broadcast_to(x, shape) : build_.splat(dtype, 0, shape);
    return build_.select(build_.broadcast_to(keep, shape), yes, build_.like(yes, fill));
  }

  // All masks as one, from the product up.
  Value combined(const Scores& found, const Dims& scores, DType dtype) {
    Value keep, added;
    for (size_t i = found.masks.size(); i-- > 0;) {
      const Mask& mask = found.masks[i];
      const double fill = mask.fill * mask.factor;
      if (mask.kind == Mask::Kind::floor) {
        if (keep) added = chosen(keep, added, -kInfinity, dtype);
        keep = {};
        if (added) added = build_.maximum(added, build_.like(added, fill));
        continue;
      }
      Value x = four_axes(mask, scores);
      if (mask.kind == Mask::Kind::added) {
        if (mask.factor != 1) x = build_.multiply(x, build_.like(x, mask.factor));
        if (added) {
          const auto [a, b] = build_.numpy_broadcast(added, x);
          x = build_.add(a, b);
        }
        added = x;
        continue;
      }
      if (mask.kind == Mask::Kind::drop) x = build_.logical_not(x);
      if (std::isinf(fill)) {
        const auto [a, b] = keep ? build_.numpy_broadcast(keep, x) : std::pair{x, x};
        keep = keep ? build_.logical_and(a, b) : x;
        continue;
      }
      if (keep) added = chosen(keep, added, -kInfinity, dtype);
      keep = {};
      added = chosen(x, added, fill, dtype);
    }
    return keep && added ? chosen(keep, added, -kInfinity, dtype) : keep ? keep : added;
  }

  // An operator's own attention whose kv heads are repeated beforehand.
  Value ungrouped(const Op& op) {
    double factor = 1;
    const auto k = without_repeats({op.operands[1], {0, 1, 2, 3}}, factor);
    const auto v = without_repeats({op.operands[2], {0, 1, 2, 3}}, factor);
    if (!k || !v || factor != 1 || op.results.size() != 1) return {};
    const auto heads = [&](const Side& side) { return match_.shape(side.value)[static_cast<size_t>(side.order[1])]; };
    if (!provably_eq(heads(*k), heads(*v))) return {};
    std::vector<Value> operands = copier_.mapped(op.operands);
    operands[1] = in_order(copier_[k->value], k->order);
    operands[2] = in_order(copier_[v->value], v->order);
    return build_.emit_copy(op, std::move(operands), {match_.type(op.results[0])}, copier_.location(op))[0];
  }

  Value emit(const Op& op, const AttentionPattern& found) {
    const auto& [scores, weights, keys, values, heads] = found;
    double factor = 1;
    Side k = keys.right, v = values.right;
    double k_factor = 1, v_factor = 1;
    if (!keys.one_kv_head && batch_of(match_, k).size() == 2 && provably_eq(batch_of(match_, k)[0], heads[0])) {
      const auto fewer_k = without_repeats(k, k_factor), fewer_v = without_repeats(v, v_factor);
      const bool same = fewer_k && fewer_v && v_factor == 1 &&
                        provably_eq(match_.shape(fewer_k->value)[static_cast<size_t>(fewer_k->order[1])],
                                    match_.shape(fewer_v->value)[static_cast<size_t>(fewer_v->order[1])]);
      if (same) {
        k = *fewer_k;
        v = *fewer_v;
        factor *= k_factor;
      }
    }
    const DType dtype = match_.type(op.results[0]).dtype;
    Value q = arranged(unscaled(keys.left.value, factor), keys.left, heads, false);
    const Value new_k = build_.convert(arranged(unscaled(k.value, factor), k, heads, keys.one_kv_head), dtype);
    const Value new_v = build_.convert(arranged(copier_[v.value], v, heads, values.one_kv_head), dtype);
    const Dims full{heads[0], heads[1], build_.shape(q)[2], build_.shape(new_k)[2]};
    if (scores.row_factor)
      q = build_.multiply(q, build_.broadcast_to(four_axes(*scores.row_factor, full), build_.shape(q)));
    AttentionAttributes attributes;
    attributes.scale = scores.scale * factor;
    attributes.softcap = scores.softcap;
    AttentionExtras extras;
    extras.mask = combined(scores, full, dtype);
    if (weights.sink) extras.sink = spread_over(copier_, *weights.sink, 1, {heads[1]});
    attributes.empty_rows_nan = extras.mask && !weights.zero_rows && !weights.zeroed;
    const Value y = attention(build_, q, new_k, new_v, extras, attributes)[0];
    return build_.reshape(y, match_.shape(op.results[0]));
  }

  const Matcher match_;
  Copier copier_;
  Builder& build_;
};

}  // namespace

Program raise_attention(const Program& program) { return AttentionRaiser(program).run(); }

}  // namespace transmuter::ir
