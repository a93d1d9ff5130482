// Softmax and normalisations against doubles.
#include "backends/cpu/kernels/norm.h"

#include "backends/cpu/kernels/softmax.h"
#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<double> plain_softmax(const std::vector<float>& x, const ReduceShape& s, bool log) {
  std::vector<double> y(x.size());
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t c = 0; c < s.inner; ++c) {
      const auto at = [&](int64_t r) { return static_cast<size_t>((o * s.reduce + r) * s.inner + c); };
      double top = -kInf, sum = 0;
      for (int64_t r = 0; r < s.reduce; ++r) top = std::max(top, double{x[at(r)]});
      for (int64_t r = 0; r < s.reduce; ++r) sum += std::exp(x[at(r)] - top);
      for (int64_t r = 0; r < s.reduce; ++r) {
        y[at(r)] = log ? x[at(r)] - top - std::log(sum) : std::exp(x[at(r)] - top) / sum;
      }
    }
  }
  return y;
}

TEST(CpuVecSoftmax, EveryLengthAndAxis) {
  std::vector<ReduceShape> shapes = {{2, 3000, 1}, {2, 5, 100}, {3, 7, 65}, {1, 70000, 1}, {1, 5000, 3}};
  for (int64_t n = 1; n <= 70; ++n) shapes.insert(shapes.end(), {{3, n, 1}, {2, 4, n}});
  Random random;
  for (const ReduceShape& s : shapes) {
    SCOPED_TRACE(testing::Message() << s.reduce << " " << s.inner);
    const auto x = random.floats(static_cast<size_t>(s.outer * s.reduce * s.inner), -20, 20);
    const auto want = plain_softmax(x, s, false), want_log = plain_softmax(x, s, true);
    on_every_target([&] {
      std::vector<float> y(x.size());
      softmax(x.data(), y.data(), s, nullptr);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 3e-6 * want[i] + 1e-30);
      std::vector<float> z = x;
      log_softmax(z.data(), z.data(), s, nullptr);
      for (size_t i = 0; i < z.size(); ++i) ASSERT_NEAR(z[i], want_log[i], 4e-6 * (1 + std::fabs(want_log[i])));
    });
  }
}

TEST(CpuVecSoftmax, InfinitiesAndNan) {
  on_every_target([&] {
    for (int64_t n : {2, 9, 33}) {
      std::vector<float> x(static_cast<size_t>(n), -kInf), y(x.size());
      x[1] = 3;
      softmax(x.data(), y.data(), {1, n, 1}, nullptr);
      EXPECT_EQ(y[1], 1.0f);
      EXPECT_EQ(y[0], 0.0f);
      x[1] = -kInf;
      softmax(x.data(), y.data(), {1, n, 1}, nullptr);
      EXPECT_TRUE(std::isnan(y[0]));
      std::fill(x.begin(), x.end(), 1.0f);
      x.back() = kNan;
      softmax(x.data(), y.data(), {1, n, 1}, nullptr);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y.back()));
      std::fill(x.begin(), x.end(), 3e38f);
      softmax(x.data(), y.data(), {1, n, 1}, nullptr);
      EXPECT_NEAR(y[0], 1.0 / static_cast<double>(n), 1e-7);
    }
  });
}

TEST(CpuVecSoftmax, MasksBroadcast) {
  Random random;
  const int64_t b = 2, h = 3, q = 4;
  for (int64_t k : {1, 7, 16, 45}) {
    const auto x = random.floats(static_cast<size_t>(b * h * q * k), -5, 5);
    auto mask = random.floats(static_cast<size_t>(b * q * k), -3, 3);
    for (size_t i = 1; i < mask.size(); i += 5) mask[i] = -kInf;
    for (int64_t r = 0; r < b * q; ++r) mask[static_cast<size_t>(r * k)] = 0;
    on_every_target([&] {
      std::vector<float> y(x.size());
      masked_softmax(x.data(), y.data(), b * h * q, k, 0.5f,
                     SoftmaxMask{mask.data(), {1, b, h, q}, {0, q * k, 0, k}, 1}, nullptr);
      for (int64_t r = 0; r < b * h * q; ++r) {
        std::vector<float> row;
        for (int64_t i = 0; i < k; ++i) {
          const int64_t m = r / (h * q) * q * k + r % q * k + i;
          row.push_back(x[static_cast<size_t>(r * k + i)] * 0.5f + mask[static_cast<size_t>(m)]);
        }
        const auto want = plain_softmax(row, {1, k, 1}, false);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(y[static_cast<size_t>(r * k) + i], want[i], 3e-6 * want[i] + 1e-30);
        }
      }
      masked_softmax(x.data(), y.data(), b * h * q, k, 1.0f, {}, nullptr);
      const auto want = plain_softmax(x, {b * h * q, k, 1}, false);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y[i], want[i], 3e-6 * want[i] + 1e-30);
    });
  }
}

struct RowCase {
  bool rms, residual, add, scale, bias;
};

