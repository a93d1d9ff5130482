// Raises rotary_embedding.
// Pattern:   x * cos + turn(x) * sin, where turn(x) is [-second half, first half] of the last axis, or the same of each
//            pair of neighbours (interleaved); or both parts by themselves; for x [b, h, s, d], [b, s, h, d], [s, h, d]
//            or [b, s, d]; then perhaps concatenated with the rest of the last axis that x was sliced from.
// Condition: f32 or f64; cos and sin depend on batch and sequence alone and provably hold each angle twice, where the
//            two elements are that it turns: a concatenation or broadcast of one value, elementwise ops of such, rows
//            of a table that says so.
// Gain:      one pass in place of five, half the angles.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

constexpr int kDepth = 16;

enum class Angles : uint8_t { once, halves, pairs };

// A rotary embedding that was made, in case more of x's last axis comes with it.
struct Made {
  Value x;         // old
  Value cos, sin;  // new: [b or 1, s, d / 2]
  bool interleaved;
  std::vector<int64_t> order;  // of [b, h, s, d] among x's axes; -1: there is none
};

class RotaryRaiser {
 public:
  explicit RotaryRaiser(const Program& program) : match_(program), copier_(program), build_(copier_.build()) {
    for (const Parameter& parameter : program.parameters())
      if (parameter.kind == Parameter::Kind::weight && !parameter.trainable && parameter.weight)
        weights_.emplace(parameter.value.id, &parameter.weight);
  }

  Program run() {
    return rewrite(copier_, [&](const Op& op) {
      if (op.primitive == &prim::add) return rotation(op);
      if (op.primitive == &prim::reshape) return parts(op);
      if (op.primitive != &prim::concatenate) return Value{};
      const Value y = with_rest(op);
      return y ? y : parts(op);
    });
  }

 private:
  Dim last_extent(Value value) const { return match_.shape(value).back(); }

  // The value is x's elements [start, limit) of the last axis, with this stride; x may be a slice of that axis itself,
  // so that both were taken from the same value.
  bool is_part(Value value, Value x, Dim start, Dim limit, int64_t stride) const {
    const Op* op = match_.slice_of_last_axis(value);
    if (!op) return false;
    Dim offset = 0;
    if (!(op->operands[0] == x)) {
      const Op* own = match_.slice_of_last_axis(x);
      if (!own || !(own->operands[0] == op->operands[0])) return false;
      const auto& a = own->as<SliceAttributes>();
      if (!provably_eq(a.stride.back(), 1)) return false;
      offset = a.start.back();
    }
    const auto& a = op->as<SliceAttributes>();
    return provably_eq(a.start.back(), offset + start) && provably_eq(a.limit.back(), offset + limit) &&
           provably_eq(a.stride.back(), stride);
  }

  // first and second are x's halves; for pairs the even and the odd elements.
  bool are_halves(Value first, Value second, Value x, bool pairs) const {
    const Dim extent = last_extent(x), half = floor_div(extent, 2);
    if (!provably_eq(half * 2, extent)) return false;
    return pairs ? is_part(first, x, 0, extent, 2) && is_part(second, x, 1, extent, 2)
                 : is_part(first, x, 0, half, 1) && is_part(second, x, half, extent, 1);
  }

  Value negated(Value value) const {
    const Op* op = match_.definition(value);
    if (!op) return {};
    if (op->primitive == &prim::negate) return op->operands[0];
    if (op->primitive != &prim::multiply) return {};
    for (size_t i = 0; i < 2; ++i)
      if (match_.is_number(op->operands[i], -1)) return op->operands[1 - i];
    return {};
  }

  // What a reshape added a last axis of 1 to; else the value.
  Value without_last_one(Value value) const {
    const Op* added = match_.defined_by(value, prim::reshape);
    if (!added) return value;
    const Dims &from = match_.shape(added->operands[0]), &to = match_.shape(value);
    if (to.size() != from.size() + 1) return value;
    for (size_t i = 0; i < from.size(); ++i)
      if (!provably_eq(from[i], to[i])) return value;
    return added->operands[0];
  }

