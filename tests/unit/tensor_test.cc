#include "transmuter/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float_types.h"
#include "tensor/cast.h"
#include "tensor/packed.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(DTypes, NamesAndClasses) {
  EXPECT_STREQ(name(DType::f32), "float32");
  EXPECT_STREQ(name(DType::boolean), "bool");
  EXPECT_STREQ(name(DType::string), "string");
  EXPECT_EQ(bit_width(DType::c128), 128);
  EXPECT_TRUE(is_packed(DType::u2));
  EXPECT_FALSE(is_integer(DType::boolean));
  EXPECT_TRUE(is_float(DType::f4e2m1));
  EXPECT_FALSE(is_float(DType::c64));
  EXPECT_EQ(byte_size(DType::i4, 3), 2u);
  EXPECT_EQ(byte_size(DType::u2, 5), 2u);
  EXPECT_EQ(byte_size(DType::f64, 3), 24u);
  EXPECT_THROW(byte_size(DType::f64, INT64_MAX / 2), Error);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 0, INT64_MAX}), 0);
  EXPECT_THROW(element_count({2, -1}), Error);
  EXPECT_THROW(element_count({INT64_MAX, 2}), Error);
}

TEST(Tensor, OwnsSharesAndCopies) {
  Tensor a(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(describe(a), "float32 [2, 3]");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.bytes()) % 64, 0u);
  EXPECT_TRUE(a.unique());
  Tensor b = a.reshaped({3, 2});
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_FALSE(a.unique());
  EXPECT_THROW(a.mutable_bytes(), Error);
  Tensor c = a.clone();
  c.mutable_data<float>()[0] = 9;
  EXPECT_EQ(a.data<float>()[0], 1);
  b = Tensor();
  EXPECT_NO_THROW(a.mutable_data<float>());
  EXPECT_THROW(a.data<int32_t>(), Error);
  EXPECT_THROW(a.strings(), Error);
  EXPECT_THROW(a.reshaped({7}), Error);
  EXPECT_THROW(Tensor(std::vector<float>{1}, {2}), Error);
  EXPECT_FALSE(Tensor());
  EXPECT_EQ(Tensor::scalar(int64_t{7}).to_vector<int64_t>(), std::vector<int64_t>{7});
  EXPECT_EQ(a.bitcast(DType::i32).data<int32_t>()[0], 0x3f800000);
  EXPECT_THROW(a.bitcast(DType::f16), Error);
  EXPECT_NE(Tensor(DType::f32, {0}).bytes(), nullptr);
}

