// Ranges by saturating interval arithmetic, and proofs that a polynomial is never negative.
//
// A low end of INT64_MIN and a high end of INT64_MAX are unbounded. A constant INT64_MAX has an exact low end, so that
// min(INT64_MAX, d) is settled without any arithmetic.
#include <algorithm>
#include <bit>

#include "base/dim_table.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

using Wide = __int128;
constexpr Wide kInfinite = Wide{1} << 100;

Wide widen_low(int64_t x) { return x == INT64_MIN ? -kInfinite : Wide{x}; }
Wide widen_high(int64_t x) { return x == INT64_MAX ? kInfinite : Wide{x}; }
Wide bounded(Wide x) {
  if (x > INT64_MAX) return kInfinite;
  if (x < INT64_MIN) return -kInfinite;
  return x;
}
struct WideRange {
  Wide low, high;
};
WideRange widen(Interval r) { return {widen_low(r.low), widen_high(r.high)}; }
Interval narrowed(WideRange r) {
  return {static_cast<int64_t>(std::clamp<Wide>(r.low, INT64_MIN, INT64_MAX)),
          static_cast<int64_t>(std::clamp<Wide>(r.high, INT64_MIN, INT64_MAX))};
}

Wide times(Wide x, Wide y) {
  if (x == 0 || y == 0) return 0;
  if (x == kInfinite || x == -kInfinite || y == kInfinite || y == -kInfinite)
    return (x < 0) == (y < 0) ? kInfinite : -kInfinite;
  return bounded(x * y);
}
WideRange times(WideRange x, WideRange y) {
  const Wide a = times(x.low, y.low), b = times(x.low, y.high), c = times(x.high, y.low), d = times(x.high, y.high);
  return {std::min({a, b, c, d}), std::max({a, b, c, d})};
}
Wide plus(Wide x, Wide y) {
  if (x == kInfinite || x == -kInfinite) return x;
  if (y == kInfinite || y == -kInfinite) return y;
  return bounded(x + y);
}
WideRange plus(WideRange x, WideRange y) { return {plus(x.low, y.low), plus(x.high, y.high)}; }

Interval intersect(Interval x, Interval y) {
  const Interval both{std::max(x.low, y.low), std::min(x.high, y.high)};
  // Only facts that contradict each other give nothing in common; either is as good then.
  return both.low <= both.high ? both : x;
}

Wide quotient(Wide x, Wide y) {  // y > 0, floor
  if (y == kInfinite) return x < 0 ? -1 : 0;
  if (x == kInfinite || x == -kInfinite) return x;
  return floor_quotient(static_cast<int64_t>(x), static_cast<int64_t>(y));
}

}  // namespace

Interval Table::mono_range(MonoId mono) const {
  WideRange product{1, 1};
  const ExprId* list = atoms(mono);
  for (size_t i = 0; i < degree(mono); ++i) {
    const WideRange one = widen(nodes[list[i]].range);
    if (i + 1 < degree(mono) && list[i + 1] == list[i]) {  // a square
      WideRange square = times(one, one);
      if (one.low < 0 && one.high > 0) square = {0, std::max(times(one.low, one.low), times(one.high, one.high))};
      product = times(product, square);
      ++i;
    } else {
      product = times(product, one);
    }
  }
  return narrowed(product);
}

Interval Table::plain_range(const Terms& terms) const {
  WideRange total{0, 0};
  for (const Term& term : terms) {
    const Wide c = term.coefficient;
    total = plus(total, term.mono ? times({c, c}, widen(mono_range(term.mono))) : WideRange{c, c});
  }
  return narrowed(total);
}

// b * floor_div(x, b) is x - [0, b - 1]: mod(x, 7) is written x - 7 * floor_div(x, 7), and is in [0, 6].
Interval Table::range_by_remainders(const Terms& terms, Interval best) {
  for (size_t t = 0; t < terms.size(); ++t) {
    for (size_t i = 0; i < degree(terms[t].mono); ++i) {
      const ExprId atom = atoms(terms[t].mono)[i];
      const Node node = nodes[atom];
      if (node.kind != Kind::floor_div || nodes[node.b].range.low <= 0) continue;
      const Terms divisor = terms_of(node.b);
      if (divisor.size() != 1 || terms[t].coefficient % divisor[0].coefficient != 0) continue;
      if (*mono_quotient(terms[t].mono, mono_of(atom)) != divisor[0].mono) continue;
      const int64_t scale = terms[t].coefficient / divisor[0].coefficient;
      Terms others = terms;
      others.erase(t);
      const Terms numerator = terms_of(node.a);
      const WideRange rest = {0, plus(widen_high(nodes[node.b].range.high), -1)};
      const WideRange other = widen(plain_range(add_scaled(others, numerator, scale)));
      best = intersect(best, narrowed(plus(other, times({-Wide{scale}, -Wide{scale}}, rest))));
      break;
    }
  }
  return best;
}

Interval Table::range(const Terms& terms) {
  const Interval plain = plain_range(terms);
  try {
    return range_by_remainders(terms, plain);
  } catch (const Error&) {  // a coefficient overflows
    return plain;
  }
}