  // `value` is turn(x): interleaved or not.
  std::optional<bool> turned(Value value, Value x) const {
    const Op* op = match_.definition(value);
    if (!op) return {};
    const int64_t last = match_.rank(value) - 1;
    const bool interleaved = op->primitive == &prim::reshape;
    if (interleaved) op = match_.definition(op->operands[0]);  // [..., d / 2, 2]
    if (!op || op->primitive != &prim::concatenate || op->operands.size() != 2) return {};
    if (op->as<AxisAttributes>().axis != last + interleaved) return {};
    Value second = op->operands[0], first = op->operands[1];
    if (interleaved) {
      if (match_.rank(first) != last + 2) return {};
      first = without_last_one(first);
      second = without_last_one(second);
    }
    Value inner = negated(second);
    if (!inner) return {};
    if (interleaved) inner = without_last_one(inner);
    if (match_.rank(x) != last + 1 || !are_halves(first, inner, x, interleaved)) return {};
    return interleaved;
  }

  // ---- each angle twice

  bool table_repeats(const Tensor& table, bool pairs) const {
    if (table.rank() == 0 || is_packed(table.dtype()) || table.size() == 0) return false;
    const int64_t width = table.dim(table.rank() - 1), rows = table.size() / width;
    const size_t item = byte_size(table.dtype(), 1), half = static_cast<size_t>(width / 2) * item;
    const auto* at = static_cast<const std::byte*>(table.bytes());
    for (int64_t row = 0; row < rows; ++row, at += 2 * half) {
      if (!pairs && std::memcmp(at, at + half, half) != 0) return false;
      for (size_t i = 0; pairs && i < 2 * half; i += 2 * item)
        if (std::memcmp(at + i, at + i + item, item) != 0) return false;
    }
    return true;
  }

  // All elements along the axis are the same.
  bool is_same_along(Value value, int64_t axis) const {
    const Op* op = match_.definition(value);
    if (!op) return false;
    if (op->primitive == &prim::concatenate && op->as<AxisAttributes>().axis == axis) {
      const bool ones = provably_eq(match_.shape(op->operands[0])[static_cast<size_t>(axis)], 1);
      return ones && std::all_of(op->operands.begin(), op->operands.end(),
                                 [&](Value operand) { return operand == op->operands[0]; });
    }
    if (op->primitive != &prim::broadcast_in_dim) return false;
    const auto& dimensions = op->as<BroadcastInDimAttributes>().dimensions;
    const auto at = std::find(dimensions.begin(), dimensions.end(), axis);
    return at == dimensions.end() ||
           provably_eq(match_.shape(op->operands[0])[static_cast<size_t>(at - dimensions.begin())], 1);
  }

  // The reshape joins [2, n] (or [n, 2] for pairs) to the axis, and the operand repeats along the 2.
  bool joins_copies(const Op& op, int64_t axis, bool pairs) const {
    const Dims& from = match_.shape(op.operands[0]);
    if (!joins_axes(from, match_.shape(op.results[0]), static_cast<size_t>(axis))) return false;
    const int64_t two = axis + pairs;
    return provably_eq(from[static_cast<size_t>(two)], 2) && is_same_along(op.operands[0], two);
  }

