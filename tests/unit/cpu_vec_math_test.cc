// Elementary functions through the tape: errors in ulp on all kinds of arguments, on every instruction set.
#include "backends/cpu/kernels/tile.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> run_unary(TileOp op, const std::vector<float>& x) {
  TileProgram program{
      {{.op = TileOp::load, .dst = 0, .a = 0}, {.op = op, .dst = 1, .a = 0}, {.op = TileOp::store, .a = 1, .b = 0}}};
  std::vector<float> y(x.size());
  const int64_t n = static_cast<int64_t>(x.size());
  const TileInput in{x.data(), DType::f32, {1}};
  const TileOutput out{y.data(), DType::f32};
  run_tile(program, &n, 1, &in, &out, 0, n);
  return y;
}
std::vector<float> run_binary(TileOp op, const std::vector<float>& a, const std::vector<float>& b) {
  TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                       {.op = TileOp::load, .dst = 1, .a = 1},
                       {.op = op, .dst = 2, .a = 0, .b = 1},
                       {.op = TileOp::store, .a = 2, .b = 0}}};
  std::vector<float> y(a.size());
  const int64_t n = static_cast<int64_t>(a.size());
  const TileInput in[] = {{a.data(), DType::f32, {1}}, {b.data(), DType::f32, {1}}};
  const TileOutput out{y.data(), DType::f32};
  run_tile(program, &n, 1, in, &out, 0, n);
  return y;
}

// Edges, every order of magnitude, a dense sweep of the interesting range, and random bit patterns.
std::vector<float> arguments(float lo, float hi) {
  std::vector<float> x = {
      0.0f,           -0.0f,        1.0f,       -1.0f,       0.5f,     -0.5f,    2.0f,           -2.0f,
      kInf,           -kInf,        kNan,       1e-45f,      -1e-45f,  1e-40f,   1.1754944e-38f, 3.4028235e38f,
      -3.4028235e38f, 88.72283f,    88.72284f,  -87.33654f,  -103.97f, -103.98f, -104.1f,        0.625f,
      0.92f,          -0.99999994f, 1.0000001f, 0.99999994f, 1e10f,    -1e10f,   1e30f,          3.1415927f,
      1.5707964f,     4.712389f,    6.2831855f, 12799.9f,    12800.1f, 11.0f,    710.0f};
  Random random(7);
  for (int e = -149; e < 128; ++e) {
    x.push_back(std::ldexp(1.37f, e));
    x.push_back(-std::ldexp(1.11f, e));
  }
  for (int i = 0; i < 20000; ++i) x.push_back(random.uniform(lo, hi));
  for (int i = 0; i < 20000; ++i) x.push_back(random.any());
  return x;
}

void expect_unary(TileOp op, float lo, float hi, double limit, double (*exact)(double)) {
  const std::vector<float> x = arguments(lo, hi);
  on_every_target([&] {
    const std::vector<float> y = run_unary(op, x);
    double worst = 0;
    float where = 0, got = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], exact(x[i]));
      if (error > worst) worst = error, where = x[i], got = y[i];
    }
    EXPECT_LE(worst, limit) << "at " << where << " got " << got << " want " << exact(where);
  });
}

TEST(CpuVecMath, Exp) {
  expect_unary(TileOp::exp, -110, 95, 2, [](double x) { return std::exp(x); });
}
TEST(CpuVecMath, Expm1) {
  expect_unary(TileOp::expm1, -5, 5, 2, [](double x) { return std::expm1(x); });
}
TEST(CpuVecMath, Log) {
  expect_unary(TileOp::log, 0, 4, 2, [](double x) { return std::log(x); });
}
TEST(CpuVecMath, Log1p) {
  expect_unary(TileOp::log1p, -1, 2, 3, [](double x) { return std::log1p(x); });
}
TEST(CpuVecMath, Tanh) {
  expect_unary(TileOp::tanh, -10, 10, 2, [](double x) { return std::tanh(x); });
}
TEST(CpuVecMath, Erf) {
  expect_unary(TileOp::erf, -5, 5, 2, [](double x) { return std::erf(x); });
}
TEST(CpuVecMath, Logistic) {
  expect_unary(TileOp::logistic, -100, 100, 3, [](double x) { return 1 / (1 + std::exp(-x)); });
}
TEST(CpuVecMath, Sin) {
  expect_unary(TileOp::sin, -20000, 20000, 2, [](double x) { return std::sin(x); });
}
TEST(CpuVecMath, Cos) {
  expect_unary(TileOp::cos, -20000, 20000, 2, [](double x) { return std::cos(x); });
}
TEST(CpuVecMath, SinNearMultiplesOfPi) {
  std::vector<float> x;
  for (int k = 1; k < 8100; ++k) x.push_back(static_cast<float>(k * 1.5707963267948966));
  on_every_target([&] {
    const auto s = run_unary(TileOp::sin, x), c = run_unary(TileOp::cos, x);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(ulps(s[i], std::sin(double{x[i]})), 2) << x[i];
      ASSERT_LE(ulps(c[i], std::cos(double{x[i]})), 2) << x[i];
    }
  });
}

