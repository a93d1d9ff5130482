// The tape: addressing, conversions, masks, in-place use.
#include "backends/cpu/kernels/tile.h"

#include <functional>

#include "base/float_types.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// (x + bias) * scale - y over a broadcast space, three different access patterns.
void expect_broadcast(const std::vector<int64_t>& dims, const std::vector<std::vector<int64_t>>& strides) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  Random random(3);
  std::vector<std::vector<float>> data;
  std::vector<TileInput> inputs;
  for (const auto& s : strides) {
    int64_t size = 1;
    for (size_t k = 0; k < dims.size(); ++k) size += (dims[k] - 1) * s[k];
    data.push_back(random.floats(static_cast<size_t>(size)));
    TileInput input{data.back().data(), DType::f32, {}};
    for (size_t k = 0; k < dims.size(); ++k) input.strides[k] = s[k];
    inputs.push_back(input);
  }
  const auto at = [&](size_t which, int64_t linear) {
    int64_t offset = 0;
    for (size_t k = dims.size(); k-- > 0;) {
      offset += linear % dims[k] * strides[which][k];
      linear /= dims[k];
    }
    return double{data[which][static_cast<size_t>(offset)]};
  };
  TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                       {.op = TileOp::load, .dst = 1, .a = 1},
                       {.op = TileOp::load, .dst = 2, .a = 2},
                       {.op = TileOp::add, .dst = 3, .a = 0, .b = 1},
                       {.op = TileOp::mul, .dst = 3, .a = 3, .b = 2},
                       {.op = TileOp::constant, .dst = 4, .imm = 0.25f},
                       {.op = TileOp::sub, .dst = 5, .a = 3, .b = 4},
                       {.op = TileOp::store, .a = 5, .b = 0},
                       {.op = TileOp::store, .a = 3, .b = 1}}};
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, n}, {n / 3, n}, {0, n / 2}, {n / 4, n / 4 + 1}}) {
    if (begin >= end) continue;
    std::vector<float> first(static_cast<size_t>(n), 77.0f), second(static_cast<size_t>(n), 77.0f);
    const TileOutput outputs[] = {{first.data(), DType::f32}, {second.data(), DType::f32}};
    run_tile(program, dims.data(), static_cast<int>(dims.size()), inputs.data(), outputs, begin, end);
    for (int64_t i = 0; i < n; ++i) {
      const size_t k = static_cast<size_t>(i);
      if (i < begin || i >= end) {
        ASSERT_EQ(first[k], 77.0f);
        ASSERT_EQ(second[k], 77.0f);
      } else {
        const double product = (at(0, i) + at(1, i)) * at(2, i);
        ASSERT_NEAR(second[k], product, 1e-6) << i;
        ASSERT_NEAR(first[k], product - 0.25, 1e-6) << i;
      }
    }
  }
}

TEST(CpuVecTile, EveryLengthWithoutBroadcast) {
  on_every_target([&] {
    for (int64_t n = 1; n <= 70; ++n) expect_broadcast({n}, {{1}, {1}, {0}});
    for (int64_t n : {255, 256, 257, 511, 512, 1000}) expect_broadcast({n}, {{1}, {1}, {1}});
  });
}

TEST(CpuVecTile, BroadcastsAndStrides) {
  on_every_target([&] {
    for (int64_t inner : {1, 3, 7, 49, 127, 128, 129, 256, 300, 384, 513, 768}) {
      expect_broadcast({5, inner}, {{inner, 1}, {0, 1}, {1, 0}});
      expect_broadcast({2, 3, inner}, {{3 * inner, inner, 1}, {0, 1, 0}, {3, 1, 0}});
      expect_broadcast({4, inner}, {{1, 4}, {2 * inner, 2}, {inner + 3, 1}});
    }
    expect_broadcast({2, 3, 1, 2, 3, 4}, {{72, 24, 24, 12, 4, 1}, {0, 1, 0, 0, 3, 0}, {1, 2, 0, 6, 12, 36}});
    expect_broadcast({2, 1, 300}, {{300, 0, 1}, {0, 0, 1}, {1, 0, 0}});
  });
}

TEST(CpuVecTile, InPlace) {
  on_every_target([&] {
    for (int64_t n : {1, 13, 256, 300, 1024}) {
      Random random;
      std::vector<float> x = random.floats(static_cast<size_t>(n));
      const std::vector<float> before = x;
      std::vector<float> other(x.size());
      TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                           {.op = TileOp::mul_imm, .dst = 1, .a = 0, .imm = 2.0f},
                           {.op = TileOp::store, .a = 1, .b = 0},
                           {.op = TileOp::add, .dst = 2, .a = 1, .b = 0},
                           {.op = TileOp::store, .a = 2, .b = 1}}};
      const TileInput in{x.data(), DType::f32, {1}};
      const TileOutput out[] = {{x.data(), DType::f32}, {other.data(), DType::f32}};
      run_tile(program, &n, 1, &in, out, 0, n);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(x[i], 2 * before[i]);
        ASSERT_EQ(other[i], 2 * before[i] + before[i]);
      }
    }
  });
}

