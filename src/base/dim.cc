// Dim arithmetic: plain integers at once, expressions through the current scope's table.
#include "base/dim.h"

#include <algorithm>
#include <bit>

#include "base/dim_table.h"
#include "base/strings.h"

namespace transmuter {
namespace {

enum Op : uint32_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kCeilDiv,
  kTruncDiv,
  kMod,
  kMin,
  kMax,
  kEqual,
  kLess,
  kLessEqual
};

[[noreturn]] void fault(const char* what) { throw Error(ErrorCode::internal, what); }

ShapeScope::Impl& impl_for(uint32_t tag) {
  ShapeScope* scope = ShapeScope::current();
  if (!scope) fault("a symbolic size outside its trace");
  if (scope->tag() != tag) fault("sizes of two traces are mixed");
  return scope->impl();
}

template <class A, class B>
ShapeScope::Impl& impl_of(const A& a, const B& b) {
  if (a.is_constant()) return impl_for(b.scope_tag());
  if (!b.is_constant() && b.scope_tag() != a.scope_tag()) fault("sizes of two traces are mixed");
  return impl_for(a.scope_tag());
}

template <class MakeFn>
Dim binary(Op op, Dim a, Dim b, const MakeFn& make) {
  ShapeScope::Impl& impl = impl_of(a, b);
  const ExprId x = impl.id_of(a.hint(), a.expr()), y = impl.id_of(b.hint(), b.expr());
  ShapeScope::Impl::Memo& memo = impl.memo[(x * 0x9e3779b1u ^ y * 0x85ebca6bu ^ op * 0xc2b2ae35u) >> 22];
  if (memo.op == op && memo.x == x && memo.y == y) return impl.dim_of(impl.table.canon(memo.result));
  const ExprId result = make(impl.table, x, y);
  memo = {op, x, y, result};
  return impl.dim_of(result);
}

bool both_constant(Dim a, Dim b) { return a.is_constant() && b.is_constant(); }

int64_t checked_divisor(int64_t x, int64_t y) {
  if (y == 0) throw Error(ErrorCode::invalid_input, "a size is divided by zero");
  if (x == INT64_MIN && y == -1) throw_overflow();
  return y;
}

int64_t constant_floor_div(int64_t x, int64_t y) { return floor_quotient(x, checked_divisor(x, y)); }

}  // namespace

Dim operator+(Dim a, Dim b) {
  int64_t hint = 0;
  if (__builtin_add_overflow(a.hint(), b.hint(), &hint)) throw_overflow();
  if (both_constant(a, b)) return hint;
  if (b.is_constant() && b.hint() == 0) return a;
  if (a.is_constant() && a.hint() == 0) return b;
  return binary(kAdd, a, b, [](Table& t, ExprId x, ExprId y) { return t.add(x, y); });
}

Dim operator-(Dim a, Dim b) {
  int64_t hint = 0;
  if (__builtin_sub_overflow(a.hint(), b.hint(), &hint)) throw_overflow();
  if (both_constant(a, b)) return hint;
  if (b.is_constant() && b.hint() == 0) return a;
  return binary(kSub, a, b, [](Table& t, ExprId x, ExprId y) { return t.add(x, y, -1); });
}

Dim operator-(Dim a) { return Dim(0) - a; }

Dim operator*(Dim a, Dim b) {
  int64_t hint = 0;
  if (__builtin_mul_overflow(a.hint(), b.hint(), &hint)) throw_overflow();
  if (both_constant(a, b)) return hint;
  if (b.is_constant() && b.hint() == 1) return a;
  if (a.is_constant() && a.hint() == 1) return b;
  return binary(kMul, a, b, [](Table& t, ExprId x, ExprId y) { return t.multiply(x, y); });
}

Dim floor_div(Dim a, Dim b) {
  checked_divisor(a.hint(), b.hint());
  if (both_constant(a, b)) return constant_floor_div(a.hint(), b.hint());
  return binary(kFloorDiv, a, b, [](Table& t, ExprId x, ExprId y) { return t.floor_div(x, y); });
}

