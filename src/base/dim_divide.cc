// Division: what divides exactly becomes a polynomial, the rest a floor_div atom.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/dim_table.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

// Largest common divisor of the coefficients, those of the constant term left out if asked. At least 1.
int64_t common_divisor(const Terms& terms, bool with_constant) {
  int64_t divisor = 0;
  for (const Term& term : terms)
    if (with_constant || term.mono != 0) divisor = std::gcd(divisor, term.coefficient);
  return divisor <= 0 ? 1 : divisor;
}

size_t leading(const Table& table, const Terms& terms) {
  size_t best = 0;
  for (size_t i = 1; i < terms.size(); ++i)
    if (table.mono_less(terms[best].mono, terms[i].mono)) best = i;
  return best;
}

// Multivariate long division; true when nothing is left.
bool divide_exactly(Table& table, Terms x, const Terms& y, Terms& quotient) {
  const Term head = y[leading(table, y)];
  quotient.clear();
  for (int steps = 0; !x.empty(); ++steps) {
    const Term top = x[leading(table, x)];
    if (steps == 32 || top.coefficient % head.coefficient != 0) return false;
    const std::optional<MonoId> mono = table.mono_quotient(top.mono, head.mono);
    if (!mono) return false;
    Terms step;
    step.push_back({*mono, top.coefficient / head.coefficient});
    quotient = table.add_scaled(quotient, step, 1);
    x = table.add_scaled(x, table.multiply(step, y), -1);
  }
  return true;
}

// Moves the terms of x that a single term divides to the quotient; x keeps the rest.
Terms split_by(Table& table, Terms& x, const Term& divisor) {
  Terms quotient, rest;
  for (const Term& term : x) {
    const std::optional<MonoId> mono = table.mono_quotient(term.mono, divisor.mono);
    Terms one;
    if (mono && term.coefficient % divisor.coefficient == 0) {
      one.push_back({*mono, term.coefficient / divisor.coefficient});
      quotient = table.add_scaled(quotient, one, 1);
      continue;
    }
    int64_t coefficient = term.coefficient;
    if (term.mono == 0 && divisor.mono == 0 && divisor.coefficient > 0) {
      one.push_back({0, floor_quotient(coefficient, divisor.coefficient)});
      if (one[0].coefficient != 0) quotient = table.add_scaled(quotient, one, 1);
      coefficient -= one[0].coefficient * divisor.coefficient;
    }
    if (coefficient != 0) rest.push_back({term.mono, coefficient});
  }
  x = rest;
  return quotient;
}

bool never_zero(const Interval& r) { return r.low > 0 || r.high < 0; }

// Atoms that every term of all of `polynomials` has, and that are never zero, as one product.
MonoId common_factor(Table& table, const Terms& x, const Terms* y) {
  const Terms* all[] = {&x, y};
  MonoId factor = 0;
  const MonoId first = x[0].mono;
  for (size_t i = 0; i < table.degree(first); ++i) {
    const ExprId atom = table.atoms(first)[i];
    if (!never_zero(table.range(atom))) continue;
    const MonoId candidate = table.mono_product(factor, table.mono_of(atom));
    bool everywhere = true;
    for (const Terms* terms : all) {
      if (!terms) continue;
      for (const Term& term : *terms) everywhere = everywhere && table.mono_quotient(term.mono, candidate).has_value();
    }
    if (everywhere) factor = candidate;
  }
  return factor;
}

Terms divided_by(Table& table, const Terms& terms, MonoId factor, int64_t divisor) {
  Terms result;
  for (const Term& term : terms)
    result.push_back({*table.mono_quotient(term.mono, factor), floor_quotient(term.coefficient, divisor)});
  std::sort(result.begin(), result.end(), [](const Term& a, const Term& b) { return a.mono < b.mono; });
  return result;
}

}  // namespace

Terms Table::without_common_factor(const Terms& terms) {
  if (terms.empty()) return terms;
  const MonoId factor = common_factor(*this, terms, nullptr);
  return factor ? divided_by(*this, terms, factor, 1) : terms;
}

