// Rotary embeddings against doubles.
#include "backends/cpu/kernels/rotary.h"

#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

struct Case {
  int64_t batch, heads, sequence, dim, half;
  bool interleaved, shared_angles, by_sequence;  // by_sequence: x lies [batch, sequence, heads, dim]
};

void expect_right(const Case& c, ThreadPool* pool) {
  Random random;
  const int64_t rows = c.batch * c.heads * c.sequence;
  const auto x = random.floats(static_cast<size_t>(rows * c.dim));
  const size_t angles = static_cast<size_t>((c.shared_angles ? 1 : c.batch) * c.sequence * c.half);
  const auto cos = random.floats(angles + 1), sin = random.floats(angles + 1);
  std::vector<float> out(x.size() + 1, 7.0f);
  Rotary r{.x = x.data(), .cos = cos.data(), .sin = sin.data(), .out = out.data()};
  r.batch = c.batch, r.heads = c.heads, r.sequence = c.sequence, r.dim = c.dim, r.half = c.half;
  r.interleaved = c.interleaved;
  const int64_t plane = c.heads * c.sequence * c.dim;
  const int64_t by_head[3] = {plane, c.sequence * c.dim, c.dim}, by_sequence[3] = {plane, c.dim, c.heads * c.dim};
  std::copy_n(c.by_sequence ? by_sequence : by_head, 3, r.x_strides);
  std::copy_n(by_head, 3, r.out_strides);
  r.angle_strides[0] = c.shared_angles ? 0 : c.sequence * c.half;
  r.angle_strides[1] = c.half;
  rotary(r, pool);
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t s = 0; s < c.sequence; ++s) {
        const float* in = x.data() + b * r.x_strides[0] + h * r.x_strides[1] + s * r.x_strides[2];
        std::vector<double> want(in, in + c.dim);
        for (int64_t i = 0; i < c.half; ++i) {
          const size_t at = static_cast<size_t>(b * r.angle_strides[0] + s * r.angle_strides[1] + i);
          const size_t first = static_cast<size_t>(c.interleaved ? 2 * i : i);
          const size_t second = static_cast<size_t>(c.interleaved ? 2 * i + 1 : i + c.half);
          want[first] = double{in[first]} * cos[at] - double{in[second]} * sin[at];
          want[second] = double{in[second]} * cos[at] + double{in[first]} * sin[at];
        }
        const float* got = out.data() + b * by_head[0] + h * by_head[1] + s * by_head[2];
        for (int64_t i = 0; i < c.dim; ++i) ASSERT_NEAR(got[i], want[static_cast<size_t>(i)], 3e-7);
      }
    }
  }
  EXPECT_EQ(out.back(), 7.0f);
}

TEST(CpuVecRotary, EveryWidth) {
  ThreadPool pool(3);
  on_every_target([&] {
    for (int64_t half = 0; half <= 40; ++half) {
      for (int bits = 0; bits < 16; ++bits) {
        expect_right({2, 3, 5, 2 * half + (bits & 1 ? 3 : 0), half, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0},
                     nullptr);
      }
    }
    expect_right({2, 9, 300, 64, 32, false, true, true}, &pool);
  });
}

}  // namespace
}  // namespace transmuter::cpu
