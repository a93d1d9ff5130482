// Raises softmax and log_softmax.
// Pattern:   e / sum(e) or e * (1 / sum(e)) with e = exp(x - max(x)); (x - max(x)) - log(sum(e)).
// Condition: f32 or f64, one and the same axis. Without the maximum it stays: there large scores overflow.
// Gain:      one pass over x; and what raise_attention looks for.
#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

struct Softmax {
  Value x;
  int64_t axis = -1;
};

// exp(x - max(x)) along one axis.
std::optional<Softmax> powers(const Matcher& match, Value value) {
  const Op* exponential = match.defined_by(value, prim::exponential);
  const Op* difference = exponential ? match.defined_by(exponential->operands[0], prim::subtract) : nullptr;
  if (!difference) return {};
  const Value x = difference->operands[0];
  const DType dtype = match.type(x).dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return {};
  const Op* greatest = match.reduction(match.whole(difference->operands[1]), ReduceKind::max, x);
  if (!greatest || reduced_axes(*greatest).size() != 1) return {};
  return Softmax{x, reduced_axes(*greatest)[0]};
}

// `view` is the sum of `value` = exp(x - max(x)) along the same axis.
std::optional<Softmax> summed(const Matcher& match, const View& view, Value value) {
  const std::optional<Softmax> softmax = powers(match, value);
  const Op* sum = softmax ? match.reduction(view, ReduceKind::add, value) : nullptr;
  if (!sum || reduced_axes(*sum) != std::vector{softmax->axis}) return {};
  return softmax;
}

std::optional<Softmax> quotient(const Matcher& match, const Op& op) {
  if (op.primitive == &prim::divide) return summed(match, match.whole(op.operands[1]), op.operands[0]);
  if (op.primitive != &prim::multiply) return {};
  for (size_t i = 0; i < 2; ++i) {
    const View inverse = match.strip(match.whole(op.operands[i]));
    const Op* divide = match.defined_by(inverse.base, prim::divide);
    if (!divide || !match.is_number(divide->operands[0], 1)) continue;
    if (auto found = summed(match, match.operand(inverse, divide->operands[1]), op.operands[1 - i])) return found;
  }
  return {};
}

std::optional<Softmax> logarithm(const Matcher& match, const Op& op) {
  if (op.primitive != &prim::subtract) return {};
  const View right = match.strip(match.whole(op.operands[1]));
  const Op* log = match.defined_by(right.base, prim::log);
  if (!log) return {};
  const View sum = match.strip(match.operand(right, log->operands[0]));
  const Op* reduction = match.reduction(sum, ReduceKind::add);
  if (!reduction) return {};
  const Value value = reduction->operands[0];
  const Op* exponential = match.defined_by(value, prim::exponential);
  if (!exponential || !(exponential->operands[0] == op.operands[0])) return {};
  return summed(match, sum, value);
}

}  // namespace

Program raise_softmax(const Program& program) {
  const Matcher match(program);
  Copier copier(program);
  return rewrite(copier, [&](const Op& op) {
    if (const auto found = quotient(match, op)) return softmax(copier.build(), copier[found->x], found->axis);
    if (const auto found = logarithm(match, op)) return log_softmax(copier.build(), copier[found->x], found->axis);
    return Value{};
  });
}

}  // namespace transmuter::ir
