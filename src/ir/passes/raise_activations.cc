// Raises gelu (both kinds) and silu.
// Pattern:   with t = erf(x / sqrt 2), or t = tanh(sqrt(2 / pi) (x + 0.044715 x^3)): x (1 + t) / 2; with t =
//            logistic(alpha x): x t. Sums, differences, products, quotients and whole powers in any order: both the
//            argument and the whole are compared as polynomials in x and t.
// Condition: f32 or f64; constants that agree to f32's rounding (1e-5 for the tanh kind, whose constants are written
//            with few digits); constants of a model converted to f16 count as what they were.
// Gain:      one elementwise step in place of five to nine.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

constexpr size_t kDegrees = 4;  // of x: 0 to 3
constexpr int kDepth = 5;       // of ops between the whole and x or t

// The sum of coefficients[i][j] x^i t^j.
using Polynomial = std::array<std::array<double, 2>, kDegrees>;

Polynomial monomial(size_t i, size_t j, double coefficient = 1) {
  Polynomial p{};
  p[i][j] = coefficient;
  return p;
}

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial p{};
  for (size_t i = 0; i < 2 * kDegrees - 1; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kDegrees; ++k)
        for (size_t l = 0; l < 2; ++l)
          if (i >= k && i - k < kDegrees && j >= l && j - l < 2) sum += a[k][l] * b[i - k][j - l];
      if (sum == 0) continue;
      if (i >= kDegrees || j >= 2) return {};
      p[i][j] = sum;
    }
  }
  return p;
}

Polynomial combined(Polynomial a, const Polynomial& b, double factor) {
  for (size_t i = 0; i < kDegrees; ++i)
    for (size_t j = 0; j < 2; ++j) a[i][j] += factor * b[i][j];
  return a;
}

bool agrees(const Polynomial& p, const Polynomial& wanted, double tolerance) {
  for (size_t i = 0; i < kDegrees; ++i)
    for (size_t j = 0; j < 2; ++j)
      if (std::abs(p[i][j] - wanted[i][j]) > tolerance * std::abs(wanted[i][j])) return false;
  return true;
}

// Gelu's constants as a conversion of the model to f16 rounded them count as what they were.
double before_halving(double number) {
  constexpr double kFactor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  for (const double constant : {std::numbers::sqrt2, std::numbers::sqrt2 / 2, kFactor, 0.044715, kFactor * 0.044715}) {
    const double quantum = std::ldexp(1.0, std::ilogb(constant) - 10);
    if (number == std::nearbyint(constant / quantum) * quantum) return constant;
  }
  return number;
}

class ActivationRaiser {
 public:
  explicit ActivationRaiser(const Program& program) : match_(program), copier_(program) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) { return raise(op); });
  }

 private:
  static bool is_arithmetic(const Primitive* p) {
    return p == &prim::multiply || p == &prim::add || p == &prim::divide || p == &prim::subtract;
  }

  double meant(Value value, double number) const {
    return match_.type(value).dtype == DType::f64 ? number : before_halving(number);
  }

  // The value as a polynomial in x and t ({}: none).
  std::optional<Polynomial> polynomial(Value value, Value x, Value t, int depth) const {
    if (value == t) return monomial(0, 1);
    if (value == x) return monomial(1, 0);
    if (const auto number = match_.number(value)) return monomial(0, 0, meant(value, *number));
    const Op* op = match_.definition(value);
    if (!op || depth == 0) return {};
    if (op->primitive == &prim::negate) {
      const auto a = polynomial(op->operands[0], x, t, depth - 1);
      return a ? product(*a, monomial(0, 0, -1)) : a;
    }
    if (op->primitive == &prim::power) {
      const auto base = polynomial(op->operands[0], x, t, depth - 1);
      const auto exponent = match_.number(op->operands[1]);
      if (!base || !exponent || (*exponent != 2 && *exponent != 3)) return {};
      const auto square = product(*base, *base);
      return *exponent == 2 || !square ? square : product(*square, *base);
    }
    if (!is_arithmetic(op->primitive)) return {};
    if (op->primitive == &prim::divide) {
      const auto divisor = match_.number(op->operands[1]);
      const auto a = divisor && *divisor != 0 ? polynomial(op->operands[0], x, t, depth - 1) : std::nullopt;
      return a ? product(*a, monomial(0, 0, 1 / meant(op->operands[1], *divisor))) : a;
    }
    const auto a = polynomial(op->operands[0], x, t, depth - 1);
    const auto b = a ? polynomial(op->operands[1], x, t, depth - 1) : std::nullopt;
    if (!b) return {};
    if (op->primitive == &prim::multiply) return product(*a, *b);
    return combined(*a, *b, op->primitive == &prim::add ? 1 : -1);
  }

  // What `value` is made of by arithmetic, up to `depth` ops deep; x must be among it.
  void collect(Value value, int depth, std::vector<Value>& into) const {
    if (std::find(into.begin(), into.end(), value) != into.end()) return;
    into.push_back(value);
    const Op* op = match_.definition(value);
    if (!op || depth == 0 || !is_arithmetic(op->primitive)) return;
    for (const Value operand : op->operands) collect(operand, depth - 1, into);
  }

  Value raise(const Op& op) {
    const Type& type = match_.type(op.results[0]);
    if (op.primitive != &prim::multiply && op.primitive != &prim::add && op.primitive != &prim::divide) return {};
    if (type.dtype != DType::f32 && type.dtype != DType::f64) return {};
    std::vector<Value> parts;
    collect(op.results[0], kDepth - 1, parts);
    for (const Value t : parts) {
      const Op* curve = match_.definition(t);
      if (!curve) continue;
      const Primitive* p = curve->primitive;
      if (p != &prim::erf && p != &prim::tanh && p != &prim::logistic) continue;
      for (const Value x : parts) {
        if (x == t || x == op.results[0]) continue;
        if (const Value made = raise(op.results[0], x, t, *curve)) return made;
      }
    }
    return {};
  }

  Value raise(Value whole, Value x, Value t, const Op& curve) {
    const auto outer = polynomial(whole, x, t, kDepth);
    if (!outer) return {};
    const bool logistic = curve.primitive == &prim::logistic;
    // In f64 a constant with the digits of an f32 is another number.
    const bool fine = match_.type(whole).dtype == DType::f64;
    const double close = fine ? 1e-14 : 1e-6, near = fine ? 1e-14 : 1e-5;
    const Polynomial half = combined(monomial(1, 0, 0.5), monomial(1, 1, 0.5), 1);
    if (!agrees(*outer, logistic ? monomial(1, 1) : half, close)) return {};
    const auto inner = polynomial(curve.operands[0], x, {}, kDepth);
    if (!inner) return {};
    Builder& build = copier_.build();
    const double slope = (*inner)[1][0];
    if (logistic) {
      if (slope == 0 || !agrees(*inner, monomial(1, 0, slope), 0)) return {};
      return silu(build, copier_[x], slope);
    }
    if (curve.primitive == &prim::erf) {
      if (!agrees(*inner, monomial(1, 0, std::numbers::sqrt2 / 2), close)) return {};
      return gelu(build, copier_[x], GeluKind::erf);
    }
    const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    if (!agrees(*inner, combined(monomial(1, 0, factor), monomial(3, 0, factor * 0.044715), 1), near)) return {};
    return gelu(build, copier_[x], GeluKind::tanh);
  }

  const Matcher match_;
  Copier copier_;
};

}  // namespace

Program raise_activations(const Program& program) { return ActivationRaiser(program).run(); }

}  // namespace transmuter::ir
