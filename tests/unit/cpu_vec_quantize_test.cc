#include "backends/cpu/kernels/quantize.h"

#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
void expect_both_ways(DType dtype, const ChannelShape& s) {
  SCOPED_TRACE(testing::Message() << name(dtype) << " " << s.outer << " " << s.channels << " " << s.inner);
  Random random;
  const size_t n = static_cast<size_t>(s.outer * s.channels * s.inner), c = static_cast<size_t>(s.channels);
  auto x = random.floats(n, -300, 300);
  for (size_t i = 0; i < n; i += 7) x[i] = static_cast<float>(static_cast<int>(x[i])) * 0.25f;  // ties
  for (size_t i = 3; i < n; i += 11) x[i] = i % 2 ? kInf : -kInf;
  for (size_t i = 5; i < n; i += 13) x[i] = kNan;
  std::vector<float> scales;
  std::vector<T> zeros;
  for (size_t i = 0; i < c; ++i) {
    scales.push_back(i % 2 ? 0.5f : random.uniform(0.1f, 2));
    zeros.push_back(static_cast<T>(random.integer(std::is_signed_v<T> ? -100 : 0, 120)));
  }
  on_every_target([&] {
    for (bool with_zeros : {false, true}) {
      std::vector<T> q(n);
      quantize_linear(x.data(), dtype, q.data(), scales.data(), with_zeros ? zeros.data() : nullptr, s, nullptr);
      std::vector<float> back(n);
      dequantize_linear(dtype, q.data(), back.data(), scales.data(), with_zeros ? zeros.data() : nullptr, s, nullptr);
      for (size_t i = 0; i < n; ++i) {
        const size_t k = i / static_cast<size_t>(s.inner) % c;
        const double zero = with_zeros ? zeros[k] : 0, low = std::numeric_limits<T>::min();
        double want = std::nearbyint(double{x[i] / scales[k]}) + zero;
        want =
            std::isnan(want) ? low : std::min(std::max(want, low), static_cast<double>(std::numeric_limits<T>::max()));
        ASSERT_EQ(static_cast<double>(q[i]), want) << x[i] << " / " << scales[k] << " + " << zero;
        ASSERT_EQ(back[i], static_cast<float>(static_cast<double>(q[i]) - zero) * scales[k]);
      }
    }
  });
}

TEST(CpuVecQuantize, RoundsToEvenAndSaturates) {
  for (int64_t n = 1; n <= 70; ++n) {
    expect_both_ways<uint8_t>(DType::u8, {1, 1, n});
    expect_both_ways<int8_t>(DType::i8, {2, n, 1});
  }
  for (const ChannelShape& s : {ChannelShape{2, 3, 50}, {40, 33, 1}, {1, 1, 40000}}) {
    expect_both_ways<uint8_t>(DType::u8, s);
    expect_both_ways<int8_t>(DType::i8, s);
    expect_both_ways<uint16_t>(DType::u16, s);
    expect_both_ways<int16_t>(DType::i16, s);
  }
}

TEST(CpuVecQuantize, KnownTies) {
  const std::vector<float> x = {0.25f, 0.75f, 1.25f, 1.75f}, y = {0.5f, 1.5f, -0.5f, -1.5f};
  const float half = 0.5f, one = 1;
  const uint8_t z = 128;
  const int8_t w = 1;
  on_every_target([&] {
    std::vector<uint8_t> u(4);
    quantize_linear(x.data(), DType::u8, u.data(), &half, &z, {1, 1, 4}, nullptr);
    EXPECT_EQ(u, (std::vector<uint8_t>{128, 130, 130, 132}));
    std::vector<int8_t> i(4);
    quantize_linear(y.data(), DType::i8, i.data(), &one, &w, {1, 1, 4}, nullptr);
    EXPECT_EQ(i, (std::vector<int8_t>{1, 3, 1, -1}));
  });
}

