#include "backends/cpu/kernels/gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "backends/cpu/kernels/rounded.h"
#include "backends/cpu/kernels/target.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

struct Layout {
  bool a_transposed = false, b_transposed = false, c_transposed = false;
};

struct Case {
  int64_t m, n, k;
  int64_t batch = 1;
  bool share_a = false, share_b = false;
  Layout layout = {};
  bool packed = true;
  Storage source = Storage::f32, storage = Storage::f32;
  Epilogue epilogue = {};
  bool column_bias = false, row_bias = false, residual = false;
  int threads = 1;
};

std::vector<uint16_t> to_halves(const std::vector<float>& in, Storage storage) {
  std::vector<uint16_t> out;
  for (float x : in) {
    const auto bits = std::bit_cast<uint32_t>(x);
    if (storage == Storage::bf16) {
      out.push_back(static_cast<uint16_t>(bits >> 16));
      continue;
    }
    // Cut to a normal half: the value does not matter, only that both sides read the same.
    const int exponent = static_cast<int>(bits >> 23 & 255) - 112;
    out.push_back(
        static_cast<uint16_t>((bits >> 16 & 0x8000) | (exponent > 0 ? exponent << 10 | (bits >> 13 & 1023) : 0)));
  }
  return out;
}

// Runs the case; returns the result with every operand's gaps checked.
std::vector<float> run(const Case& c, std::vector<float>* expected) {
  const int64_t pad = 3;
  const auto stride = [&](bool transposed, int64_t rows, int64_t columns, int64_t* row, int64_t* column) {
    *row = transposed ? 1 : columns + pad;
    *column = transposed ? rows + pad : 1;
    return (transposed ? columns * *column : rows * *row);
  };
  GemmArgs g;
  g.m = c.m, g.n = c.n, g.k = c.k;
  const int64_t a_size = stride(c.layout.a_transposed, c.m, c.k, &g.a_row, &g.a_column);
  const int64_t b_size = stride(c.layout.b_transposed, c.k, c.n, &g.b_row, &g.b_column);
  const int64_t c_size = stride(c.layout.c_transposed, c.m, c.n, &g.c_row, &g.c_column);
  const auto a = random_floats(a_size * (c.share_a ? 1 : c.batch) + 1, 1);
  const auto b = random_floats(b_size * (c.share_b ? 1 : c.batch) + 1, 2);
  const auto halves = c.source == Storage::f32 ? std::vector<uint16_t>() : to_halves(b, c.source);
  const auto residual = random_floats(c_size * c.batch + 1, 3);
  const auto column_bias = random_floats(c.n, 4), row_bias = random_floats(c.m, 5);
  std::vector<float> result(static_cast<size_t>(c_size * c.batch), 123.0f);
  *expected = result;
  g.epilogue = c.epilogue;
  if (c.column_bias) g.epilogue.column_bias = column_bias.data();
  if (c.row_bias) g.epilogue.row_bias = row_bias.data();
  if (c.residual) {
    g.epilogue.residual = residual.data();
    g.epilogue.residual_row = g.c_row, g.epilogue.residual_column = g.c_column;
  }
  g.a = a.data();
  g.b = c.source == Storage::f32 ? static_cast<const void*>(b.data()) : halves.data();
  g.b_storage = c.source;
  g.batch_rank = 1, g.batch[0] = c.batch;
  g.a_batch[0] = c.share_a ? 0 : a_size, g.b_batch[0] = c.share_b ? 0 : b_size;
  g.c_batch[0] = g.residual_batch[0] = c_size;
  g.c = expected->data();
  gemm_reference(g);

  ThreadPool pool(c.threads);
  const size_t one = packed_b_bytes(c.k, c.n, c.storage);
  AlignedBytes packed(one * static_cast<size_t>(c.share_b ? 1 : c.batch));
  if (c.packed) {
    const int64_t size = c.source == Storage::f32 ? 4 : 2;
    for (int64_t i = 0; i < (c.share_b ? 1 : c.batch); ++i) {
      pack_b(c.k, c.n, static_cast<const std::byte*>(g.b) + i * b_size * size, c.source, g.b_row, g.b_column, c.storage,
             packed.data + static_cast<size_t>(i) * one, pool);
    }
    g.b = packed.data;
    g.b_packed = true;
    g.b_storage = c.storage;
    g.b_batch[0] = c.share_b ? 0 : static_cast<int64_t>(one) / (c.storage == Storage::f32 ? 4 : 2);
  }
  g.c = result.data();
  AlignedBytes scratch(gemm_scratch_bytes(g, pool.threads()));
  gemm(g, scratch.data, pool);
  return result;
}

