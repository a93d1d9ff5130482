// Composites for mathematical functions: the decomposition against libm in long double, in ulp of the element type.
#include <cmath>
#include <limits>

#include "ir/passes/inline_composites.h"
#include "ir_testing.h"

namespace transmuter::ir {
namespace {

struct Row {
  const char* name;
  Value (Builder::*fn)(Value);
  long double (*exact)(long double);
  double low, high;  // sampled evenly; the ends count
  double ulp;
};

const Row kRows[] = {
    {"erf", &Builder::erf, std::erf, -6.5, 6.5, 2},          {"erf small", &Builder::erf, std::erf, -1e-3, 1e-3, 2},
    {"asin", &Builder::asin, std::asin, -1, 1, 3},           {"acos", &Builder::acos, std::acos, -1, 1, 3},
    {"atan", &Builder::atan, std::atan, -50, 50, 2},         {"sinh", &Builder::sinh, std::sinh, -25, 25, 4},
    {"sinh small", &Builder::sinh, std::sinh, -0.1, 0.1, 4}, {"cosh", &Builder::cosh, std::cosh, -25, 25, 4},
    {"asinh", &Builder::asinh, std::asinh, -9, 9, 4},        {"asinh large", &Builder::asinh, std::asinh, 1e4, 1e12, 4},
    {"acosh", &Builder::acosh, std::acosh, 1, 30, 4},        {"acosh large", &Builder::acosh, std::acosh, 1e4, 1e12, 4},
    {"atanh", &Builder::atanh, std::atanh, -0.999, 0.999, 4}};

template <class T>
void check(const Row& row, bool inlined) {
  std::vector<T> x;
  for (int i = 0; i <= 2000; ++i) x.push_back(static_cast<T>(row.low + (row.high - row.low) * i / 2000));
  const Tensor input = tensor_of(x);
  Builder b(nullptr);
  Value in = b.input({input.dtype(), {input.size()}}, "x");
  Program program = b.finish({(b.*row.fn)(in)});
  if (inlined) program = inline_composites(program);
  const std::vector<T> got = evaluate(program, std::vector<Tensor>{input})[0].to_vector<T>();
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    long double exact = row.exact(x[i]);
    T nearest = static_cast<T>(exact);
    long double ulp = std::nextafter(std::fabs(nearest), std::numeric_limits<T>::infinity()) - std::fabs(nearest);
    double error = static_cast<double>(std::fabs(got[i] - exact) / ulp);
    if (!(error <= worst)) worst = error, at = x[i];
  }
  EXPECT_LE(worst, inlined ? row.ulp : 1.5)
      << row.name << " at " << at << (inlined ? " inlined " : " ") << sizeof(T) * 8;
}

TEST(MathComposites, StayWithinAFewUlp) {
  for (const Row& row : kRows)
    for (bool inlined : {false, true}) {
      check<float>(row, inlined);
      check<double>(row, inlined);
    }
}

TEST(MathComposites, KeepSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  struct Special {
    Value (Builder::*fn)(Value);
    double x, expected;
  };
  const Special rows[] = {{&Builder::erf, inf, 1},      {&Builder::erf, -inf, -1},
                          {&Builder::erf, nan, nan},    {&Builder::erf, 0.0, 0},
                          {&Builder::asin, 2, nan},     {&Builder::acos, 1, 0},
                          {&Builder::acos, -1, M_PI},   {&Builder::atan, -inf, -M_PI_2},
                          {&Builder::sinh, -inf, -inf}, {&Builder::sinh, 710, std::sinh(710)},
                          {&Builder::cosh, -inf, inf},  {&Builder::asinh, -inf, -inf},
                          {&Builder::acosh, 0.5, nan},  {&Builder::acosh, inf, inf},
                          {&Builder::acosh, -1e5, nan}, {&Builder::acosh, -3e38, nan},
                          {&Builder::atanh, 1, inf},    {&Builder::atanh, -1, -inf},
                          {&Builder::sinh, nan, nan},   {&Builder::atanh, 0, 0}};
  for (const Special& row : rows) {
    Builder b(nullptr);
    Program program = inline_composites(b.finish({(b.*row.fn)(b.scalar(DType::f64, row.x))}));
    double got = evaluate(program, {})[0].to_vector<double>()[0];
    if (std::isnan(row.expected))
      EXPECT_TRUE(std::isnan(got)) << row.x;
    else
      EXPECT_DOUBLE_EQ(got, row.expected) << row.x;
  }
}

TEST(MathComposites, HalfTypesComputeInFloat) {
  const Tensor x = make(DType::f16, {0.3, -2});
  Builder b(nullptr);
  Value in = b.input({DType::f16, {2}}, "x");
  Program program = inline_composites(b.finish({b.erf(in)}));
  const Tensor got = evaluate(program, std::vector<Tensor>{x})[0];
  ASSERT_EQ(got.dtype(), DType::f16);
  EXPECT_NEAR(numbers(got)[0], std::erf(numbers(x)[0]), 3e-4);
}

}  // namespace
}  // namespace transmuter::ir