TEST(Tensor, ViewsMayBeUnalignedAndAreNotWritten) {
  auto owner = std::make_shared<std::vector<std::byte>>(17);
  std::weak_ptr<std::vector<std::byte>> watch = owner;
  const std::byte* base = owner->data() + 1;
  Tensor view = Tensor::view(DType::f32, {4}, base, std::move(owner));
  EXPECT_FALSE(watch.expired());
  EXPECT_FALSE(view.is_aligned());
  EXPECT_THROW(view.data<float>(), Error);
  EXPECT_THROW(view.mutable_bytes(), Error);
  EXPECT_EQ(view.aligned().to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(view.cast(DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0}));
  view = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(Packed, LowBitsFirst) {
  const Tensor bytes(std::vector<int8_t>{-8, 7, -1}, {3});
  const Tensor packed = pack(bytes, DType::i4);
  ASSERT_EQ(packed.nbytes(), 2u);
  EXPECT_EQ(static_cast<int>(packed.bytes()[0]), 0x78);
  EXPECT_EQ(static_cast<int>(packed.bytes()[1]), 0x0f);
  EXPECT_EQ(unpack(packed).to_vector<int8_t>(), (std::vector<int8_t>{-8, 7, -1}));
  const Tensor two = pack(Tensor(std::vector<uint8_t>{3, 0, 2, 1, 1}, {5}), DType::u2);
  EXPECT_EQ(static_cast<int>(two.bytes()[0]), 0b01100011);
  EXPECT_EQ(unpack(two).to_vector<uint8_t>(), (std::vector<uint8_t>{3, 0, 2, 1, 1}));
  EXPECT_EQ(unpack(two.bitcast(DType::i2)).to_vector<int8_t>(), (std::vector<int8_t>{-1, 0, -2, 1, 1}));
}

TEST(Cast, FloatsSaturateIntegersWrap) {
  const Tensor f(std::vector<float>{1e10f, -1e10f, kNaN, 300.7f, -1.5f, kInf, 0x1p63f, -0.9f}, {8});
  EXPECT_EQ(f.cast(DType::i32).to_vector<int32_t>(),
            (std::vector<int32_t>{INT32_MAX, INT32_MIN, 0, 300, -1, INT32_MAX, INT32_MAX, 0}));
  EXPECT_EQ(f.cast(DType::u8).to_vector<uint8_t>(), (std::vector<uint8_t>{255, 0, 0, 255, 0, 255, 255, 0}));
  EXPECT_EQ(f.cast(DType::i64).to_vector<int64_t>(),
            (std::vector<int64_t>{10000000000, -10000000000, 0, 300, -1, INT64_MAX, INT64_MAX, 0}));
  EXPECT_EQ(f.cast(DType::u64).data<uint64_t>()[6], uint64_t{1} << 63);
  EXPECT_EQ(f.cast(DType::u64).data<uint64_t>()[5], UINT64_MAX);
  EXPECT_EQ(f.cast(DType::boolean).to_vector<bool>(), std::vector<bool>(8, true));
  const Tensor i(std::vector<int32_t>{300, -1, 70000, INT32_MIN}, {4});
  EXPECT_EQ(i.cast(DType::i8).to_vector<int8_t>(), (std::vector<int8_t>{44, -1, 112, 0}));
  EXPECT_EQ(i.cast(DType::u16).to_vector<uint16_t>(), (std::vector<uint16_t>{300, 65535, 4464, 0}));
  EXPECT_EQ(i.cast(DType::u4).cast(DType::i32).to_vector<int32_t>(), (std::vector<int32_t>{12, 15, 0, 0}));
  const Tensor g(std::vector<float>{-9, -8, 7, 8, 15, 1.9f}, {6});
  EXPECT_EQ(g.cast(DType::i4).cast(DType::i8).to_vector<int8_t>(), (std::vector<int8_t>{7, -8, 7, -8, -1, 1}));
  EXPECT_EQ(g.cast(DType::u4).cast(DType::f32).to_vector<float>(), (std::vector<float>{7, 8, 7, 8, 15, 1}));
}

TEST(Cast, NarrowFloatsRoundOnce) {
  const double just_above = 1 + 0x1p-11 + 0x1p-40;  // a tie for float16 once it is a float
  const Tensor d(std::vector<double>{just_above, -just_above, 65519.999999999, 1e300}, {4});
  const Tensor h = d.cast(DType::f16);
  EXPECT_EQ(h.cast(DType::f64).to_vector<double>(),
            (std::vector<double>{1 + 0x1p-10, -1 - 0x1p-10, 65504, std::numeric_limits<double>::infinity()}));
  const Tensor b(std::vector<double>{1 + 0x1p-8 + 0x1p-40}, {});
  EXPECT_EQ(b.cast(DType::bf16).cast(DType::f64).data<double>()[0], 1 + 0x1p-7);
  const Tensor i(std::vector<int64_t>{(int64_t{1} << 60) + (int64_t{1} << 52) + 1, INT64_MIN, 2049}, {3});
  EXPECT_EQ(i.cast(DType::bf16).cast(DType::f64).to_vector<double>(),
            (std::vector<double>{0x1p60 + 0x1p53, -0x1p63, 2048}));
  const Tensor e(std::vector<double>{464, 465, 1e300, kNaN}, {4});
  EXPECT_EQ(e.cast(DType::f8e4m3fn).bitcast(DType::u8).to_vector<uint8_t>(),
            (std::vector<uint8_t>{126, 126, 126, 127}));
  const Tensor f(std::vector<float>{0.48f, 0.25f, 1.05f, -3.5f, -8, kInf, -0.0f, kNaN}, {8});
  EXPECT_EQ(unpack(f.cast(DType::f4e2m1)).to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0, 2, 14, 15, 7, 8, 8}));
  EXPECT_EQ(f.cast(DType::f4e2m1).cast(DType::f32).data<float>()[3], -4);
}

