// Mathematical functions that StableHLO lacks, as composites of primitives. evaluate: libm, in double for f64 and in
// float else. The decompositions keep to a few ulp: each avoids the cancellation of the textbook formula.
#include <cmath>

#include "base/dispatch.h"
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/vjp.h"

namespace transmuter::ir {

namespace {

std::vector<Type> infer_function(const InferContext& c) {
  check_operand_count(c, 1);
  DType dtype = c.operands[0].dtype;
  c.check(dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64, "I1",
          "takes floats, not ", name(dtype));
  return {c.operands[0]};
}

template <class Fn>
void evaluate_function(EvaluateContext& c) {
  const Tensor& x = c.operands[0];
  Tensor& y = c.make_result();
  dispatch_float(x.dtype(), c.op.primitive->name, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < x.size(); ++i) mutable_elements<T>(y)[i] = store<T>(Fn{}(load<T>(elements<T>(x)[i])));
  });
}

// The pieces that decompositions are written with: values of the operand's shape.
struct Math {
  Builder& b;
  Value x;
  Value number(double value) { return b.like(x, value); }
  Value add(Value p, Value q) { return b.add(p, q); }
  Value sub(Value p, Value q) { return b.subtract(p, q); }
  Value mul(Value p, Value q) { return b.multiply(p, q); }
  Value div(Value p, Value q) { return b.divide(p, q); }
  Value pick(Value p, CompareDirection direction, double bound, Value yes, Value no) {
    return b.select(b.compare(p, number(bound), direction), yes, no);
  }
  // c[0] + v (c[1] + v (...))
  Value polynomial(Value v, std::initializer_list<double> coefficients) {
    Value out;
    for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c)
      out = out ? add(mul(out, v), number(*c)) : number(*c);
    return out;
  }
  // The sign of x on a magnitude; keeps -0 and NaN.
  Value with_sign(Value magnitude) {
    return b.select(b.compare(x, number(0), CompareDirection::eq), x, mul(b.sign(x), magnitude));
  }
};

using Body = Value(Math&);

// Half types compute in f32.
template <Body* body>
std::vector<Value> decompose_function(Builder& b, std::span<const Value> operands, const Attributes*) {
  DType dtype = b.dtype(operands[0]);
  Math math{b, b.convert(operands[0], bit_width(dtype) < 32 ? DType::f32 : dtype)};
  return {b.convert(body(math), dtype)};
}

// erf after Sun's fdlibm (s_erf.c): rational approximations on [0, 0.84375), [0.84375, 1.25), [1.25, 1 / 0.35) and
// [1 / 0.35, 6), below one ulp of double. The rounding of x^2 in exp(-x^2) is lost beside the 1 it is taken from.
Value erf_body(Math& m) {
  Builder& b = m.b;
  Value ax = b.abs(m.x), square = m.mul(m.x, m.x);
  Value small =
      m.add(m.x, m.mul(m.x, m.div(m.polynomial(square, {1.28379167095512558561e-01, -3.25042107247001499370e-01,
                                                        -2.84817495755985104766e-02, -5.77027029648944159157e-03,
                                                        -2.37630166566501626084e-05}),
                                  m.polynomial(square, {1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02,
                                                        5.08130628187576562776e-03, 1.32494738004321644526e-04,
                                                        -3.96022827877536812320e-06}))));
  Value s = m.sub(ax, m.number(1));
  Value middle = m.add(
      m.number(8.45062911510467529297e-01),
      m.div(m.polynomial(s, {-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
                             3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
                             -2.16637559486879084300e-03}),
            m.polynomial(s, {1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
                             1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02})));
  // Beyond 6 the result is 1; the bounds keep the unused branches of the others finite.
  Value z = b.clamp(b.scalar(b.dtype(ax), 1.25), ax, b.scalar(b.dtype(ax), 6));
  Value inverse = m.div(m.number(1), m.mul(z, z));
  Value near = m.div(
      m.polynomial(inverse, {-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
                             -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
                             -8.12874355063065934246e+01, -9.81432934416914548592e+00}),
      m.polynomial(inverse, {1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
                             6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
                             6.57024977031928170135e+00, -6.04244152148580987438e-02}));
  Value far = m.div(
      m.polynomial(inverse, {-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
                             -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
                             -4.83519191608651397019e+02}),
      m.polynomial(inverse, {1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
                             3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
                             -2.24409524465858183362e+01}));
  Value ratio = m.pick(z, CompareDirection::lt, 1 / 0.35, near, far);
  Value tail_exponent = m.add(b.negate(m.mul(z, z)), m.add(m.number(-0.5625), ratio));
  Value large = m.sub(m.number(1), m.div(b.exponential(tail_exponent), z));
  large = m.pick(ax, CompareDirection::ge, 6, m.number(1), large);
  Value outer = m.mul(b.sign(m.x), m.pick(ax, CompareDirection::lt, 1.25, middle, large));
  return m.pick(ax, CompareDirection::lt, 0.84375, small, outer);
}

