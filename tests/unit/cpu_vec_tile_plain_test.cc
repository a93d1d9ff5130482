// The tape in f64 and integers.
#include "backends/cpu/kernels/tile.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

template <class T>
std::vector<T> binary(DType dtype, TileOp op, const std::vector<T>& a, const std::vector<T>& b) {
  const TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                             {.op = TileOp::load, .dst = 1, .a = 1},
                             {.op = op, .dst = 2, .a = 0, .b = 1},
                             {.op = TileOp::store, .a = 2, .b = 0}}};
  std::vector<T> out(a.size());
  const int64_t n = static_cast<int64_t>(a.size());
  const TileInput in[] = {{a.data(), dtype, {1}}, {b.data(), dtype, {1}}};
  const TileOutput result{out.data(), dtype};
  run_tile_as(dtype, program, &n, 1, in, &result, 0, n);
  return out;
}

TEST(CpuVecTilePlain, IntegersWrapAndDivideByZero) {
  using Ints = std::vector<int32_t>;
  const Ints a = {7, -7, INT32_MAX, INT32_MIN, INT32_MIN, 5, -1}, b = {2, 2, 1, -1, 1, 0, 3};
  EXPECT_EQ(binary(DType::i32, TileOp::add, a, b), (Ints{9, -5, INT32_MIN, INT32_MAX, INT32_MIN + 1, 5, 2}));
  EXPECT_EQ(binary(DType::i32, TileOp::sub, a, b), (Ints{5, -9, INT32_MAX - 1, INT32_MIN + 1, INT32_MAX, 5, -4}));
  EXPECT_EQ(binary(DType::i32, TileOp::div, a, b), (Ints{3, -3, INT32_MAX, INT32_MIN, INT32_MIN, -1, 0}));
  EXPECT_EQ(binary(DType::i32, TileOp::remainder, a, b), (Ints{1, -1, 0, 0, 0, 5, -1}));
  EXPECT_EQ(binary(DType::i32, TileOp::pow, Ints{3, 2, -2, 2, -1, 1}, Ints{21, 10, 3, -1, -3, -5}),
            (Ints{1870418611, 1024, -8, 0, -1, 1}));
  EXPECT_EQ(binary(DType::i32, TileOp::logical_and, Ints{12, 1}, Ints{10, 0}), (Ints{8, 0}));
  EXPECT_EQ(binary(DType::i32, TileOp::logical_xor, Ints{12, 1}, Ints{10, 1}), (Ints{6, 0}));
  EXPECT_EQ(binary<uint8_t>(DType::u8, TileOp::add, {200, 1}, {100, 1}), (std::vector<uint8_t>{44, 2}));
  EXPECT_EQ(binary<uint64_t>(DType::u64, TileOp::lt, {~uint64_t{0}, 1}, {1, 2}), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(binary<uint8_t>(DType::u8, TileOp::div, {7}, {0}), (std::vector<uint8_t>{255}));
}

TEST(CpuVecTilePlain, BroadcastsAndStoresOtherTypes) {
  const int64_t dims[] = {3, 300};
  std::vector<int64_t> row(300), column = {5, 150, int64_t{1} << 40};
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<int64_t>(i);
  const std::vector<int32_t> narrow = {2};
  const TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                             {.op = TileOp::load, .dst = 1, .a = 1},
                             {.op = TileOp::lt, .dst = 2, .a = 0, .b = 1},
                             {.op = TileOp::load, .dst = 3, .a = 2},
                             {.op = TileOp::fma, .dst = 4, .a = 1, .b = 3, .c = 0},
                             {.op = TileOp::store, .a = 2, .b = 0},
                             {.op = TileOp::store, .a = 4, .b = 1}}};
  const TileInput in[] = {
      {row.data(), DType::i64, {0, 1}}, {column.data(), DType::i64, {1, 0}}, {narrow.data(), DType::i32, {0, 0}}};
  std::vector<uint8_t> mask(900, 7);
  std::vector<int64_t> sum(900);
  const TileOutput out[] = {{mask.data(), DType::boolean}, {sum.data(), DType::i64}};
  run_tile_as(DType::i64, program, dims, 2, in, out, 0, 500);
  run_tile_as(DType::i64, program, dims, 2, in, out, 500, 900);
  for (size_t i = 0; i < 900; ++i) {
    ASSERT_EQ(mask[i], row[i % 300] < column[i / 300]);
    ASSERT_EQ(sum[i], column[i / 300] * 2 + row[i % 300]);
  }
}

TEST(CpuVecTilePlain, Doubles) {
  const std::vector<double> a = {2, -1, 0.5, NAN, 1e300}, b = {3, 2, NAN, 1, 1e300};
  const auto hi = binary(DType::f64, TileOp::max, a, b), power = binary(DType::f64, TileOp::pow, a, b);
  EXPECT_EQ(hi[0], 3);
  EXPECT_TRUE(std::isnan(hi[2]) && std::isnan(hi[3]));
  EXPECT_EQ(power[0], 8);
  const auto remainder = binary<double>(DType::f64, TileOp::remainder, {-4.3}, {2.1});
  EXPECT_EQ(remainder[0], std::fmod(-4.3, 2.1));
}

TEST(CpuVecTilePlain, KnowsItsOperations) {
  EXPECT_TRUE(tile_takes(DType::i64, TileOp::select));
  EXPECT_TRUE(tile_takes(DType::f64, TileOp::exp));
  EXPECT_FALSE(tile_takes(DType::i64, TileOp::exp));
  EXPECT_FALSE(tile_takes(DType::i4, TileOp::add));
}

}  // namespace
}  // namespace transmuter::cpu
