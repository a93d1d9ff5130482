// Elementwise arithmetic. Each operator is one struct: how it is written in StableHLO is the record's name, `kTakes`
// the element types it accepts, apply() its meaning for one element. Half types compute in float.
#include <bit>
#include <cmath>
#include <complex>

#include "base/dispatch.h"
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/vjp.h"

namespace transmuter::ir {

namespace {

// Bits of kTakes.
constexpr unsigned kFloat = 1, kSigned = 2, kUnsigned = 4, kBool = 8, kComplex = 16, kPacked = 32;
constexpr unsigned kInteger = kSigned | kUnsigned;
constexpr unsigned kNumber = kFloat | kInteger | kPacked;

bool takes(unsigned kinds, DType dtype) {
  if (is_packed(dtype) && !(kinds & kPacked)) return false;
  if (dtype == DType::boolean) return kinds & kBool;
  if (is_signed_integer(dtype)) return kinds & kSigned;
  if (is_unsigned_integer(dtype)) return kinds & kUnsigned;
  if (is_complex(dtype)) return kinds & kComplex;
  bool arithmetic = dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
  return arithmetic && (kinds & kFloat);
}

template <unsigned kinds, class Fn>
void dispatch_kinds(DType dtype, const char* what, Fn&& fn) {
  if constexpr ((kinds & kComplex) != 0) {
    if (dtype == DType::c64) return fn(TypeTag<std::complex<float>>{});
    if (dtype == DType::c128) return fn(TypeTag<std::complex<double>>{});
  }
  if constexpr ((kinds & kBool) != 0) {
    if (dtype == DType::boolean) return fn(TypeTag<bool>{});
  }
  if constexpr ((kinds & kInteger) != 0) {
    if (is_integer(dtype)) return dispatch_integer(dtype, what, fn);
  }
  if constexpr ((kinds & kFloat) != 0)
    return dispatch_float(dtype, what, fn);
  else
    refuse_dtype(dtype, what);
}

template <class T>
constexpr bool is_int = std::is_integral_v<T> && !std::is_same_v<T, bool>;

DType plain_result(DType dtype) { return dtype; }
DType bool_result(DType) { return DType::boolean; }
DType real_part(DType dtype) { return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype; }
DType complex_of(DType dtype) { return dtype == DType::f64 ? DType::c128 : DType::c64; }

template <class F, DType (*result)(DType)>
std::vector<Type> infer_unary(const InferContext& c) {
  check_operand_count(c, 1);
  const Type& x = c.operands[0];
  c.check(takes(F::kTakes, x.dtype), "I1", "does not take ", name(x.dtype));
  return {{result(x.dtype), x.shape}};
}

template <class F, DType (*result)(DType)>
std::vector<Type> infer_binary(const InferContext& c) {
  check_operand_count(c, 2);
  const Type &a = c.operands[0], &b = c.operands[1];
  c.check(takes(F::kTakes, a.dtype), "I1", "does not take ", name(a.dtype));
  check_same_dtype(c, a, b, "C1");
  check_same_shape(c, a, b, "C1");
  Type out{result(a.dtype), a.shape};
  for (size_t i = 0; i < out.shape.size(); ++i) out.shape[i] = plainer(out.shape[i], b.shape[i]);
  return {std::move(out)};
}

template <class F>
void evaluate_unary(EvaluateContext& c) {
  const Tensor& x = c.operands[0];
  Tensor& y = c.make_result();
  dispatch_kinds<F::kTakes>(x.dtype(), c.op.primitive->name, [&]<class T>(TypeTag<T>) {
    using R = decltype(F::apply(Compute<T>{}));
    const T* in = elements<T>(x);
    if constexpr (std::is_same_v<R, Compute<T>>) {
      T* out = mutable_elements<T>(y);
      for (int64_t i = 0; i < x.size(); ++i) out[i] = store<T>(F::apply(load<T>(in[i])));
    } else {
      R* out = mutable_elements<R>(y);
      for (int64_t i = 0; i < x.size(); ++i) out[i] = F::apply(load<T>(in[i]));
    }
  });
}

template <class F>
void evaluate_binary(EvaluateContext& c) {
  const Tensor &a = c.operands[0], &b = c.operands[1];
  Tensor& y = c.make_result();
  dispatch_kinds<F::kTakes>(a.dtype(), c.op.primitive->name, [&]<class T>(TypeTag<T>) {
    const T *left = elements<T>(a), *right = elements<T>(b);
    T* out = mutable_elements<T>(y);
    for (int64_t i = 0; i < a.size(); ++i) out[i] = store<T>(F::apply(load<T>(left[i]), load<T>(right[i])));
  });
}

template <class F, DType (*result)(DType) = plain_result>
constexpr Primitive unary(const char* name, std::vector<Value> (*rule)(VjpContext&)) {
  return {
      .name = name, .infer = infer_unary<F, result>, .evaluate = evaluate_unary<F>, .vjp = rule, .elementwise = true};
}

template <class F>
constexpr Primitive binary(const char* name, std::vector<Value> (*rule)(VjpContext&)) {
  return {.name = name,
          .infer = infer_binary<F, plain_result>,
          .evaluate = evaluate_binary<F>,
          .vjp = rule,
          .elementwise = true};
}

// Integers wrap around: arithmetic on 64 unsigned bits, of which the low ones stay.
template <class T>
uint64_t bits(T x) {
  return static_cast<uint64_t>(x);
}

struct Abs {
  static constexpr unsigned kTakes = kFloat | kSigned | kComplex | kPacked;
  template <class T>
  static auto apply(T x) {
    if constexpr (is_int<T>)
      return static_cast<T>(x < T{0} ? 0 - bits(x) : bits(x));
    else
      return std::abs(x);
  }
};
struct Negate {
  static constexpr unsigned kTakes = kNumber | kComplex;
  template <class T>
  static T apply(T x) {
    if constexpr (is_int<T>)
      return static_cast<T>(0 - bits(x));
    else
      return -x;
  }
};
struct Sign {
  static constexpr unsigned kTakes = kFloat | kSigned | kPacked;
  template <class T>
  static T apply(T x) {
    return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : x;  // NaN and the zeros stay
  }
};

// Unary functions of floats.
template <class Fn>
struct OfFloat {
  static constexpr unsigned kTakes = kFloat;
  template <class T>
  static T apply(T x) {
    return Fn{}(x);
  }
};
using Exponential = OfFloat<decltype([](auto x) { return std::exp(x); })>;
using ExponentialMinusOne = OfFloat<decltype([](auto x) { return std::expm1(x); })>;
using Log = OfFloat<decltype([](auto x) { return std::log(x); })>;
using LogPlusOne = OfFloat<decltype([](auto x) { return std::log1p(x); })>;
using Logistic = OfFloat<decltype([](auto x) { return 1 / (1 + std::exp(-x)); })>;
using Tanh = OfFloat<decltype([](auto x) { return std::tanh(x); })>;
using Sine = OfFloat<decltype([](auto x) { return std::sin(x); })>;
using Cosine = OfFloat<decltype([](auto x) { return std::cos(x); })>;
using Tan = OfFloat<decltype([](auto x) { return std::tan(x); })>;
using Sqrt = OfFloat<decltype([](auto x) { return std::sqrt(x); })>;
using Rsqrt = OfFloat<decltype([](auto x) { return 1 / std::sqrt(x); })>;
using Cbrt = OfFloat<decltype([](auto x) { return std::cbrt(x); })>;
using Ceil = OfFloat<decltype([](auto x) { return std::ceil(x); })>;
using Floor = OfFloat<decltype([](auto x) { return std::floor(x); })>;
using RoundNearestEven = OfFloat<decltype([](auto x) { return std::nearbyint(x); })>;

struct IsFinite {
  static constexpr unsigned kTakes = kFloat;
  template <class T>
  static bool apply(T x) {
    return std::isfinite(x);
  }
};
struct Not {
  static constexpr unsigned kTakes = kBool | kInteger | kPacked;
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};
struct Popcnt {
  static constexpr unsigned kTakes = kInteger;
  template <class T>
  static T apply(T x) {
    return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
  }
};
struct RealPart {
  static constexpr unsigned kTakes = kComplex;
  template <class T>
  static auto apply(T x) {
    return std::real(x);
  }
};
struct ImagPart {
  static constexpr unsigned kTakes = kComplex;
  template <class T>
  static auto apply(T x) {
    return std::imag(x);
  }
};

struct Add {
  static constexpr unsigned kTakes = kNumber | kBool | kComplex;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>)
      return static_cast<T>(bits(a) + bits(b));
    else
      return static_cast<T>(a + b);  // bool: or
  }
};
struct Subtract {
  static constexpr unsigned kTakes = kNumber | kComplex;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>)
      return static_cast<T>(bits(a) - bits(b));
    else
      return a - b;
  }
};
struct Multiply {
  static constexpr unsigned kTakes = kNumber | kBool | kComplex;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>)
      return static_cast<T>(bits(a) * bits(b));
    else
      return static_cast<T>(a * b);  // bool: and
  }
};
struct Divide {
  static constexpr unsigned kTakes = kNumber | kComplex;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>) {
      if (b == T{0}) return static_cast<T>(~T{0});
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - bits(a));  // the least by -1 wraps
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  static constexpr unsigned kTakes = kNumber;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>) {
      if (b == T{0}) return a;
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};
struct Power {
  static constexpr unsigned kTakes = kFloat | kInteger;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>) {
      if (b < T{0}) {  // the exact value is a fraction unless a is 1 or -1; it truncates
        if (a == T{1}) return a;
        return a == static_cast<T>(-1) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
      }
      uint64_t base = bits(a), out = 1;
      for (uint64_t e = bits(b); e != 0; e >>= 1, base *= base)
        if (e & 1) out *= base;
      return static_cast<T>(out);
    } else {
      return std::pow(a, b);
    }
  }
};
struct Maximum {
  static constexpr unsigned kTakes = kNumber | kBool;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a + b;
      if (a == b) return std::signbit(a) ? b : a;
    }
    return a > b ? a : b;
  }
};
struct Minimum {
  static constexpr unsigned kTakes = kNumber | kBool;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a + b;
      if (a == b) return std::signbit(a) ? a : b;
    }
    return a < b ? a : b;
  }
};
template <class Fn>
struct Bitwise {
  static constexpr unsigned kTakes = kBool | kInteger | kPacked;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(Fn{}(a, b));
  }
};
using And = Bitwise<decltype([](auto a, auto b) { return a & b; })>;
using Or = Bitwise<decltype([](auto a, auto b) { return a | b; })>;
using Xor = Bitwise<decltype([](auto a, auto b) { return a ^ b; })>;

