// dot_general and convolution. Expected numbers by hand or from NumPy (einsum).
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

DotGeneralAttributes dot(std::vector<int64_t> lb, std::vector<int64_t> rb, std::vector<int64_t> lc,
                         std::vector<int64_t> rc, DType dtype) {
  DotGeneralAttributes a;
  a.lhs_batching = std::move(lb);
  a.rhs_batching = std::move(rb);
  a.lhs_contracting = std::move(lc);
  a.rhs_contracting = std::move(rc);
  a.dtype = dtype;
  return a;
}

Tensor run_dot(const Tensor& a, const Tensor& b, const DotGeneralAttributes& attributes) {
  return run1({a, b}, [&](Builder& build, const auto& in) { return build.dot_general(in[0], in[1], attributes); });
}

TEST(DotGeneral, MultipliesMatrices) {
  const Tensor a = floats({1, 2, 3, 4, 5, 6}, {2, 3}), b = floats({1, 0, 2, 1, 0, 3}, {3, 2});
  expect_tensor(run_dot(a, b, dot({}, {}, {1}, {0}, DType::f32)), {2, 2}, {5, 11, 14, 23});
}

TEST(DotGeneral, OrdersResultAxesBatchLeftRight) {
  // einsum("kbm,nbk->bmn") of 0..11 (2,2,3) and 0..7 (2,2,2)
  const Tensor a = floats(counting(12), {2, 2, 3}), b = floats(counting(8), {2, 2, 2});
  expect_tensor(run_dot(a, b, dot({1}, {1}, {0}, {2}, DType::f32)), {2, 3, 2},
                {6, 30, 7, 39, 8, 48, 33, 81, 38, 94, 43, 107});
}

TEST(DotGeneral, EmptyInnerExtentGivesZeros) {
  expect_tensor(run_dot(floats({}, {2, 0}), floats({}, {0, 3}), dot({}, {}, {1}, {0}, DType::f32)), {2, 3},
                {0, 0, 0, 0, 0, 0});
}

TEST(DotGeneral, IntegersAreExactAndWrap) {
  const Tensor a(std::vector<uint8_t>{255, 255}, {1, 2}), b(std::vector<int8_t>{127, 127}, {2, 1});
  expect_tensor(run_dot(a, b, dot({}, {}, {1}, {0}, DType::i32)), {1, 1}, {64770});
  const Tensor big = Tensor(std::vector<int32_t>{1 << 30, 1 << 30}, {1, 2});
  const Tensor four = Tensor(std::vector<int32_t>{4, 1}, {2, 1});
  expect_tensor(run_dot(big, four, dot({}, {}, {1}, {0}, DType::i32)), {1, 1}, {1 << 30});
  const Tensor wide = ints({int64_t{1} << 53, 1}, {1, 2}), ones = ints({1, 1}, {2, 1});
  EXPECT_EQ(run_dot(wide, ones, dot({}, {}, {1}, {0}, DType::i64)).data<int64_t>()[0], (int64_t{1} << 53) + 1);
}

TEST(DotGeneral, MixedStorage) {
  const Tensor a = floats({0.5, 2}, {1, 2}), b(std::vector<int8_t>{3, -4}, {2, 1});
  expect_tensor(run_dot(a, b, dot({}, {}, {1}, {0}, DType::f32)), {1, 1}, {-6.5});
  const Tensor half = floats({60000, 60000}, {1, 2}).cast(DType::f16);
  expect_tensor(run_dot(half, floats({1, -1}, {2, 1}), dot({}, {}, {1}, {0}, DType::f16)), {1, 1}, {0});
}

TEST(DotGeneral, RefusesWithTheConstraint) {
  const Tensor a = floats(counting(6), {2, 3});
  EXPECT_THAT(error_of([&] { run_dot(a, a, dot({}, {}, {1}, {0}, DType::f32)); }), testing::HasSubstr("C10"));
  EXPECT_THAT(error_of([&] { run_dot(a, a, dot({}, {}, {2}, {0}, DType::f32)); }), testing::HasSubstr("C3"));
  EXPECT_THAT(error_of([&] { run_dot(a, a, dot({}, {}, {0}, {0}, DType::i32)); }), testing::HasSubstr("C13"));
}

TEST(DotGeneral, Gradient) {
  check_gradient({spread({2, 2, 3}), spread({4, 2, 2, 3}, 0.9)}, [](Builder& build, const auto& in) {
    return build.dot_general(in[0], in[1], dot({1}, {2}, {2, 0}, {3, 1}, DType::f64));
  });
}