TEST(CpuVecMath, SimpleOperations) {
  expect_unary(TileOp::sqrt, 0, 100, 0.5, [](double x) { return std::sqrt(x); });
  expect_unary(TileOp::rsqrt, 0, 100, 1.5, [](double x) { return 1 / std::sqrt(x); });
  expect_unary(TileOp::reciprocal, -9, 9, 0.5, [](double x) { return 1 / x; });
  expect_unary(TileOp::floor, -9, 9, 0, [](double x) { return std::floor(x); });
  expect_unary(TileOp::ceil, -9, 9, 0, [](double x) { return std::ceil(x); });
  expect_unary(TileOp::trunc, -9, 9, 0, [](double x) { return std::trunc(x); });
  expect_unary(TileOp::round_nearest_even, -9, 9, 0, [](double x) { return std::nearbyint(x); });
  expect_unary(TileOp::round_nearest_afz, -9, 9, 0, [](double x) { return std::round(x); });
  expect_unary(TileOp::sign, -9, 9, 0, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; });
  expect_unary(TileOp::is_nan, -9, 9, 0, [](double x) { return std::isnan(x) ? 1.0 : 0.0; });
  expect_unary(TileOp::is_finite, -9, 9, 0, [](double x) { return std::isfinite(x) ? 1.0 : 0.0; });
}

TEST(CpuVecMath, Activations) {
  Random random;
  const std::vector<float> x = random.floats(3000, -12, 12);
  on_every_target([&] {
    const auto gelu = run_unary(TileOp::gelu, x), tanh_form = run_unary(TileOp::gelu_tanh, x);
    const auto silu = run_unary(TileOp::silu, x), relu = run_unary(TileOp::relu, x);
    const auto softplus = run_unary(TileOp::softplus, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], scale = std::max(1.0, std::fabs(v));
      ASSERT_NEAR(gelu[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))), 2e-7 * scale);
      ASSERT_NEAR(tanh_form[i], 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))),
                  3e-7 * scale);
      ASSERT_LE(ulps(silu[i], v / (1 + std::exp(-v))), 3);
      ASSERT_LE(ulps(relu[i], std::max(v, 0.0)), 0);
      ASSERT_LE(ulps(softplus[i], std::log1p(std::exp(v))), 4);
    }
    EXPECT_TRUE(std::isnan(run_unary(TileOp::relu, {kNan})[0]));
    EXPECT_EQ(run_unary(TileOp::softplus, {kInf, -kInf, 200.0f})[0], kInf);
  });
}

TEST(CpuVecMath, Pow) {
  const std::vector<float> edge = {0.0f,  -0.0f,  1,    -1,          2,           -2,         0.5f,
                                   -0.5f, 3,      -3,   kInf,        -kInf,       kNan,       1e-45f,
                                   1e38f, -1e38f, 1.5f, 16777217.0f, 33554433.0f, 0.33333334f};
  std::vector<float> a, b;
  for (float x : edge) {
    for (float y : edge) a.push_back(x), b.push_back(y);
  }
  Random random;
  for (int i = 0; i < 20000; ++i) a.push_back(random.uniform(0, 8)), b.push_back(random.uniform(-40, 40));
  for (int i = 0; i < 5000; ++i) a.push_back(random.uniform(-9, 9)), b.push_back(std::floor(random.uniform(-9, 9)));
  for (int i = 0; i < 20000; ++i) a.push_back(random.any()), b.push_back(random.any());
  on_every_target([&] {
    const auto y = run_binary(TileOp::pow, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const double want = std::pow(double{a[i]}, double{b[i]});
      ASSERT_LE(ulps(y[i], want), 3) << a[i] << " ^ " << b[i] << " got " << y[i] << " want " << want;
      if (want == 0) {
        ASSERT_EQ(std::signbit(y[i]), std::signbit(want)) << a[i] << " ^ " << b[i];
      }
    }
  });
}

TEST(CpuVecMath, Remainder) {
  std::vector<float> a = {7, -7, 7, -7, 5.5f, -4.3f, 0, -0.0f, kInf, 1, 1, kNan, 3e38f, 1e-45f, 1, 2.1f};
  std::vector<float> b = {3, 3, -3, -3, 2, 2.1f, 3, 3, 2, 0, kInf, 1, 7e-40f, 1, 1e-45f, 0.3f};
  Random random;
  for (int i = 0; i < 20000; ++i) a.push_back(random.uniform(-99, 99)), b.push_back(random.uniform(-9, 9));
  for (int i = 0; i < 20000; ++i) a.push_back(random.any()), b.push_back(random.any());
  on_every_target([&] {
    const auto y = run_binary(TileOp::remainder, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const float want = std::fmod(a[i], b[i]);
      ASSERT_EQ(ulps(y[i], want), 0) << a[i] << " mod " << b[i];
      if (want == 0) {
        ASSERT_EQ(std::signbit(y[i]), std::signbit(want)) << a[i] << " mod " << b[i];
      }
    }
  });
}

TEST(CpuVecMath, MaximumAndMinimumPropagateNan) {
  const std::vector<float> a = {1, kNan, 2, kNan, kInf, -kInf, -1}, b = {2, 1, kNan, kNan, kNan, 3, -2};
  on_every_target([&] {
    const auto hi = run_binary(TileOp::max, a, b), lo = run_binary(TileOp::min, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const bool nan = std::isnan(a[i]) || std::isnan(b[i]);
      EXPECT_EQ(ulps(hi[i], nan ? kNan : std::max(a[i], b[i])), 0) << i;
      EXPECT_EQ(ulps(lo[i], nan ? kNan : std::min(a[i], b[i])), 0) << i;
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