Dim ceil_div(Dim a, Dim b) {
  checked_divisor(a.hint(), b.hint());
  if (both_constant(a, b)) {
    const int64_t floor = constant_floor_div(a.hint(), b.hint());
    return floor + (floor * b.hint() != a.hint());
  }
  return binary(kCeilDiv, a, b, [](Table& t, ExprId x, ExprId y) {
    const ExprId one = t.constant(1);
    if (t.range(y).low >= 1) return t.floor_div(t.add(t.add(x, y), one, -1), y);
    const ExprId zero = t.constant(0);
    return t.add(zero, t.floor_div(t.add(zero, x, -1), y), -1);
  });
}

Dim trunc_div(Dim a, Dim b) {
  checked_divisor(a.hint(), b.hint());
  if (both_constant(a, b)) return a.hint() / b.hint();
  return binary(kTruncDiv, a, b, [](Table& t, ExprId x, ExprId y) { return t.trunc_div(x, y); });
}

Dim mod(Dim a, Dim b) {
  if (both_constant(a, b)) {
    if (b.hint() == -1) return 0;
    return a.hint() - constant_floor_div(a.hint(), b.hint()) * b.hint();
  }
  checked_divisor(a.hint(), b.hint());
  return binary(kMod, a, b,
                [](Table& t, ExprId x, ExprId y) { return t.add(x, t.multiply(y, t.floor_div(x, y)), -1); });
}

Dim min(Dim a, Dim b) {
  if (both_constant(a, b)) return std::min(a.hint(), b.hint());
  return binary(kMin, a, b, [](Table& t, ExprId x, ExprId y) { return t.min_max(Kind::min, x, y); });
}

Dim max(Dim a, Dim b) {
  if (both_constant(a, b)) return std::max(a.hint(), b.hint());
  return binary(kMax, a, b, [](Table& t, ExprId x, ExprId y) { return t.min_max(Kind::max, x, y); });
}

Dim abs(Dim a) { return max(a, -a); }

Dim product(const Dims& dims) {
  Dim result = 1;
  for (const Dim& dim : dims) result = result * dim;
  return result;
}

Dim equal(Dim a, Dim b) {
  if (both_constant(a, b)) return a.hint() == b.hint();
  return binary(kEqual, a, b, [](Table& t, ExprId x, ExprId y) { return t.equal(x, y); });
}

Dim less(Dim a, Dim b) {
  if (both_constant(a, b)) return a.hint() < b.hint();
  return binary(kLess, a, b, [](Table& t, ExprId x, ExprId y) { return t.less_equal(x, y, 1); });
}

Dim less_equal(Dim a, Dim b) {
  if (both_constant(a, b)) return a.hint() <= b.hint();
  return binary(kLessEqual, a, b, [](Table& t, ExprId x, ExprId y) { return t.less_equal(x, y); });
}

Dim select(Dim condition, Dim if_true, Dim if_false) {
  if (condition.is_constant()) return condition.hint() ? if_true : if_false;
  ShapeScope::Impl& impl = impl_of(condition, if_true);
  if (!if_false.is_constant()) impl_of(condition, if_false);
  const auto id = [&](Dim d) { return impl.id_of(d.hint(), d.expr()); };
  return impl.dim_of(impl.table.select(id(condition), id(if_true), id(if_false)));
}

namespace {

ExprId real_id(ShapeScope::Impl& impl, Real a) {
  return a.expr() ? impl.table.canon(a.expr()) : impl.table.real_constant(a.hint());
}

Real real_of(ShapeScope::Impl& impl, ExprId id) {
  const Node& node = impl.table.nodes[id];
  const double hint = std::bit_cast<double>(node.value);
  return node.kind == Kind::real_constant ? Real(hint) : Real(hint, id, impl.tag);
}

Dim compare(Kind kind, Real a, Real b) {
  if (a.is_constant() && b.is_constant())
    return static_cast<int64_t>(apply_real(kind, RealOp::add, RealDType::f64, a.hint(), b.hint()));
  ShapeScope::Impl& impl = impl_of(a, b);
  const ExprId x = real_id(impl, a), y = real_id(impl, b);
  return impl.dim_of(impl.table.real_compare(kind, x, y));
}

}  // namespace

