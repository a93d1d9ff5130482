// Running sums and selections.
#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/scan.h"
#include "backends/cpu/kernels/sort.h"
#include "base/float_types.h"
#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CpuVecScan, SumsAndProducts) {
  Random random;
  for (const ReduceShape& s : {ReduceShape{1, 1, 1}, {2, 5, 3}, {3, 70, 1}, {1, 9, 130}, {2, 0, 4}}) {
    const auto x = random.floats(static_cast<size_t>(s.outer * s.reduce * s.inner), 0.5f, 1.5f);
    for (bool exclusive : {false, true}) {
      for (bool reverse : {false, true}) {
        for (ReduceKind kind : {ReduceKind::sum, ReduceKind::mul}) {
          std::vector<float> y = x;
          cumulative(kind, DType::f32, y.data(), y.data(), s, exclusive, reverse, nullptr);
          for (int64_t o = 0; o < s.outer; ++o) {
            for (int64_t c = 0; c < s.inner; ++c) {
              double total = kind == ReduceKind::sum ? 0 : 1;
              for (int64_t i = 0; i < s.reduce; ++i) {
                const size_t at = static_cast<size_t>((o * s.reduce + (reverse ? s.reduce - 1 - i : i)) * s.inner + c);
                const double next = kind == ReduceKind::sum ? total + x[at] : total * x[at];
                ASSERT_LE(ulps(y[at], exclusive ? total : next), 0.51);
                total = next;
              }
            }
          }
        }
      }
    }
  }
  const std::vector<int64_t> in = {1, 2, 3};
  std::vector<int64_t> out(3);
  cumulative(ReduceKind::sum, DType::i64, in.data(), out.data(), {1, 3, 1}, true, true, nullptr);
  EXPECT_EQ(out, (std::vector<int64_t>{5, 3, 0}));
}

TEST(CpuVecSort, NanInfinityAndTies) {
  const std::vector<float> x = {1, kNan, 3, kInf, 2}, ties = {2, 1, 2, 2}, zeros = {0.0f, -0.0f, 0.0f};
  std::vector<float> v(5);
  std::vector<int64_t> p(5);
  top_k(true, DType::f32, x.data(), {1, 5, 1}, 3, v.data(), p.data(), nullptr);
  EXPECT_TRUE(std::isnan(v[0]));
  EXPECT_EQ(v[1], kInf);
  EXPECT_EQ(std::vector<int64_t>(p.begin(), p.begin() + 3), (std::vector<int64_t>{1, 3, 2}));
  top_k(false, DType::f32, x.data(), {1, 5, 1}, 5, v.data(), p.data(), nullptr);
  EXPECT_EQ(p, (std::vector<int64_t>{0, 4, 2, 3, 1}));
  for (bool largest : {false, true}) {
    top_k(largest, DType::f32, zeros.data(), {1, 3, 1}, 3, nullptr, p.data(), nullptr);
    EXPECT_EQ(p[0] * 100 + p[1] * 10 + p[2], 12);
  }
  top_k(true, DType::f32, ties.data(), {1, 4, 1}, 3, v.data(), p.data(), nullptr);
  EXPECT_EQ(std::vector<int64_t>(p.begin(), p.begin() + 3), (std::vector<int64_t>{0, 2, 3}));
  top_k(true, DType::f32, ties.data(), {1, 4, 1}, 0, nullptr, nullptr, nullptr);
}

// Few of many are found by looking ahead in vectors.
TEST(CpuVecSort, FewOfManyWithNanAndTies) {
  std::vector<float> x = Random().floats(5003, -4, 4);
  for (const size_t at : {600u, 601u, 4096u, 5002u}) x[at] = kNan;
  for (const size_t at : {17u, 3000u, 4999u}) x[at] = -kInf;
  for (size_t at = 700; at < 5000; at += 31) x[at] = 3.5f;
  on_every_target([&] {
    for (bool largest : {false, true}) {
      std::vector<int64_t> want(x.size());
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(), [&](int64_t i, int64_t j) {
        const float a = x[static_cast<size_t>(i)], b = x[static_cast<size_t>(j)];
        if (std::isnan(a) != std::isnan(b)) return std::isnan(largest ? a : b);
        if (std::isnan(a)) return false;
        return largest ? a > b : a < b;
      });
      for (int64_t k : {1, 7, 120}) {
        std::vector<int64_t> p(static_cast<size_t>(k));
        top_k(largest, DType::f32, x.data(), {1, 5003, 1}, k, nullptr, p.data(), nullptr);
        EXPECT_EQ(p, std::vector<int64_t>(want.begin(), want.begin() + k)) << largest << " " << k;
      }
    }
  });
}

template <class T>
void expect_sorted(DType dtype, const std::vector<T>& x, const ReduceShape& s) {
  ThreadPool two(2);
  for (bool largest : {false, true}) {
    for (int64_t k : {int64_t{1}, s.reduce / 2, s.reduce}) {
      std::vector<T> v(static_cast<size_t>(s.outer * k * s.inner));
      std::vector<int64_t> p(v.size());
      top_k(largest, dtype, x.data(), s, k, v.data(), p.data(), &two);
      for (int64_t o = 0; o < s.outer; ++o) {
        for (int64_t c = 0; c < s.inner; ++c) {
          const auto at = [&](int64_t i) { return x[static_cast<size_t>((o * s.reduce + i) * s.inner + c)]; };
          std::vector<int64_t> order(static_cast<size_t>(s.reduce));
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(),
                           [&](int64_t a, int64_t b) { return largest ? at(a) > at(b) : at(a) < at(b); });
          for (int64_t i = 0; i < k; ++i) {
            const size_t out = static_cast<size_t>((o * k + i) * s.inner + c);
            ASSERT_EQ(p[out], order[static_cast<size_t>(i)]);
            ASSERT_EQ(v[out], at(p[out]));
          }
        }
      }
    }
  }
}

TEST(CpuVecSort, EveryType) {
  Random random;
  for (const ReduceShape& s : {ReduceShape{2, 70, 1}, {1, 9, 4}, {1, 3000, 2}}) {
    const size_t n = static_cast<size_t>(s.outer * s.reduce * s.inner);
    std::vector<float> f = random.floats(n, -9, 9);
    std::vector<double> d(f.begin(), f.end());
    std::vector<int64_t> i64;
    std::vector<int32_t> i32;
    std::vector<int8_t> i8;
    std::vector<uint8_t> u8;
    std::vector<uint64_t> u64;
    for (size_t i = 0; i < n; ++i) {
      f[i] = i % 3 ? f[i] : std::round(f[i]);
      i64.push_back(random.integer(INT64_MIN, INT64_MAX));
      i32.push_back(static_cast<int32_t>(random.integer(-9, 9)));
      i8.push_back(static_cast<int8_t>(random.integer(-128, 127)));
      u8.push_back(static_cast<uint8_t>(i8.back()));
      u64.push_back(static_cast<uint64_t>(i64.back()));
    }
    expect_sorted(DType::f32, f, s);
    expect_sorted(DType::f64, d, s);
    expect_sorted(DType::i64, i64, s);
    expect_sorted(DType::i32, i32, s);
    expect_sorted(DType::i8, i8, s);
    expect_sorted(DType::u8, u8, s);
    expect_sorted(DType::u64, u64, s);
  }
}

}  // namespace
}  // namespace transmuter::cpu