// atan2 keeps full accuracy near the ends where sqrt(1 - x^2) cancels, as (1 - x)(1 + x).
Value cosine_of_asin(Math& m) { return m.b.sqrt(m.mul(m.sub(m.number(1), m.x), m.add(m.number(1), m.x))); }
Value asin_body(Math& m) { return m.b.atan2(m.x, cosine_of_asin(m)); }
Value acos_body(Math& m) { return m.b.atan2(cosine_of_asin(m), m.x); }
Value atan_body(Math& m) { return m.b.atan2(m.x, m.number(1)); }

// With e = exp(|x|) - 1: (e + e / (e + 1)) / 2. For large |x| half of exp(|x|) is taken as exp(|x| / 2)^2 / 2, which
// overflows where the result does.
Value half_exponential(Math& m, Value ax) {
  Value root = m.b.exponential(m.mul(ax, m.number(0.5)));
  return m.mul(m.mul(root, m.number(0.5)), root);
}
Value sinh_body(Math& m) {
  Value ax = m.b.abs(m.x), e = m.b.exponential_minus_one(ax);
  Value near = m.mul(m.number(0.5), m.add(e, m.div(e, m.add(e, m.number(1)))));
  return m.with_sign(m.pick(ax, CompareDirection::lt, 20, near, half_exponential(m, ax)));
}
Value cosh_body(Math& m) {
  Value ax = m.b.abs(m.x), e = m.b.exponential(ax);
  Value near = m.mul(m.number(0.5), m.add(e, m.div(m.number(1), e)));
  return m.pick(ax, CompareDirection::lt, 20, near, half_exponential(m, ax));
}

// log1p(|x| + x^2 / (1 + sqrt(1 + x^2))); log(|x|) + log(2) once x^2 swamps 1.
Value asinh_body(Math& m) {
  Builder& b = m.b;
  double large = b.dtype(m.x) == DType::f64 ? 1e9 : 1e5;
  Value ax = b.abs(m.x), square = m.mul(ax, ax);
  Value root = b.sqrt(m.add(square, m.number(1)));
  Value near = b.log_plus_one(m.add(ax, m.div(square, m.add(m.number(1), root))));
  Value far = m.add(b.log(ax), m.number(std::log(2.0)));
  return m.with_sign(m.pick(ax, CompareDirection::lt, large, near, far));
}
// With t = x - 1: log1p(t + sqrt(t) sqrt(t + 2)); one root of the product would not be NaN left of -1.
Value acosh_body(Math& m) {
  Builder& b = m.b;
  double large = b.dtype(m.x) == DType::f64 ? 1e9 : 1e5;
  Value t = m.sub(m.x, m.number(1));
  Value near = b.log_plus_one(m.add(t, m.mul(b.sqrt(t), b.sqrt(m.add(t, m.number(2))))));
  Value far = m.add(b.log(m.x), m.number(std::log(2.0)));
  return m.pick(m.x, CompareDirection::gt, large, far, near);
}
// log1p(2 |x| / (1 - |x|)) / 2
Value atanh_body(Math& m) {
  Builder& b = m.b;
  Value ax = b.abs(m.x);
  Value ratio = m.div(m.add(ax, ax), m.sub(m.number(1), ax));
  return m.with_sign(m.mul(m.number(0.5), b.log_plus_one(ratio)));
}

using Print = PrintedOp (*)(const PrintContext&);

template <class Fn, Body* body>
constexpr Primitive function(const char* name, std::vector<Value> (*rule)(VjpContext&), Print print = nullptr) {
  return {.name = name,
          .infer = infer_function,
          .evaluate = evaluate_function<Fn>,
          .vjp = rule,
          .print = print,
          .decompose = decompose_function<body>,
          .elementwise = true};
}

