// The small floats against hashes of what ml_dtypes 0.6 and NumPy give for all codes, and for 40000 floats: even steps
// over all bit patterns, then the same with exponents near one. NaN inputs are left out, NaN results count as one.
#include "base/float_types.h"

#include <gtest/gtest.h>

#include <vector>

namespace transmuter {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class Fnv {
 public:
  template <class T>
  void add(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) hash_ = (hash_ ^ ((value >> (8 * i)) & 0xffu)) * 0x100000001b3ull;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

std::vector<float> sample() {
  std::vector<float> values;
  for (const bool near_one : {false, true}) {
    for (uint64_t i = 0; i < 20000; ++i) {
      auto bits = static_cast<uint32_t>(i * 0x9E3779B1u);
      if (near_one) bits = (bits & 0x807fffffu) | ((100 + ((bits >> 23) & 0xffu) % 46) << 23);
      const float value = std::bit_cast<float>(bits);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  return values;
}

template <class Encode>
uint64_t hash_of_codes(const Encode& encode) {
  Fnv fnv;
  for (const float value : sample()) fnv.add(encode(value).bits);
  return fnv.hash();
}

template <class T>
uint64_t hash_of_values(uint32_t codes) {
  Fnv fnv;
  for (uint32_t code = 0; code < codes; ++code) {
    const float value = to_float(T{static_cast<decltype(T::bits)>(code)});
    fnv.add(std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value));
  }
  return fnv.hash();
}

// Every code comes back from its value.
template <class T, class Encode>
void round_trip(uint32_t codes, const Encode& encode) {
  for (uint32_t code = 0; code < codes; ++code) {
    const float value = to_float(T{static_cast<decltype(T::bits)>(code)});
    if (!std::isnan(value)) {
      EXPECT_EQ(encode(value).bits, code);
    }
  }
}

TEST(SmallFloats, EveryCodeHasItsValue) {
  EXPECT_EQ(hash_of_values<f16>(65536), 0x1f87f165810ea7c5u);
  EXPECT_EQ(hash_of_values<bf16>(65536), 0xcf8e09175d8f5ba5u);
  EXPECT_EQ(hash_of_values<f8e4m3fn>(256), 0xdad1d9c50f749ca5u);
  EXPECT_EQ(hash_of_values<f8e4m3fnuz>(256), 0xf51851cb11c63018u);
  EXPECT_EQ(hash_of_values<f8e5m2>(256), 0x6c1e56b6fb09c905u);
  EXPECT_EQ(hash_of_values<f8e5m2fnuz>(256), 0x94ae6fc493d49818u);
  EXPECT_EQ(hash_of_values<f8e8m0>(256), 0x6d2c8b41c3f0e5a5u);
  EXPECT_EQ(hash_of_values<f4e2m1>(16), 0x2403bb76b85dfea5u);
}

TEST(SmallFloats, RoundToNearestEven) {
  EXPECT_EQ(hash_of_codes([](float x) { return to_f16(x); }), 0x49f50f874431c45fu);
  EXPECT_EQ(hash_of_codes([](float x) { return to_f16(x * (1 + 0x1p-40)); }), 0x49f50f874431c45fu);
  EXPECT_EQ(hash_of_codes([](float x) { return to_bf16(x); }), 0x43b73b73e6059ddfu);
  EXPECT_EQ(hash_of_codes([](float x) { return to_f8e4m3fn(x, false); }), 0xa70a0704a6bf21cfu);
  EXPECT_EQ(hash_of_codes([](float x) { return to_f8e4m3fnuz(x, false); }), 0xc69e0536a88882ecu);
  EXPECT_EQ(hash_of_codes([](float x) { return to_f8e5m2(x, false); }), 0x2b6e39f608fb2a33u);
  EXPECT_EQ(hash_of_codes([](float x) { return to_f8e5m2fnuz(x, false); }), 0x883cf7753818a218u);
  EXPECT_EQ(hash_of_codes([](float x) { return to_f4e2m1(x); }), 0x1e12dbeba31ee46du);
}

TEST(SmallFloats, CodesComeBack) {
  round_trip<f16>(65536, [](float x) { return to_f16(x); });
  round_trip<f16>(65536, [](float x) { return to_f16(static_cast<double>(x)); });
  round_trip<bf16>(65536, [](float x) { return to_bf16(x); });
  round_trip<f8e4m3fn>(256, [](float x) { return to_f8e4m3fn(x); });
  round_trip<f8e4m3fnuz>(256, [](float x) { return to_f8e4m3fnuz(x); });
  round_trip<f8e5m2>(256, [](float x) { return to_f8e5m2(x, false); });
  round_trip<f8e5m2fnuz>(256, [](float x) { return to_f8e5m2fnuz(x); });
  round_trip<f8e8m0>(255, [](float x) { return to_f8e8m0(x); });
  round_trip<f6e2m3>(64, [](float x) { return to_f6e2m3(x); });
  round_trip<f6e3m2>(64, [](float x) { return to_f6e3m2(x); });
  round_trip<f4e2m1>(16, [](float x) { return to_f4e2m1(x); });
}

TEST(SmallFloats, TiesOfTheHalfWayPoints) {
  EXPECT_EQ(to_f16(1 + 0x1p-11f).bits, 0x3c00);
  EXPECT_EQ(to_f16(1 + 3 * 0x1p-11f).bits, 0x3c02);
  EXPECT_EQ(to_f16(1 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
  EXPECT_EQ(to_f16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0);
  EXPECT_EQ(to_f16(0x1.8p-25f).bits, 1);
  EXPECT_EQ(to_f16(1023.5f * 0x1p-24f).bits, 0x400);
}

// The table of ONNX's Cast: saturating and not.
TEST(SmallFloats, Overflow) {
  for (const float x : {465.0f, 480.0f, 1e9f, kInf}) {
    EXPECT_EQ(to_f8e4m3fn(x).bits, 0x7e);
    EXPECT_EQ(to_f8e4m3fn(-x).bits, 0xfe);
    EXPECT_EQ(to_f8e4m3fn(x, false).bits, 0x7f);
    EXPECT_EQ(to_f8e4m3fnuz(x).bits, 0x7f);
    EXPECT_EQ(to_f8e4m3fnuz(-x).bits, 0xff);
    EXPECT_EQ(to_f8e4m3fnuz(x, false).bits, 0x80);
  }
  EXPECT_EQ(to_f8e4m3fn(464.0f, false).bits, 0x7e);
  EXPECT_EQ(to_f8e5m2(kInf).bits, 0x7b);
  EXPECT_EQ(to_f8e5m2(kInf, false).bits, 0x7c);
  EXPECT_EQ(to_f8e5m2(61440.0f, false).bits, 0x7c);
  EXPECT_EQ(to_f8e5m2fnuz(-kInf).bits, 0xff);
  EXPECT_EQ(to_f8e5m2fnuz(kInf, false).bits, 0x80);
  EXPECT_EQ(to_f8e4m3fn(kNaN).bits & 0x7f, 0x7f);
  EXPECT_EQ(to_f8e4m3fnuz(kNaN).bits, 0x80);
  EXPECT_EQ(to_f8e4m3fn(-0.0f).bits, 0x80);
  EXPECT_EQ(to_f8e4m3fnuz(-0.0f).bits, 0);
  EXPECT_EQ(to_f8e5m2fnuz(-1e-9f).bits, 0);
}

// Every code of the six-bit kinds by its definition, ties to even, and what lies beyond.
TEST(SmallFloats, SixBits) {
  for (uint8_t code = 0; code < 32; ++code) {
    const auto value = [&](int mantissa, int bias) {
      const int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
      const float significand = static_cast<float>(fraction) / static_cast<float>(1 << mantissa);
      return exponent == 0 ? std::ldexp(significand, 1 - bias) : std::ldexp(1 + significand, exponent - bias);
    };
    EXPECT_EQ(to_float(f6e2m3{code}), value(3, 1));
    EXPECT_EQ(to_float(f6e3m2{code}), value(2, 3));
    EXPECT_EQ(to_float(f6e2m3{static_cast<uint8_t>(code | 32)}), -value(3, 1));
    EXPECT_EQ(to_float(f6e3m2{static_cast<uint8_t>(code | 32)}), -value(2, 3));
    if (code == 31) continue;
    const uint8_t even = static_cast<uint8_t>(code + (code & 1));
    EXPECT_EQ(to_f6e2m3((to_float(f6e2m3{code}) + to_float(f6e2m3{static_cast<uint8_t>(code + 1)})) / 2).bits, even);
    EXPECT_EQ(to_f6e3m2((to_float(f6e3m2{code}) + to_float(f6e3m2{static_cast<uint8_t>(code + 1)})) / 2).bits, even);
  }
  for (const float x : {100.0f, 1e9f, kInf}) {
    EXPECT_EQ(to_float(to_f6e2m3(x)), 7.5f);
    EXPECT_EQ(to_float(to_f6e3m2(-x)), -28.0f);
  }
  EXPECT_EQ(to_f6e2m3(kNaN).bits, 0x20);
  EXPECT_EQ(to_f6e3m2(kNaN).bits, 0x20);
}

TEST(SmallFloats, PowersOfTwo) {
  struct Row {
    float value;
    int up, down, nearest;
  };
  for (const Row& row :
       {Row{1, 127, 127, 127}, Row{1.4f, 128, 127, 127}, Row{1.5f, 128, 127, 128}, Row{3, 129, 128, 129},
        Row{0, 0, 0, 0}, Row{0x1p-127f, 0, 0, 0}, Row{0x1p-126f, 1, 1, 1}, Row{-3, 129, 128, 129},
        Row{3.4e38f, 254, 254, 254}, Row{kInf, 255, 255, 255}, Row{kNaN, 255, 255, 255}}) {
    EXPECT_EQ(to_f8e8m0(row.value, true, RoundMode::up).bits, row.up) << row.value;
    EXPECT_EQ(to_f8e8m0(row.value, true, RoundMode::down).bits, row.down) << row.value;
    EXPECT_EQ(to_f8e8m0(row.value, true, RoundMode::nearest).bits, row.nearest) << row.value;
  }
  EXPECT_EQ(to_f8e8m0(3.4e38f, false).bits, 255);
}

}  // namespace
}  // namespace transmuter
