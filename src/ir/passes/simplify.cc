// Local identities. Each rule looks at one op and at the definitions of its operands in the new program, decides with
// provably_eq alone, and gives a value that takes the op's place; nothing else changes. What a rule leaves unused, dce
// drops. Results stay bit for bit, but for x + 0, which would turn -0 into 0.
#include <algorithm>
#include <cmath>

#include "ir/passes/copier.h"
#include "ir/passes/passes.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {

namespace {

bool is(Dim a, int64_t value) { return provably_eq(a, value); }

// `to` holds every value of `from` exactly, with sign and NaN.
bool widens(DType from, DType to) {
  if (from == DType::boolean) return is_integer(to) || is_float(to);
  if (is_packed(from) || is_packed(to) || is_complex(to)) return false;
  if (is_integer(from) && is_integer(to)) {
    if (is_unsigned_integer(from)) return bit_width(to) > bit_width(from);
    return is_signed_integer(to) && bit_width(to) > bit_width(from);
  }
  if (from == DType::f16 || from == DType::bf16) return to == DType::f32 || to == DType::f64;
  return from == DType::f32 && to == DType::f64;
}

class Simplifier {
 public:
  explicit Simplifier(const Program& program) : copier_(program), b_(copier_.build()) {}

  Program run() {
    for (const Op& op : copier_.from().ops()) {
      copier_.locate(op);
      Value value = op.results.size() == 1 ? rewrite(op) : Value{};
      if (value)
        copier_.set(op.results[0], value);
      else
        copier_.copy(op);
    }
    return copier_.finish();
  }

 private:
  Value operand(const Op& op, size_t i) { return copier_[op.operands[i]]; }
  const Op* defined_by(Value value, const Primitive& primitive) {
    const Op* op = b_.definition(value);
    return op && op->primitive == &primitive ? op : nullptr;
  }

  // A new op in place of `op`, of the same type: no inference, so nothing can be asserted.
  Value instead(const Op& op, const Primitive& primitive, Value x, AttributesPtr attributes) {
    Op now{&primitive, {}, std::move(attributes), {}, {}, -1};
    return b_.emit_copy(now, {x}, {copier_.from().type(op.results[0])}, copier_.location(op))[0];
  }
  Value splat_instead(const Op& op, Value scalar) {
    const Dims& shape = copier_.from().type(op.results[0]).shape;
    return instead(op, prim::broadcast_in_dim, scalar,
                   std::make_shared<BroadcastInDimAttributes>(shape, std::vector<int64_t>()));
  }

  // The number that a value repeats everywhere; NaN for anything else (and for NaN).
  double splat(Value value) {
    if (const Op* op = defined_by(value, prim::broadcast_in_dim)) value = op->operands[0];
    const Tensor* constant = b_.constant_value(value);
    if (!constant || constant->size() != 1 || is_packed(constant->dtype()) || is_complex(constant->dtype()))
      return std::nan("");
    return constant->aligned().cast(DType::f64).data<double>()[0];
  }

  Value rewrite(const Op& op) {
    const Primitive* p = op.primitive;
    if (op.operands.empty()) return {};
    if (p == &prim::broadcast_in_dim) return broadcast(op);
    if (p == &prim::reshape) return reshape(op);
    if (p == &prim::transpose) return transpose(op);
    if (p == &prim::convert) return convert(op);
    if (p == &prim::slice) return slice(op);
    if (p == &prim::pad) return pad(op);
    if (p == &prim::concatenate) return concatenate(op);
    if (p == &prim::reverse) return reverse(op);
    if (p == &prim::reduce) return reduce(op);
    if (p == &prim::select) return select(op);
    if (p == &prim::negate || p == &prim::logical_not) return involution(op);
    if (op.operands.size() == 2) return binary(op);
    return {};
  }

  // f(f(x)) = x
  Value involution(const Op& op) {
    const Op* inner = defined_by(operand(op, 0), *op.primitive);
    return inner ? inner->operands[0] : Value{};
  }

  Value binary(const Op& op) {
    const Primitive* p = op.primitive;
    Value a = operand(op, 0), b = operand(op, 1);
    // Neutral elements on the right, and on the left where the operator commutes.
    double neutral = p == &prim::add || p == &prim::subtract || p == &prim::shift_left ? 0
                     : p == &prim::multiply || p == &prim::divide || p == &prim::power ? 1
                                                                                       : std::nan("");
    if (b_.dtype(a) == DType::boolean)
      neutral = p == &prim::logical_and || p == &prim::multiply                        ? 1
                : p == &prim::logical_or || p == &prim::logical_xor || p == &prim::add ? 0
                                                                                       : std::nan("");
    bool commutes = p == &prim::add || p == &prim::multiply || p == &prim::logical_and || p == &prim::logical_or ||
                    p == &prim::logical_xor;
    if (!std::isnan(neutral)) {
      if (splat(b) == neutral) return a;
      if (commutes && splat(a) == neutral) return b;
    }
    bool idempotent = p == &prim::maximum || p == &prim::minimum || p == &prim::logical_and || p == &prim::logical_or;
    return idempotent && a == b ? a : Value{};
  }

