#include "backends/cpu/kernels/reduce.h"

#include "base/float_types.h"
#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<ReduceShape> shapes() {
  std::vector<ReduceShape> all;
  for (int64_t n = 1; n <= 70; ++n) {
    all.push_back({2, n, 1});
    all.push_back({2, 3, n});
  }
  for (ReduceShape s :
       {ReduceShape{3, 5000, 1}, {1, 100003, 1}, {1, 70000, 3}, {2, 300, 257}, {100, 4, 1}, {1, 1, 1}, {1, 700, 600}}) {
    all.push_back(s);
  }
  return all;
}

template <class T, class Acc>
std::vector<Acc> plain(ReduceKind kind, const std::vector<T>& x, const ReduceShape& s) {
  std::vector<Acc> out;
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t c = 0; c < s.inner; ++c) {
      Acc total = static_cast<Acc>(x[static_cast<size_t>(o * s.reduce * s.inner + c)]);
      for (int64_t r = 1; r < s.reduce; ++r) {
        const Acc v = static_cast<Acc>(x[static_cast<size_t>((o * s.reduce + r) * s.inner + c)]);
        if (kind == ReduceKind::sum) total += v;
        if (kind == ReduceKind::mul) total *= v;
        if (kind == ReduceKind::max) total = std::max(total, v);
        if (kind == ReduceKind::min) total = std::min(total, v);
      }
      out.push_back(total);
    }
  }
  return out;
}

TEST(CpuVecReduce, FloatsMatchDoubles) {
  Random random;
  for (const ReduceShape& s : shapes()) {
    SCOPED_TRACE(testing::Message() << s.outer << " " << s.reduce << " " << s.inner);
    const auto x = random.floats(static_cast<size_t>(s.outer * s.reduce * s.inner), 0.9f, 1.1f);
    for (ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::min, ReduceKind::mul}) {
      if (kind == ReduceKind::mul && s.reduce > 500) continue;
      const auto want = plain<float, double>(kind, x, s);
      on_every_target([&] {
        std::vector<float> got(want.size());
        reduce(kind, DType::f32, x.data(), got.data(), s, nullptr);
        for (size_t i = 0; i < want.size(); ++i) {
          const double bound = kind == ReduceKind::mul ? 2e-6 : kind == ReduceKind::sum ? 1e-6 : 0;
          ASSERT_NEAR(got[i], want[i], bound * std::fabs(want[i]));
        }
      });
    }
  }
}

TEST(CpuVecReduce, CancellingSumsStayAccurate) {
  Random random;
  const ReduceShape s{1, 1000000, 1};
  const auto x = random.floats(1000000, -1, 1);
  const double want = plain<float, double>(ReduceKind::sum, x, s)[0];
  on_every_target([&] {
    float got;
    reduce(ReduceKind::sum, DType::f32, x.data(), &got, s, nullptr);
    EXPECT_NEAR(got, want, 2e-4);  // the sum of magnitudes is 500000
  });
}

