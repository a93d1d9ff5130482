// Atoms other than quotients: min, max, truth values, select. Each is folded where ranges settle it.
#include <algorithm>
#include <numeric>

#include "base/dim_table.h"

namespace transmuter {

ExprId Table::add(ExprId x, ExprId y, int64_t scale) {
  if (is_constant(y) && nodes[y].value == 0) return x;
  return from_terms(add_scaled(terms_of(x), terms_of(y), scale));
}

ExprId Table::multiply(ExprId x, ExprId y) {
  if (is_constant(x) && nodes[x].value == 1) return y;
  if (is_constant(y) && nodes[y].value == 1) return x;
  return from_terms(multiply(terms_of(x), terms_of(y)));
}

ExprId Table::min_max(Kind kind, ExprId x, ExprId y) {
  const bool is_min = kind == Kind::min;
  if (proves_le(x, y)) return is_min ? x : y;
  if (proves_le(y, x)) return is_min ? y : x;
  if (is_constant(x)) std::swap(x, y);
  const Node inner = nodes[x];
  if (is_constant(y) && inner.kind == kind && is_constant(inner.b)) {  // min(min(z, c), d): c > d here
    return min_max(kind, inner.a, y);
  }
  if (!is_constant(y) && y < x) std::swap(x, y);
  Node node;
  node.kind = kind;
  node.a = x;
  node.b = y;
  node.value = is_min ? std::min(hint(x), hint(y)) : std::max(hint(x), hint(y));
  return intern(node);
}

ExprId Table::truth(ExprId x) {
  const Interval r = nodes[x].range;
  if (r.low >= 0 && r.high <= 1) return x;
  return add(constant(1), is_zero(terms_of(x)), -1);
}

ExprId Table::negated(ExprId x) const {
  const Node& node = nodes[x];
  if (node.kind != Kind::sum || node.b != 2) return 0;
  const Term* const terms = term_pool.data() + node.a;
  if (terms[0].mono != 0 || terms[0].coefficient != 1 || terms[1].coefficient != -1 || degree(terms[1].mono) != 1)
    return 0;
  const ExprId atom = atoms(terms[1].mono)[0];
  return nodes[atom].range.low >= 0 && nodes[atom].range.high <= 1 ? atom : 0;
}

ExprId Table::equal(ExprId x, ExprId y) {
  if (x == y) return constant(1);
  const Interval r = nodes[x].range, s = nodes[y].range;
  if ((r.low > s.high) || (s.low > r.high)) return constant(0);
  // INT64_MIN has no opposite.
  if (is_constant(y) && nodes[y].value == INT64_MIN) std::swap(x, y);
  return is_zero(add_scaled(terms_of(x), terms_of(y), -1));
}

ExprId Table::less_equal(ExprId x, ExprId y, int64_t offset) {
  const Interval r = nodes[x].range, s = nodes[y].range;
  if (offset == 0 ? r.high <= s.low : r.high < s.low) return constant(1);
  if (offset == 0 ? r.low > s.high : r.low >= s.high) return constant(0);
  // The offset goes to a constant side first: a bound near the end of the range must not overflow on the way.
  if (offset != 0 && is_constant(x)) return less_equal(constant(nodes[x].value + offset), y);
  if (offset != 0 && is_constant(y)) return less_equal(x, constant(nodes[y].value - offset));
  return is_nonneg(add_constant(add_scaled(terms_of(y), terms_of(x), -1), -offset));
}

namespace {

int64_t divisor_of_coefficients(const Terms& terms) {
  int64_t divisor = 0;
  for (const Term& term : terms)
    if (term.mono != 0) divisor = std::gcd(divisor, term.coefficient);
  return divisor <= 0 ? 1 : divisor;
}

// Whether the first term that is not constant is negative: of x and -x we keep the other.
bool is_flipped(const Terms& terms) { return terms[terms[0].mono == 0 ? 1 : 0].coefficient < 0; }

bool is_truth(const Interval& r) { return r.low >= 0 && r.high <= 1; }

}  // namespace

ExprId Table::is_zero(Terms terms) {
  if (terms.empty()) return constant(1);
  if (terms.size() == 1 && terms[0].mono == 0) return constant(0);
  terms = without_common_factor(terms);
  if (terms.size() == 1 && terms[0].mono == 0) return constant(0);
  const int64_t divisor = divisor_of_coefficients(terms);
  if (terms[0].mono == 0 && terms[0].coefficient % divisor != 0) return constant(0);
  const bool has_opposite = terms[0].coefficient != INT64_MIN;
  const int64_t scale = is_flipped(terms) && has_opposite ? -divisor : divisor;
  for (Term& term : terms) term.coefficient /= scale;

  const Interval r = range(terms);
  if (r.low > 0 || r.high < 0) return constant(0);
  const int64_t at_hint = hint(terms);
  if (at_hint > 0 && proves_nonneg(add_constant(terms, -1))) return constant(0);
  if (at_hint < 0 && proves_nonneg(complement(terms))) return constant(0);

  for (size_t t = 0; t < terms.size(); ++t) {
    if (degree(terms[t].mono) != 1) continue;
    const ExprId atom = atoms(terms[t].mono)[0];
    const Node node = nodes[atom];
    if (terms.size() <= 2 && terms[t].coefficient == 1 && is_truth(node.range)) {
      if (terms.size() == 1) return add(constant(1), atom, -1);
      if (terms[0].mono == 0 && terms[0].coefficient == -1) return atom;
    }
    if (node.kind == Kind::select && nodes[node.b].depth == 0 && nodes[node.c].depth == 0) {
      const ExprId if_true = is_zero(substitute(terms, t, atom, terms_of(node.b)));
      const ExprId if_false = is_zero(substitute(terms, t, atom, terms_of(node.c)));
      if (is_constant(if_true) && is_constant(if_false)) return select(node.a, if_true, if_false);
    }
  }
  Node node;
  node.kind = Kind::is_zero;
  node.a = from_terms(terms);
  node.value = at_hint == 0;
  return intern(node);
}

ExprId Table::is_nonneg(Terms terms) {
  if (terms.empty()) return constant(1);
  if (terms.size() == 1 && terms[0].mono == 0) return constant(terms[0].coefficient >= 0);
  const int64_t divisor = divisor_of_coefficients(terms);
  if (divisor > 1) {
    Terms reduced;
    for (const Term& term : terms) {
      const int64_t c = floor_quotient(term.coefficient, divisor);
      if (c != 0) reduced.push_back({term.mono, c});
    }
    terms = reduced;
  }
  const Interval r = range(terms);
  if (r.low >= 0) return constant(1);
  if (r.high < 0) return constant(0);
  const Terms opposite = complement(terms);
  if (proves_nonneg(terms)) return constant(1);
  if (proves_nonneg(opposite)) return constant(0);
  if (terms.size() == 2 && terms[0].mono == 0 && terms[0].coefficient == -1 && terms[1].coefficient == 1 &&
      degree(terms[1].mono) == 1 && is_truth(nodes[atoms(terms[1].mono)[0]].range))
    return atoms(terms[1].mono)[0];
  const bool flipped = is_flipped(terms);
  Node node;
  node.kind = Kind::is_nonneg;
  node.a = from_terms(flipped ? opposite : terms);
  node.value = hint(node.a) >= 0;
  const ExprId atom = intern(node);
  return flipped ? add(constant(1), atom, -1) : atom;
}

ExprId Table::select(ExprId condition, ExprId if_true, ExprId if_false) {
  if (if_true == if_false) return if_true;
  condition = truth(condition);
  if (is_constant(condition)) return nodes[condition].value ? if_true : if_false;
  if (const ExprId opposite = negated(condition)) {
    condition = opposite;
    std::swap(if_true, if_false);
  }
  if (is_constant(if_true) && is_constant(if_false)) {
    if (nodes[if_true].value == 1 && nodes[if_false].value == 0) return condition;
    if (nodes[if_true].value == 0 && nodes[if_false].value == 1) return add(constant(1), condition, -1);
  }
  // equal(x, y) ? x : y is y, and equal(x, y) ? y : x is x.
  if (nodes[condition].kind == Kind::is_zero && equal(if_true, if_false) == condition) return if_false;
  Node node;
  node.kind = Kind::select;
  node.a = condition;
  node.b = if_true;
  node.c = if_false;
  node.value = hint(condition) ? hint(if_true) : hint(if_false);
  return intern(node);
}

}  // namespace transmuter