ExprId Table::floor_div(ExprId x, ExprId y) {
  if (is_constant(y)) {
    const int64_t divisor = nodes[y].value;
    if (divisor == 0) throw Error(ErrorCode::invalid_input, "a size is divided by zero");
    if (divisor == 1) return x;
    if (divisor == INT64_MIN) throw_overflow();
    if (divisor < 0) return floor_div(from_terms(add_scaled({}, terms_of(x), -1)), constant(-divisor));
    if (is_constant(x)) return constant(floor_quotient(nodes[x].value, divisor));
  }
  if (is_constant(x) && nodes[x].value == 0) return x;
  Terms numerator = terms_of(x), divisor = terms_of(y), exact;
  if (divide_exactly(*this, numerator, divisor, exact)) return from_terms(exact);

  Terms whole;
  if (divisor.size() == 1) whole = split_by(*this, numerator, divisor[0]);
  // Between 0 and the divisor: nothing more.
  if (proves_nonneg(numerator) && proves_nonneg(add_constant(add_scaled(divisor, numerator, -1), -1)))
    return from_terms(whole);

  if (const MonoId factor = common_factor(*this, numerator, &divisor)) {
    numerator = divided_by(*this, numerator, factor, 1);
    divisor = divided_by(*this, divisor, factor, 1);
  }
  // floor((g*x + c) / (g*k)) = floor((x + floor(c/g)) / k)
  const int64_t shared = divisor.size() == 1 && divisor[0].mono == 0
                             ? std::gcd(common_divisor(numerator, false), divisor[0].coefficient)
                             : std::gcd(common_divisor(numerator, true), common_divisor(divisor, true));
  if (shared > 1) {
    Terms reduced;
    for (const Term& term : divided_by(*this, numerator, 0, shared))
      if (term.coefficient != 0) reduced.push_back(term);
    numerator = reduced;
    divisor = divided_by(*this, divisor, 0, shared);
  }
  const ExprId over = from_terms(numerator), under = from_terms(divisor);
  if (over != x || under != y || !whole.empty()) return add(from_terms(whole), floor_div(over, under));

  if (is_constant(under)) {
    const int64_t k = nodes[under].value;
    const Interval r = nodes[over].range;
    if (r.low != INT64_MIN && r.high != INT64_MAX && floor_quotient(r.low, k) == floor_quotient(r.high, k))
      return constant(floor_quotient(r.low, k));
    // floor((floor(z/j) + c) / k) = floor((z + c*j) / (j*k))
    const size_t inner = numerator.size() - 1;
    if (numerator.size() <= 2 && numerator[inner].coefficient == 1 && degree(numerator[inner].mono) == 1 &&
        (inner == 0 || numerator[0].mono == 0)) {
      const Node node = nodes[atoms(numerator[inner].mono)[0]];
      int64_t product = 0;
      if (node.kind == Kind::floor_div && is_constant(node.b) && nodes[node.b].value > 0 &&
          !__builtin_mul_overflow(nodes[node.b].value, k, &product)) {
        Terms merged = terms_of(node.a);
        if (inner == 1) {
          Terms offset;
          offset.push_back({0, numerator[0].coefficient});
          merged = add_scaled(merged, offset, nodes[node.b].value);
        }
        return floor_div(from_terms(merged), constant(product));
      }
    }
  }
  Node node;
  node.kind = Kind::floor_div;
  node.a = over;
  node.b = under;
  if (hint(under) == 0) throw Error(ErrorCode::invalid_input, "a size is divided by zero");
  node.value = floor_quotient(hint(over), hint(under));
  return intern(node);
}

ExprId Table::trunc_div(ExprId x, ExprId y) {
  if (is_constant(x) && is_constant(y) && nodes[y].value != 0 && nodes[y].value != -1)
    return constant(nodes[x].value / nodes[y].value);
  const ExprId zero = constant(0);
  const Interval r = nodes[x].range, s = nodes[y].range;
  const auto negated = [this](ExprId e) { return from_terms(add_scaled({}, terms_of(e), -1)); };
  const auto by = [&](ExprId numerator) {  // numerator >= 0
    if (s.low >= 0) return floor_div(numerator, y);
    if (s.high < 0) return negated(floor_div(numerator, negated(y)));
    return select(less_equal(zero, y), floor_div(numerator, y), negated(floor_div(numerator, negated(y))));
  };
  if (r.low >= 0 || proves_le(zero, x)) return by(x);
  if (r.high <= 0) return negated(by(negated(x)));
  return select(less_equal(zero, x), by(x), negated(by(negated(x))));
}

}  // namespace transmuter