TEST(CpuVecQuantize, WideIntegersStayExact) {
  const std::vector<int32_t> x = {16777217, -5, 2147483647};
  const float scale = 0.5f;
  const int32_t zero = 1;
  std::vector<float> y(3);
  dequantize_linear(DType::i32, x.data(), y.data(), &scale, &zero, {1, 1, 3}, nullptr);
  EXPECT_EQ(y, (std::vector<float>{8388608.0f, -3, 1073741824.0f}));
  const std::vector<float> big = {3e9f, -3e9f, 2.5f};
  std::vector<int32_t> q(3);
  const float one = 1;
  quantize_linear(big.data(), DType::i32, q.data(), &one, nullptr, {1, 1, 3}, nullptr);
  EXPECT_EQ(q, (std::vector<int32_t>{INT32_MAX, INT32_MIN, 2}));
}

QuantizeRange range_of(const std::vector<float>& x, bool is_signed = false, ThreadPool* pool = nullptr) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<std::byte> scratch(static_cast<size_t>(dynamic_range_scratch(count)));
  return dynamic_range(x.data(), count, is_signed, scratch.data(), pool);
}

TEST(CpuVecQuantize, DynamicRanges) {
  on_every_target([] {
    const QuantizeRange a = range_of({-127, 128, 0.5f});
    EXPECT_EQ(a.scale, 1.0f);
    EXPECT_EQ(a.zero_point, 127);
    EXPECT_EQ(range_of({-127, 128, 0.5f}, true).zero_point, -1);
    EXPECT_EQ(range_of(std::vector<float>(9)).scale, 1.0f);
    EXPECT_EQ(range_of({}).zero_point, 0);
    EXPECT_EQ(range_of({}, true).zero_point, -128);
    const QuantizeRange b = range_of({2, 5.1f});
    EXPECT_EQ(b.scale, 5.1f / 255.0f);
    EXPECT_EQ(b.zero_point, 0);
    EXPECT_EQ(range_of({-2, -5.1f}).zero_point, 255);
    EXPECT_EQ(range_of({-2, -5.1f}, true).zero_point, 127);
    const float least = std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(range_of({0, least}).scale, 1.0f) << "a range that 255 divides to 0";
    EXPECT_EQ(range_of({kInf, 1}).scale, kInf);
    EXPECT_EQ(range_of({-kInf, 1}, true).zero_point, 0) << "-infinity / infinity";
  });
}

TEST(CpuVecQuantize, DynamicRangesOfEveryPlace) {
  ThreadPool pool(3);
  on_every_target([&] {
    for (const size_t n : {1, 15, 16, 17, 63, 64, 65, 130, 32768, 32769, 100001}) {
      for (const size_t at : {size_t{0}, n / 2, n - 1}) {
        std::vector<float> x(n, 0.25f);
        x[at] = 7.5f;
        if (n > 1) x[(at + 1) % n] = -2.5f;
        const QuantizeRange range = range_of(x, false, &pool);
        ASSERT_EQ(range.scale, (n > 1 ? 10.0f : 7.5f) / 255.0f) << n << " " << at;
        ASSERT_EQ(range.zero_point, n > 1 ? 64 : 0);
        x[at] = kNan;
        ASSERT_TRUE(std::isnan(range_of(x, false, &pool).scale)) << n << " " << at;
      }
    }
  });
}

TEST(CpuVecQuantize, BytesAsADivisionRoundsThem) {
  Random random;
  on_every_target([&] {
    for (int i = 0; i < 200; ++i) {
      const float scale = std::exp(random.uniform(-20, 20));
      std::vector<float> x(256);
      // Around the halves between two bytes.
      for (size_t k = 0; k < x.size(); ++k) {
        x[k] = (static_cast<float>(k) - 64.5f) * scale;
        if (k % 3) x[k] = std::nextafter(x[k], k % 3 == 1 ? kInf : -kInf);
      }
      x[0] = std::numeric_limits<float>::max();
      x[1] = -x[0];
      const uint8_t zero = 64;
      std::vector<uint8_t> bytes(x.size());
      quantize_linear(x.data(), DType::u8, bytes.data(), &scale, &zero, {1, 1, 256}, nullptr);
      for (size_t k = 0; k < x.size(); ++k) {
        const float want = std::min(std::max(std::nearbyint(x[k] / scale) + 64.0f, 0.0f), 255.0f);
        ASSERT_EQ(static_cast<float>(bytes[k]), want) << x[k] << " / " << scale;
      }
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