template <class T, class Acc>
void expect_integers(DType dtype) {
  Random random;
  for (const ReduceShape& s : shapes()) {
    std::vector<T> x;
    for (int64_t i = 0; i < s.outer * s.reduce * s.inner; ++i) {
      x.push_back(static_cast<T>(random.integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
    }
    for (ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::min, ReduceKind::mul}) {
      const bool ordered = kind == ReduceKind::max || kind == ReduceKind::min;
      std::vector<T> want;
      if (ordered) {
        want = plain<T, T>(kind, x, s);
      } else {
        for (Acc v : plain<T, Acc>(kind, x, s)) want.push_back(static_cast<T>(v));
      }
      on_every_target([&] {
        std::vector<T> got(want.size());
        reduce(kind, dtype, x.data(), got.data(), s, nullptr);
        ASSERT_EQ(got, want);
      });
    }
  }
}
TEST(CpuVecReduce, IntegersWrap) {
  expect_integers<int32_t, uint32_t>(DType::i32);
  expect_integers<int64_t, uint64_t>(DType::i64);
  expect_integers<uint8_t, uint8_t>(DType::u8);
  expect_integers<int8_t, uint8_t>(DType::i8);
}

TEST(CpuVecReduce, NanPropagatesFromEveryPlace) {
  on_every_target([&] {
    for (int64_t n : {1, 5, 16, 33, 70}) {
      for (int64_t at = 0; at < n; ++at) {
        std::vector<float> x(static_cast<size_t>(n), 1.0f);
        x[static_cast<size_t>(at)] = kNan;
        for (ReduceKind kind : {ReduceKind::max, ReduceKind::min, ReduceKind::sum, ReduceKind::mul}) {
          float got = 0;
          reduce(kind, DType::f32, x.data(), &got, {1, n, 1}, nullptr);
          ASSERT_TRUE(std::isnan(got)) << n << " " << at;
          std::vector<float> columns(static_cast<size_t>(n));
          reduce(kind, DType::f32, x.data(), columns.data(), {1, 1, n}, nullptr);
          ASSERT_TRUE(std::isnan(columns[static_cast<size_t>(at)]));
        }
        int64_t index = -1;
        x.push_back(kNan);
        arg_reduce(true, false, DType::f32, x.data(), &index, {1, n + 1, 1}, nullptr);
        ASSERT_EQ(index, at);
        arg_reduce(false, true, DType::f32, x.data(), &index, {1, n + 1, 1}, nullptr);
        ASSERT_EQ(index, n);
      }
    }
  });
}

TEST(CpuVecReduce, EmptyAxes) {
  const auto one = [](ReduceKind kind) {
    std::vector<float> out(6, 5);
    reduce(kind, DType::f32, nullptr, out.data(), {2, 0, 3}, nullptr);
    return out[5];
  };
  on_every_target([&] {
    EXPECT_EQ(one(ReduceKind::sum), 0);
    EXPECT_EQ(one(ReduceKind::mul), 1);
    EXPECT_EQ(one(ReduceKind::max), -kInf);
    EXPECT_EQ(one(ReduceKind::min), kInf);
  });
  int8_t byte = 5;
  reduce(ReduceKind::max, DType::i8, nullptr, &byte, {1, 0, 1}, nullptr);
  EXPECT_EQ(byte, -128);
  bool flag = false;
  reduce(ReduceKind::min, DType::boolean, nullptr, &flag, {1, 0, 1}, nullptr);
  EXPECT_TRUE(flag);
  uint16_t half = 7;
  reduce(ReduceKind::max, DType::f16, nullptr, &half, {1, 0, 1}, nullptr);
  EXPECT_EQ(half, 0xfc00);
}

TEST(CpuVecReduce, EmptyResults) {
  for (const ReduceShape& s : {ReduceShape{2, 3, 0}, {0, 3, 2}, {0, 0, 0}, {1, 100000, 0}})
    reduce(ReduceKind::sum, DType::f32, nullptr, nullptr, s, nullptr);
}

TEST(CpuVecReduce, HalvesAddUpInMoreThanHalf) {
  std::vector<uint16_t> x(5000, to_f16(1.0f).bits);
  uint16_t got = 0;
  reduce(ReduceKind::sum, DType::f16, x.data(), &got, {1, 5000, 1}, nullptr);
  EXPECT_EQ(to_float(f16{got}), 5000.0f);
}

TEST(CpuVecReduce, SameAnswerForAnyNumberOfThreads) {
  Random random;
  ThreadPool one(1), four(4);
  for (const ReduceShape& s : {ReduceShape{1, 1000001, 1}, {2, 100000, 5}, {90, 1000, 7}}) {
    const auto x = random.floats(static_cast<size_t>(s.outer * s.reduce * s.inner));
    std::vector<float> a(static_cast<size_t>(s.outer * s.inner)), b = a, c = a;
    reduce(ReduceKind::sum, DType::f32, x.data(), a.data(), s, nullptr);
    reduce(ReduceKind::sum, DType::f32, x.data(), b.data(), s, &one);
    reduce(ReduceKind::sum, DType::f32, x.data(), c.data(), s, &four);
    EXPECT_EQ(a, b);
    EXPECT_EQ(a, c);
  }
}

TEST(CpuVecReduce, ArgumentsOfExtremes) {
  Random random;
  for (const ReduceShape& s : shapes()) {
    if (s.reduce * s.inner > 10000) continue;
    std::vector<float> x;
    std::vector<int32_t> y;
    for (int64_t i = 0; i < s.outer * s.reduce * s.inner; ++i) {
      y.push_back(static_cast<int32_t>(random.integer(-5, 5)));
      x.push_back(static_cast<float>(y.back()));
    }
    for (bool largest : {false, true}) {
      for (bool last : {false, true}) {
        std::vector<int64_t> want;
        for (int64_t o = 0; o < s.outer; ++o) {
          for (int64_t c = 0; c < s.inner; ++c) {
            int64_t best = 0;
            const auto at = [&](int64_t r) { return y[static_cast<size_t>((o * s.reduce + r) * s.inner + c)]; };
            for (int64_t r = 1; r < s.reduce; ++r) {
              if (largest ? at(r) > at(best) : at(r) < at(best)) best = r;
              if (last && at(r) == at(best)) best = r;
            }
            want.push_back(best);
          }
        }
        on_every_target([&] {
          std::vector<int64_t> got(want.size());
          arg_reduce(largest, last, DType::f32, x.data(), got.data(), s, nullptr);
          ASSERT_EQ(got, want);
          arg_reduce(largest, last, DType::i32, y.data(), got.data(), s, nullptr);
          ASSERT_EQ(got, want);
        });
      }
    }
  }
}

}  // namespace
}  // namespace transmuter::cpu
