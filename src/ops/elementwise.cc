// Functions of one variable, element by element: Abs ... Atanh, Erf, Sigmoid, Tanh, Round, IsNaN, IsInf, Not.
#include <limits>

#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

using Unary = Value (Builder::*)(Value);

// A real function with its rule for known floats, where there is one.
void real_function(OpContext& op, Unary emit, RealOp rule) {
  require_float(op, 0);
  const DType dtype = op.dtype(0);
  Known known = map_known(op.known(0), dtype, [&](const Scalar& s) {
    return s.kind == Scalar::Kind::real ? Scalar(real_unary(rule, s.real, real_dtype(dtype))) : Scalar();
  });
  output_known_or(op, 0, std::move(known), [&] { return (op.build().*emit)(op.input(0)); });
}

template <Unary emit>
void plain(OpContext& op) {
  require_float(op, 0);
  op.output(0, (op.build().*emit)(op.input(0)));
}

template <Unary emit, RealOp rule>
void with_rule(OpContext& op) {
  real_function(op, emit, rule);
}

void abs_op(OpContext& op) {
  require_numeric(op, 0);
  const DType dtype = op.dtype(0);
  Known known = map_known(op.known(0), dtype, [&](const Scalar& s) { return abs_scalar(s, dtype); });
  output_known_or(op, 0, std::move(known),
                  [&] { return is_unsigned_integer(dtype) ? op.input(0) : op.build().abs(op.input(0)); });
}

void neg(OpContext& op) {
  require_numeric(op, 0);
  const DType dtype = op.dtype(0);
  op.check(!is_unsigned_integer(dtype), "the input must be signed, is ", name(dtype));
  const Known& x = op.known(0);
  Known known = x.kind == Known::Kind::iota && dtype == DType::i64 && x.value.known()
                    ? Known::iota(dtype, x.shape, x.axis, -x.value.dim, -x.step)
                    : map_known(x, dtype, [&](const Scalar& s) { return negate_scalar(s, dtype); });
  output_known_or(op, 0, std::move(known), [&] { return op.build().negate(op.input(0)); });
}

void sign(OpContext& op) {
  require_numeric(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  op.output(0, is_unsigned_integer(op.dtype(0)) ? b.minimum(x, b.like(x, 1)) : b.sign(x));
}

void reciprocal(OpContext& op) {
  require_float(op, 0);
  const DType dtype = op.dtype(0);
  Known known = map_known(op.known(0), dtype, [&](const Scalar& s) {
    return s.kind == Scalar::Kind::real ? Scalar(real_unary(RealOp::reciprocal, s.real, real_dtype(dtype))) : Scalar();
  });
  output_known_or(op, 0, std::move(known), [&] {
    const Value x = op.input(0);
    return op.build().divide(op.build().like(x, 1), x);
  });
}

// Erf takes integers too: there it is the float result, truncated.
void erf(OpContext& op) {
  require_numeric(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0);
  const DType dtype = op.dtype(0);
  op.output(0, is_float(dtype) ? b.erf(x) : b.convert(b.erf(b.convert(x, DType::f32)), dtype));
}

// The eight-bit floats are compared as f32, which holds them exactly.
Value comparable(OpContext& op) {
  require_float(op, 0);
  return bit_width(op.dtype(0)) <= 8 ? op.build().convert(op.input(0), DType::f32) : op.input(0);
}

void is_nan(OpContext& op) {
  const Value x = comparable(op);
  op.output(0, op.build().compare(x, x, ir::CompareDirection::ne));
}

void is_inf(OpContext& op) {
  const bool negative = op.attribute_int("detect_negative", 1) != 0;
  const bool positive = op.attribute_int("detect_positive", 1) != 0;
  Builder& b = op.build();
  const Value x = comparable(op);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (negative && positive)
    op.output(0, b.compare(b.abs(x), b.like(x, kInfinity), ir::CompareDirection::eq));
  else if (negative || positive)
    op.output(0, b.compare(x, b.like(x, positive ? kInfinity : -kInfinity), ir::CompareDirection::eq));
  else
    op.output(0, b.splat(DType::boolean, 0, op.shape(0)));
}

void not_op(OpContext& op) {
  require_bool(op, 0);
  Known known = map_known(op.known(0), DType::boolean, not_scalar);
  output_known_or(op, 0, std::move(known), [&] { return op.build().logical_not(op.input(0)); });
}

}  // namespace

void register_elementwise(Registry& r) {
  r.add("Abs", {6, 13}, abs_op);
  r.add("Neg", {6, 13}, neg);
  r.add("Sign", {9, 13}, sign);
  r.add("Reciprocal", {6, 13}, reciprocal);
  r.add("Floor", {6, 13}, with_rule<&Builder::floor, RealOp::floor>);
  r.add("Ceil", {6, 13}, with_rule<&Builder::ceil, RealOp::ceil>);
  r.add("Round", {11, 22}, with_rule<&Builder::round_nearest_even, RealOp::round>);
  r.add("Exp", {6, 13}, with_rule<&Builder::exponential, RealOp::exp>);
  r.add("Log", {6, 13}, with_rule<&Builder::log, RealOp::log>);
  r.add("Sqrt", {6, 13}, with_rule<&Builder::sqrt, RealOp::sqrt>);
  r.add("Erf", {9, 13}, erf);
  r.add("Sigmoid", {6, 13}, plain<&Builder::logistic>);
  r.add("Tanh", {6, 13}, plain<&Builder::tanh>);
  r.add("Sin", {7, 22}, plain<&Builder::sine>);
  r.add("Cos", {7, 22}, plain<&Builder::cosine>);
  r.add("Tan", {7, 22}, plain<&Builder::tan>);
  r.add("Asin", {7, 22}, plain<&Builder::asin>);
  r.add("Acos", {7, 22}, plain<&Builder::acos>);
  r.add("Atan", {7, 22}, plain<&Builder::atan>);
  r.add("Sinh", {9, 22}, plain<&Builder::sinh>);
  r.add("Cosh", {9, 22}, plain<&Builder::cosh>);
  r.add("Asinh", {9, 22}, plain<&Builder::asinh>);
  r.add("Acosh", {9, 22}, plain<&Builder::acosh>);
  r.add("Atanh", {9, 22}, plain<&Builder::atanh>);
  r.add("IsNaN", {9, 13, 20}, is_nan);
  r.add("IsInf", {10, 20}, is_inf);
  r.add("Not", {1}, not_op);
}

}  // namespace transmuter::ops