// Of CHLO, the dialect beside StableHLO; who compiles that may leave the function whole.
PrintedOp print_erf(const PrintContext&) {
  PrintedOp printed;
  printed.name = "chlo.erf";
  return printed;
}

using Erf = decltype([](auto x) { return std::erf(x); });
using Asin = decltype([](auto x) { return std::asin(x); });
using Acos = decltype([](auto x) { return std::acos(x); });
using Atan = decltype([](auto x) { return std::atan(x); });
using Sinh = decltype([](auto x) { return std::sinh(x); });
using Cosh = decltype([](auto x) { return std::cosh(x); });
using Asinh = decltype([](auto x) { return std::asinh(x); });
using Acosh = decltype([](auto x) { return std::acosh(x); });
using Atanh = decltype([](auto x) { return std::atanh(x); });

// Gradient g / d of a function whose derivative is 1 / d.
std::vector<Value> over(VjpContext& c, Value derivative_inverse) {
  return {c.build.divide(c.gradients[0], derivative_inverse)};
}

Value square_plus(VjpContext& c, double plus) {
  Value x = c.operands[0];
  return c.build.add(c.build.multiply(x, x), c.build.like(x, plus));
}
Value one_minus_square(VjpContext& c) {
  Value x = c.operands[0];
  return c.build.subtract(c.build.like(x, 1), c.build.multiply(x, x));
}

}  // namespace

namespace vjp {

std::vector<Value> erf(VjpContext& c) {
  Builder& b = c.build;
  Value x = c.operands[0];
  Value bell = b.multiply(b.exponential(b.negate(b.multiply(x, x))), b.like(x, 2 / std::sqrt(M_PI)));
  return {b.multiply(c.gradients[0], bell)};
}
std::vector<Value> asin(VjpContext& c) { return over(c, c.build.sqrt(one_minus_square(c))); }
std::vector<Value> acos(VjpContext& c) { return over(c, c.build.negate(c.build.sqrt(one_minus_square(c)))); }
std::vector<Value> atan(VjpContext& c) { return over(c, square_plus(c, 1)); }
std::vector<Value> sinh(VjpContext& c) { return {c.build.multiply(c.gradients[0], c.build.cosh(c.operands[0]))}; }
std::vector<Value> cosh(VjpContext& c) { return {c.build.multiply(c.gradients[0], c.build.sinh(c.operands[0]))}; }
std::vector<Value> asinh(VjpContext& c) { return over(c, c.build.sqrt(square_plus(c, 1))); }
std::vector<Value> acosh(VjpContext& c) { return over(c, c.build.sqrt(square_plus(c, -1))); }
std::vector<Value> atanh(VjpContext& c) { return over(c, one_minus_square(c)); }

}  // namespace vjp

namespace prim {

constinit const Primitive erf = function<Erf, erf_body>("erf", vjp::erf, print_erf);
constinit const Primitive asin = function<Asin, asin_body>("asin", vjp::asin);
constinit const Primitive acos = function<Acos, acos_body>("acos", vjp::acos);
constinit const Primitive atan = function<Atan, atan_body>("atan", vjp::atan);
constinit const Primitive sinh = function<Sinh, sinh_body>("sinh", vjp::sinh);
constinit const Primitive cosh = function<Cosh, cosh_body>("cosh", vjp::cosh);
constinit const Primitive asinh = function<Asinh, asinh_body>("asinh", vjp::asinh);
constinit const Primitive acosh = function<Acosh, acosh_body>("acosh", vjp::acosh);
constinit const Primitive atanh = function<Atanh, atanh_body>("atanh", vjp::atanh);

}  // namespace prim

Value Builder::erf(Value x) { return emit1(prim::erf, {x}); }
Value Builder::asin(Value x) { return emit1(prim::asin, {x}); }
Value Builder::acos(Value x) { return emit1(prim::acos, {x}); }
Value Builder::atan(Value x) { return emit1(prim::atan, {x}); }
Value Builder::sinh(Value x) { return emit1(prim::sinh, {x}); }
Value Builder::cosh(Value x) { return emit1(prim::cosh, {x}); }
Value Builder::asinh(Value x) { return emit1(prim::asinh, {x}); }
Value Builder::acosh(Value x) { return emit1(prim::acosh, {x}); }
Value Builder::atanh(Value x) { return emit1(prim::atanh, {x}); }

}  // namespace transmuter::ir
