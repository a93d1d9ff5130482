// Gradient rules of the elementwise primitives. g is the gradient of the result y; for complex values it is
// dL/dRe + i dL/dIm.
#include "ir/primitives/vjp.h"

namespace transmuter::ir::vjp {

namespace {

// The names that every rule is written with.
struct Rules {
  Builder& b;
  Value x, a, other, y, g;
  explicit Rules(VjpContext& c)
      : b(c.build),
        x(c.operands[0]),
        a(c.operands[0]),
        other(c.operands.size() > 1 ? c.operands[1] : Value{}),
        y(c.results[0]),
        g(c.gradients[0]) {}
  Value add(Value p, Value q) { return b.add(p, q); }
  Value sub(Value p, Value q) { return b.subtract(p, q); }
  Value mul(Value p, Value q) { return b.multiply(p, q); }
  Value div(Value p, Value q) { return b.divide(p, q); }
  Value is(Value p, CompareDirection direction, Value q) { return b.compare(p, q, direction); }
  Value number(double value) { return b.like(x, value); }
  Value conj(Value p) { return is_complex(b.dtype(p)) ? b.complex(b.real(p), b.negate(b.imag(p))) : p; }
};

// y' = scale: gradient g * scale.
std::vector<Value> times(Rules& r, Value scale) { return {r.mul(r.g, scale)}; }

std::vector<Value> extremum(VjpContext& c, CompareDirection wins) {
  Rules r(c);
  Value zero = r.number(0), half = r.mul(r.g, r.number(0.5));
  Value tie = r.b.select(r.is(r.a, CompareDirection::eq, r.other), half, zero);
  return {r.b.select(r.is(r.a, wins, r.other), r.g, tie), r.b.select(r.is(r.other, wins, r.a), r.g, tie)};
}

}  // namespace

std::vector<Value> none(VjpContext& c) { return std::vector<Value>(c.operands.size()); }

std::vector<Value> abs(VjpContext& c) {
  Rules r(c);
  if (is_complex(r.b.dtype(r.x))) throw Error(ErrorCode::unsupported, "abs of complex numbers is not differentiable");
  return times(r, r.b.sign(r.x));
}
std::vector<Value> negate(VjpContext& c) { return {c.build.negate(c.gradients[0])}; }
std::vector<Value> exponential(VjpContext& c) {
  Rules r(c);
  return times(r, r.y);
}
std::vector<Value> exponential_minus_one(VjpContext& c) {
  Rules r(c);
  return times(r, r.add(r.y, r.number(1)));
}
std::vector<Value> log(VjpContext& c) {
  Rules r(c);
  return {r.div(r.g, r.x)};
}
std::vector<Value> log_plus_one(VjpContext& c) {
  Rules r(c);
  return {r.div(r.g, r.add(r.x, r.number(1)))};
}
std::vector<Value> logistic(VjpContext& c) {
  Rules r(c);
  return times(r, r.mul(r.y, r.sub(r.number(1), r.y)));
}
std::vector<Value> tanh(VjpContext& c) {
  Rules r(c);
  return times(r, r.sub(r.number(1), r.mul(r.y, r.y)));
}
std::vector<Value> sine(VjpContext& c) {
  Rules r(c);
  return times(r, r.b.cosine(r.x));
}
std::vector<Value> cosine(VjpContext& c) {
  Rules r(c);
  return times(r, r.b.negate(r.b.sine(r.x)));
}
std::vector<Value> tan(VjpContext& c) {
  Rules r(c);
  return times(r, r.add(r.number(1), r.mul(r.y, r.y)));
}
std::vector<Value> sqrt(VjpContext& c) {
  Rules r(c);
  return {r.div(r.mul(r.g, r.number(0.5)), r.y)};
}
std::vector<Value> rsqrt(VjpContext& c) {
  Rules r(c);
  return times(r, r.mul(r.number(-0.5), r.div(r.y, r.x)));
}
std::vector<Value> cbrt(VjpContext& c) {
  Rules r(c);
  return {r.div(r.g, r.mul(r.number(3), r.mul(r.y, r.y)))};
}
std::vector<Value> real(VjpContext& c) {
  Rules r(c);
  return {r.b.complex(r.g, r.b.like(r.g, 0))};
}
std::vector<Value> imag(VjpContext& c) {
  Rules r(c);
  return {r.b.complex(r.b.like(r.g, 0), r.g)};
}

std::vector<Value> add(VjpContext& c) { return {c.gradients[0], c.gradients[0]}; }
std::vector<Value> subtract(VjpContext& c) { return {c.gradients[0], c.build.negate(c.gradients[0])}; }
std::vector<Value> multiply(VjpContext& c) {
  Rules r(c);
  return {r.mul(r.g, r.conj(r.other)), r.mul(r.g, r.conj(r.a))};
}
std::vector<Value> divide(VjpContext& c) {
  Rules r(c);
  Value by = r.div(r.g, r.conj(r.other));
  return {by, r.b.negate(r.mul(by, r.conj(r.y)))};
}
std::vector<Value> remainder(VjpContext& c) {
  Rules r(c);
  Value quotient = r.div(r.sub(r.a, r.y), r.other);  // a whole number but for rounding
  return {r.g, r.b.negate(r.mul(r.g, r.b.round_nearest_even(quotient)))};
}
std::vector<Value> power(VjpContext& c) {
  Rules r(c);
  Value zero = r.number(0), one = r.number(1);
  // b * a^(b-1) without 0 * inf at b = 0, and a^b * log(a) with 0 at a = 0.
  Value less_one = r.b.select(r.is(r.other, CompareDirection::eq, zero), one, r.sub(r.other, one));
  Value base = r.b.select(r.is(r.a, CompareDirection::eq, zero), one, r.a);
  return {r.mul(r.g, r.mul(r.other, r.b.power(r.a, less_one))), r.mul(r.g, r.mul(r.b.log(base), r.y))};
}
std::vector<Value> maximum(VjpContext& c) { return extremum(c, CompareDirection::gt); }
std::vector<Value> minimum(VjpContext& c) { return extremum(c, CompareDirection::lt); }
std::vector<Value> atan2(VjpContext& c) {
  Rules r(c);
  Value scaled = r.div(r.g, r.add(r.mul(r.a, r.a), r.mul(r.other, r.other)));
  return {r.mul(scaled, r.other), r.b.negate(r.mul(scaled, r.a))};
}
std::vector<Value> complex(VjpContext& c) { return {c.build.real(c.gradients[0]), c.build.imag(c.gradients[0])}; }

std::vector<Value> select(VjpContext& c) {
  Builder& b = c.build;
  Value g = c.gradients[0], zero = b.like(g, 0);
  return {Value{}, b.select(c.operands[0], g, zero), b.select(c.operands[0], zero, g)};
}

std::vector<Value> clamp(VjpContext& c) {
  Builder& b = c.build;
  Value x = c.operands[1], g = c.gradients[0], zero = b.like(g, 0);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < b.rank(x); ++i) all.push_back(i);
  // A 0-d bound takes the gradient of every element that it held.
  auto bound_gradient = [&](Value bound, Value held) {
    Value mine = b.select(held, g, zero);
    return b.rank(bound) == 0 && b.rank(x) > 0 ? b.reduce(mine, ReduceKind::add, all) : mine;
  };
  Value below = b.compare(x, b.broadcast_to(c.operands[0], b.shape(x)), CompareDirection::lt);
  Value above = b.compare(x, b.broadcast_to(c.operands[2], b.shape(x)), CompareDirection::gt);
  Value inside = b.logical_not(b.logical_or(below, above));
  return {bound_gradient(c.operands[0], below), b.select(inside, g, zero), bound_gradient(c.operands[2], above)};
}

std::vector<Value> convert(VjpContext& c) {
  DType from = c.build.dtype(c.operands[0]);
  if (!is_float(from) || is_complex(c.build.dtype(c.gradients[0]))) return {Value{}};
  return {c.build.convert(c.gradients[0], from)};
}

}  // namespace transmuter::ir::vjp