  Value select(const Op& op) {
    Value yes = operand(op, 1), no = operand(op, 2);
    if (yes == no) return yes;
    double chosen = splat(operand(op, 0));
    return std::isnan(chosen) ? Value{} : chosen != 0 ? yes : no;
  }

  Value convert(const Op& op) {
    Value x = operand(op, 0);
    DType to = op.as<ConvertAttributes>().dtype;
    if (b_.dtype(x) == to) return x;
    const Op* inner = defined_by(x, prim::convert);
    if (!inner || !widens(b_.dtype(inner->operands[0]), b_.dtype(x))) return {};
    return b_.convert(inner->operands[0], to);
  }

  Value broadcast(const Op& op) {
    const auto& a = op.as<BroadcastInDimAttributes>();
    Value x = operand(op, 0);
    std::vector<int64_t> dimensions = a.dimensions;
    bool ascending = std::is_sorted(dimensions.begin(), dimensions.end());
    bool changed = false;
    if (const Op* inner = defined_by(x, prim::broadcast_in_dim)) {
      const auto& inner_dimensions = inner->as<BroadcastInDimAttributes>().dimensions;
      std::vector<int64_t> composed;
      for (int64_t axis : inner_dimensions) composed.push_back(dimensions[static_cast<size_t>(axis)]);
      dimensions = std::move(composed);
      x = inner->operands[0];
      changed = true;
    } else if (const Op* added = defined_by(x, prim::reshape); added && ascending) {
      // A reshape that only inserts extents of 1.
      Value source = added->operands[0];
      std::vector<int64_t> kept = inserted_ones(b_.shape(source), b_.shape(x));
      if (kept.size() == b_.shape(source).size() && !(kept.empty() && b_.rank(source) > 0)) {
        std::vector<int64_t> composed;
        for (int64_t axis : kept) composed.push_back(dimensions[static_cast<size_t>(axis)]);
        dimensions = std::move(composed);
        x = source;
        changed = true;
      }
    }
    if (!changed) {
      if (dimensions.size() == a.shape.size() && ascending && provably_same(b_.shape(x), a.shape)) return x;
      return {};
    }
    return instead(op, prim::broadcast_in_dim, x,
                   std::make_shared<BroadcastInDimAttributes>(a.shape, std::move(dimensions)));
  }

  // Where each extent of `from` stands in `to`, if `to` is `from` with extents of 1 put in; else empty.
  std::vector<int64_t> inserted_ones(const Dims& from, const Dims& to) {
    std::vector<int64_t> kept;
    size_t next = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      size_t left_to = to.size() - i, left_from = from.size() - next;
      if (next < from.size() && provably_eq(from[next], to[i]) && !(is(to[i], 1) && left_to > left_from)) {
        kept.push_back(static_cast<int64_t>(i));
        ++next;
      } else if (!is(to[i], 1)) {
        return {};
      }
    }
    if (next != from.size()) kept.clear();
    return kept;
  }

  Value reshape(const Op& op) {
    Value x = operand(op, 0);
    const Dims& to = op.as<ReshapeAttributes>().shape;
    if (provably_same(b_.shape(x), to)) return x;
    if (const Op* inner = defined_by(x, prim::reshape)) {
      Value source = inner->operands[0];
      return provably_same(b_.shape(source), to) ? source : instead(op, prim::reshape, source, op.attributes);
    }
    if (const Op* inner = defined_by(x, prim::broadcast_in_dim); inner && b_.rank(inner->operands[0]) == 0)
      return splat_instead(op, inner->operands[0]);
    if (const Op* inner = defined_by(x, prim::transpose)) return ones_below(op, *inner);
    return {};
  }

  // Extents of 1 put in above a transpose of repeated heads (a reshape of a broadcast): below it they are the reshape's
  // matter. Elsewhere they stay, for a broadcast above takes them in.
  Value ones_below(const Op& op, const Op& transpose) {
    const Dims &from = b_.shape(operand(op, 0)), &to = op.as<ReshapeAttributes>().shape;
    const Value source = transpose.operands[0];
    const std::vector<int64_t> kept = inserted_ones(from, to);
    const Op* joined = defined_by(source, prim::reshape);
    if (kept.empty() || !joined || !defined_by(joined->operands[0], prim::broadcast_in_dim)) return {};
    const std::vector<int64_t>& permutation = transpose.as<AxesAttributes>().axes;
    const int64_t ones = static_cast<int64_t>(to.size() - from.size());
    Dims shape(static_cast<size_t>(ones), Dim(1));
    for (const Dim& extent : b_.shape(source)) shape.push_back(extent);
    std::vector<int64_t> axes(to.size(), -1);
    for (size_t i = 0; i < kept.size(); ++i) axes[static_cast<size_t>(kept[i])] = ones + permutation[i];
    int64_t next = 0;
    for (int64_t& axis : axes) axis = axis < 0 ? next++ : axis;
    return instead(op, prim::transpose, b_.reshape(source, std::move(shape)),
                   std::make_shared<AxesAttributes>(std::move(axes)));
  }