void expect_close(const Case& c, const std::string& what) {
  std::vector<float> expected;
  const auto got = run(c, &expected);
  const double tolerance = 2e-7 * (8 + 2 * std::sqrt(static_cast<double>(c.k)));
  int bad = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i]))) && ++bad == 1) {
      ADD_FAILURE() << what << " " << current_target() << " m n k " << c.m << " " << c.n << " " << c.k << " at " << i
                    << ": " << got[i] << " for " << expected[i];
    }
  }
}

TEST(CpuGemm, EveryShapeAndLayoutIsRight) {
  on_all_targets([] {
    const int64_t shapes[][3] = {{1, 1, 1},
                                 {1, 33, 7},
                                 {2, 16, 5},
                                 {3, 47, 64},
                                 {5, 32, 100},
                                 {6, 64, 64},
                                 {7, 8, 3},
                                 {13, 65, 31},
                                 {14, 32, 128},
                                 {15, 31, 9},
                                 {16, 96, 33},
                                 {29, 130, 385},
                                 {64, 1, 50},
                                 {40, 16, 20},
                                 {33, 300, 64},
                                 {150, 70, 800},
                                 {4, 5, 0},
                                 // Few columns or rows: A in place, the last columns or all of B by dot products.
                                 {20, 49, 700},
                                 {30, 20, 50},
                                 {9, 4, 40},
                                 {31, 48, 2100},
                                 {17, 64, 2048},
                                 {4, 70, 19},
                                 {2, 9, 130},
                                 {1, 131, 65},
                                 {45, 18, 513}};
    for (const auto& s : shapes) {
      for (int bits = 0; bits < 16; ++bits) {
        Case c{.m = s[0], .n = s[1], .k = s[2]};
        c.layout = {.a_transposed = (bits & 1) != 0, .b_transposed = (bits & 2) != 0, .c_transposed = (bits & 4) != 0};
        c.packed = bits & 8;
        expect_close(c, "bits " + std::to_string(bits));
      }
    }
  });
}

TEST(CpuGemm, BatchesBroadcastWithStrideZero) {
  on_all_targets([] {
    for (int bits = 0; bits < 8; ++bits) {
      Case c{.m = 10, .n = 40, .k = 24, .batch = 3};
      c.share_a = bits & 1, c.share_b = bits & 2, c.packed = bits & 4;
      c.residual = true;
      expect_close(c, "batch bits " + std::to_string(bits));
    }
  });
}

TEST(CpuGemm, TheEpilogueIsAppliedOnce) {
  on_all_targets([] {
    for (int activation = 0; activation <= static_cast<int>(Activation::hard_swish); ++activation) {
      for (int bits = 0; bits < 16; ++bits) {
        Case c{.m = 17, .n = 45, .k = bits & 8 ? 900 : 20};
        c.epilogue.activation = static_cast<Activation>(activation);
        c.epilogue.alpha = bits & 8 ? 0.1f : 0.7f;
        if (c.epilogue.activation == Activation::clip) c.epilogue.first = -0.3f, c.epilogue.second = 0.4f;
        if (c.epilogue.activation == Activation::leaky_relu) c.epilogue.first = 0.2f;
        c.epilogue.combine = static_cast<Combine>(activation % 3);
        c.epilogue.residual_scale = 0.5f;
        c.column_bias = bits & 1, c.row_bias = bits & 2, c.residual = bits & 4;
        c.layout.c_transposed = bits == 13 || bits == 5;
        expect_close(c, "activation " + std::to_string(activation) + " bits " + std::to_string(bits));
      }
    }
  });
}

TEST(CpuGemm, HalfWeightsAreWidened) {
  on_all_targets([] {
    for (Storage source : {Storage::f16, Storage::bf16}) {
      for (int64_t m : {1, 5, 16, 60}) {
        for (int bits = 0; bits < 4; ++bits) {
          Case c{.m = m, .n = 45, .k = 70};
          c.source = source;
          c.storage = bits & 1 ? source : Storage::f32;
          c.layout.b_transposed = bits & 2;
          c.epilogue.alpha = 0.5f;
          expect_close(c, "half packed");
          c.packed = false;
          expect_close(c, "half unpacked");
        }
      }
    }
  });
}

// Weights of a few bits [n, k], their scales and zeros [n, blocks]; the product with them by gemm and in double.
struct FewBitsCase {
  int64_t m, n, k;
  FewBits bits;
  bool is_signed = false;
  int threads = 1;
  bool swapped = false;  // neighbours in a byte
};

