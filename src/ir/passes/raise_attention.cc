// Raises attention.
// Pattern:   softmax(scores) v over batch axes [b, h], or one that may be a merged b * h, where scores is q k^T with
//            any of: numbers multiplied (on q, on k, on the product), a softcap, masks added, masks selected, and
//            reshapes between [b, h, s, t] and [b * h, s, t]; k and v may repeat each kv head for several query heads.
//            Weights may be set to 0 where they are NaN (rows without a key) or where a selected mask says so.
// Condition: f32 or f64; nothing else reads the weights. A selected fill is -infinity, or so low (-1e30) that a score
//            added to it is lost, which is what the additive mask that replaces it does. Rows without any key stay NaN
//            where they were (empty_rows_nan).
// Gain:      no scores and no weights in memory, kv heads not repeated, masks not spread.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

constexpr double kLost = -1e30;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A mask on the way from the softmax down to the product.
struct Mask {
  View view;  // over the scores, of `rank` axes there
  int64_t rank;
  double factor;    // that the scores with this mask are multiplied with
  bool selects;     // else it is added
  bool keep;        // selects: the scores where it is true, else where it is false
  double fill = 0;  // selects: what the others become
};

struct Scores {
  const Op* product = nullptr;
  std::vector<Mask> masks;  // from the softmax down
  double scale = 1, softcap = 0;
  std::optional<Dims> heads;  // [b, h] where a reshape merged or split them
};

// An operand of a product, its axes in the order of the composite: [b, h, s, d], or [n, s, d] where the product has one
// batch axis.
struct Side {
  Value value;
  std::vector<int64_t> order;
};

struct Product {
  Side left, right;
  int64_t batch;     // axes
  bool one_kv_head;  // the right side has no axis for the heads
};

