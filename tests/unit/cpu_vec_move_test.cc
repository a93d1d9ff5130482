#include "backends/cpu/kernels/move.h"

#include <algorithm>
#include <numeric>

#include "base/float_types.h"
#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Copies element by element, comparing all bytes of the output, untouched ones included.
void expect_copy(int width, const std::vector<int64_t>& dims, const std::vector<int64_t>& in_strides,
                 const std::vector<int64_t>& out_strides, ThreadPool* pool = nullptr) {
  SCOPED_TRACE(testing::Message() << "width " << width << " dims " << testing::PrintToString(dims) << " in "
                                  << testing::PrintToString(in_strides));
  const auto span = [&](const std::vector<int64_t>& strides, int64_t& low) {
    int64_t high = 0;
    low = 0;
    for (size_t k = 0; k < dims.size(); ++k) {
      (strides[k] < 0 ? low : high) += std::max<int64_t>(dims[k] - 1, 0) * strides[k];
    }
    return high - low + 1;
  };
  int64_t in_low, out_low;
  const int64_t in_size = span(in_strides, in_low), out_size = span(out_strides, out_low);
  const size_t w = static_cast<size_t>(width);
  std::vector<uint64_t> in_store(static_cast<size_t>(in_size) * w / 8 + 2),
      got_store(static_cast<size_t>(out_size) * w / 8 + 2);
  auto* in = reinterpret_cast<uint8_t*>(in_store.data());
  for (size_t i = 0; i < static_cast<size_t>(in_size) * w; ++i) in[i] = static_cast<uint8_t>(i * 131 + i / 251);
  std::vector<uint64_t> want_store = got_store;
  auto* got = reinterpret_cast<uint8_t*>(got_store.data());
  auto* want = reinterpret_cast<uint8_t*>(want_store.data());
  int64_t total = 1;
  for (int64_t d : dims) total *= d;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, from = -in_low, to = -out_low;
    for (size_t k = dims.size(); k-- > 0;) {
      from += rest % dims[k] * in_strides[k];
      to += rest % dims[k] * out_strides[k];
      rest /= dims[k];
    }
    memcpy(want + static_cast<size_t>(to) * w, in + static_cast<size_t>(from) * w, w);
  }
  copy_strided(width, static_cast<int>(dims.size()), dims.data(), in - in_low * width, in_strides.data(),
               got - out_low * width, out_strides.data(), pool);
  ASSERT_EQ(got_store, want_store);
}

TEST(CpuVecMove, StridedCopies) {
  ThreadPool four(4);
  on_every_target([&] {
    for (int width : {1, 2, 4, 8, 16}) {
      expect_copy(width, {}, {}, {});
      expect_copy(width, {0, 3}, {3, 1}, {3, 1});
      for (int64_t n : {1, 2, 5, 8, 17, 70}) {
        expect_copy(width, {n}, {1}, {1});
        expect_copy(width, {n}, {0}, {1});
        expect_copy(width, {n}, {-1}, {1});
        expect_copy(width, {n}, {3}, {2});
        expect_copy(width, {3, n}, {n + 2, 1}, {n, 1});      // slice
        expect_copy(width, {3, n}, {n, 1}, {2 * n + 1, 1});  // part of a concatenation
        expect_copy(width, {3, n}, {1, 3}, {n, 1});          // transposition
        expect_copy(width, {n, 70}, {1, n}, {70, 1});
        expect_copy(width, {3, n}, {0, 1}, {n, 1});  // broadcast
        expect_copy(width, {n, 3}, {1, 0}, {3, 1});
        expect_copy(width, {2, n, 3}, {3 * n, 3, 1}, {6 * n, 6, 2});  // interior padding
      }
      expect_copy(width, {2, 5, 7, 3}, {105, 3, 15, 1}, {105, 21, 3, 1});
      expect_copy(width, {2, 5, 7, 3}, {1, 42, 6, 2}, {105, 21, 3, 1});
      expect_copy(width, {7, 5}, {-5, 1}, {5, 1});
      expect_copy(width, {7, 5}, {1, -7}, {5, 1});
      expect_copy(width, {2, 1, 2, 3, 1, 2, 2, 3}, {1, 1, 2, 4, 7, 12, 24, 48}, {72, 72, 36, 12, 12, 6, 3, 1});
      expect_copy(width, {300, 301}, {1, 300}, {301, 1}, &four);
      expect_copy(width, {50000}, {1}, {1}, &four);
    }
  });
}