  bool repeats(Value value, int64_t axis, bool pairs, int depth = kDepth) const {
    const Op* op = match_.definition(value);
    if (depth == 0) return false;
    if (!op) {
      const auto weight = weights_.find(value.id);
      return weight != weights_.end() && axis == match_.rank(value) - 1 && table_repeats(*weight->second, pairs);
    }
    const auto inner = [&](Value operand, int64_t at) { return repeats(operand, at, pairs, depth - 1); };
    const Primitive* p = op->primitive;
    if (p == &prim::constant)
      return axis == match_.rank(value) - 1 && table_repeats(op->as<ConstantAttributes>().value, pairs);
    if (p->elementwise) {
      return std::all_of(op->operands.begin(), op->operands.end(), [&](Value operand) {
        return match_.rank(operand) == 0 || match_.number(operand) || inner(operand, axis);
      });
    }
    if (p == &prim::concatenate) {
      if (op->as<AxisAttributes>().axis != axis)
        return std::all_of(op->operands.begin(), op->operands.end(), [&](Value o) { return inner(o, axis); });
      return !pairs && op->operands.size() == 2 && op->operands[0] == op->operands[1];
    }
    if (p == &prim::transpose) return inner(op->operands[0], op->as<AxesAttributes>().axes[static_cast<size_t>(axis)]);
    if (p == &prim::broadcast_in_dim) {
      if (is_same_along(value, axis)) return true;
      const auto& dimensions = op->as<BroadcastInDimAttributes>().dimensions;
      return inner(op->operands[0], std::find(dimensions.begin(), dimensions.end(), axis) - dimensions.begin());
    }
    if (p == &prim::reshape) {
      if (joins_copies(*op, axis, pairs)) return true;
      const View view = match_.strip({value, match_.whole(value).axes});
      const auto at = std::find(view.axes.begin(), view.axes.end(), axis);
      return !(view.base == value) && at != view.axes.end() && inner(view.base, at - view.axes.begin());
    }
    if (p == &prim::slice) {
      const auto& a = op->as<SliceAttributes>();
      const size_t i = static_cast<size_t>(axis);
      return provably_eq(a.start[i], 0) && provably_eq(a.limit[i], match_.shape(op->operands[0])[i]) &&
             provably_eq(a.stride[i], 1) && inner(op->operands[0], axis);
    }
    return p == &prim::gather && gathered_axis(*op, axis) >= 0 && inner(op->operands[0], gathered_axis(*op, axis));
  }

  // The operand's axis that a gather takes whole as this axis of its result; -1: none.
  int64_t gathered_axis(const Op& op, int64_t axis) const {
    const auto& a = op.as<GatherAttributes>();
    const auto offset = std::find(a.offset_dims.begin(), a.offset_dims.end(), axis);
    if (offset == a.offset_dims.end()) return -1;
    int64_t left = offset - a.offset_dims.begin();
    const auto gone = [&](const std::vector<int64_t>& axes, int64_t i) {
      return std::find(axes.begin(), axes.end(), i) != axes.end();
    };
    for (int64_t i = 0; i < match_.rank(op.operands[0]); ++i) {
      if (gone(a.collapsed_slice_dims, i) || gone(a.operand_batching_dims, i)) continue;
      if (left-- > 0) continue;
      const size_t at = static_cast<size_t>(i);
      return provably_eq(a.slice_sizes[at], match_.shape(op.operands[0])[at]) ? i : -1;
    }
    return -1;
  }

  // ---- the composite

  // Where [b, h, s, d] are among x's axes, given those that cos and sin lie along.
  static std::optional<std::vector<int64_t>> order_of(int64_t rank, const View& cos, const View& sin) {
    std::vector<bool> along(static_cast<size_t>(rank));
    for (const View* view : {&cos, &sin})
      for (const int64_t axis : view->axes)
        if (axis >= 0) along[static_cast<size_t>(axis)] = true;
    if (!along[static_cast<size_t>(rank - 1)]) return {};
    if (rank == 4 && !along[1]) return std::vector<int64_t>{0, 1, 2, 3};
    if (rank == 4 && !along[2]) return std::vector<int64_t>{0, 2, 1, 3};
    if (rank == 3 && !along[1]) return std::vector<int64_t>{-1, 1, 0, 2};
    if (rank == 3) return std::vector<int64_t>{0, -1, 1, 2};
    return {};
  }

  // A value that repeats along the axis, with each element once there: elementwise ops are done on the half alone.
  Value each_once(Value value, int64_t axis, bool pairs) {
    const Op* op = match_.definition(value);
    const Dim extent = match_.shape(value)[static_cast<size_t>(axis)], half = floor_div(extent, 2);
    if (op && op->primitive == &prim::concatenate && op->as<AxisAttributes>().axis == axis)
      return copier_[op->operands[0]];
    if (!op || !op->primitive->elementwise || op->results.size() != 1)
      return pairs ? build_.slice_axis(copier_[value], axis, 0, extent, 2)
                   : build_.slice_axis(copier_[value], axis, 0, half);
    Dims shape = match_.shape(value);
    shape[static_cast<size_t>(axis)] = half;
    return elementwise_over(match_, copier_, *op, shape,
                            [&](Value operand) { return each_once(operand, axis, pairs); });
  }