// A shift count outside [0, width) leaves nothing but the sign of an arithmetic shift.
template <class T>
bool in_width(T count) {
  return static_cast<std::make_unsigned_t<T>>(count) < sizeof(T) * 8;
}
struct ShiftLeft {
  static constexpr unsigned kTakes = kInteger;
  template <class T>
  static T apply(T a, T b) {
    return in_width(b) ? static_cast<T>(bits(a) << b) : T{0};
  }
};
struct ShiftRightLogical {
  static constexpr unsigned kTakes = kInteger;
  template <class T>
  static T apply(T a, T b) {
    return in_width(b) ? static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) >> b) : T{0};
  }
};
struct ShiftRightArithmetic {
  static constexpr unsigned kTakes = kInteger;
  template <class T>
  static T apply(T a, T b) {
    using S = std::make_signed_t<T>;
    S sign = static_cast<S>(static_cast<S>(a) < 0 ? -1 : 0);
    return in_width(b) ? static_cast<T>(static_cast<S>(a) >> b) : static_cast<T>(sign);
  }
};
struct Atan2 {
  static constexpr unsigned kTakes = kFloat;
  template <class T>
  static T apply(T a, T b) {
    return std::atan2(a, b);
  }
};
struct MakeComplex {
  static constexpr unsigned kTakes = kFloat;
};