TEST(CpuVecMove, TransposesByPermutation) {
  std::vector<int64_t> dims = {2, 3, 4, 5};
  std::vector<int32_t> in(120), out(120);
  std::iota(in.begin(), in.end(), 0);
  std::vector<int64_t> p = {0, 1, 2, 3};
  do {
    transpose(4, 4, dims.data(), p.data(), in.data(), out.data(), nullptr);
    size_t at = 0;
    int64_t i[4];
    for (i[0] = 0; i[0] < dims[static_cast<size_t>(p[0])]; ++i[0]) {
      for (i[1] = 0; i[1] < dims[static_cast<size_t>(p[1])]; ++i[1]) {
        for (i[2] = 0; i[2] < dims[static_cast<size_t>(p[2])]; ++i[2]) {
          for (i[3] = 0; i[3] < dims[static_cast<size_t>(p[3])]; ++i[3]) {
            int64_t source[4];
            for (size_t k = 0; k < 4; ++k) source[p[k]] = i[k];
            ASSERT_EQ(out[at++], ((source[0] * 3 + source[1]) * 4 + source[2]) * 5 + source[3]);
          }
        }
      }
    }
  } while (std::next_permutation(p.begin(), p.end()));
}

TEST(CpuVecMove, Fills) {
  const uint64_t value[2] = {0x0102030405060708, 0x1112131415161718};
  for (int width : {1, 2, 4, 8, 16}) {
    std::vector<uint8_t> out(static_cast<size_t>(width) * 33);
    std::vector<uint64_t> aligned(out.size() / 8 + 1);
    fill(width, value, aligned.data(), 33, nullptr);
    for (size_t i = 0; i < 33; ++i) {
      ASSERT_EQ(memcmp(reinterpret_cast<uint8_t*>(aligned.data()) + i * static_cast<size_t>(width), value,
                       static_cast<size_t>(width)),
                0);
    }
  }
}

TEST(CpuVecMove, GathersRows) {
  const std::vector<int32_t> table = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};  // [2, 2, 3] or [4, 3]
  const std::vector<int64_t> indices = {3, -1, 0, 99, -99};
  std::vector<int32_t> out(15);
  gather_rows(4, table.data(), 1, 4, 3, DType::i64, indices.data(), 5, true, out.data(), nullptr);
  EXPECT_EQ(out, (std::vector<int32_t>{30, 31, 32, 30, 31, 32, 0, 1, 2, 30, 31, 32, 0, 1, 2}));
  const std::vector<int32_t> small = {1, -1};
  std::vector<int32_t> two(12);
  gather_rows(4, table.data(), 2, 2, 3, DType::i32, small.data(), 2, false, two.data(), nullptr);
  EXPECT_EQ(two, (std::vector<int32_t>{10, 11, 12, 0, 1, 2, 30, 31, 32, 20, 21, 22}));
  std::vector<int32_t> one(3);
  gather_rows(4, table.data(), 1, 12, 1, DType::i64, indices.data(), 3, true, one.data(), nullptr);
  EXPECT_EQ(one, (std::vector<int32_t>{10, 32, 0}));
  gather_rows(4, table.data(), 1, 0, 3, DType::i64, indices.data(), 0, true, nullptr, nullptr);
}

TEST(CpuVecMove, SquaresAndWhatIsLeftOfThem) {
  on_every_target([] {
    for (const int64_t rows : {1, 16, 37, 300}) {
      for (const int64_t cols : {3, 16, 35, 260}) {
        std::vector<int32_t> in(static_cast<size_t>(rows * cols)), out(in.size(), -1);
        std::iota(in.begin(), in.end(), 0);
        const int64_t dims[] = {rows, cols}, swapped[] = {1, 0};
        transpose(4, 2, dims, swapped, in.data(), out.data(), nullptr);
        for (int64_t i = 0; i < rows * cols; ++i)
          ASSERT_EQ(out[static_cast<size_t>(i)], i % rows * cols + i / rows) << rows << " " << cols;
      }
    }
  });
}