void round_blocks(const FewBitsCase& c, std::vector<float>& a) {
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t begin = 0; begin < c.k; begin += c.bits.block) {
      float* const row = a.data() + i * c.k;
      const int64_t end = std::min(c.k, begin + c.bits.block);
      float most = 0;
      for (int64_t p = begin; p < end; ++p) most = std::max(most, std::abs(row[p]));
      for (int64_t p = begin; p < end; ++p) row[p] = std::nearbyint(row[p] * (127.0f / most)) * (most / 127.0f);
    }
  }
}

// `rounded`: each block of a row of A is rounded to eight bits, by the kernel and in what is expected.
std::vector<float> run_few_bits(const FewBitsCase& c, std::vector<float>* expected, bool rounded = false) {
  std::mt19937 rng(7);
  const int64_t blocks = (c.k + c.bits.block - 1) / c.bits.block, per_byte = 8 / c.bits.bits;
  const uint32_t values = 1u << c.bits.bits;
  std::vector<uint32_t> codes(static_cast<size_t>(c.n * c.k));
  for (uint32_t& code : codes) code = rng() % values;
  std::vector<std::byte> bytes(codes.size() / static_cast<size_t>(per_byte) + 1);
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t stored = c.swapped ? i ^ 1 : i, at = i / static_cast<size_t>(per_byte);
    bytes[at] |= static_cast<std::byte>(codes[i] << (static_cast<int64_t>(stored) % per_byte * c.bits.bits));
  }
  auto a = random_floats(c.m * c.k + 1, 1);
  const auto bias = random_floats(c.n, 3);
  auto scales = random_floats(c.n * blocks, 2);
  std::vector<uint8_t> zeros(static_cast<size_t>(c.n * blocks));
  for (uint8_t& zero : zeros) zero = static_cast<uint8_t>(rng() % values);

  ThreadPool pool(c.threads);
  AlignedBytes packed(packed_few_bits_bytes(c.k, c.n, c.bits));
  pack_few_bits(c.k, c.n, c.bits, bytes.data(), c.is_signed, scales.data(), zeros.data(), packed.data, pool, c.swapped);
  std::vector<float> result(static_cast<size_t>(c.m * c.n));
  GemmArgs g{.m = c.m, .n = c.n, .k = c.k, .a = a.data(), .a_row = c.k, .b = packed.data, .b_packed = true};
  g.b_bits = c.bits;
  g.c = result.data();
  g.c_row = c.n;
  g.epilogue.column_bias = bias.data();
  g.epilogue.activation = Activation::relu;
  if (rounded) {
    AlignedBytes scratch(rounded_gemm_scratch_bytes({&g, 1}, c.threads));
    rounded_gemm({&g, 1}, scratch.data, pool);
    round_blocks(c, a);
  } else {
    AlignedBytes scratch(gemm_scratch_bytes(g, c.threads));
    gemm(g, scratch.data, pool);
  }

  expected->clear();
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = bias[static_cast<size_t>(j)];
      for (int64_t p = 0; p < c.k; ++p) {
        const size_t block = static_cast<size_t>(j * blocks + p / c.bits.block);
        const uint32_t code = codes[static_cast<size_t>(j * c.k + p)] ^ (c.is_signed ? values / 2 : 0);
        const double zero = c.bits.zeros ? zeros[block] : double{c.bits.zero};
        const double value = c.bits.table ? double{c.bits.table[code]} : code - zero;
        sum += a[static_cast<size_t>(i * c.k + p)] * value * scales[block];
      }
      expected->push_back(static_cast<float>(std::max(sum, 0.0)));
    }
  }
  return result;
}

TEST(CpuGemm, WeightsOfAFewBits) {
  on_all_targets([] {
    for (const int bits : {2, 4, 8}) {
      for (const int64_t m : {1, 2, 3, 4, 5, 17}) {
        for (const int variant : {0, 1, 2}) {
          // Blocks that end within k, within a word, and one that is longer than k.
          const int64_t k = variant == 0 ? 96 : variant == 1 ? 803 : 61, block = variant == 2 ? 64 : 32;
          FewBitsCase c{m, variant == 2 ? 7 : 75, k, {bits, block, variant == 1, bits == 8 ? 128.0f : 1.0f}};
          c.is_signed = variant == 2;
          std::vector<float> expected;
          const auto got = run_few_bits(c, &expected);
          const double size = (1 << bits) * std::sqrt(static_cast<double>(k));
          for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], expected[i], 1e-6 * size)
                << current_target() << " bits " << bits << " m " << m << " variant " << variant << " at " << i;
          }
          c.threads = 3;
          EXPECT_EQ(run_few_bits(c, &expected), got);
        }
      }
    }
  });
}