void evaluate_complex(EvaluateContext& c) {
  const Tensor &re = c.operands[0], &im = c.operands[1];
  Tensor& y = c.make_result();
  auto run = [&]<class T>(TypeTag<T>) {
    Complex<T>* out = mutable_elements<Complex<T>>(y);
    for (int64_t i = 0; i < re.size(); ++i) out[i] = {elements<T>(re)[i], elements<T>(im)[i]};
  };
  re.dtype() == DType::f64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

std::vector<Type> infer_complex(const InferContext& c) {
  std::vector<Type> out = infer_binary<MakeComplex, complex_of>(c);
  c.check(bit_width(c.operands[0].dtype) >= 32, "I1", "takes float32 and float64, not ", name(c.operands[0].dtype));
  return out;
}

PrintedOp print_as(const char* name) {
  PrintedOp out;
  out.name = name;
  return out;
}
constexpr Primitive printed(Primitive record, PrintedOp (*print)(const PrintContext&)) {
  record.print = print;
  return record;
}

}  // namespace

namespace prim {

constinit const Primitive abs = unary<Abs, real_part>("abs", vjp::abs);
constinit const Primitive negate = unary<Negate>("negate", vjp::negate);
constinit const Primitive sign = unary<Sign>("sign", vjp::none);
constinit const Primitive exponential = unary<Exponential>("exponential", vjp::exponential);
constinit const Primitive exponential_minus_one =
    unary<ExponentialMinusOne>("exponential_minus_one", vjp::exponential_minus_one);
constinit const Primitive log = unary<Log>("log", vjp::log);
constinit const Primitive log_plus_one = unary<LogPlusOne>("log_plus_one", vjp::log_plus_one);
constinit const Primitive logistic = unary<Logistic>("logistic", vjp::logistic);
constinit const Primitive tanh = unary<Tanh>("tanh", vjp::tanh);
constinit const Primitive sine = unary<Sine>("sine", vjp::sine);
constinit const Primitive cosine = unary<Cosine>("cosine", vjp::cosine);
constinit const Primitive tan = unary<Tan>("tan", vjp::tan);
constinit const Primitive sqrt = unary<Sqrt>("sqrt", vjp::sqrt);
constinit const Primitive rsqrt = unary<Rsqrt>("rsqrt", vjp::rsqrt);
constinit const Primitive cbrt = unary<Cbrt>("cbrt", vjp::cbrt);
constinit const Primitive ceil = unary<Ceil>("ceil", vjp::none);
constinit const Primitive floor = unary<Floor>("floor", vjp::none);
constinit const Primitive round_nearest_even = unary<RoundNearestEven>("round_nearest_even", vjp::none);
constinit const Primitive is_finite = unary<IsFinite, bool_result>("is_finite", nullptr);
constinit const Primitive logical_not =
    printed(unary<Not>("logical_not", nullptr), [](const PrintContext&) { return print_as("stablehlo.not"); });
constinit const Primitive popcnt = unary<Popcnt>("popcnt", nullptr);
constinit const Primitive real = unary<RealPart, real_part>("real", vjp::real);
constinit const Primitive imag = unary<ImagPart, real_part>("imag", vjp::imag);

constinit const Primitive add = binary<Add>("add", vjp::add);
constinit const Primitive subtract = binary<Subtract>("subtract", vjp::subtract);
constinit const Primitive multiply = binary<Multiply>("multiply", vjp::multiply);
constinit const Primitive divide = binary<Divide>("divide", vjp::divide);
constinit const Primitive remainder = binary<Remainder>("remainder", vjp::remainder);
constinit const Primitive power = binary<Power>("power", vjp::power);
constinit const Primitive maximum = binary<Maximum>("maximum", vjp::maximum);
constinit const Primitive minimum = binary<Minimum>("minimum", vjp::minimum);
constinit const Primitive logical_and =
    printed(binary<And>("logical_and", nullptr), [](const PrintContext&) { return print_as("stablehlo.and"); });
constinit const Primitive logical_or =
    printed(binary<Or>("logical_or", nullptr), [](const PrintContext&) { return print_as("stablehlo.or"); });
constinit const Primitive logical_xor =
    printed(binary<Xor>("logical_xor", nullptr), [](const PrintContext&) { return print_as("stablehlo.xor"); });
constinit const Primitive shift_left = binary<ShiftLeft>("shift_left", nullptr);
constinit const Primitive shift_right_logical = binary<ShiftRightLogical>("shift_right_logical", nullptr);
constinit const Primitive shift_right_arithmetic = binary<ShiftRightArithmetic>("shift_right_arithmetic", nullptr);
constinit const Primitive atan2 = binary<Atan2>("atan2", vjp::atan2);
constinit const Primitive complex = {
    .name = "complex", .infer = infer_complex, .evaluate = evaluate_complex, .vjp = vjp::complex, .elementwise = true};

}  // namespace prim