TEST(Cast, ToStrings) {
  const Tensor f(
      std::vector<float>{1, 1.5f, 0.1f, 1.0f / 3, 1e10f, 123456789.0f, kInf, -kInf, kNaN, -0.0f, 16777216, 1.234e-5f},
      {12});
  EXPECT_EQ(f.cast(DType::string).strings(),
            (std::vector<std::string>{"1", "1.5", "0.1", "0.33333334", "1e+10", "1.2345679e+08", "INF", "-INF", "NaN",
                                      "-0", "16777216", "1.234e-05"}));
  EXPECT_EQ(f.cast(DType::f16).cast(DType::string).strings()[2], "0.099975586");
  EXPECT_EQ(Tensor(std::vector<int64_t>{INT64_MIN}, {}).cast(DType::string).strings()[0], "-9223372036854775808");
  EXPECT_EQ(Tensor(std::vector<float>{2}, {}).cast(DType::boolean).cast(DType::string).strings()[0], "1");
}

TEST(Cast, FromStrings) {
  const Tensor s =
      Tensor::of_strings({"1", " 2.5 ", "+3", "1e3", "INF", "-inf", "NaN", "0x10", "1e400", "1e-400"}, {10});
  const std::vector<float> f = s.cast(DType::f32).to_vector<float>();
  EXPECT_EQ(std::vector<float>(f.begin(), f.begin() + 6), (std::vector<float>{1, 2.5f, 3, 1000, kInf, -kInf}));
  EXPECT_TRUE(std::isnan(f[6]));
  EXPECT_EQ(f[7], 16);
  EXPECT_EQ(f[8], kInf);
  EXPECT_EQ(f[9], 0);
  const Tensor n = Tensor::of_strings({"42", "-7", "3.9", "300", "9223372036854775807"}, {5});
  EXPECT_EQ(n.cast(DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{42, -7, 3, 300, INT64_MAX}));
  EXPECT_EQ(n.cast(DType::u8).to_vector<uint8_t>(), (std::vector<uint8_t>{42, 249, 3, 44, 255}));
  EXPECT_EQ(n.cast(DType::boolean).to_vector<bool>(), std::vector<bool>(5, true));
  for (const char* text : {"", "abc", "1x", "--1", "-", "0x"})
    EXPECT_THROW(Tensor::of_strings({text}, {}).cast(DType::f32), Error) << text;
  EXPECT_THROW(Tensor::of_strings({"nan"}, {}).cast(DType::i32), Error);
  EXPECT_THROW(Tensor::of_strings({"99999999999999999999"}, {}).cast(DType::i64), Error);
}

TEST(Cast, Complex) {
  const Tensor z = Tensor(std::vector<float>{1, 2}, {2}).cast(DType::c64);
  EXPECT_EQ(z.dtype(), DType::c64);
  const auto* parts = reinterpret_cast<const float*>(z.bytes());
  EXPECT_EQ(parts[2], 2);
  EXPECT_EQ(parts[3], 0);
  EXPECT_EQ(reinterpret_cast<const double*>(z.cast(DType::c128).bytes())[2], 2);
  EXPECT_THROW(z.cast(DType::f32), Error);
}

}  // namespace
}  // namespace transmuter