Interval Table::compute_range(ExprId id) {
  const Node node = nodes[id];
  Interval r{INT64_MIN, INT64_MAX};
  switch (node.kind) {
    case Kind::constant:
      return {node.value, node.value};
    case Kind::sum: {
      Terms terms;
      terms.assign(term_pool.data() + node.a, node.b);
      return intersect(range(terms), node.known);
    }
    case Kind::floor_div: {
      const WideRange x = widen(nodes[node.a].range), y = widen(nodes[node.b].range);
      if (y.low > 0)
        r = narrowed({quotient(x.low, x.low >= 0 ? y.high : y.low), quotient(x.high, x.high >= 0 ? y.low : y.high)});
      break;
    }
    case Kind::min: {
      const Interval x = nodes[node.a].range, y = nodes[node.b].range;
      r = {std::min(x.low, y.low), std::min(x.high, y.high)};
      break;
    }
    case Kind::max: {
      const Interval x = nodes[node.a].range, y = nodes[node.b].range;
      r = {std::max(x.low, y.low), std::max(x.high, y.high)};
      break;
    }
    case Kind::select: {
      const Interval x = nodes[node.b].range, y = nodes[node.c].range;
      r = {std::min(x.low, y.low), std::max(x.high, y.high)};
      break;
    }
    case Kind::is_zero:
    case Kind::is_nonneg:
    case Kind::real_equal:
    case Kind::real_less:
    case Kind::real_less_equal:
      r = {0, 1};
      break;
    case Kind::dim_from: {
      const double low = std::bit_cast<double>(nodes[node.a].range.low);
      const double high = std::bit_cast<double>(nodes[node.a].range.high);
      if (low == low && high == high) r = {integer_from_real(low), integer_from_real(high)};
      break;
    }
    case Kind::symbol:
      break;
    default:
      return real_range(node);
  }
  return intersect(r, node.known);
}

// Every atom is its lowest value plus something that is not negative; if all coefficients of the polynomial in these
// somethings are >= 0, so is the polynomial. b*s - s + 3 with b, s >= 2 is shown so.
bool Table::proves_by_shift(const Terms& terms) {
  size_t work = 0;
  for (const Term& term : terms) {
    if (degree(term.mono) > 4) return false;
    work += size_t{1} << degree(term.mono);
  }
  if (work > 64) return false;
  Terms shifted;
  for (const Term& term : terms) {
    Terms product;
    product.push_back({0, term.coefficient});
    for (size_t i = 0; i < degree(term.mono); ++i) {
      const ExprId atom = atoms(term.mono)[i];
      const int64_t low = nodes[atom].range.low;
      if (low < -(int64_t{1} << 31) || low > (int64_t{1} << 31)) return false;
      Terms factor;
      if (low != 0) factor.push_back({0, low});
      factor.push_back({mono_of(atom), 1});
      product = multiply(product, factor);
    }
    shifted = add_scaled(shifted, product, 1);
  }
  return std::all_of(shifted.begin(), shifted.end(), [](const Term& t) { return t.coefficient >= 0; });
}

bool Table::proves_nonneg(const Terms& terms) {
  int budget = 24;
  try {
    return proves_nonneg(terms, budget, 0);
  } catch (const Error&) {  // a coefficient overflows
    return false;
  }
}

bool Table::proves_nonneg(const Terms& terms, int& budget, int depth) {
  if (hint(terms) < 0) return false;
  if (range(terms).low >= 0) return true;
  if (--budget < 0 || depth > 4) return false;
  if (proves_by_shift(terms)) return true;
  for (size_t f = 0; f < nonneg_facts.size(); ++f)
    if (plain_range(add_scaled(terms, terms_of(canon(nonneg_facts[f])), -1)).low >= 0) return true;
  // Replace an atom by a bound on it, from the side that makes the sum smaller.
  for (size_t t = 0; t < terms.size(); ++t) {
    const int64_t c = terms[t].coefficient;
    for (size_t i = 0; i < degree(terms[t].mono); ++i) {
      const ExprId atom = atoms(terms[t].mono)[i];
      const Node node = nodes[atom];
      const bool lowers = node.kind == Kind::min && c < 0, raises = node.kind == Kind::max && c > 0;
      const bool divides = node.kind == Kind::floor_div && is_constant(node.b) && nodes[node.b].value > 0;
      if (!lowers && !raises && !divides && node.kind != Kind::select) continue;
      if (node.kind != Kind::select && mono_range(*mono_quotient(terms[t].mono, mono_of(atom))).low < 0) continue;
      if (lowers || raises) {
        for (const ExprId side : {node.a, node.b})
          if (proves_nonneg(substitute(terms, t, atom, terms_of(side)), budget, depth + 1)) return true;
      } else if (divides) {
        // k * floor_div(x, k) is between x - (k - 1) and x; k * sum >= 0 where sum >= 0.
        const int64_t k = nodes[node.b].value;
        if (k > (int64_t{1} << 20)) continue;
        Terms bound = terms_of(node.a);
        if (c > 0) bound = add_constant(bound, 1 - k);
        Terms scaled = add_scaled({}, terms, k);
        scaled[t].coefficient = c;
        if (proves_nonneg(substitute(scaled, t, atom, bound), budget, depth + 1)) return true;
      } else if (proves_nonneg(substitute(terms, t, atom, terms_of(node.b)), budget, depth + 1) &&
                 proves_nonneg(substitute(terms, t, atom, terms_of(node.c)), budget, depth + 1)) {
        return true;
      }
    }
  }
  return false;
}

bool Table::proves_le(ExprId x, ExprId y) {
  if (x == y || nodes[x].range.high <= nodes[y].range.low) return true;
  if (nodes[x].range.low > nodes[y].range.high || hint(x) > hint(y)) return false;
  try {
    return proves_nonneg(add_scaled(terms_of(y), terms_of(x), -1));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace transmuter