ConvolutionAttributes conv(std::vector<int64_t> strides, Dims low, Dims high, DType dtype = DType::f32) {
  ConvolutionAttributes a;
  a.lhs_dilation.assign(strides.size(), 1);
  a.rhs_dilation.assign(strides.size(), 1);
  a.strides = std::move(strides);
  a.pad_low = std::move(low);
  a.pad_high = std::move(high);
  a.dtype = dtype;
  return a;
}

Tensor run_conv(const Tensor& x, const Tensor& kernel, const ConvolutionAttributes& attributes) {
  return run1({x, kernel}, [&](Builder& build, const auto& in) { return build.convolution(in[0], in[1], attributes); });
}

TEST(Convolution, SumsPaddedWindows) {
  // 3x3 ones over 0..24 (5x5), stride 2, pads 1: the known ONNX example with strides and padding is over (7,5)
  const Tensor x = floats(counting(35), {1, 1, 7, 5}), ones = floats(std::vector<float>(9, 1), {1, 1, 3, 3});
  expect_tensor(run_conv(x, ones, conv({2, 2}, {1, 1}, {1, 1})), {1, 1, 4, 3},
                {12, 27, 24, 63, 108, 81, 123, 198, 141, 112, 177, 124});
}

TEST(Convolution, Dilation) {
  // SAME_UPPER, stride 2, dilation 2, k 3 on 1..7: pads 2, 2
  ConvolutionAttributes a = conv({2}, {2}, {2});
  a.rhs_dilation = {2};
  expect_tensor(run_conv(floats(counting(7, 1), {1, 1, 7}), floats({1, 1, 1}, {1, 1, 3}), a), {1, 1, 4},
                {4, 9, 15, 12});
}

TEST(Convolution, TransposedByLhsDilation) {
  // ConvTranspose of [1, 2] with kernel [1, 10], stride 3: 1 10 0 2 20
  ConvolutionAttributes a = conv({1}, {1}, {1});
  a.lhs_dilation = {3};
  expect_tensor(run_conv(floats({1, 2}, {1, 1, 2}), floats({10, 1}, {1, 1, 2}), a), {1, 1, 5}, {1, 10, 0, 2, 20});
}

TEST(Convolution, Groups) {
  ConvolutionAttributes a = conv({1}, {0}, {0});
  a.feature_groups = 2;
  // channels [1,2],[3,4]; each output channel sees its own group
  expect_tensor(run_conv(floats({1, 2, 3, 4}, {1, 2, 2}), floats({1, 2, 10, 20}, {4, 1, 1}), a), {1, 4, 2},
                {1, 2, 2, 4, 30, 40, 60, 80});
  a.feature_groups = 1;
  a.batch_groups = 2;
  expect_tensor(run_conv(floats({1, 2, 3, 4}, {2, 1, 2}), floats({1, 10}, {2, 1, 1}), a), {1, 2, 2}, {1, 2, 30, 40});
}

TEST(Convolution, KernelLargerThanInputGivesNothing) {
  EXPECT_EQ(run_conv(floats({1, 2}, {1, 1, 2}), floats({1, 1, 1}, {1, 1, 3}), conv({1}, {0}, {0})).shape(),
            (Shape{1, 1, 0}));
}

TEST(Convolution, Integers) {
  const Tensor x(std::vector<uint8_t>{200, 250}, {1, 1, 2}), k(std::vector<int8_t>{-128, 127}, {1, 1, 2});
  expect_tensor(run_conv(x, k, conv({1}, {0}, {0}, DType::i32)), {1, 1, 1}, {6150});
}

TEST(Convolution, RefusesWithTheConstraint) {
  const Tensor x = floats(counting(4), {1, 2, 2}), k = floats(counting(3), {1, 3, 1});
  EXPECT_THAT(error_of([&] { run_conv(x, k, conv({1}, {0}, {0})); }), testing::HasSubstr("C14"));
  EXPECT_THAT(error_of([&] { run_conv(x, k, conv({0}, {0}, {0})); }), testing::HasSubstr("C3"));
}

TEST(Convolution, Gradient) {
  ConvolutionAttributes a = conv({2, 1}, {1, 0}, {2, 1}, DType::f64);
  a.rhs_dilation = {1, 2};
  a.feature_groups = 2;
  check_gradient({spread({2, 4, 5, 4}), spread({6, 2, 2, 2}, 0.8)},
                 [&](Builder& build, const auto& in) { return build.convolution(in[0], in[1], a); });
  ConvolutionAttributes b = conv({1}, {1}, {1}, DType::f64);
  b.lhs_dilation = {3};
  check_gradient({spread({1, 2, 3}), spread({2, 2, 3}, 0.8)},
                 [&](Builder& build, const auto& in) { return build.convolution(in[0], in[1], b); });
}

}  // namespace
}  // namespace transmuter::ir