  // cos or sin as [b or 1, s, d / 2]; `are`: how they hold each angle.
  Value angles(const View& view, const std::vector<int64_t>& order, const Dims& x, Angles are) {
    Value value = copier_[view.base];
    Dims shape(3, Dim(1));
    std::vector<std::pair<int64_t, int64_t>> places;  // of each own axis: where it goes (0, 1, 2)
    for (size_t i = 0; i < view.axes.size(); ++i) {
      const auto at = std::find(order.begin(), order.end(), view.axes[i]);
      const int64_t place = view.axes[i] < 0 ? -1 : at == order.begin() ? 0 : (at - order.begin()) - 1;
      places.emplace_back(place, static_cast<int64_t>(i));
      if (place >= 0) shape[static_cast<size_t>(place)] = build_.shape(value)[i];
      if (place != 2) continue;
      if (are != Angles::once) value = each_once(view.base, static_cast<int64_t>(i), are == Angles::pairs);
      shape[2] = floor_div(x.back(), 2);
    }
    if (order[2] >= 0) shape[1] = x[static_cast<size_t>(order[2])];
    std::stable_sort(places.begin(), places.end());
    std::vector<int64_t> permutation;
    for (const auto& [place, axis] : places) permutation.push_back(axis);
    value = build_.transpose(value, permutation);
    const bool whole_sequence = std::any_of(places.begin(), places.end(), [](const auto& p) { return p.first == 1; });
    if (whole_sequence || provably_eq(shape[1], 1)) return build_.reshape(value, shape);
    const Dims one{shape[0], 1, shape[2]};
    return build_.broadcast_in_dim(build_.reshape(value, one), shape, {0, 1, 2});
  }

  // Batch extents that differ: both get x's.
  void align(Made& made, const Dims& x) {
    const Dims &cos = build_.shape(made.cos), &sin = build_.shape(made.sin);
    if (provably_eq(cos[0], sin[0])) return;
    const Dims shape{x[static_cast<size_t>(made.order[0])], cos[1], cos[2]};
    made.cos = build_.broadcast_in_dim(made.cos, shape, {0, 1, 2});
    made.sin = build_.broadcast_in_dim(made.sin, shape, {0, 1, 2});
  }

