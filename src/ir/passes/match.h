// What the raising passes look at a program with: definitions, uses, numbers repeated everywhere, and values seen from
// a larger shape through broadcasts, transposes and extents of 1. Everything is settled by provably_eq: no guard, no
// assertion.
#pragma once

#include <optional>
#include <vector>

#include "ir/passes/copier.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {

// A value seen from a larger shape: axis i of `base` lies along axis axes[i] there; -1: an extent of 1, which repeats.
struct View {
  Value base;
  std::vector<int64_t> axes;
};

class Matcher {
 public:
  explicit Matcher(const Program& program);

  const Program& program() const { return program_; }
  const Type& type(Value value) const { return program_.type(value); }
  const Dims& shape(Value value) const { return type(value).shape; }
  int64_t rank(Value value) const { return type(value).rank(); }
  // The op that gives the value; null for parameters.
  const Op* definition(Value value) const { return definitions_[static_cast<size_t>(value.id)]; }
  const Op* defined_by(Value value, const Primitive& primitive) const;
  // How often the value is an operand or a result of the program.
  int32_t uses(Value value) const { return uses_[static_cast<size_t>(value.id)]; }

  // The number that the value repeats everywhere (never NaN).
  std::optional<double> number(Value value) const;
  bool is_number(Value value, double wanted) const;
  // It repeats this extent, as a constant or as a dim_value.
  bool is_extent(Value value, Dim extent) const;

  View whole(Value value) const;
  // Through broadcasts, transposes, and reshapes that only add or drop extents of 1.
  View strip(View view) const;
  // The same axes for an operand of the elementwise op that gives view.base.
  View operand(const View& view, Value of_op) const { return {of_op, view.axes}; }
  // The stripped view's reduction (null if it isn't one of this kind) along the axes where the view repeats: every
  // other axis of what is reduced lies where it does in the larger shape, which is that of `x` if x is given.
  const Op* reduction(const View& view, ReduceKind kind, Value x = {}) const;
  // Likewise the sum divided by the number of elements in it.
  const Op* mean(const View& view, Value x = {}) const;
  // x where the value is x * x or x to the power of 2.
  Value square_root_of(Value value) const;
  // The one operand that isn't a number or 0-d; invalid: there is none, or more than one.
  Value only_operand(const Op& op) const;
  // The slice that gives the value, where it takes everything of all axes but the last; else null.
  const Op* slice_of_last_axis(Value value) const;

 private:
  const Program& program_;
  std::vector<const Op*> definitions_;
  std::vector<int32_t> uses_;
};

bool close_to(double a, double b);  // but for rounding to f32
const std::vector<int64_t>& reduced_axes(const Op& reduction);
// `to` is `from` with its axes `axis` and `axis` + 1 as one.
bool joins_axes(const Dims& from, const Dims& to, size_t axis);

// In the new program: the view's base with its axes in ascending order of where they lie, those from `first` on, spread
// over the shape.
Value spread_over(Copier& copier, const View& view, int64_t first, const Dims& shape);

// In the new program: what `move`, a transpose, reshape or broadcast of the old one, makes of a value of its operand's
// shape.
Value moved_again(const Matcher& match, Builder& build, const Op& move, Value value);

// In the new program: an elementwise op over another shape. 0-d operands stay, numbers repeat over that shape, the
// others are what `operand(old)` gives.
template <class Operand>
Value elementwise_over(const Matcher& match, Copier& copier, const Op& op, const Dims& shape, const Operand& operand) {
  Builder& build = copier.build();
  std::vector<Value> operands;
  for (const Value old : op.operands) {
    if (match.rank(old) == 0)
      operands.push_back(copier[old]);
    else if (const std::optional<double> number = match.number(old))
      operands.push_back(build.splat(match.type(old).dtype, *number, shape));
    else
      operands.push_back(operand(old));
  }
  const Type type{match.type(op.results[0]).dtype, shape};
  return build.emit_copy(op, std::move(operands), {type}, copier.location(op))[0];
}

// A program in which `rule(op)` gave values of the new program for some ops of one result ({}: copied as it is).
template <class Rule>
Program rewrite(Copier& copier, Rule&& rule) {
  for (const Op& op : copier.from().ops()) {
    copier.locate(op);
    const Value value = op.results.size() == 1 ? rule(op) : Value{};
    if (value)
      copier.set(op.results[0], value);
    else
      copier.copy(op);
  }
  return copier.finish();
}

}  // namespace transmuter::ir
