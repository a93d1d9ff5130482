#include "backends/cpu/kernels/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/kernels/target.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

// Extents of the two last axes; depth in Case::depth.
struct Case {
  const char* name;
  int64_t images, in_channels, out_channels, groups;
  int64_t in[2], kernel[2], stride[2], dilation[2], pad[2], pad_end[2];
  int64_t depth = 1, kernel_depth = 1, stride_depth = 1, pad_depth = 0;
};

const Case kCases[] = {
    {"3x3", 1, 5, 20, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 no padding", 2, 3, 17, 1, {8, 40}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"3x3 odd padding", 1, 4, 8, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {2, 0}, {0, 2}},
    {"3x3 wide padding", 1, 4, 8, 1, {3, 4}, {3, 3}, {1, 1}, {1, 1}, {3, 4}, {4, 3}},
    {"3x3 deep", 1, 60, 30, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 many filters", 2, 9, 66, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"1x1 many filters", 2, 70, 68, 2, {3, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 to one pixel", 1, 500, 64, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"3x3 to one pixel", 1, 50, 64, 1, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"7x7 stride 2", 2, 3, 16, 1, {30, 31}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {"3x3 stride 2 and 3", 1, 6, 10, 2, {13, 17}, {3, 3}, {2, 3}, {1, 1}, {1, 0}, {0, 1}},
    {"1x1 stride 2", 1, 8, 9, 1, {10, 9}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1", 2, 8, 33, 1, {5, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 groups", 2, 8, 12, 4, {5, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"dilated", 1, 4, 6, 1, {14, 15}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {"dilated stride 2", 1, 4, 6, 1, {14, 15}, {3, 2}, {2, 2}, {3, 2}, {2, 3}, {2, 3}},
    {"negative padding", 1, 2, 4, 1, {9, 12}, {3, 3}, {1, 1}, {1, 1}, {-1, -2}, {0, -1}},
    {"depthwise 3x3", 2, 6, 6, 6, {10, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 5x5 stride 2", 1, 6, 6, 6, {13, 14}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {1, 2}},
    {"depthwise 5x5", 1, 3, 3, 3, {11, 23}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {"depthwise 3x3 narrow", 2, 3, 3, 3, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 3x3 stride 2 wide", 1, 3, 3, 3, {20, 77}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise times 3", 1, 4, 12, 4, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"depthwise 1x1", 1, 4, 4, 4, {9, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"one dimension", 2, 3, 8, 1, {1, 200}, {1, 10}, {1, 5}, {1, 1}, {0, 0}, {0, 0}},
    {"one dimension causal", 1, 8, 8, 1, {1, 50}, {1, 3}, {1, 1}, {1, 4}, {0, 8}, {0, 0}},
    {"three dimensions", 1, 3, 5, 1, {6, 7}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 5, 3, 2, 1},
    {"three dimensions depthwise", 1, 3, 3, 3, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 5, 2, 1, 1},
};

Windows windows_of(const Case& c) {
  Windows w;
  w.in[0] = c.depth, w.kernel[0] = c.kernel_depth, w.stride[0] = c.stride_depth, w.pad[0] = c.pad_depth;
  w.out[0] = (c.depth + 2 * c.pad_depth - c.kernel_depth) / c.stride_depth + 1;
  for (int i = 0; i < 2; ++i) {
    w.in[i + 1] = c.in[i], w.kernel[i + 1] = c.kernel[i], w.stride[i + 1] = c.stride[i];
    w.dilation[i + 1] = c.dilation[i], w.pad[i + 1] = c.pad[i];
    w.out[i + 1] = (c.in[i] + c.pad[i] + c.pad_end[i] - (c.kernel[i] - 1) * c.dilation[i] - 1) / c.stride[i] + 1;
  }
  return w;
}

std::vector<float> run(const Case& c, bool epilogue, bool pack, int threads, std::vector<float>* expected) {
  ConvArgs a;
  a.windows = windows_of(c);
  a.images = c.images, a.groups = c.groups, a.in_channels = c.in_channels, a.out_channels = c.out_channels;
  a.x_channel = a.windows.in_pixels() + 3, a.x_image = a.x_channel * c.in_channels;
  a.y_channel = a.windows.out_pixels() + 5, a.y_image = a.y_channel * c.out_channels;
  const auto x = random_floats(a.x_image * c.images, 1);
  const auto filters = random_floats(c.out_channels * c.in_channels / c.groups * a.windows.taps(), 2);
  const auto bias = random_floats(c.out_channels, 3), residual = random_floats(a.y_image * c.images, 4);
  std::vector<float> y(static_cast<size_t>(a.y_image * c.images), 77.0f);
  *expected = y;
  a.x = x.data(), a.filters = filters.data();
  if (epilogue) {
    a.epilogue.row_bias = bias.data();
    a.epilogue.residual = residual.data();
    a.epilogue.residual_row = a.y_channel, a.residual_image = a.y_image;
    a.epilogue.activation = Activation::relu;
  }
  a.y = expected->data();
  conv_reference(a);
  a.y = y.data();
  ThreadPool pool(threads);
  const size_t packed_bytes = pack ? conv_packed_bytes(a) : 0;
  AlignedBytes packed(packed_bytes);
  if (packed_bytes) {
    conv_pack(a, packed.data, pool);
    a.packed_filters = packed.data;
  }
  AlignedBytes scratch(conv_scratch_bytes(a, threads));
  conv(a, scratch.data, pool);
  return y;
}

TEST(CpuConv, EveryKindOfWindowIsRight) {
  on_all_targets([] {
    for (const Case& c : kCases) {
      for (int bits = 0; bits < 4; ++bits) {
        std::vector<float> want;
        const auto got = run(c, bits & 1, bits & 2, 1, &want);
        int bad = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          if (!(std::abs(got[i] - want[i]) <= 1e-5) && ++bad == 1) {
            ADD_FAILURE() << c.name << " " << current_target() << " at " << i << ": " << got[i] << " for " << want[i];
          }
        }
      }
    }
  });
}

TEST(CpuConv, AnyNumberOfThreadsGivesTheSameBits) {
  const Case big[] = {{"3x3", 3, 40, 64, 2, {30, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                      {"1x1", 2, 64, 64, 1, {30, 30}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                      {"depthwise", 2, 40, 40, 40, {30, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}};
  on_all_targets([&] {
    if (current_target() == available_targets().back()) return;
    for (const Case& c : big) {
      std::vector<float> want;
      const auto one = run(c, true, true, 1, &want);
      EXPECT_EQ(run(c, true, true, 3, &want), one) << c.name;
    }
  });
}

TEST(CpuPool, WindowsOfEveryKind) {
  on_all_targets([] {
    for (const Case& c : kCases) {
      if (c.pad[0] < 0) continue;
      for (const bool maximum : {true, false}) {
        PoolArgs p;
        p.windows = windows_of(c);
        // A window of padding alone has no maximum.
        bool empty = false;
        for (int i = 0; i < 2; ++i) empty = empty || c.pad[i] >= c.kernel[i] || c.pad_end[i] >= c.kernel[i];
        if (empty) continue;
        p.maximum = maximum, p.planes = 3;
        const auto x = random_floats(p.planes * p.windows.in_pixels(), 1);
        std::vector<float> got(static_cast<size_t>(p.planes * p.windows.out_pixels())), want = got;
        p.x = x.data(), p.y = want.data();
        pool_reference(p);
        p.y = got.data();
        for (int threads : {1, 2}) {
          ThreadPool pool(threads);
          AlignedBytes scratch(pool_scratch_bytes(p, threads));
          pool_windows(p, scratch.data, pool);
          for (size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], want[i], 1e-6 * p.windows.taps()) << c.name << " " << i;
        }
      }
    }
  });
}

// Not by way of an average: sums of whole numbers are whole.
TEST(CpuPool, SumsOfWholeNumbersAreExact) {
  PoolArgs p;
  p.windows.in[2] = 64, p.windows.kernel[2] = 9, p.windows.pad[2] = 4, p.windows.out[2] = 64;
  p.maximum = false;
  std::vector<float> x(64), y(64), want(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  p.x = x.data(), p.y = want.data();
  pool_reference(p);
  p.y = y.data();
  ThreadPool pool(1);
  AlignedBytes scratch(pool_scratch_bytes(p, 1));
  pool_windows(p, scratch.data, pool);
  EXPECT_EQ(y, want);
}

TEST(CpuPool, MaximaKeepNan) {
  constexpr int64_t kWidth = 40;
  on_all_targets([] {
    for (int64_t at = 0; at < kWidth; ++at) {
      auto x = random_floats(kWidth, 1);
      x[static_cast<size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      ThreadPool pool(1);
      float most = 0;
      pool_global(1, kWidth, true, x.data(), &most, pool);
      EXPECT_TRUE(std::isnan(most)) << at;
      PoolArgs p;
      p.windows.in[2] = kWidth, p.windows.kernel[2] = 3, p.windows.pad[2] = 1, p.windows.out[2] = kWidth;
      std::vector<float> y(kWidth);
      p.x = x.data(), p.y = y.data();
      AlignedBytes scratch(pool_scratch_bytes(p, 1));
      pool_windows(p, scratch.data, pool);
      for (int64_t i = 0; i < kWidth; ++i)
        EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), std::abs(i - at) <= 1) << at;
    }
  });
}

TEST(CpuPool, Global) {
  on_all_targets([] {
    for (int64_t n : {1, 49, 200}) {
      const auto x = random_floats(3 * n, 1);
      std::vector<float> mean(3), most(3);
      ThreadPool pool(2);
      pool_global(3, n, false, x.data(), mean.data(), pool);
      pool_global(3, n, true, x.data(), most.data(), pool);
      for (int64_t i = 0; i < 3; ++i) {
        double sum = 0, top = -10;
        for (int64_t j = 0; j < n; ++j) {
          sum += x[static_cast<size_t>(i * n + j)];
          top = std::max<double>(top, x[static_cast<size_t>(i * n + j)]);
        }
        EXPECT_NEAR(mean[static_cast<size_t>(i)], sum / static_cast<double>(n), 1e-6);
        EXPECT_EQ(most[static_cast<size_t>(i)], top);
      }
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
