#include "backends/cpu/kernels/qgemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels/target.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

enum class Values { random, extremes, highest, lowest };

std::vector<uint8_t> bytes(int64_t n, Values values, bool is_signed, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> out(static_cast<size_t>(n));
  const uint8_t low = is_signed ? 0x80 : 0, high = is_signed ? 0x7f : 0xff;
  for (uint8_t& x : out) {
    switch (values) {
      case Values::random:
        x = static_cast<uint8_t>(rng());
        break;
      case Values::extremes:
        x = rng() & 1 ? low : high;
        break;
      case Values::highest:
        x = high;
        break;
      case Values::lowest:
        x = low;
        break;
    }
  }
  return out;
}

struct Case {
  int64_t m, n, k;
  bool a_signed, b_signed;
  Values a_values, b_values;
  bool a_transposed = false, b_transposed = false;
  int zeros = 0;  // 0 none, 1 one each, 2 one a row and column
};

void check(const Case& c, int threads) {
  const auto a = bytes(c.m * c.k, c.a_values, c.a_signed, 1), b = bytes(c.k * c.n, c.b_values, c.b_signed, 2);
  std::vector<int32_t> za, zb;
  for (int64_t i = 0; i < c.m; ++i) za.push_back(static_cast<int32_t>(i * 37 % 256) - (c.a_signed ? 128 : 0));
  for (int64_t i = 0; i < c.n; ++i) zb.push_back(static_cast<int32_t>(i * 91 % 256) - (c.b_signed ? 128 : 0));
  QgemmArgs g;
  g.m = c.m, g.n = c.n, g.k = c.k;
  g.a = a.data(), g.a_signed = c.a_signed, g.b_signed = c.b_signed;
  g.a_row = c.a_transposed ? 1 : c.k, g.a_column = c.a_transposed ? c.m : 1;
  const int64_t b_row = c.b_transposed ? 1 : c.n, b_column = c.b_transposed ? c.k : 1;
  if (c.zeros) g.a_zero = za.data(), g.b_zero = zb.data(), g.a_zero_per_row = g.b_zero_per_column = c.zeros == 2;
  std::vector<int32_t> want(static_cast<size_t>(c.m * c.n)), got(want.size(), -1);
  qgemm_reference(g, b.data(), b_row, b_column, want.data());
  ThreadPool pool(threads);
  AlignedBytes packed(packed_qb_bytes(c.k, c.n));
  pack_qb(c.k, c.n, b.data(), c.b_signed, b_row, b_column, packed.data, pool);
  g.packed_b = packed.data;
  g.sums = got.data(), g.c_row = c.n;
  AlignedBytes scratch(qgemm_scratch_bytes(g, threads));
  qgemm(g, scratch.data, pool);
  EXPECT_EQ(got, want) << current_target() << " " << c.m << " " << c.n << " " << c.k << " zeros " << c.zeros
                       << " signed " << c.a_signed << c.b_signed;
}

TEST(CpuQgemm, ExactForEveryShapeSignAndZeroPoint) {
  on_all_targets([] {
    const int64_t shapes[][3] = {{1, 1, 1},    {1, 40, 17},  {3, 33, 5}, {14, 32, 64},
                                 {17, 70, 30}, {29, 9, 131}, {5, 5, 0}};
    for (const auto& s : shapes) {
      for (int bits = 0; bits < 16; ++bits) {
        Case c{s[0], s[1], s[2], (bits & 1) != 0, (bits & 2) != 0, Values::random, Values::random};
        c.a_transposed = bits & 4, c.b_transposed = bits & 8, c.zeros = bits % 3;
        check(c, 1);
      }
    }
  });
}

TEST(CpuQgemm, ExactAtTheExtremes) {
  on_all_targets([] {
    for (Values a : {Values::extremes, Values::highest, Values::lowest}) {
      for (Values b : {Values::extremes, Values::highest, Values::lowest}) {
        for (int bits = 0; bits < 4; ++bits) check({15, 37, 600, (bits & 1) != 0, (bits & 2) != 0, a, b}, 1);
      }
    }
  });
}

TEST(CpuQgemm, ThreadsChangeNothing) {
  on_all_targets([] { check({60, 300, 200, false, true, Values::random, Values::random, false, false, 2}, 3); });
}

TEST(CpuQgemm, ScalesAndTheEpilogueGiveFloats) {
  on_all_targets([] {
    const int64_t m = 19, n = 45, k = 50, batches = 2;
    const auto a = bytes(batches * m * k, Values::random, false, 1), b = bytes(k * n, Values::random, true, 2);
    std::vector<float> row_scale, column_scale, bias, residual(static_cast<size_t>(batches * m * n), 0.25f);
    for (int64_t i = 0; i < m; ++i) row_scale.push_back(0.01f + 0.001f * static_cast<float>(i));
    for (int64_t i = 0; i < n; ++i) column_scale.push_back(0.02f), bias.push_back(static_cast<float>(i) - 20);
    const int32_t a_zero = 120;
    QgemmArgs g;
    g.m = m, g.n = n, g.k = k, g.a = a.data(), g.a_row = k, g.a_zero = &a_zero;
    g.a_scale = row_scale.data(), g.a_scale_per_row = true, g.b_scale = column_scale.data(),
    g.b_scale_per_column = true;
    g.epilogue.column_bias = bias.data(), g.epilogue.activation = Activation::relu;
    g.epilogue.residual = residual.data(), g.epilogue.residual_row = 1, g.epilogue.residual_column = m;
    g.epilogue.combine = Combine::add_after;
    g.batch_rank = 1, g.batch[0] = batches, g.a_batch[0] = m * k, g.c_batch[0] = g.residual_batch[0] = m * n;
    std::vector<float> c(static_cast<size_t>(batches * m * n));
    g.c = c.data(), g.c_row = 1, g.c_column = m;
    ThreadPool pool(1);
    AlignedBytes packed(packed_qb_bytes(k, n));
    pack_qb(k, n, b.data(), true, n, 1, packed.data, pool);
    g.packed_b = packed.data;
    AlignedBytes scratch(qgemm_scratch_bytes(g, 1));
    qgemm(g, scratch.data, pool);
    for (int64_t batch = 0; batch < batches; ++batch) {
      std::vector<int32_t> sums(static_cast<size_t>(m * n));
      QgemmArgs one = g;
      one.a = a.data() + batch * m * k;
      qgemm_reference(one, b.data(), n, 1, sums.data());
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const double x = static_cast<double>(sums[static_cast<size_t>(i * n + j)]) *
                               row_scale[static_cast<size_t>(i)] * column_scale[static_cast<size_t>(j)] +
                           bias[static_cast<size_t>(j)];
          EXPECT_NEAR(c[static_cast<size_t>(batch * m * n + j * m + i)], std::max(x, 0.0) + 0.25, 1e-4);
        }
      }
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
