// The meaning of the elementwise primitives, one row a corner that implementations get wrong.
#include <cmath>
#include <limits>

#include "errors.h"
#include "ir_testing.h"

namespace transmuter::ir {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::nan("");

void expect_numbers(const Tensor& got, const std::vector<double>& expected, const std::string& what) {
  std::vector<double> values = numbers(got);
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(values[i])) << what << " at " << i;
    else
      EXPECT_EQ(values[i], expected[i]) << what << " at " << i;
  }
}

using Unary = Value (Builder::*)(Value);
using Binary = Value (Builder::*)(Value, Value);

struct UnaryRow {
  const char* name;
  Unary fn;
  DType dtype;
  std::vector<double> x, expected;
};

TEST(Elementwise, UnaryOperatorsKeepTheirCorners) {
  const UnaryRow rows[] = {
      {"abs", &Builder::abs, DType::i8, {-128, -3, 4}, {-128, 3, 4}},
      {"abs", &Builder::abs, DType::u8, {200}, {200}},
      {"abs", &Builder::abs, DType::f16, {-1.5, -kInf}, {1.5, kInf}},
      {"negate", &Builder::negate, DType::i32, {-2147483648.0, 5}, {-2147483648.0, -5}},
      {"negate", &Builder::negate, DType::u8, {1}, {255}},
      {"sign", &Builder::sign, DType::f32, {-3, 0, 2, kNan}, {-1, 0, 1, kNan}},
      {"sign", &Builder::sign, DType::u16, {0, 9}, {0, 1}},
      {"sign", &Builder::sign, DType::i4, {-8, 0, 7}, {-1, 0, 1}},
      {"exponential", &Builder::exponential, DType::f32, {0, -kInf, kInf}, {1, 0, kInf}},
      {"log", &Builder::log, DType::f64, {1, 0, -1}, {0, -kInf, kNan}},
      {"logistic", &Builder::logistic, DType::f32, {0, 1000, -1000}, {0.5, 1, 0}},
      {"rsqrt", &Builder::rsqrt, DType::f32, {4, 0}, {0.5, kInf}},
      {"cbrt", &Builder::cbrt, DType::f64, {-8}, {-2}},
      {"round_nearest_even", &Builder::round_nearest_even, DType::f32, {0.5, 1.5, 2.5, -0.5}, {0, 2, 2, -0.0}},
      {"ceil", &Builder::ceil, DType::bf16, {-1.5, 1.5}, {-1, 2}},
      {"is_finite", &Builder::is_finite, DType::f16, {1, kInf, kNan}, {1, 0, 0}},
      {"not", &Builder::logical_not, DType::boolean, {0, 1}, {1, 0}},
      {"not", &Builder::logical_not, DType::i8, {0, 5}, {-1, -6}},
      {"not", &Builder::logical_not, DType::u4, {0, 5}, {15, 10}},
      {"popcnt", &Builder::popcnt, DType::i8, {-1, 7}, {8, 3}},
  };
  for (const UnaryRow& row : rows)
    expect_numbers(run({make(row.dtype, row.x)}, [&](Builder& b, auto& v) { return (b.*row.fn)(v[0]); }), row.expected,
                   std::string(row.name) + " " + name(row.dtype));
}

struct BinaryRow {
  const char* name;
  Binary fn;
  DType dtype;
  std::vector<double> a, b, expected;
};

TEST(Elementwise, BinaryOperatorsKeepTheirCorners) {
  const BinaryRow rows[] = {
      {"add", &Builder::add, DType::i8, {127}, {1}, {-128}},
      {"add", &Builder::add, DType::i4, {7}, {1}, {-8}},
      {"add", &Builder::add, DType::boolean, {0, 1, 1}, {0, 0, 1}, {0, 1, 1}},
      {"add", &Builder::add, DType::f16, {2048}, {1}, {2048}},
      {"subtract", &Builder::subtract, DType::u8, {0}, {1}, {255}},
      {"multiply", &Builder::multiply, DType::u16, {65535}, {65535}, {1}},
      {"multiply", &Builder::multiply, DType::i32, {65536}, {65536}, {0}},
      {"divide", &Builder::divide, DType::i32, {-7, 7, 5, -2147483648.0}, {2, -2, 0, -1}, {-3, -3, -1, -2147483648.0}},
      {"divide", &Builder::divide, DType::u8, {7, 7}, {2, 0}, {3, 255}},
      {"divide", &Builder::divide, DType::f32, {1, -1, 0}, {0, 0, 0}, {kInf, -kInf, kNan}},
      {"remainder", &Builder::remainder, DType::i32, {-7, 7, 5, -2147483648.0}, {3, -3, 0, -1}, {-1, 1, 5, 0}},
      {"remainder", &Builder::remainder, DType::f64, {-4.5, 4.5}, {2, -2}, {-0.5, 0.5}},
      {"power",
       &Builder::power,
       DType::i32,
       {3, 2, -2, -1, 2, 0},
       {21, 0, 3, -3, -1, -1},
       {1870418611, 1, -8, -1, 0, 0}},
      {"power", &Builder::power, DType::f32, {-8, 4}, {1.0 / 3, 0.5}, {kNan, 2}},
      {"maximum", &Builder::maximum, DType::f32, {kNan, 1, -0.0}, {1, kNan, 0}, {kNan, kNan, 0}},
      {"minimum", &Builder::minimum, DType::f16, {kNan, 1, 3}, {1, kNan, 2}, {kNan, kNan, 2}},
      {"maximum", &Builder::maximum, DType::u4, {15}, {1}, {15}},
      {"and", &Builder::logical_and, DType::boolean, {0, 1, 1}, {1, 0, 1}, {0, 0, 1}},
      {"and", &Builder::logical_and, DType::u8, {12}, {10}, {8}},
      {"or", &Builder::logical_or, DType::i32, {12}, {3}, {15}},
      {"xor", &Builder::logical_xor, DType::boolean, {1, 1}, {1, 0}, {0, 1}},
      {"shift_left", &Builder::shift_left, DType::u8, {1, 255, 3}, {9, 1, 8}, {0, 254, 0}},
      {"shift_right_logical", &Builder::shift_right_logical, DType::i8, {-1, -1}, {4, 8}, {15, 0}},
      {"shift_right_arithmetic",
       &Builder::shift_right_arithmetic,
       DType::i8,
       {-128, -1, 64},
       {3, 40, 2},
       {-16, -1, 16}},
      {"atan2", &Builder::atan2, DType::f64, {0, 0}, {1, -1}, {0, M_PI}},
  };
  for (const BinaryRow& row : rows)
    expect_numbers(run({make(row.dtype, row.a), make(row.dtype, row.b)},
                       [&](Builder& b, auto& v) { return (b.*row.fn)(v[0], v[1]); }),
                   row.expected, std::string(row.name) + " " + name(row.dtype));
}