// StableHLO has no abs and sign of unsigned integers.
Value Builder::abs(Value x) { return is_unsigned_integer(dtype(x)) ? x : emit1(prim::abs, {x}); }
Value Builder::sign(Value x) { return is_unsigned_integer(dtype(x)) ? minimum(x, like(x, 1)) : emit1(prim::sign, {x}); }
Value Builder::negate(Value x) { return emit1(prim::negate, {x}); }
Value Builder::exponential(Value x) { return emit1(prim::exponential, {x}); }
Value Builder::exponential_minus_one(Value x) { return emit1(prim::exponential_minus_one, {x}); }
Value Builder::log(Value x) { return emit1(prim::log, {x}); }
Value Builder::log_plus_one(Value x) { return emit1(prim::log_plus_one, {x}); }
Value Builder::logistic(Value x) { return emit1(prim::logistic, {x}); }
Value Builder::tanh(Value x) { return emit1(prim::tanh, {x}); }
Value Builder::sine(Value x) { return emit1(prim::sine, {x}); }
Value Builder::cosine(Value x) { return emit1(prim::cosine, {x}); }
Value Builder::tan(Value x) { return emit1(prim::tan, {x}); }
Value Builder::sqrt(Value x) { return emit1(prim::sqrt, {x}); }
Value Builder::rsqrt(Value x) { return emit1(prim::rsqrt, {x}); }
Value Builder::cbrt(Value x) { return emit1(prim::cbrt, {x}); }
Value Builder::ceil(Value x) { return emit1(prim::ceil, {x}); }
Value Builder::floor(Value x) { return emit1(prim::floor, {x}); }
Value Builder::round_nearest_even(Value x) { return emit1(prim::round_nearest_even, {x}); }
Value Builder::is_finite(Value x) { return emit1(prim::is_finite, {x}); }
Value Builder::logical_not(Value x) { return emit1(prim::logical_not, {x}); }
Value Builder::popcnt(Value x) { return emit1(prim::popcnt, {x}); }
Value Builder::real(Value x) { return emit1(prim::real, {x}); }
Value Builder::imag(Value x) { return emit1(prim::imag, {x}); }
Value Builder::add(Value a, Value b) { return emit1(prim::add, {a, b}); }
Value Builder::subtract(Value a, Value b) { return emit1(prim::subtract, {a, b}); }
Value Builder::multiply(Value a, Value b) { return emit1(prim::multiply, {a, b}); }
Value Builder::divide(Value a, Value b) { return emit1(prim::divide, {a, b}); }
Value Builder::remainder(Value a, Value b) { return emit1(prim::remainder, {a, b}); }
Value Builder::power(Value a, Value b) { return emit1(prim::power, {a, b}); }
Value Builder::maximum(Value a, Value b) { return emit1(prim::maximum, {a, b}); }
Value Builder::minimum(Value a, Value b) { return emit1(prim::minimum, {a, b}); }
Value Builder::logical_and(Value a, Value b) { return emit1(prim::logical_and, {a, b}); }
Value Builder::logical_or(Value a, Value b) { return emit1(prim::logical_or, {a, b}); }
Value Builder::logical_xor(Value a, Value b) { return emit1(prim::logical_xor, {a, b}); }
Value Builder::shift_left(Value a, Value b) { return emit1(prim::shift_left, {a, b}); }
Value Builder::shift_right_logical(Value a, Value b) { return emit1(prim::shift_right_logical, {a, b}); }
Value Builder::shift_right_arithmetic(Value a, Value b) { return emit1(prim::shift_right_arithmetic, {a, b}); }
Value Builder::atan2(Value a, Value b) { return emit1(prim::atan2, {a, b}); }
Value Builder::complex(Value re, Value im) { return emit1(prim::complex, {re, im}); }

}  // namespace transmuter::ir