template <class From, class To>
void expect_convert(DType from, DType to, const std::vector<From>& values, const std::function<To(From)>& want) {
  const TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0}, {.op = TileOp::store, .a = 0, .b = 0}}};
  for (int64_t stride : {1, 2, 0}) {
    for (int64_t n : {int64_t{1}, int64_t{5}, int64_t{31}, static_cast<int64_t>(values.size()) / 2}) {
      std::vector<To> got(static_cast<size_t>(n));
      const TileInput in{values.data(), from, {stride}};
      const TileOutput out{got.data(), to};
      run_tile(program, &n, 1, &in, &out, 0, n);
      for (int64_t i = 0; i < n; ++i) {
        const To expected = want(values[static_cast<size_t>(i * stride)]);
        ASSERT_EQ(memcmp(&got[static_cast<size_t>(i)], &expected, sizeof(To)), 0) << i << " stride " << stride;
      }
    }
  }
}

TEST(CpuVecTile, ConvertsOnLoadAndStore) {
  Random random;
  std::vector<float> floats = {
      0,      -0.0f,   1,      -1,      0.5f,   1.5f,    2.5f,          -2.5f,          kInf,       -kInf,
      65504,  65519,   65520,  70000,   6e-8f,  2.9e-8f, 3e-8f,         6.1e-5f,        6.0976e-5f, 255.9f,
      256,    -0.9f,   300,    -129,    127.5f, 2.1e9f,  2147483648.0f, -2147483648.0f, -3e9f,      1e19f,
      -1e19f, 9.3e18f, 1e-45f, 3.4e38f, kNan,   -kNan};
  for (int i = 0; i < 4000; ++i) floats.push_back(random.any());
  for (int i = 0; i < 4000; ++i) floats.push_back(random.uniform(-70000, 70000));
  for (int i = 0; i < 4000; ++i) floats.push_back(random.uniform(-1e-4f, 1e-4f));
  std::vector<uint16_t> halves;
  for (int i = 0; i < 65536; ++i) halves.push_back(static_cast<uint16_t>(i));
  const auto integer = [](double lo, double hi, float x) {
    return std::isnan(x) ? 0.0 : std::min(std::max(std::trunc(double{x}), lo), hi);
  };
  on_every_target([&] {
    expect_convert<float, uint16_t>(DType::f32, DType::bf16, floats, [](float x) { return to_bf16(x).bits; });
    expect_convert<uint16_t, float>(DType::bf16, DType::f32, halves, [](uint16_t h) { return to_float(bf16{h}); });
    std::vector<float> no_nan = floats;
    for (float& f : no_nan) f = std::isnan(f) ? 1 : f;
    expect_convert<float, uint16_t>(DType::f32, DType::f16, no_nan, [](float x) { return to_f16(x).bits; });
    std::vector<uint16_t> numbers;
    for (uint16_t h : halves) {
      if ((h & 0x7fff) <= 0x7c00) numbers.push_back(h);
    }
    expect_convert<uint16_t, float>(DType::f16, DType::f32, numbers, [](uint16_t h) { return to_float(f16{h}); });
    expect_convert<float, int32_t>(DType::f32, DType::i32, floats, [&](float x) {
      return static_cast<int32_t>(integer(-2147483648.0, 2147483647.0, x));
    });
    expect_convert<float, uint8_t>(DType::f32, DType::u8, floats,
                                   [&](float x) { return static_cast<uint8_t>(integer(0, 255, x)); });
    expect_convert<float, int8_t>(DType::f32, DType::i8, floats,
                                  [&](float x) { return static_cast<int8_t>(integer(-128, 127, x)); });
    expect_convert<float, int64_t>(DType::f32, DType::i64, floats, [&](float x) {
      if (x >= 9.2233720368547758e18f) return std::numeric_limits<int64_t>::max();
      return static_cast<int64_t>(integer(-9223372036854775808.0, 9.3e18, x));
    });
    expect_convert<float, uint8_t>(DType::f32, DType::boolean, floats,
                                   [](float x) { return static_cast<uint8_t>(x != 0); });
    expect_convert<float, double>(DType::f32, DType::f64, no_nan, [](float x) { return double{x}; });
  });
  std::vector<uint8_t> bytes;
  std::vector<int32_t> ints;
  std::vector<int64_t> longs;
  for (int i = 0; i < 600; ++i) {
    bytes.push_back(static_cast<uint8_t>(i));
    ints.push_back(static_cast<int32_t>(random.integer(INT32_MIN, INT32_MAX)));
    longs.push_back(random.integer(INT64_MIN, INT64_MAX));
  }
  on_every_target([&] {
    expect_convert<uint8_t, float>(DType::u8, DType::f32, bytes, [](uint8_t x) { return static_cast<float>(x); });
    expect_convert<uint8_t, float>(DType::i8, DType::f32, bytes,
                                   [](uint8_t x) { return static_cast<float>(static_cast<int8_t>(x)); });
    expect_convert<int32_t, float>(DType::i32, DType::f32, ints, [](int32_t x) { return static_cast<float>(x); });
    expect_convert<int64_t, float>(DType::i64, DType::f32, longs, [](int64_t x) { return static_cast<float>(x); });
  });
}