TEST(Elementwise, ComparisonsWithNanAreUnordered) {
  const Tensor a = make(DType::f32, {1, kNan, 2}), b = make(DType::f32, {1, kNan, 3});
  const std::pair<CompareDirection, std::vector<double>> rows[] = {
      {CompareDirection::eq, {1, 0, 0}}, {CompareDirection::ne, {0, 1, 1}}, {CompareDirection::lt, {0, 0, 1}},
      {CompareDirection::le, {1, 0, 1}}, {CompareDirection::gt, {0, 0, 0}}, {CompareDirection::ge, {1, 0, 0}}};
  for (const auto& [direction, expected] : rows)
    expect_numbers(run({a, b}, [&](Builder& build, auto& v) { return build.compare(v[0], v[1], direction); }), expected,
                   "compare");
}

TEST(Elementwise, SelectAndClampTakeScalars) {
  const Tensor x = make(DType::f32, {-2, 0.5, kNan}), zero = make(DType::f32, {0}, {}), one = make(DType::f32, {1}, {});
  expect_numbers(run({zero, x, one}, [](Builder& b, auto& v) { return b.clamp(v[0], v[1], v[2]); }), {0, 0.5, kNan},
                 "clamp");
  const Tensor no = make(DType::boolean, {0}, {});
  expect_numbers(
      run({no, x, make(DType::f32, {7, 8, 9})}, [](Builder& b, auto& v) { return b.select(v[0], v[1], v[2]); }),
      {7, 8, 9}, "select");
}

TEST(Elementwise, ConversionsSaturateAndTruncate) {
  struct Row {
    DType from, to;
    std::vector<double> x, expected;
  };
  const Row rows[] = {
      {DType::f32, DType::i8, {-1.9, 1e9, -1e9, kNan}, {-1, 127, -128, 0}},
      {DType::f64, DType::u8, {-1, 256, 254.9}, {0, 255, 254}},
      {DType::i32, DType::i8, {300}, {44}},
      {DType::f32, DType::boolean, {0, 0.1, kNan}, {0, 1, 1}},
      {DType::boolean, DType::f16, {0, 1}, {0, 1}},
      {DType::i4, DType::f32, {-8, 7}, {-8, 7}},
      {DType::f32, DType::f4e2m1, {2.6, -6, 100}, {3, -6, 6}},
      {DType::f4e2m1, DType::f32, {0.5, -6}, {0.5, -6}},
      {DType::f32, DType::f8e4m3fn, {465, -0.5}, {448, -0.5}},
  };
  for (const Row& row : rows)
    expect_numbers(run({make(row.from, row.x)}, [&](Builder& b, auto& v) { return b.convert(v[0], row.to); }),
                   row.expected, std::string(name(row.from)) + " to " + name(row.to));
}

TEST(Elementwise, ComplexNumbersComeApartAgain) {
  auto product = [](Builder& b, auto& v) { return b.multiply(b.complex(v[0], v[1]), b.complex(v[1], v[0])); };
  const std::vector<Tensor> inputs = {make(DType::f32, {1, 2}), make(DType::f32, {3, -1})};
  expect_numbers(run(inputs, [&](Builder& b, auto& v) { return b.real(product(b, v)); }), {0, 0}, "real");
  expect_numbers(run(inputs, [&](Builder& b, auto& v) { return b.imag(product(b, v)); }), {10, 5}, "imag");
  expect_numbers(run({make(DType::f64, {3}), make(DType::f64, {4})},
                     [](Builder& b, auto& v) { return b.abs(b.complex(v[0], v[1])); }),
                 {5}, "abs");
}

TEST(Elementwise, ErrorsNameTheConstraint) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x"), y = b.input({DType::f32, {3}}, "y"), z = b.input({DType::i32, {2}}, "z");
  EXPECT_EQ(error_of([&] { b.add(x, y); }),
            "add: C1 operands must have equal shapes: 2 and 3; operands (float32 [2], float32 [3])");
  EXPECT_EQ(error_of([&] { b.multiply(x, z); }),
            "multiply: C1 operands must have equal element types; operands (float32 [2], int32 [2])");
  EXPECT_EQ(error_of([&] { b.exponential(z); }), "exponential: I1 does not take int32; operands (int32 [2])");
}

}  // namespace
}  // namespace transmuter::ir