TEST(CpuVecMove, GathersElementsAndSaysWhatIsOutside) {
  const std::vector<int32_t> x = {0, 1, 2, 3, 10, 11, 12, 13};  // [2, 4]
  const std::vector<int64_t> along = {3, -4, 0, 1}, down = {1, 0, -1, 0};
  const int64_t strides[] = {4, 1}, two[] = {2, 2}, line[] = {1, 4};
  std::vector<int32_t> out(4);
  bool outside = true;
  gather_elements(4, 2, two, x.data(), strides, 1, 4, DType::i64, along.data(), true, out.data(), nullptr, &outside);
  EXPECT_EQ(out, (std::vector<int32_t>{3, 0, 10, 11}));
  EXPECT_FALSE(outside);
  gather_elements(4, 2, line, x.data(), strides, 0, 2, DType::i64, down.data(), true, out.data(), nullptr, &outside);
  EXPECT_EQ(out, (std::vector<int32_t>{10, 1, 12, 3}));
  EXPECT_FALSE(outside);
  gather_elements(4, 2, two, x.data(), strides, 1, 4, DType::i64, along.data(), false, out.data(), nullptr, &outside);
  EXPECT_EQ(out, (std::vector<int32_t>{3, 0, 10, 11}));
  EXPECT_TRUE(outside);
  gather_rows(4, x.data(), 1, 2, 4, DType::i64, along.data(), 1, true, out.data(), nullptr, &outside);
  EXPECT_EQ(out, (std::vector<int32_t>{10, 11, 12, 13}));
  EXPECT_TRUE(outside);
}

TEST(CpuVecMove, Conversions) {
  const std::vector<float> x = {0, 1, -1, 2.5f, -2.5f, 300, -300, 3e9f, -3e9f, 1e30f, kInf, -kInf, kNan, 0.4f};
  const int64_t n = static_cast<int64_t>(x.size());
  on_every_target([&] {
    std::vector<int32_t> i32(x.size());
    convert(DType::f32, x.data(), DType::i32, i32.data(), n, nullptr);
    EXPECT_EQ(i32, (std::vector<int32_t>{0, 1, -1, 2, -2, 300, -300, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX,
                                         INT32_MIN, 0, 0}));
    std::vector<uint8_t> u8(x.size());
    convert(DType::f32, x.data(), DType::u8, u8.data(), n, nullptr);
    EXPECT_EQ(u8, (std::vector<uint8_t>{0, 1, 0, 2, 0, 255, 0, 255, 0, 255, 255, 0, 0, 0}));
    std::vector<int64_t> i64(x.size());
    convert(DType::f32, x.data(), DType::i64, i64.data(), n, nullptr);
    EXPECT_EQ(i64[7], 3000000000);
    EXPECT_EQ(i64[9], INT64_MAX);
    EXPECT_EQ(i64[12], 0);
    std::vector<uint16_t> f16s(x.size()), again(x.size());
    convert(DType::f32, x.data(), DType::f16, f16s.data(), n, nullptr);
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isnan(x[i])) {
        EXPECT_EQ(f16s[i], to_f16(x[i]).bits);
      }
    }
    convert(DType::f16, f16s.data(), DType::f16, again.data(), n, nullptr);
    EXPECT_EQ(again, f16s);
    std::vector<double> f64(x.size());
    convert(DType::f32, x.data(), DType::f64, f64.data(), n, nullptr);
    EXPECT_EQ(f64[3], 2.5);
    std::vector<uint8_t> flags(x.size());
    convert(DType::f32, x.data(), DType::boolean, flags.data(), n, nullptr);
    EXPECT_EQ(flags, (std::vector<uint8_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
    std::vector<int32_t> narrow(2);
    const std::vector<int64_t> wide = {(int64_t{1} << 32) + 7, -1};
    convert(DType::i64, wide.data(), DType::i32, narrow.data(), 2, nullptr);
    EXPECT_EQ(narrow, (std::vector<int32_t>{7, -1}));
  });
}

}  // namespace
}  // namespace transmuter::cpu
