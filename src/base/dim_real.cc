// Floats known while tracing: opaque expressions, computed as the ONNX dtype would.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/dim_table.h"
#include "base/float_types.h"

namespace transmuter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double of_bits(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t to_bits(double x) { return std::bit_cast<int64_t>(x); }

double rounded(double x, RealDType dtype) {
  switch (dtype) {
    case RealDType::f16:
      return to_float(to_f16(x));
    case RealDType::bf16:
      return to_float(to_bf16(static_cast<float>(x)));
    case RealDType::f32:
      return static_cast<float>(x);
    case RealDType::f64:
      break;
  }
  return x;
}

// Integers up to here are exact.
int64_t exact_limit(RealDType dtype) {
  switch (dtype) {
    case RealDType::f16:
      return int64_t{1} << 11;
    case RealDType::bf16:
      return int64_t{1} << 8;
    case RealDType::f32:
      return int64_t{1} << 24;
    case RealDType::f64:
      break;
  }
  return int64_t{1} << 53;
}

template <class F>
F compute(RealOp op, F x, F y) {
  switch (op) {
    case RealOp::add:
      return x + y;
    case RealOp::sub:
      return x - y;
    case RealOp::mul:
      return x * y;
    case RealOp::div:
      return x / y;
    case RealOp::pow:
      return std::pow(x, y);
    case RealOp::min:
      return std::isnan(x) || std::isnan(y) ? x + y : std::min(x, y);
    case RealOp::max:
      return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y);
    case RealOp::neg:
      return -x;
    case RealOp::abs:
      return std::fabs(x);
    case RealOp::floor:
      return std::floor(x);
    case RealOp::ceil:
      return std::ceil(x);
    case RealOp::round:
      return std::nearbyint(x);
    case RealOp::sqrt:
      return std::sqrt(x);
    case RealOp::reciprocal:
      return F{1} / x;
    case RealOp::exp:
      return std::exp(x);
    case RealOp::log:
      return std::log(x);
    case RealOp::cast:
      return x;
  }
  return x;
}

// The corners of a box of operands bound the result of an operation that is monotone in each of them.
bool is_monotone(RealOp op) {
  return op != RealOp::pow && op != RealOp::div && op != RealOp::abs && op != RealOp::reciprocal;
}

}  // namespace

double apply_real(Kind kind, RealOp op, RealDType dtype, double x, double y) {
  switch (kind) {
    case Kind::real_equal:
      return x == y;
    case Kind::real_less:
      return x < y;
    case Kind::real_less_equal:
      return x <= y;
    default:
      break;
  }
  if (op == RealOp::cast) return rounded(x, dtype);
  if (dtype == RealDType::f64) return compute(op, x, y);
  return rounded(compute(op, static_cast<float>(x), static_cast<float>(y)), dtype);
}

double real_from_integer(int64_t x, RealDType dtype) {
  switch (dtype) {
    case RealDType::f32:
      return static_cast<float>(x);
    case RealDType::bf16:
      return to_float(to_bf16(static_cast<float>(x)));
    default:
      return rounded(static_cast<double>(x), dtype);
  }
}

int64_t integer_from_real(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return INT64_MAX;
  return x <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(x);
}

Interval Table::real_range(const Node& node) const {
  const Interval unknown{to_bits(-kInfinity), to_bits(kInfinity)};
  if (node.kind == Kind::real_constant) return {node.value, node.value};
  const Interval x = nodes[node.a].range;
  if (node.kind == Kind::real_from) {
    const double low = x.low == INT64_MIN ? -kInfinity : real_from_integer(x.low, node.dtype);
    const double high = x.high == INT64_MAX ? kInfinity : real_from_integer(x.high, node.dtype);
    return {to_bits(low), to_bits(high)};
  }
  const Interval y = node.kind == Kind::real_binary ? nodes[node.b].range : x;
  const bool positive = of_bits(y.low) > 0;  // a positive divisor, or operand of a reciprocal
  if (!is_monotone(node.op) && !(positive && (node.op == RealOp::div || node.op == RealOp::reciprocal))) return unknown;
  double low = kInfinity, high = -kInfinity;
  for (const int64_t a : {x.low, x.high}) {
    for (const int64_t b : {y.low, y.high}) {
      const double corner = apply_real(node.kind, node.op, node.dtype, of_bits(a), of_bits(b));
      if (std::isnan(corner)) return unknown;
      low = std::min(low, corner);
      high = std::max(high, corner);
    }
  }
  return {to_bits(low), to_bits(high)};
}