  Value emit(const Made& made) {
    Value x = copier_[made.x];
    const Dims shape = build_.shape(x);
    std::vector<int64_t> order = made.order, back(4);
    if (shape.size() == 3) {
      const bool items = order[0] < 0;  // [s, h, d] or [b, s, d]
      x = build_.reshape(x, items ? Dims{1, shape[0], shape[1], shape[2]} : Dims{shape[0], shape[1], 1, shape[2]});
      order = {0, 2, 1, 3};
    }
    for (size_t i = 0; i < 4; ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    const Value y = rotary_embedding(build_, build_.transpose(x, order), made.cos, made.sin, made.interleaved);
    return build_.reshape(build_.transpose(y, back), shape);
  }

  Value rotation(const Op& op) {
    const DType dtype = match_.type(op.results[0]).dtype;
    if (dtype != DType::f32 && dtype != DType::f64) return {};
    for (size_t i = 0; i < 2; ++i) {
      const Op* plain = match_.defined_by(op.operands[i], prim::multiply);
      const Op* across = match_.defined_by(op.operands[1 - i], prim::multiply);
      if (!plain || !across) continue;
      for (size_t j = 0; j < 4; ++j) {
        const Value x = plain->operands[j / 2], turn = across->operands[j % 2];
        const std::optional<bool> interleaved = turned(turn, x);
        if (!interleaved) continue;
        const Angles are = *interleaved ? Angles::pairs : Angles::halves;
        const Value cos = plain->operands[1 - j / 2], sin = across->operands[1 - j % 2];
        if (const Value y = rotated(op, x, cos, sin, *interleaved, are)) return y;
      }
    }
    return {};
  }

  // The composite in place of `op`; `are`: how the values that x is multiplied with hold each angle.
  Value rotated(const Op& op, Value x, Value with_cos, Value with_sin, bool interleaved, Angles are) {
    const View cos = match_.strip(match_.whole(with_cos)), sin = match_.strip(match_.whole(with_sin));
    const Dims& shape = match_.shape(x);
    const auto order = order_of(static_cast<int64_t>(shape.size()), cos, sin);
    if (!order) return {};
    for (const View* view : {&cos, &sin}) {
      const auto at = std::find(view->axes.begin(), view->axes.end(), static_cast<int64_t>(shape.size()) - 1);
      if (at == view->axes.end()) return {};
      if (are != Angles::once && !repeats(view->base, at - view->axes.begin(), interleaved)) return {};
    }
    Made made{x, angles(cos, *order, shape, are), angles(sin, *order, shape, are), interleaved, *order};
    align(made, shape);
    const Value y = emit(made);
    made_.emplace(op.results[0].id, std::move(made));
    return y;
  }

  // [a cos - b sin, b cos + a sin] of the halves a, b of x, or of its even and odd elements, which a reshape mixes
  // again.
  Value parts(const Op& op) {
    const bool interleaved = op.primitive == &prim::reshape;
    const Op* joined = interleaved ? match_.defined_by(op.operands[0], prim::concatenate) : &op;
    const int64_t last = match_.rank(op.results[0]) - 1;
    if (!joined || joined->operands.size() != 2 || joined->as<AxisAttributes>().axis != last + interleaved) return {};
    Value first = joined->operands[0], second = joined->operands[1];
    if (interleaved) {
      first = without_last_one(first);
      second = without_last_one(second);
    }
    const Op *difference = match_.defined_by(first, prim::subtract), *sum = match_.defined_by(second, prim::add);
    if (!difference || !sum || match_.rank(first) != last + 1) return {};
    const DType dtype = match_.type(first).dtype;
    if (dtype != DType::f32 && dtype != DType::f64) return {};
    const Op *a_cos = match_.defined_by(difference->operands[0], prim::multiply),
             *b_sin = match_.defined_by(difference->operands[1], prim::multiply);
    if (!a_cos || !b_sin) return {};
    for (size_t i = 0; i < 4; ++i) {
      const Value a = a_cos->operands[i / 2], cos = a_cos->operands[1 - i / 2];
      const Value b = b_sin->operands[i % 2], sin = b_sin->operands[1 - i % 2];
      const bool crossed = (is_product(sum->operands[0], b, cos) && is_product(sum->operands[1], a, sin)) ||
                           (is_product(sum->operands[1], b, cos) && is_product(sum->operands[0], a, sin));
      if (!crossed) continue;
      const Op* slice = match_.slice_of_last_axis(a);
      if (!slice) continue;
      const Value x = slice->operands[0];
      if (match_.rank(x) != last + 1 || !are_halves(a, b, x, interleaved)) continue;
      if (const Value y = rotated(op, x, cos, sin, interleaved, Angles::once)) return y;
    }
    return {};
  }

  bool is_product(Value value, Value a, Value b) const {
    const Op* op = match_.defined_by(value, prim::multiply);
    return op && ((op->operands[0] == a && op->operands[1] == b) || (op->operands[0] == b && op->operands[1] == a));
  }

  // [rotated start of x's last axis, the rest as it is]
  Value with_rest(const Op& op) {
    if (op.operands.size() != 2 || op.as<AxisAttributes>().axis != match_.rank(op.results[0]) - 1) return {};
    const auto found = made_.find(op.operands[0].id);
    if (found == made_.end()) return {};
    const Op* start = match_.slice_of_last_axis(found->second.x);
    if (!start) return {};
    const Value x = start->operands[0];
    const Dim cut = last_extent(found->second.x);
    if (!is_part(found->second.x, x, 0, cut, 1) || !is_part(op.operands[1], x, cut, last_extent(x), 1)) return {};
    Made made = found->second;
    made.x = x;
    return emit(made);
  }

  const Matcher match_;
  Copier copier_;
  Builder& build_;
  std::unordered_map<int32_t, const Tensor*> weights_;
  std::unordered_map<int32_t, Made> made_;  // by old value
};

}  // namespace

Program raise_rotary(const Program& program) { return RotaryRaiser(program).run(); }

}  // namespace transmuter::ir
