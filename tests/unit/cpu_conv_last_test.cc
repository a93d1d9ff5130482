#include "backends/cpu/kernels/conv_last.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/kernels/target.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

struct Case {
  const char* name;
  int64_t images, in_channels, out_channels, groups;
  int64_t in[2], kernel[2], stride[2], dilation[2], pad[2], pad_end[2];
  int64_t spread[2] = {1, 1};
};

const Case kCases[] = {
    {"3x3", 1, 12, 20, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 no padding", 2, 9, 17, 1, {8, 40}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"3x3 odd padding", 1, 8, 33, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {2, 0}, {0, 2}},
    {"3x3 wide padding", 1, 8, 24, 1, {3, 4}, {3, 3}, {1, 1}, {1, 1}, {3, 4}, {4, 3}},
    {"3x3 of one line", 1, 16, 24, 1, {3, 20}, {3, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}},
    {"3x3 deep", 1, 130, 70, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 pairs", 3, 40, 48, 1, {8, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 wide", 1, 36, 34, 1, {21, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 narrow images", 5, 40, 40, 1, {3, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 pairs and a half", 2, 30, 44, 1, {11, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 pairs, odd padding", 1, 16, 16, 1, {20, 17}, {3, 3}, {1, 1}, {1, 1}, {0, 2}, {2, 0}},
    {"3x3 pairs, deep", 1, 400, 40, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 stride 2", 2, 20, 40, 1, {13, 17}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"3x3 groups", 2, 32, 80, 2, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"1x1", 2, 70, 68, 1, {3, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 groups", 2, 70, 68, 2, {3, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 stride 2", 2, 24, 19, 1, {10, 9}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 deep", 1, 1024, 40, 1, {4, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"1x1 padded", 1, 16, 40, 1, {4, 9}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"1x1 of one pixel", 3, 500, 64, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"3x3 to one pixel", 1, 50, 64, 1, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"deep rows that share sets", 1, 512, 36, 1, {5, 15}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"7x7 stride 2 of three channels", 2, 3, 16, 1, {30, 31}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {"3x3 of one channel", 2, 1, 20, 1, {12, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 0}, {0, 1}},
    {"dilated, of four channels", 1, 4, 24, 1, {14, 15}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {"few channels, negative padding", 1, 3, 24, 1, {9, 12}, {3, 3}, {1, 1}, {1, 1}, {-1, -2}, {0, -1}},
    {"dilated", 1, 10, 24, 1, {14, 15}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {"dilated stride 2", 1, 10, 24, 1, {14, 15}, {3, 2}, {2, 2}, {3, 2}, {2, 3}, {2, 3}},
    {"negative padding", 1, 9, 24, 1, {9, 12}, {3, 3}, {1, 1}, {1, 1}, {-1, -2}, {0, -1}},
    {"one dimension", 2, 40, 24, 1, {1, 200}, {1, 10}, {1, 5}, {1, 1}, {0, 0}, {0, 0}},
    {"one dimension causal", 1, 8, 24, 1, {1, 50}, {1, 3}, {1, 1}, {1, 4}, {0, 8}, {0, 0}},
    {"depthwise 3x3", 2, 37, 37, 37, {10, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 3x3 narrow", 2, 20, 20, 20, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 3x3 of two columns", 1, 20, 20, 20, {5, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 3x3 of five columns", 1, 20, 20, 20, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 3x3 stride 2", 1, 33, 33, 33, {20, 31}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise 5x5 stride 2", 1, 6, 6, 6, {13, 14}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {1, 2}},
    {"depthwise 7x7", 1, 18, 18, 18, {9, 15}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {"transposed 2x2", 2, 16, 20, 1, {5, 7}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 2}},
    {"transposed 4x4", 1, 24, 20, 1, {5, 9}, {4, 4}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
    {"transposed 3x5, groups", 1, 24, 40, 2, {6, 4}, {3, 5}, {1, 1}, {1, 1}, {1, 3}, {2, 4}, {2, 3}},
    {"transposed, negative padding", 1, 24, 20, 1, {8, 9}, {3, 3}, {1, 1}, {1, 1}, {-1, -2}, {1, -3}, {2, 3}},
    {"transposed line", 2, 40, 24, 1, {1, 30}, {1, 16}, {1, 1}, {1, 1}, {0, 11}, {0, 12}, {1, 8}},
    {"transposed to one pixel", 1, 24, 20, 1, {2, 1}, {3, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 1}, {2, 2}},
    {"depthwise 2x3, rows apart", 1, 18, 18, 18, {9, 15}, {2, 3}, {3, 1}, {2, 1}, {1, 0}, {1, 0}},
};

Windows windows_of(const Case& c) {
  Windows w;
  for (int i = 0; i < 2; ++i) {
    w.in[i + 1] = c.in[i], w.kernel[i + 1] = c.kernel[i], w.stride[i + 1] = c.stride[i];
    w.dilation[i + 1] = c.dilation[i], w.pad[i + 1] = c.pad[i];
    w.in[i + 1] = (c.in[i] - 1) * c.spread[i] + 1;  // with the zeros
    w.out[i + 1] = (w.in[i + 1] + c.pad[i] + c.pad_end[i] - (c.kernel[i] - 1) * c.dilation[i] - 1) / c.stride[i] + 1;
  }
  return w;
}

// [images, channels, pixels] to [images, pixels, channels], each pixel followed by `gap` others.
std::vector<float> channels_last(const std::vector<float>& x, int64_t images, int64_t channels, int64_t gap) {
  const int64_t pixels = static_cast<int64_t>(x.size()) / images / channels, width = channels + gap;
  std::vector<float> out(static_cast<size_t>(images * pixels * width), 1e30f);
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < pixels; ++p)
        out[static_cast<size_t>((n * pixels + p) * width + c)] =
            x[static_cast<size_t>((n * channels + c) * pixels + p)];
    }
  }
  return out;
}

// Images with zeros between their elements.
std::vector<float> spread(const std::vector<float>& x, const Case& c) {
  const Windows w = windows_of(c);
  const int64_t planes = c.images * c.in_channels;
  std::vector<float> out(static_cast<size_t>(planes * w.in_pixels()));
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t i = 0; i < c.in[0]; ++i) {
      for (int64_t j = 0; j < c.in[1]; ++j)
        out[static_cast<size_t>((p * w.in[1] + i * c.spread[0]) * w.in[2] + j * c.spread[1])] =
            x[static_cast<size_t>((p * c.in[0] + i) * c.in[1] + j)];
    }
  }
  return out;
}

struct End {
  bool bias = false, residual = false;
  Activation activation = Activation::none;
  Combine combine = Combine::add_before;
  float first = 1, second = 0, alpha = 1;
};

const End kEnds[] = {{},
                     {.bias = true, .residual = true, .activation = Activation::relu},
                     {.bias = true, .activation = Activation::clip, .first = -0.5f, .second = 0.75f},
                     {.bias = true, .residual = true, .activation = Activation::silu, .combine = Combine::add_after},
                     {.residual = true, .alpha = 0.5f}};

// Fills `expected` unless it is null or filled already.
std::vector<float> run(const Case& c, const End& end, int64_t gap, int threads, std::vector<float>* expected) {
  ConvArgs plain;
  plain.windows = windows_of(c);
  plain.images = c.images, plain.groups = c.groups;
  plain.in_channels = c.in_channels, plain.out_channels = c.out_channels;
  plain.x_channel = plain.windows.in_pixels(), plain.x_image = plain.x_channel * c.in_channels;
  plain.y_channel = plain.windows.out_pixels(), plain.y_image = plain.y_channel * c.out_channels;
  const auto elements = random_floats(c.images * c.in_channels * c.in[0] * c.in[1], 1);
  const auto x = spread(elements, c);
  const auto filters = random_floats(c.out_channels * c.in_channels / c.groups * plain.windows.taps(), 2);
  const auto bias = random_floats(c.out_channels, 3), residual = random_floats(plain.y_image * c.images, 4);
  std::vector<float> y(static_cast<size_t>(plain.y_image * c.images), 77.0f);
  plain.x = x.data(), plain.filters = filters.data(), plain.y = y.data();
  Epilogue e;
  e.alpha = end.alpha, e.activation = end.activation, e.combine = end.combine;
  e.first = end.first, e.second = end.second;
  plain.epilogue = e;
  if (end.bias) plain.epilogue.row_bias = bias.data();
  if (end.residual) plain.epilogue.residual = residual.data();
  plain.epilogue.residual_row = plain.y_channel, plain.residual_image = plain.y_image;
  if (expected && expected->empty()) {
    conv_reference(plain);
    *expected = channels_last(y, c.images, c.out_channels, 0);
  }

  ConvLastArgs a;
  a.windows = plain.windows;
  for (int i = 0; i < 2; ++i) a.windows.in[i + 1] = c.in[i], a.spread[i + 1] = c.spread[i];
  a.images = c.images, a.groups = c.groups, a.in_channels = c.in_channels, a.out_channels = c.out_channels;
  a.way = conv_last_way(a);
  EXPECT_NE(a.way, ConvLastWay::none) << c.name;
  const auto turned = channels_last(elements, c.images, c.in_channels, gap);
  a.x = turned.data();
  a.x_pixel = c.in_channels + gap, a.x_row = a.x_pixel * c.in[1], a.x_image = a.x_row * c.in[0];
  if (conv_last_copies(a) && gap == 0) {
    a.x = x.data();
    a.x_channel = plain.x_channel, a.x_pixel = 1, a.x_row = c.in[1], a.x_image = plain.x_image;
  }
  a.epilogue = e;
  if (end.bias) a.epilogue.column_bias = bias.data();
  const auto turned_residual = channels_last(residual, c.images, c.out_channels, 0);
  if (end.residual) a.epilogue.residual = turned_residual.data();
  std::fill(y.begin(), y.end(), 77.0f);
  a.y = y.data();
  ThreadPool pool(threads);
  AlignedBytes packed(conv_last_packed_bytes(a));
  conv_last_pack(a, filters.data(), packed.data, pool);
  a.packed_filters = packed.data;
  AlignedBytes scratch(conv_last_scratch_bytes(a, threads));
  conv_last(a, scratch.data, pool);
  return y;
}

TEST(CpuConvLast, EveryKindOfWindowIsRight) {
  for (const Case& c : kCases) {
    // The roundings of so many products, each of about 1, walk at random; sums grow with them.
    const auto depth = static_cast<double>(c.in_channels / c.groups * c.kernel[0] * c.kernel[1]);
    const double rounding = 2e-6 * (2 + std::sqrt(depth));
    for (const End& end : kEnds) {
      std::vector<float> want;
      on_all_targets([&] {
        for (int64_t gap : {0, 5}) {
          const auto got = run(c, end, gap, 1, &want);
          int bad = 0;
          for (size_t i = 0; i < got.size(); ++i) {
            if (!(std::abs(got[i] - want[i]) <= rounding * (1 + std::abs(want[i]) / 20)) && ++bad == 1) {
              ADD_FAILURE() << c.name << " " << current_target() << " at " << i << ": " << got[i] << " for " << want[i];
            }
          }
        }
      });
    }
  }
}

TEST(CpuConvLast, AnyNumberOfThreadsGivesTheSameBits) {
  const Case big[] = {{"3x3", 3, 40, 64, 1, {30, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                      {"3x3 pairs, deep", 1, 150, 200, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                      {"3x3 stride 2", 1, 200, 64, 1, {30, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                      {"few channels", 2, 3, 64, 1, {60, 60}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                      {"1x1", 2, 640, 200, 1, {30, 30}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                      {"depthwise", 2, 40, 40, 40, {90, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}};
  for (const Case& c : big) {
    const auto one = run(c, kEnds[1], 0, 1, nullptr);
    EXPECT_EQ(run(c, kEnds[1], 0, 3, nullptr), one) << c.name;
  }
}

TEST(CpuConvLast, NanPassesActivations) {
  on_all_targets([] {
    for (Activation activation : {Activation::relu, Activation::clip}) {
      for (bool deep : {false, true}) {
        ConvLastArgs a;
        a.in_channels = a.out_channels = 32;
        if (deep) a.groups = 32, a.windows.kernel[2] = 3, a.windows.pad[2] = 1;
        std::vector<float> x(32, std::numeric_limits<float>::quiet_NaN()), y(32), filters(32 * 32 * 3, 1.0f);
        a.x = x.data(), a.y = y.data();
        a.x_image = a.x_row = a.x_pixel = 32;
        a.epilogue.activation = activation;
        a.epilogue.first = -1, a.epilogue.second = 1;
        a.way = conv_last_way(a);
        ThreadPool pool(1);
        AlignedBytes packed(conv_last_packed_bytes(a)), scratch(conv_last_scratch_bytes(a, 1));
        conv_last_pack(a, filters.data(), packed.data, pool);
        a.packed_filters = packed.data;
        conv_last(a, scratch.data, pool);
        for (float value : y) EXPECT_TRUE(std::isnan(value));
      }
    }
  });
}

TEST(CpuPoolLast, WindowsOfEveryKind) {
  on_all_targets([] {
    for (const Case& c : kCases) {
      for (bool maximum : {true, false}) {
        PoolArgs plain;
        plain.windows = windows_of(c);
        plain.planes = c.images * c.in_channels;
        plain.maximum = maximum;
        if (c.pad[0] < 0 || c.spread[0] > 1 || c.spread[1] > 1) continue;
        const auto x = random_floats(plain.planes * plain.windows.in_pixels(), 1);
        std::vector<float> want(static_cast<size_t>(plain.planes * plain.windows.out_pixels())), got = want;
        plain.x = x.data(), plain.y = want.data();
        pool_reference(plain);
        const auto turned = channels_last(x, c.images, c.in_channels, 0);
        PoolLastArgs p;
        p.windows = plain.windows;
        p.images = c.images, p.channels = c.in_channels, p.maximum = maximum;
        p.x_pixel = c.in_channels, p.x_row = p.x_pixel * c.in[1], p.x_image = p.x_row * c.in[0];
        p.x = turned.data(), p.y = got.data();
        ThreadPool pool(2);
        pool_last(p, pool);
        want = channels_last(want, c.images, c.in_channels, 0);
        for (size_t i = 0; i < got.size(); ++i) {
          if (std::isinf(want[i])) {
            ASSERT_EQ(got[i], want[i]) << c.name << " " << i;
          } else {
            ASSERT_NEAR(got[i], want[i], 1e-6 * p.windows.taps()) << c.name << " " << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