Real real_unary(RealOp op, Real a, RealDType dtype) {
  if (a.is_constant()) return apply_real(Kind::real_unary, op, dtype, a.hint(), 0);
  ShapeScope::Impl& impl = impl_for(a.scope_tag());
  return real_of(impl, impl.table.real_apply(Kind::real_unary, op, dtype, real_id(impl, a), 0));
}

Real real_binary(RealOp op, Real a, Real b, RealDType dtype) {
  if (a.is_constant() && b.is_constant()) return apply_real(Kind::real_binary, op, dtype, a.hint(), b.hint());
  ShapeScope::Impl& impl = impl_of(a, b);
  const ExprId x = real_id(impl, a), y = real_id(impl, b);
  return real_of(impl, impl.table.real_apply(Kind::real_binary, op, dtype, x, y));
}

Real real_from(Dim a, RealDType dtype) {
  if (a.is_constant()) return real_from_integer(a.hint(), dtype);
  ShapeScope::Impl& impl = impl_for(a.scope_tag());
  return real_of(impl, impl.table.real_from(impl.id_of(a.hint(), a.expr()), dtype));
}

Dim dim_from(Real a) {
  if (a.is_constant()) return integer_from_real(a.hint());
  ShapeScope::Impl& impl = impl_for(a.scope_tag());
  return impl.dim_of(impl.table.dim_from(real_id(impl, a)));
}

Dim equal(Real a, Real b) { return compare(Kind::real_equal, a, b); }
Dim less(Real a, Real b) { return compare(Kind::real_less, a, b); }
Dim less_equal(Real a, Real b) { return compare(Kind::real_less_equal, a, b); }

bool same_expression(Dim a, Dim b) {
  if (both_constant(a, b)) return a.hint() == b.hint();
  ShapeScope::Impl& impl = impl_of(a, b);
  return impl.id_of(a.hint(), a.expr()) == impl.id_of(b.hint(), b.expr());
}

bool provably_eq(Dim a, Dim b) {
  if (both_constant(a, b)) return a.hint() == b.hint();
  return same_expression(a, b) || settled(equal(a, b)).value_or(false);
}

bool provably_le(Dim a, Dim b) {
  if (both_constant(a, b)) return a.hint() <= b.hint();
  ShapeScope::Impl& impl = impl_of(a, b);
  const ExprId x = impl.id_of(a.hint(), a.expr()), y = impl.id_of(b.hint(), b.expr());
  return impl.table.proves_le(x, y) || settled(less_equal(a, b)).value_or(false);
}

std::optional<bool> settled(Dim truth) {
  if (truth.is_constant()) return truth.hint() != 0;
  ShapeScope::Impl& impl = impl_for(truth.scope_tag());
  const ExprId id = impl.table.truth(impl.table.canon(truth.expr()));
  if (impl.table.is_constant(id)) return impl.table.hint(id) != 0;
  return std::nullopt;
}

Interval interval(Dim a) {
  if (a.is_constant()) return {a.hint(), a.hint()};
  ShapeScope::Impl& impl = impl_for(a.scope_tag());
  return impl.table.range(impl.table.canon(a.expr()));
}

std::vector<int64_t> hints(const Dims& dims) {
  std::vector<int64_t> result;
  result.reserve(dims.size());
  for (const Dim& dim : dims) result.push_back(dim.hint());
  return result;
}

bool depends_on_data(Dim a) {
  if (a.is_constant()) return false;
  ShapeScope::Impl& impl = impl_for(a.scope_tag());
  return impl.table.nodes[impl.table.canon(a.expr())].data_dependent;
}

std::string to_string(Dim a) {
  if (a.is_constant()) return std::to_string(a.hint());
  ShapeScope::Impl& impl = impl_for(a.scope_tag());
  return impl.text(impl.table.canon(a.expr()));
}

std::string to_string(const Dims& dims) {
  std::string result = "[";
  for (size_t i = 0; i < dims.size(); ++i) result += (i ? ", " : "") + to_string(dims[i]);
  return result + "]";
}

}  // namespace transmuter