void expect_rows(int64_t rows, int64_t cols, const RowCase& c, float center) {
  Random random;
  const size_t n = static_cast<size_t>(rows * cols), m = static_cast<size_t>(cols);
  const auto x = random.floats(n, center - 2, center + 2), residual = random.floats(n), add = random.floats(m);
  const auto scale = random.floats(m, 0.5f, 2), bias = random.floats(m);
  RowNorm a;
  a.x = x.data();
  a.residual = c.residual ? residual.data() : nullptr;
  a.add = c.add ? add.data() : nullptr;
  a.scale = c.scale ? scale.data() : nullptr;
  a.bias = c.bias ? bias.data() : nullptr;
  a.rows = rows;
  a.cols = cols;
  a.rms = c.rms;
  std::vector<float> out(n), sum(n), mean(static_cast<size_t>(rows)), inv(static_cast<size_t>(rows)), again(n);
  a.out = out.data();
  a.sum = sum.data();
  a.mean = mean.data();
  a.inv_std = inv.data();
  row_norm(a, nullptr);
  a.sum = nullptr;
  a.out = again.data();
  row_norm(a, nullptr);
  ASSERT_EQ(out, again);
  for (int64_t r = 0; r < rows; ++r) {
    double average = 0, square = 0;
    std::vector<double> v;
    for (int64_t i = 0; i < cols; ++i) {
      const size_t k = static_cast<size_t>(r * cols + i);
      float s = x[k];
      if (c.residual) s += residual[k];
      if (c.add) s += add[static_cast<size_t>(i)];
      ASSERT_EQ(sum[k], s);
      v.push_back(s);
      average += s;
    }
    average = c.rms ? 0 : average / static_cast<double>(cols);
    for (double s : v) square += (s - average) * (s - average);
    const double factor = 1 / std::sqrt(square / static_cast<double>(cols) + 1e-5f);
    ASSERT_NEAR(inv[static_cast<size_t>(r)], factor, 1e-6 * factor);
    if (!c.rms) {
      ASSERT_NEAR(mean[static_cast<size_t>(r)], average, 2e-7 * (2 + std::fabs(average)));
    }
    for (int64_t i = 0; i < cols; ++i) {
      const size_t k = static_cast<size_t>(i);
      double y = (v[k] - average) * factor;
      if (c.scale) y *= scale[k];
      if (c.bias) y += bias[k];
      // Around a far centre the mean's own rounding shows.
      const double slack = 1e-6 * (1 + std::fabs(y)) + (c.rms ? 0 : 1e-7 * std::fabs(average) * factor * 2);
      ASSERT_NEAR(out[static_cast<size_t>(r * cols) + k], y, slack) << cols << " " << i;
    }
  }
}

TEST(CpuVecNorm, RowsOfEveryLength) {
  on_every_target([&] {
    for (int64_t n = 1; n <= 70; ++n)
      expect_rows(2, n, {n % 2 == 0, n % 3 == 0, n % 5 == 0, n % 7 != 0, n % 4 != 0}, 0);
    for (int bits = 0; bits < 32; ++bits) {
      expect_rows(3, 129, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0}, 1);
    }
    expect_rows(2, 5120, {false, true, false, true, true}, 0);
    expect_rows(2, 4096, {true, false, false, true, false}, 0);
    expect_rows(2, 768, {false, false, false, true, true}, 1000);
  });
}

TEST(CpuVecNorm, GroupsAndInstances) {
  Random random;
  for (int64_t spatial : {1, 3, 16, 49, 70}) {
    for (int64_t groups : {1, 2, 6}) {
      const int64_t batch = 2, channels = 6;
      const auto x = random.floats(static_cast<size_t>(batch * channels * spatial), -3, 5);
      const auto scale = random.floats(6, 0.5, 2), bias = random.floats(6);
      for (bool silu : {false, true}) {
        on_every_target([&] {
          std::vector<float> y(x.size());
          GroupNorm a{x.data(), scale.data(), bias.data(), y.data(), batch, channels, spatial, groups, 1e-5f, silu};
          group_norm(a, nullptr);
          const int64_t block = channels / groups * spatial;
          for (int64_t g = 0; g < batch * groups; ++g) {
            double mean = 0, square = 0;
            for (int64_t i = 0; i < block; ++i) mean += x[static_cast<size_t>(g * block + i)];
            mean /= static_cast<double>(block);
            for (int64_t i = 0; i < block; ++i) square += std::pow(x[static_cast<size_t>(g * block + i)] - mean, 2);
            for (int64_t i = 0; i < block; ++i) {
              const size_t k = static_cast<size_t>(g * block + i), c = k / static_cast<size_t>(spatial) % 6;
              double want = (x[k] - mean) / std::sqrt(square / static_cast<double>(block) + 1e-5f) * scale[c] + bias[c];
              if (silu) want /= 1 + std::exp(-want);
              // One element alone: (x - mean) is rounding over a tiny deviation.
              ASSERT_NEAR(y[k], want, 2e-6 * (1 + std::fabs(want)));
            }
          }
        });
      }
    }
  }
}

TEST(CpuVecNorm, SameAnswerForAnyNumberOfThreads) {
  Random random;
  ThreadPool four(4);
  const auto x = random.floats(400 * 300);
  std::vector<float> a(x.size()), b(x.size());
  RowNorm norm;
  norm.x = norm.residual = x.data();
  norm.rows = 400;
  norm.cols = 300;
  norm.out = a.data();
  row_norm(norm, nullptr);
  norm.out = b.data();
  row_norm(norm, &four);
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace transmuter::cpu