TEST(CpuGemm, WeightsThatArePlacesInATable) {
  const std::vector<float> table = random_floats(16, 5);
  on_all_targets([&] {
    for (const int64_t m : {1, 2, 3, 4, 5, 17}) {
      for (const bool swapped : {false, true}) {
        const int64_t k = swapped ? 128 : 803;
        FewBitsCase c{m, 75, k, {.bits = 4, .block = 64, .table = table.data()}};
        c.swapped = swapped;
        std::vector<float> expected;
        const auto got = run_few_bits(c, &expected);
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 4e-6 * std::sqrt(static_cast<double>(k)))
              << current_target() << " m " << m << " swapped " << swapped << " at " << i;
        }
        c.threads = 3;
        EXPECT_EQ(run_few_bits(c, &expected), got);
      }
    }
  });
}

TEST(CpuGemm, WeightsOfAFewBitsAndRoundedActivations) {
  int kernels = 0;
  on_all_targets([&] {
    for (const int bits : {2, 4, 8}) {
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 13, 17, 64}) {
        for (const int variant : {0, 1, 2, 3}) {
          const int64_t k = variant == 0 ? 96 : variant == 1 ? 803 : variant == 2 ? 61 : 1024;
          const int64_t block = variant == 2 ? 64 : variant == 3 ? 128 : variant == 1 ? 16 : 32;
          FewBitsCase c{m, variant == 2 ? 7 : 75, k, {bits, block, variant == 1, bits == 8 ? 128.0f : 1.0f}};
          if (!rounded_gemm_takes(c.bits)) continue;
          ++kernels;
          c.is_signed = variant == 2;
          std::vector<float> expected;
          const auto got = run_few_bits(c, &expected, true);
          const double size = (1 << bits) * std::sqrt(static_cast<double>(k));
          for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], expected[i], 1e-6 * size)
                << current_target() << " bits " << bits << " m " << m << " variant " << variant << " at " << i;
          }
          c.threads = 3;
          EXPECT_EQ(run_few_bits(c, &expected, true), got);
        }
      }
    }
  });
  if (kernels == 0) GTEST_SKIP() << "no instruction set of this machine has such a kernel";
}

// All weights and activations as large as they can be: 16-bit sums must not overflow.
TEST(CpuGemm, RoundedActivationsAtTheExtremes) {
  on_all_targets([] {
    for (const int bits : {2, 4, 8}) {
      const int64_t m = 9, n = 40, k = 512;
      const FewBits kind{bits, 128, false, 0.0f};
      if (!rounded_gemm_takes(kind)) continue;
      const std::vector<std::byte> ones(static_cast<size_t>(n * k * bits / 8), std::byte{0xff});
      const std::vector<float> scales(static_cast<size_t>(n * 4), 1.0f), a(static_cast<size_t>(m * k), -127.0f);
      ThreadPool pool(1);
      AlignedBytes packed(packed_few_bits_bytes(k, n, kind));
      pack_few_bits(k, n, kind, ones.data(), false, scales.data(), nullptr, packed.data, pool);
      std::vector<float> got(static_cast<size_t>(m * n));
      GemmArgs g{.m = m, .n = n, .k = k, .a = a.data(), .a_row = k, .b = packed.data, .b_packed = true};
      g.b_bits = kind;
      g.c = got.data(), g.c_row = n;
      AlignedBytes scratch(rounded_gemm_scratch_bytes({&g, 1}, 1));
      rounded_gemm({&g, 1}, scratch.data, pool);
      const float want = -127.0f * static_cast<float>(((1 << bits) - 1) * k);
      for (const float x : got) EXPECT_NEAR(x, want, -want * 1e-6) << current_target() << " bits " << bits;
    }
  });
}