TEST(CpuVecTile, MasksSelectAndClamp) {
  const std::vector<float> a = {1, 2, 3, kNan, kInf, -1, 0, 5}, b = {2, 2, 2, 1, kNan, -kInf, -0.0f, 4};
  const int64_t n = static_cast<int64_t>(a.size());
  const auto run = [&](TileOp op) {
    std::vector<uint8_t> got(a.size());
    TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                         {.op = TileOp::load, .dst = 1, .a = 1},
                         {.op = op, .dst = 0, .a = 0, .b = 1},
                         {.op = TileOp::store, .a = 0, .b = 0}}};
    const TileInput in[] = {{a.data(), DType::f32, {1}}, {b.data(), DType::f32, {1}}};
    const TileOutput out{got.data(), DType::boolean};
    run_tile(program, &n, 1, in, &out, 0, n);
    return got;
  };
  using Bytes = std::vector<uint8_t>;
  on_every_target([&] {
    EXPECT_EQ(run(TileOp::eq), (Bytes{0, 1, 0, 0, 0, 0, 1, 0}));
    EXPECT_EQ(run(TileOp::ne), (Bytes{1, 0, 1, 1, 1, 1, 0, 1}));
    EXPECT_EQ(run(TileOp::lt), (Bytes{1, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(run(TileOp::le), (Bytes{1, 1, 0, 0, 0, 0, 1, 0}));
    EXPECT_EQ(run(TileOp::gt), (Bytes{0, 0, 1, 0, 0, 1, 0, 1}));
    EXPECT_EQ(run(TileOp::ge), (Bytes{0, 1, 1, 0, 0, 1, 1, 1}));
    const std::vector<uint8_t> p = {0, 0, 1, 1}, q = {0, 1, 0, 1};
    std::vector<float> got(16), limits = {-1, -1, 2, 2};
    const int64_t four = 4;
    TileProgram program{{{.op = TileOp::load, .dst = 0, .a = 0},
                         {.op = TileOp::load, .dst = 1, .a = 1},
                         {.op = TileOp::logical_and, .dst = 2, .a = 0, .b = 1},
                         {.op = TileOp::logical_or, .dst = 3, .a = 0, .b = 1},
                         {.op = TileOp::logical_xor, .dst = 4, .a = 0, .b = 1},
                         {.op = TileOp::logical_not, .dst = 5, .a = 0},
                         {.op = TileOp::store, .a = 2, .b = 0},
                         {.op = TileOp::store, .a = 3, .b = 1},
                         {.op = TileOp::store, .a = 4, .b = 2},
                         {.op = TileOp::store, .a = 5, .b = 3}}};
    const TileInput in[] = {{p.data(), DType::boolean, {1}}, {q.data(), DType::boolean, {1}}};
    const TileOutput out[] = {{got.data(), DType::f32},
                              {got.data() + 4, DType::f32},
                              {got.data() + 8, DType::f32},
                              {got.data() + 12, DType::f32}};
    run_tile(program, &four, 1, in, out, 0, 4);
    EXPECT_EQ(got, (std::vector<float>{0, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0}));

    const std::vector<float> low = {0, 0, 0, 0}, value = {-5, 0.5f, 5, kNan}, high = {1, 1, 1, 1};
    TileProgram clamps{{{.op = TileOp::load, .dst = 0, .a = 0},
                        {.op = TileOp::load, .dst = 1, .a = 1},
                        {.op = TileOp::load, .dst = 2, .a = 2},
                        {.op = TileOp::clamp, .dst = 3, .a = 0, .b = 1, .c = 2},
                        {.op = TileOp::clamp_imm, .dst = 4, .a = 1, .imm = -1, .imm2 = 0.25f},
                        {.op = TileOp::select, .dst = 5, .a = 0, .b = 1, .c = 2},
                        {.op = TileOp::fma, .dst = 6, .a = 1, .b = 1, .c = 2},
                        {.op = TileOp::store, .a = 3, .b = 0},
                        {.op = TileOp::store, .a = 4, .b = 1},
                        {.op = TileOp::store, .a = 5, .b = 2},
                        {.op = TileOp::store, .a = 6, .b = 3}}};
    const TileInput three[] = {
        {low.data(), DType::f32, {1}}, {value.data(), DType::f32, {1}}, {high.data(), DType::f32, {1}}};
    run_tile(clamps, &four, 1, three, out, 0, 4);
    const std::vector<float> want = {0, 0.5f, 1, kNan, -1, 0.25f, 0.25f, kNan, 1, 1, 1, 1, 26, 1.25f, 26, kNan};
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(ulps(got[i], want[i]), 0) << i;
  });
}

}  // namespace
}  // namespace transmuter::cpu