class AttentionRaiser {
 public:
  explicit AttentionRaiser(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) { return op.primitive == &prim::dot_general ? raise(op) : Value{}; });
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
    for (const Value operand : op.operands)
      if (match_.type(operand).dtype != dtype) return {};
    if (a.lhs_contracting.size() != 1 || a.lhs_batching.empty() || a.lhs_batching.size() > 2) return {};
    const int64_t left_inner = a.lhs_contracting[0], right_inner = a.rhs_contracting[0];
    const auto left = free_axes(op.operands[0], a.lhs_batching, left_inner);
    const auto right = free_axes(op.operands[1], a.rhs_batching, right_inner);
    const bool one_kv_head = a.lhs_batching.size() == 1 && left.size() == 2;
    if (right.size() != 1 || (left.size() != 1 && !one_kv_head)) return {};
    Product p{{op.operands[0], a.lhs_batching}, {op.operands[1], a.rhs_batching}, 0, one_kv_head};
    p.batch = one_kv_head ? 2 : static_cast<int64_t>(a.lhs_batching.size());
    p.left.order.insert(p.left.order.end(), left.begin(), left.end());
    p.left.order.push_back(left_inner);
    p.right.order.push_back(right_free_first ? right[0] : right_inner);
    p.right.order.push_back(right_free_first ? right_inner : right[0]);
    return p;
  }

  // x where the op is x times a number (not 0), or divided by one.
  std::optional<std::pair<Value, double>> scaled(const Op& op) const {
    if (op.primitive != &prim::multiply && op.primitive != &prim::divide) return {};
    for (size_t i = 0; i < (op.primitive == &prim::divide ? 1u : 2u); ++i) {
      const std::optional<double> number = match_.number(op.operands[1 - i]);
      if (number && std::isfinite(*number) && *number != 0)
        return std::pair{op.operands[i], op.primitive == &prim::divide ? 1 / *number : *number};
    }
    return {};
  }

  // ---- from the softmax down to the product of q and k

  // [b, h, s, t] against [b * h, s, t]: the reshape joins or parts two leading axes.
  bool joins_heads(const Dims& four, const Dims& three) const {
    return four.size() == 4 && three.size() == 3 && provably_eq(four[0] * four[1], three[0]) &&
           provably_eq(four[2], three[1]) && provably_eq(four[3], three[2]);
  }

  bool through_reshape(const Op& op, Scores& scores) const {
    const Dims &from = match_.shape(op.operands[0]), &to = match_.shape(op.results[0]);
    const Dims& four = from.size() == 4 ? from : to;
    if (!joins_heads(four, from.size() == 4 ? to : from)) return false;
    if (!scores.heads) scores.heads = Dims{four[0], four[1]};
    return descend(op.operands[0], scores);
  }

  bool through_factor(const Op& op, Scores& scores) const {
    const auto found = scaled(op);
    if (!found || found->second < 0) return false;
    scores.scale *= found->second;
    const Op* tanh = match_.defined_by(found->first, prim::tanh);
    if (!tanh) return descend(found->first, scores);
    // factor * tanh(x) = cap * tanh(cap x / cap)
    if (scores.softcap > 0) return false;
    scores.softcap = scores.scale;
    return descend(tanh->operands[0], scores);
  }

  bool through_mask(Value below, Mask mask, Scores& scores) const {
    if (scores.softcap > 0) return false;  // a mask under the cap
    Scores tried = scores;
    mask.rank = match_.rank(below);
    mask.factor = scores.scale;
    tried.masks.push_back(std::move(mask));
    if (!descend(below, tried)) return false;
    scores = std::move(tried);
    return true;
  }

  bool through_sum(const Op& op, Scores& scores) const {
    for (size_t i = 0; i < 2; ++i) {
      Mask mask{match_.strip(match_.whole(op.operands[1 - i])), 0, 1, false, false};
      if (through_mask(op.operands[i], std::move(mask), scores)) return true;
    }
    return false;
  }

  bool through_select(const Op& op, Scores& scores) const {
    for (size_t i = 1; i < 3; ++i) {
      const std::optional<double> fill = match_.number(op.operands[3 - i]);
      if (!fill || !(*fill <= kLost)) continue;
      Mask mask{match_.strip(match_.whole(op.operands[0])), 0, 1, true, i == 1, *fill};
      if (through_mask(op.operands[i], std::move(mask), scores)) return true;
    }
    return false;
  }

  bool descend(Value value, Scores& scores) const {
    const Op* op = match_.definition(value);
    if (!op) return false;
    const Primitive* p = op->primitive;
    if (p == &prim::reshape) return through_reshape(*op, scores);
    if (p == &prim::multiply || p == &prim::divide) return through_factor(*op, scores);
    if (p == &prim::add) return through_sum(*op, scores);
    if (p == &prim::select) return through_select(*op, scores);
    if (p != &prim::dot_general || !product(*op, true)) return false;
    scores.product = op;
    return true;
  }

  // ---- the weights

  struct Weights {
    const Op* softmax = nullptr;
    bool zero_rows = false;      // NaN became 0
    std::optional<Mask> zeroed;  // weights that this mask does not keep became 0
  };

  // From the left operand of the product with v up to the softmax, if nothing else reads what lies between.
  std::optional<Weights> weights(Value value) const {
    Weights w;
    int32_t readers = 1;
    while (const Op* op = match_.definition(value)) {
      if (match_.uses(value) != readers) return {};
      readers = 1;
      if (op->primitive == &composite::softmax) {
        const auto& a = op->as<SoftmaxAttributes>();
        if (a.log || a.axis != match_.rank(value) - 1) return {};
        w.softmax = op;
        return w;
      }
      if (op->primitive == &prim::reshape) {
        const Dims &from = match_.shape(op->operands[0]), &to = match_.shape(value);
        if (!(from.size() == 4 ? joins_heads(from, to) : joins_heads(to, from))) return {};
        value = op->operands[0];
        continue;
      }
      if (op->primitive != &prim::select || w.zero_rows || w.zeroed) return {};
      const Op* compare = match_.defined_by(op->operands[0], prim::compare);
      const bool where_nan = compare && compare->operands[0] == compare->operands[1] &&
                             compare->operands[0] == op->operands[2] &&
                             compare->as<CompareAttributes>().direction == CompareDirection::ne;
      if (where_nan && match_.is_number(op->operands[1], 0)) {
        if (match_.uses(op->operands[0]) != 1) return {};
        w.zero_rows = true;
        readers = 3;
        value = op->operands[2];
        continue;
      }
      const bool keep = match_.is_number(op->operands[2], 0);
      if (!keep && !match_.is_number(op->operands[1], 0)) return {};
      w.zeroed = Mask{match_.strip(match_.whole(op->operands[0])), match_.rank(value), 1, true, keep};
      value = op->operands[keep ? 1 : 2];
    }
    return {};
  }

  // Weights that a mask sets to 0 after the softmax: the same mask as the uppermost before it. It leaves the others as
  // they are, but rows without any key become 0.
  static bool settle_zeroed(const Mask& zeroed, Scores& scores) {
    if (scores.masks.empty()) return false;
    Mask& top = scores.masks.front();
    if (!top.selects || top.keep != zeroed.keep || top.rank != zeroed.rank || !(top.view.base == zeroed.view.base) ||
        top.view.axes != zeroed.view.axes) {
      return false;
    }
    top.fill = -kInfinity;
    return true;
  }

  // ---- the composite

  // The new value without the numbers that it is multiplied with, under transposes and reshapes too.
  Value unscaled(Value value, double& factor) {
    const Op* op = match_.definition(value);
    if (!op) return copier_[value];
    if (const auto found = scaled(*op)) {
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
      } else if (const auto x = scaled(*op)) {
        found *= x->second;
        side.value = x->first;
      } else {
        break;
      }
      op = match_.definition(side.value);
    }
    if (!op || op->primitive != &prim::reshape) return {};
    const Op* spread = match_.defined_by(op->operands[0], prim::broadcast_in_dim);
    if (!spread) return {};
    const Dims &split = match_.shape(op->operands[0]), &joined = match_.shape(side.value);
    const size_t heads = static_cast<size_t>(side.order[1]);
    if (split.size() != 5 || joined.size() != 4) return {};
    for (size_t i = 0; i < 4; ++i) {
      const Dim extent = i < heads ? split[i] : i == heads ? split[i] * split[i + 1] : split[i + 1];
      if (!provably_eq(joined[i], extent)) return {};
    }
    // What is spread has every axis but the one after the kv heads.
    const Value source = spread->operands[0];
    std::vector<int64_t> axes;
    for (const int64_t axis : spread->as<BroadcastInDimAttributes>().dimensions) {
      if (axis == static_cast<int64_t>(heads) + 1) return {};
      axes.push_back(axis > static_cast<int64_t>(heads) ? axis - 1 : axis);
    }
    if (axes != std::vector<int64_t>{0, 1, 2, 3}) return {};
    for (size_t i = 0; i < 4; ++i)
      if (!provably_eq(match_.shape(source)[i], split[i > heads ? i + 1 : i])) return {};
    factor *= found;
    side.value = source;
    return side;
  }

  // [b, h, s, d] from a side's new value, which has three or four axes.
  Value arranged(Value value, const Side& side, const Dims& heads, bool one_head) {
    const Value flat = build_.transpose(value, side.order);
    const Dims shape = build_.shape(flat);
    if (shape.size() == 4) return flat;
    if (one_head) return build_.reshape(flat, {shape[0], 1, shape[1], shape[2]});
    return build_.reshape(flat, {heads[0], heads[1], shape[1], shape[2]});
  }

  // [b, h] of a merged batch axis: as the scores' reshapes or q's say, else every item is its own batch.
  Dims heads_of(const Scores& scores, const Product& p) const {
    if (scores.heads) return *scores.heads;
    const Dims& merged = match_.shape(p.left.value);
    const Op* reshape = match_.definition(p.left.value);
    while (const auto x = reshape ? scaled(*reshape) : std::nullopt) reshape = match_.definition(x->first);
    if (reshape && reshape->primitive != &prim::reshape) reshape = nullptr;
    if (reshape && joins_heads(match_.shape(reshape->operands[0]), merged) && p.left.order[0] == 0) {
      const Dims& four = match_.shape(reshape->operands[0]);
      return {four[0], four[1]};
    }
    return {merged[static_cast<size_t>(p.left.order[0])], 1};
  }

  // The mask with four axes: extents of 1 where it repeats.
  Value four_axes(const Mask& mask, const Dims& heads) {
    Value base = copier_[mask.view.base];
    std::vector<int64_t> axes = mask.view.axes;
    Dims shape(4, Dim(1));
    if (mask.rank == 3) {
      const bool by_item = std::find(axes.begin(), axes.end(), 0) != axes.end();
      if (by_item) {  // [b * h, ...] is parted: first all of its own axes, in order
        const Dims& own = build_.shape(base);
        Dims three(3, Dim(1));
        for (size_t i = 0; i < axes.size(); ++i)
          if (axes[i] >= 0) three[static_cast<size_t>(axes[i])] = own[i];
        base = build_.reshape(ascending(base, axes), three);
        return build_.reshape(base, {heads[0], heads[1], three[1], three[2]});
      }
      for (int64_t& axis : axes) axis += axis < 0 ? 0 : 1;
    }
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] >= 0) shape[static_cast<size_t>(axes[i])] = build_.shape(base)[i];
    return build_.reshape(ascending(base, axes), shape);
  }
  // Transposed so that the places of the axes ascend; axes without a place come first.
  Value ascending(Value base, const std::vector<int64_t>& axes) {
    std::vector<int64_t> order(axes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return axes[static_cast<size_t>(a)] < axes[static_cast<size_t>(b)]; });
    return build_.transpose(base, std::move(order));
  }

  Value chosen(Value keep, Value x, double fill, DType dtype) {
    const Dims shape = broadcast_shapes(build_.shape(keep), x ? build_.shape(x) : Dims(), "attention: masks");
    const Value yes = x ? build_.broadcast_to(x, shape) : build_.splat(dtype, 0, shape);
    return build_.select(build_.broadcast_to(keep, shape), yes, build_.like(yes, fill));
  }

  // All masks as one, from the product up.
  Value combined(const Scores& scores, const Dims& heads, DType dtype) {
    Value keep, added;
    for (size_t i = scores.masks.size(); i-- > 0;) {
      const Mask& mask = scores.masks[i];
      Value x = four_axes(mask, heads);
      if (!mask.selects) {
        if (mask.factor != 1) x = build_.multiply(x, build_.like(x, mask.factor));
        if (added) {
          const auto [a, b] = build_.numpy_broadcast(added, x);
          x = build_.add(a, b);
        }
        added = x;
        continue;
      }
      if (!mask.keep) x = build_.logical_not(x);
      const double fill = mask.fill * mask.factor;
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

  Value raise(const Op& op) {
    const std::optional<Product> values = product(op, false);
    if (!values) return {};
    for (size_t i = 0; i < values->left.order.size(); ++i)
      if (values->left.order[i] != static_cast<int64_t>(i)) return {};
    const std::optional<Weights> weights = this->weights(op.operands[0]);
    if (!weights) return {};
    Scores scores;
    if (!descend(weights->softmax->operands[0], scores)) return {};
    if (weights->zeroed && !settle_zeroed(*weights->zeroed, scores)) return {};
    const Product keys = *product(*scores.product, true);
    if (keys.batch != values->batch || keys.one_kv_head != values->one_kv_head) return {};
    for (const Mask& mask : scores.masks)
      if (mask.selects && !(mask.fill * mask.factor <= kLost)) return {};
    return emit(op, scores, keys, *values, weights->zero_rows || weights->zeroed.has_value());
  }

  Value emit(const Op& op, const Scores& scores, const Product& keys, const Product& values, bool zero_rows) {
    const Dims heads = keys.batch == 1 ? heads_of(scores, keys) : Dims();
    double factor = 1;
    Side k = keys.right, v = values.right;
    double k_factor = 1, v_factor = 1;
    if (!keys.one_kv_head) {
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
    const Value q = arranged(unscaled(keys.left.value, factor), keys.left, heads, false);
    const Value new_k = arranged(unscaled(k.value, factor), k, heads, keys.one_kv_head);
    const Value new_v = arranged(copier_[v.value], v, heads, values.one_kv_head);
    AttentionAttributes attributes;
    attributes.scale = scores.scale * factor;
    attributes.softcap = scores.softcap;
    AttentionExtras extras;
    const DType dtype = match_.type(op.results[0]).dtype;
    if (!scores.masks.empty()) extras.mask = combined(scores, heads, dtype);
    attributes.empty_rows_nan = extras.mask && !zero_rows;
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