TEST(CpuGemm, RoundedActivationsKeepNaN) {
  on_all_targets([] {
    const FewBits kind{4, 32, false, 8.0f};
    if (!rounded_gemm_takes(kind)) return;
    const std::vector<std::byte> weights(32 * 64 / 2, std::byte{0x91});
    const std::vector<float> scales(64, 1.0f);
    std::vector<float> a(3 * 64, 0.5f), got(3 * 32);
    a[70] = NAN;
    a[150] = INFINITY;
    ThreadPool pool(1);
    AlignedBytes packed(packed_few_bits_bytes(64, 32, kind));
    pack_few_bits(64, 32, kind, weights.data(), false, scales.data(), nullptr, packed.data, pool);
    GemmArgs g{.m = 3, .n = 32, .k = 64, .a = a.data(), .a_row = 64, .b = packed.data, .b_packed = true};
    g.b_bits = kind;
    g.c = got.data(), g.c_row = 32;
    AlignedBytes scratch(rounded_gemm_scratch_bytes({&g, 1}, 1));
    rounded_gemm({&g, 1}, scratch.data, pool);
    for (size_t j = 0; j < 32; ++j) {
      EXPECT_TRUE(std::isfinite(got[j]));
      EXPECT_TRUE(std::isnan(got[32 + j])) << current_target();
      EXPECT_FALSE(std::isfinite(got[64 + j])) << current_target();
    }
  });
}

TEST(CpuGemm, AGroupGivesTheBitsOfItsProducts) {
  on_all_targets([] {
    const int64_t k = 700;
    for (const int64_t m : {1, 5, 40}) {
      const auto a = random_floats(m * k, 1);
      std::vector<std::vector<float>> b, one, all;
      std::vector<GemmArgs> products;
      for (const int64_t n : {300, 17, 64}) {
        b.push_back(random_floats(k * n + 1, 2));
        one.emplace_back(static_cast<size_t>(m * n));
        all.emplace_back(static_cast<size_t>(m * n));
        products.push_back({.m = m, .n = n, .k = k, .a = a.data(), .a_row = k, .b_row = n, .c_row = n});
        products.back().epilogue.activation = n == 17 ? Activation::silu : Activation::none;
      }
      for (const int threads : {1, 3}) {
        ThreadPool pool(threads);
        for (size_t i = 0; i < products.size(); ++i) {
          products[i].b = b[i].data();
          products[i].c = one[i].data();
          AlignedBytes scratch(gemm_scratch_bytes(products[i], threads));
          gemm(products[i], scratch.data, pool);
          products[i].c = all[i].data();
        }
        AlignedBytes scratch(gemm_group_scratch_bytes(products, threads));
        gemm_group(products, scratch.data, pool);
        EXPECT_EQ(all, one) << current_target() << " m " << m;
      }
    }
  });
}

TEST(CpuGemm, AnyNumberOfThreadsGivesTheSameBits) {
  on_all_targets([] {
    const int64_t shapes[][3] = {{1, 900, 700},   {3, 1000, 500}, {30, 300, 800},
                                 {100, 100, 500}, {300, 40, 100}, {400, 49, 800}};
    for (const auto& s : shapes) {
      for (int bits = 0; bits < 4; ++bits) {
        Case c{.m = s[0], .n = s[1], .k = s[2], .packed = (bits & 1) != 0};
        c.layout.b_transposed = bits & 2;
        std::vector<float> expected;
        const auto one = run(c, &expected);
        for (int threads : {2, 3}) {
          c.threads = threads;
          EXPECT_EQ(run(c, &expected), one);
        }
      }
    }
  });
}

TEST(CpuGemm, TheResidualMayBeTheResult) {
  on_all_targets([] {
    const int64_t m = 20, n = 50, k = 1000;
    const auto a = random_floats(m * k, 1), b = random_floats(k * n, 2);
    auto want = random_floats(m * n, 3), got = want;
    GemmArgs g{.m = m, .n = n, .k = k, .a = a.data(), .a_row = k, .b = b.data(), .b_row = n, .c_row = n};
    g.epilogue.residual_row = n;
    g.epilogue.residual = g.c = want.data();
    gemm_reference(g);
    g.epilogue.residual = g.c = got.data();
    ThreadPool pool(1);
    AlignedBytes scratch(gemm_scratch_bytes(g, 1));
    gemm(g, scratch.data, pool);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1.5e-5 * (1 + std::abs(want[i])));
  });
}

TEST(CpuGemm, NotANumberPassesTheActivations) {
  on_all_targets([] {
    for (int activation = 0; activation <= static_cast<int>(Activation::gelu_tanh); ++activation) {
      const float a = NAN, b = 1;
      float c = 0;
      GemmArgs g{.m = 1, .n = 1, .k = 1, .a = &a, .a_row = 1, .b = &b, .b_row = 1, .c = &c, .c_row = 1};
      g.epilogue.activation = static_cast<Activation>(activation);
      ThreadPool pool(1);
      AlignedBytes scratch(gemm_scratch_bytes(g, 1));
      gemm(g, scratch.data, pool);
      EXPECT_TRUE(std::isnan(c)) << activation << " " << current_target();
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