  Value transpose(const Op& op) {
    Value x = operand(op, 0);
    const std::vector<int64_t>& permutation = op.as<AxesAttributes>().axes;
    if (std::is_sorted(permutation.begin(), permutation.end())) return x;
    if (const Op* inner = defined_by(x, prim::transpose)) {
      std::vector<int64_t> composed;
      for (int64_t axis : permutation) composed.push_back(inner->as<AxesAttributes>().axes[static_cast<size_t>(axis)]);
      if (std::is_sorted(composed.begin(), composed.end())) return inner->operands[0];
      return instead(op, prim::transpose, inner->operands[0], std::make_shared<AxesAttributes>(std::move(composed)));
    }
    if (const Op* inner = defined_by(x, prim::broadcast_in_dim)) {
      const auto& a = inner->as<BroadcastInDimAttributes>();
      std::vector<int64_t> dimensions;
      for (int64_t axis : a.dimensions)
        dimensions.push_back(std::find(permutation.begin(), permutation.end(), axis) - permutation.begin());
      Dims to;
      for (int64_t axis : permutation) to.push_back(a.shape[static_cast<size_t>(axis)]);
      return instead(op, prim::broadcast_in_dim, inner->operands[0],
                     std::make_shared<BroadcastInDimAttributes>(std::move(to), std::move(dimensions)));
    }
    return {};
  }

  Value slice(const Op& op) {
    Value x = operand(op, 0);
    const auto& a = op.as<SliceAttributes>();
    const Dims& to = copier_.from().type(op.results[0]).shape;
    auto all = [](const Dims& dims, int64_t value) {
      return std::all_of(dims.begin(), dims.end(), [&](Dim d) { return is(d, value); });
    };
    if (all(a.start, 0) && all(a.stride, 1) && provably_same(a.limit, b_.shape(x))) return x;
    if (const Op* inner = defined_by(x, prim::broadcast_in_dim); inner && b_.rank(inner->operands[0]) == 0)
      return splat_instead(op, inner->operands[0]);
    const Op* inner = defined_by(x, prim::slice);
    if (!inner || !all(a.stride, 1) || !all(inner->as<SliceAttributes>().stride, 1)) return {};
    const Dims& offset = inner->as<SliceAttributes>().start;
    Dims start, limit;
    for (size_t i = 0; i < to.size(); ++i) {
      start.push_back(offset[i] + a.start[i]);
      limit.push_back(offset[i] + a.limit[i]);
    }
    return instead(op, prim::slice, inner->operands[0],
                   std::make_shared<SliceAttributes>(std::move(start), std::move(limit), a.stride));
  }

  Value pad(const Op& op) {
    const auto& a = op.as<PadAttributes>();
    for (const Dims* dims : {&a.low, &a.high, &a.interior})
      for (Dim d : *dims)
        if (!is(d, 0)) return {};
    return operand(op, 0);
  }

  // Empty operands go.
  Value concatenate(const Op& op) {
    int64_t axis = op.as<AxisAttributes>().axis;
    std::vector<Value> kept;
    for (Value old : op.operands)
      if (!is(b_.shape(copier_[old])[static_cast<size_t>(axis)], 0)) kept.push_back(copier_[old]);
    if (kept.empty() || (kept.size() == op.operands.size() && kept.size() > 1)) return {};
    if (kept.size() == 1) return kept[0];
    Op now{op.primitive, {}, op.attributes, {}, {}, -1};
    return b_.emit_copy(now, std::move(kept), {copier_.from().type(op.results[0])}, copier_.location(op))[0];
  }

  Value reverse(const Op& op) {
    Value x = operand(op, 0);
    for (int64_t axis : op.as<AxesAttributes>().axes)
      if (!is(b_.shape(x)[static_cast<size_t>(axis)], 1)) return {};
    return x;
  }

  // Over extents of 1 nothing is left to do but to drop them.
  Value reduce(const Op& op) {
    Value x = operand(op, 0);
    for (int64_t axis : op.as<ReduceAttributes>().axes)
      if (!is(b_.shape(x)[static_cast<size_t>(axis)], 1)) return {};
    return instead(op, prim::reshape, x, std::make_shared<ReshapeAttributes>(copier_.from().type(op.results[0]).shape));
  }

  Copier copier_;
  Builder& b_;
};

}  // namespace

Program simplify(const Program& program) { return Simplifier(program).run(); }

}  // namespace transmuter::ir
