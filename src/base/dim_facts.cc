// What a guard or an assertion teaches: replaced atoms, narrower ranges, sums known not to be negative.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/dim_table.h"

namespace transmuter {
namespace {
constexpr size_t kMaxFacts = 32;
}

// `truth` is canonical; it has this value from now on.
void Table::learn(ExprId truth, int64_t value) {
  const Node node = nodes[truth];
  if (node.kind == Kind::constant || node.replaced) return;
  if (node.kind == Kind::sum) {  // such as 1 - x
    Terms rest = terms_of(truth);
    if (rest.size() <= 2 && (rest.size() == 1 || rest[0].mono == 0) && degree(rest[rest.size() - 1].mono) == 1) {
      const Term term = rest[rest.size() - 1];
      const int64_t offset = rest.size() == 2 ? rest[0].coefficient : 0;
      if ((value - offset) % term.coefficient == 0) learn(atoms(term.mono)[0], (value - offset) / term.coefficient);
    }
    return;
  }
  if (is_real(node.kind) || node.kind == Kind::symbol) return;
  ++epoch;
  nodes[truth].replaced = constant(value);
  switch (node.kind) {
    case Kind::is_zero: {
      const Terms terms = terms_of(canon(node.a));
      if (value) {
        unify(terms);
      } else if (terms.size() <= 2 && !terms.empty() && degree(terms[terms.size() - 1].mono) == 1 &&
                 (terms.size() == 1 || terms[0].mono == 0) && terms[terms.size() - 1].coefficient == 1) {
        const ExprId atom = atoms(terms[terms.size() - 1].mono)[0];
        const int64_t hole = terms.size() == 2 ? -terms[0].coefficient : 0;
        Interval r = nodes[atom].range;
        if (r.low == hole) ++r.low;
        if (r.high == hole) --r.high;
        narrow(atom, r);
      }
      break;
    }
    case Kind::is_nonneg: {
      const Terms terms = terms_of(canon(node.a));
      assume_nonneg(value ? terms : complement(terms));
      break;
    }
    case Kind::min:
    case Kind::max:
      for (const ExprId side : {canon(node.a), canon(node.b)}) {
        if (is_constant(side)) continue;
        const Interval r = range(side);
        if (value == (node.kind == Kind::min ? 1 : 0) && r.low >= 0 && r.high <= 1)
          learn(side, value);  // a truth value: both of an `and`, neither of an `or`
        else if (node.kind == Kind::min)
          assume_nonneg(add_constant(terms_of(side), -value));
        else
          assume_nonneg(add_constant(add_scaled({}, terms_of(side), -1), value));
      }
      break;
    default:
      break;
  }
}

void Table::narrow(ExprId atom, Interval to) {
  Interval& known = nodes[atom].known;
  const Interval both{std::max(known.low, to.low), std::min(known.high, to.high)};
  if (both.low > both.high || (both.low == known.low && both.high == known.high)) return;
  known = both;
  ++epoch;
  if (both.low == both.high && !is_constant(atom)) nodes[atom].replaced = constant(both.low);
}

void Table::assume_nonneg(const Terms& terms) {
  if (terms.empty()) return;
  const Term last = terms[terms.size() - 1];
  if (terms.size() <= 2 && degree(last.mono) == 1 && (terms.size() == 1 || terms[0].mono == 0)) {
    const int64_t offset = terms.size() == 2 ? terms[0].coefficient : 0;
    if (offset == INT64_MIN || last.coefficient == INT64_MIN) return;
    Interval r{INT64_MIN, INT64_MAX};
    if (last.coefficient > 0)
      r.low = -floor_quotient(offset, last.coefficient);
    else
      r.high = floor_quotient(offset, -last.coefficient);
    narrow(atoms(last.mono)[0], r);
    return;
  }
  if (nonneg_facts.size() == kMaxFacts) nonneg_facts.erase(nonneg_facts.begin());
  nonneg_facts.push_back(from_terms(terms));
  ++epoch;
}

// Zero from now on: solved for one atom where a coefficient is +1 or -1, for the youngest symbol if there is one.
void Table::unify(Terms zero) {
  zero = without_common_factor(zero);
  int64_t divisor = 0;
  for (const Term& term : zero) divisor = std::gcd(divisor, term.coefficient);
  if (divisor > 1)
    for (Term& term : zero) term.coefficient /= divisor;
  size_t best = zero.size();
  for (size_t t = 0; t < zero.size(); ++t) {
    if (degree(zero[t].mono) != 1 || (zero[t].coefficient != 1 && zero[t].coefficient != -1)) continue;
    const ExprId atom = atoms(zero[t].mono)[0];
    bool possible = true;
    for (size_t u = 0; u < zero.size() && possible; ++u) {
      if (u == t) continue;
      for (size_t i = 0; i < degree(zero[u].mono) && possible; ++i) {
        const ExprId other = atoms(zero[u].mono)[i];
        // What is known before the run must not come to depend on what only the run knows.
        possible = !contains(other, atom) && (nodes[atom].data_dependent || !nodes[other].data_dependent);
      }
    }
    if (!possible) continue;
    const bool is_symbol = nodes[atom].kind == Kind::symbol;
    if (best < zero.size()) {
      const ExprId chosen = atoms(zero[best].mono)[0];
      const bool chosen_symbol = nodes[chosen].kind == Kind::symbol;
      if (is_symbol != chosen_symbol ? chosen_symbol : atom < chosen) continue;
    }
    best = t;
  }
  if (best == zero.size()) return;
  const ExprId atom = atoms(zero[best].mono)[0];
  const int64_t sign = zero[best].coefficient;
  Terms rest = zero;
  rest.erase(best);
  rest = add_scaled({}, rest, -sign);
  const Interval r = nodes[atom].range;
  nodes[atom].replaced = from_terms(rest);
  ++epoch;
  // What is known about the atom holds for what replaces it.
  const Interval known = range(rest);
  if (r.low > known.low && r.low != INT64_MIN + 1) assume_nonneg(add_constant(rest, -r.low));
  if (r.high < known.high && r.high != INT64_MAX) assume_nonneg(add_constant(add_scaled({}, rest, -1), r.high));
}

Table::Facts Table::facts() const {
  Facts facts;
  facts.replaced.reserve(nodes.size());
  facts.known.reserve(nodes.size());
  for (const Node& node : nodes) {
    facts.replaced.push_back(node.replaced);
    facts.known.push_back(node.known);
  }
  facts.nonneg = nonneg_facts;
  return facts;
}

void Table::forget(Facts&& until) noexcept {
  for (size_t id = 0; id < nodes.size(); ++id) {
    const bool older = id < until.replaced.size();
    nodes[id].replaced = older ? until.replaced[id] : 0;
    if (older)
      nodes[id].known = until.known[id];
    else if (nodes[id].kind != Kind::symbol)
      nodes[id].known = {INT64_MIN, INT64_MAX};
  }
  nonneg_facts = std::move(until.nonneg);
  ++epoch;
}

}  // namespace transmuter