ExprId Table::real_constant(double value) {
  Node node;
  node.kind = Kind::real_constant;
  node.value = to_bits(value);
  return intern(node);
}

ExprId Table::real_from(ExprId x, RealDType dtype) {
  if (is_constant(x)) return real_constant(real_from_integer(nodes[x].value, dtype));
  Node node;
  node.kind = Kind::real_from;
  node.dtype = dtype;
  node.a = x;
  node.value = to_bits(real_from_integer(hint(x), dtype));
  return intern(node);
}

ExprId Table::real_apply(Kind kind, RealOp op, RealDType dtype, ExprId x, ExprId y) {
  const Node left = nodes[x];
  const double right_value = y ? of_bits(nodes[y].value) : 0;
  const double value = apply_real(kind, op, dtype, of_bits(left.value), right_value);
  if (left.kind == Kind::real_constant && (!y || nodes[y].kind == Kind::real_constant)) return real_constant(value);
  const bool integral = left.kind == Kind::real_from && left.dtype == dtype;
  if (integral && (op == RealOp::floor || op == RealOp::ceil || op == RealOp::round || op == RealOp::cast)) return x;
  if (y && nodes[y].kind == Kind::real_constant && right_value == 1 && integral &&
      (op == RealOp::mul || op == RealOp::div))
    return x;
  if (op == RealOp::div && x == y && integral && dtype != RealDType::f16 && nodes[left.a].range.low > 0)
    return real_constant(1);
  Node node;
  node.kind = kind;
  node.op = op;
  node.dtype = dtype;
  node.a = x;
  node.b = y;
  node.value = to_bits(value);
  return intern(node);
}

ExprId Table::real_compare(Kind kind, ExprId x, ExprId y) {
  const double a = of_bits(nodes[x].value), b = of_bits(nodes[y].value);
  const bool value = apply_real(kind, RealOp::add, RealDType::f64, a, b) != 0;
  if (nodes[x].kind == Kind::real_constant && nodes[y].kind == Kind::real_constant) return constant(value);
  // A float made from an integer is never NaN; ranges of others may hide one.
  const auto is_number = [this](ExprId id) {
    return nodes[id].kind == Kind::real_from ||
           (nodes[id].kind == Kind::real_constant && !std::isnan(of_bits(nodes[id].value)));
  };
  if (is_number(x) && is_number(y)) {
    const double x_low = of_bits(nodes[x].range.low), x_high = of_bits(nodes[x].range.high);
    const double y_low = of_bits(nodes[y].range.low), y_high = of_bits(nodes[y].range.high);
    if (x_high < y_low) return constant(kind != Kind::real_equal);
    if (x_low > y_high) return constant(0);
    if (x == y) return constant(kind != Kind::real_less);
  }
  Node node;
  node.kind = kind;
  node.a = x;
  node.b = y;
  node.value = value;
  return intern(node);
}

ExprId Table::dim_from(ExprId x) {
  const Node node = nodes[x];
  if (node.kind == Kind::real_constant) return constant(integer_from_real(of_bits(node.value)));
  if (node.kind == Kind::real_from) {
    const Interval r = nodes[node.a].range;
    const int64_t limit = exact_limit(node.dtype);
    if (r.low >= -limit && r.high <= limit) return node.a;
  }
  Node result;
  result.kind = Kind::dim_from;
  result.a = x;
  result.value = integer_from_real(of_bits(node.value));
  return intern(result);
}

}  // namespace transmuter
