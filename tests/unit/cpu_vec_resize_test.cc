// Resize tables and passes; expected values are those of the ONNX specification's examples.
#include "backends/cpu/kernels/resize.h"

#include <numeric>

#include "backends/cpu/kernels/move.h"
#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

std::vector<float> resize_plane(const std::vector<float>& x, int64_t h, int64_t w, int64_t oh, int64_t ow,
                                float scale_h, float scale_w, ResizeAxis axis, float extrapolation = 0) {
  ResizeAxis rows = axis, cols = axis;
  rows.in = h, rows.out = oh, rows.scale = scale_h;
  cols.in = w, cols.out = ow, cols.scale = scale_w;
  const ResizeTable tables[] = {resize_table(rows), resize_table(cols)};
  const ResizeTable* used[] = {nullptr, &tables[0], &tables[1]};
  const int64_t dims[] = {1, h, w};
  std::vector<float> y(static_cast<size_t>(oh * ow));
  resize(x.data(), y.data(), 3, dims, used, extrapolation, nullptr);
  return y;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6 * (1 + std::fabs(want[i]))) << i;
}

std::vector<float> one_to(int n) {
  std::vector<float> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

TEST(CpuVecResize, SpecificationExamples) {
  on_every_target([&] {
    expect_close(resize_plane(one_to(4), 2, 2, 4, 4, 2, 2, {.mode = ResizeMode::linear}),
                 {1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3, 3.25f, 3.75f, 4});
    expect_close(resize_plane(one_to(8), 2, 4, 1, 2, 0.6f, 0.6f, {.mode = ResizeMode::linear}),
                 {2.6666665f, 4.3333331f});
    expect_close(resize_plane(one_to(16), 4, 4, 2, 2, 0.6f, 0.6f, {.mode = ResizeMode::linear, .antialias = true}),
                 {2.875f, 4.5f, 9.375f, 11});
    expect_close(resize_plane(one_to(16), 4, 4, 3, 3, 0.8f, 0.8f, {.mode = ResizeMode::cubic}),
                 {1.47119141f, 2.78125f, 4.08251953f, 6.71142578f, 8.02148438f, 9.32275391f, 11.91650391f, 13.2265625f,
                  14.52783203f});
    expect_close(resize_plane(one_to(16), 4, 4, 3, 3, 0.8f, 0.8f,
                              {.mode = ResizeMode::cubic, .cubic_a = -0.5f, .exclude_outside = true}),
                 {1.36812675f, 2.6695014f, 4.0133367f, 6.57362535f, 7.875f, 9.2188353f, 11.94896657f, 13.25034122f,
                  14.59417652f});
    expect_close(resize_plane(one_to(4), 2, 2, 4, 4, 2, 2,
                              {.mode = ResizeMode::linear, .coordinates = ResizeCoordinates::align_corners}),
                 {1, 1.33333333f, 1.66666667f, 2, 1.66666667f, 2, 2.33333333f, 2.66666667f, 2.33333333f, 2.66666667f, 3,
                  3.33333333f, 3, 3.33333333f, 3.66666667f, 4});
    expect_close(resize_plane(one_to(8), 2, 4, 1, 2, 0.6f, 0.6f, {}), {1, 3});
    expect_close(resize_plane(one_to(4), 2, 2, 4, 6, 2, 3, {}),
                 {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  });
}

TEST(CpuVecResize, CropsAndExtrapolates) {
  ResizeAxis axis{.in = 4,
                  .out = 3,
                  .scale = 0.75f,
                  .mode = ResizeMode::linear,
                  .coordinates = ResizeCoordinates::tf_crop_and_resize,
                  .roi_start = 0.4f,
                  .roi_end = 1.2f};
  const ResizeTable table = resize_table(axis);  // at 1.2, 2.4, 3.6
  const std::vector<float> x = one_to(4);
  on_every_target([&] {
    std::vector<float> y(3);
    resize_axis(x.data(), y.data(), 1, 1, table, 10, nullptr);
    expect_close(y, {2.2f, 3.4f, 10});
  });
}

TEST(CpuVecResize, AnyInnerExtentAndThreads) {
  Random random;
  ThreadPool four(4);
  for (ResizeMode mode : {ResizeMode::nearest, ResizeMode::linear, ResizeMode::cubic}) {
    const ResizeTable table = resize_table({.in = 7, .out = 45, .scale = 45 / 7.0f, .mode = mode});
    for (int64_t inner : {1, 2, 7, 16, 33, 70}) {
      const auto x = random.floats(static_cast<size_t>(3 * 7 * inner));
      on_every_target([&] {
        std::vector<float> y(static_cast<size_t>(3 * 45 * inner));
        resize_axis(x.data(), y.data(), 3, inner, table, 0, &four);
        for (int64_t i = 0; i < 3 * 45 * inner; ++i) {
          const int64_t o = i / inner / 45, m = i / inner % 45, c = i % inner;
          double want = 0;
          for (int64_t t = 0; t < table.taps; ++t) {
            const size_t at = static_cast<size_t>(t * 45 + m);
            want += double{table.weight[at]} * x[static_cast<size_t>((o * 7 + table.index[at]) * inner + c)];
          }
          ASSERT_NEAR(y[static_cast<size_t>(i)], want, 5e-7);
        }
      });
      if (mode == ResizeMode::nearest) {  // the same by moving rows
        std::vector<float> a(static_cast<size_t>(3 * 45 * inner)), b = a;
        resize_axis(x.data(), a.data(), 3, inner, table, 0, nullptr);
        gather_rows(4, x.data(), 3, 7, inner, DType::i32, table.index.data(), 45, false, b.data(), nullptr);
        EXPECT_EQ(a, b);
      }
    }
  }
}

TEST(CpuVecResize, NearestRoundsTies) {
  const auto indices = [](ResizeNearest nearest) {
    ResizeAxis axis{.in = 4, .out = 8, .scale = 2, .coordinates = ResizeCoordinates::asymmetric, .nearest = nearest};
    return resize_table(axis).index;
  };
  EXPECT_EQ(indices(ResizeNearest::round_prefer_floor), (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(indices(ResizeNearest::round_prefer_ceil), (std::vector<int32_t>{0, 1, 1, 2, 2, 3, 3, 3}));
  EXPECT_EQ(indices(ResizeNearest::floor), (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(indices(ResizeNearest::ceil), (std::vector<int32_t>{0, 1, 1, 2, 2, 3, 3, 3}));
}

}  // namespace
}  // namespace transmuter::cpu
