// reduce, reduce_window and sort. Expected numbers by hand.
#include <limits>

#include "prim_testing.h"

namespace transmuter::ir {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor run_reduce(const Tensor& x, ReduceKind kind, std::vector<int64_t> axes) {
  return run1({x}, [&](Builder& build, const auto& in) { return build.reduce(in[0], kind, axes); });
}

TEST(Reduce, SumsAnyAxes) {
  const Tensor x = floats(counting(24), {2, 3, 4});
  expect_tensor(run_reduce(x, ReduceKind::add, {1}), {2, 4}, {12, 15, 18, 21, 48, 51, 54, 57});
  expect_tensor(run_reduce(x, ReduceKind::add, {2, 0}), {3}, {60, 92, 124});
  expect_tensor(run_reduce(x, ReduceKind::max, {0, 1, 2}), {}, {23});
}

TEST(Reduce, EmptyAxisGivesTheIdentity) {
  const Tensor x = floats({}, {2, 0});
  expect_tensor(run_reduce(x, ReduceKind::add, {1}), {2}, {0, 0});
  expect_tensor(run_reduce(x, ReduceKind::mul, {1}), {2}, {1, 1});
  expect_tensor(run_reduce(x, ReduceKind::max, {1}), {2}, {-kInf, -kInf});
  expect_tensor(run_reduce(x, ReduceKind::min, {1}), {2}, {kInf, kInf});
  expect_tensor(run_reduce(Tensor(std::vector<int8_t>{}, {0}), ReduceKind::max, {0}), {}, {-128});
  EXPECT_EQ(run_reduce(Tensor(std::vector<uint64_t>{}, {0}), ReduceKind::min, {0}).data<uint64_t>()[0], ~uint64_t{0});
}

TEST(Reduce, NanWinsAndIntegersWrap) {
  expect_tensor(run_reduce(floats({1, NAN, 3}, {3}), ReduceKind::max, {0}), {}, {kNan});
  expect_tensor(run_reduce(floats({NAN, 1}, {2}), ReduceKind::min, {0}), {}, {kNan});
  expect_tensor(run_reduce(Tensor(std::vector<int8_t>{100, 100}, {2}), ReduceKind::add, {0}), {}, {-56});
}

TEST(Reduce, BoolAndBits) {
  Tensor truth(DType::boolean, {3});
  truth.mutable_data<bool>()[0] = truth.mutable_data<bool>()[2] = true;
  truth.mutable_data<bool>()[1] = false;
  EXPECT_FALSE(run_reduce(truth, ReduceKind::logical_and, {0}).data<bool>()[0]);
  EXPECT_TRUE(run_reduce(truth, ReduceKind::logical_or, {0}).data<bool>()[0]);
  EXPECT_TRUE(run_reduce(truth, ReduceKind::add, {0}).data<bool>()[0]);
  EXPECT_FALSE(run_reduce(truth, ReduceKind::mul, {0}).data<bool>()[0]);
  expect_tensor(run_reduce(ints({6, 3}, {2}), ReduceKind::logical_and, {0}), {}, {2});
  EXPECT_THAT(error_of([] { run_reduce(floats({1}, {1}), ReduceKind::logical_or, {0}); }), testing::HasSubstr("C6"));
}

TEST(Reduce, HalfAccumulatesWide) {
  expect_tensor(run_reduce(floats(std::vector<float>(4096, 1), {4096}).cast(DType::f16), ReduceKind::add, {0}), {},
                {4096});
}

TEST(Reduce, Gradients) {
  for (const ReduceKind kind : {ReduceKind::add, ReduceKind::max, ReduceKind::min, ReduceKind::mul}) {
    check_gradient({spread({2, 3, 2})}, [&](Builder& build, const auto& in) {
      return build.reduce(in[0], kind, {2, 0});
    });
  }
  Tensor with_zero = spread({4});
  with_zero.mutable_data<double>()[1] = 0;
  check_gradient({with_zero},
                 [&](Builder& build, const auto& in) { return build.reduce(in[0], ReduceKind::mul, {0}); });
}

ReduceWindowAttributes window(ReduceKind kind, Dims extents, std::vector<int64_t> strides, Dims low, Dims high) {
  ReduceWindowAttributes a;
  a.kind = kind;
  a.base_dilation.assign(strides.size(), 1);
  a.window_dilation.assign(strides.size(), 1);
  a.window = std::move(extents);
  a.strides = std::move(strides);
  a.pad_low = std::move(low);
  a.pad_high = std::move(high);
  return a;
}

Tensor run_window(const Tensor& x, const ReduceWindowAttributes& a) {
  return run1({x}, [&](Builder& build, const auto& in) { return build.reduce_window(in[0], a); });
}

TEST(ReduceWindow, PoolsWithPadding) {
  const Tensor x = floats(counting(16, 1), {4, 4});
  expect_tensor(run_window(x, window(ReduceKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0})), {2, 2}, {6, 8, 14, 16});
  expect_tensor(run_window(x, window(ReduceKind::add, {3, 3}, {2, 2}, {1, 1}, {0, 0})), {2, 2}, {14, 30, 57, 99});
}

TEST(ReduceWindow, DilatedWindow) {
  // MaxPool, k 2, dilation 2, pads 1 on the 3x3 of the public bug report
  ReduceWindowAttributes a = window(ReduceKind::max, {2, 2}, {1, 1}, {1, 1}, {1, 1});
  a.window_dilation = {2, 2};
  expect_tensor(run_window(floats({1, 9, 2, 8, 3, 7, 4, 6, 5}, {3, 3}), a), {3, 3}, {3, 8, 3, 9, 5, 9, 3, 8, 3});
}

TEST(ReduceWindow, Int8PadsWithTheLeastValue) {
  expect_tensor(run_window(Tensor(std::vector<int8_t>{-5, -3, -128}, {3}), window(ReduceKind::max, {2}, {1}, {1}, {1})),
                {4}, {-5, -3, -3, -128});
}

TEST(ReduceWindow, Gradients) {
  for (const ReduceKind kind : {ReduceKind::add, ReduceKind::max, ReduceKind::min}) {
    ReduceWindowAttributes a = window(kind, {2, 3}, {1, 2}, {1, 0}, {0, 2});
    a.window_dilation = {2, 1};
    check_gradient({spread({4, 5})}, [&](Builder& build, const auto& in) { return build.reduce_window(in[0], a); });
    a.base_dilation = {1, 2};
    a.pad_low = {0, -1};
    check_gradient({spread({4, 5})}, [&](Builder& build, const auto& in) { return build.reduce_window(in[0], a); });
  }
}

std::vector<Tensor> run_sort(const std::vector<Tensor>& xs, const SortAttributes& a) {
  return run(xs, [&](Builder& build, const auto& in) { return build.sort(in, a); });
}

TEST(Sort, CarriesPayloadAlongTheAxis) {
  SortAttributes a;
  a.axis = 0;
  const auto out = run_sort({floats({3, 1, 2, 9, 1, 0}, {3, 2}), ints({0, 1, 2, 3, 4, 5}, {3, 2})}, a);
  expect_tensor(out[0], {3, 2}, {1, 0, 2, 1, 3, 9});
  expect_tensor(out[1], {3, 2}, {4, 5, 2, 1, 0, 3});
}

TEST(Sort, NanOrder) {
  const Tensor x = floats({1, NAN, 3, INFINITY, 2}, {5});
  SortAttributes a;
  expect_tensor(run_sort({x}, a)[0], {5}, {1, 2, 3, kInf, kNan});
  a.descending = true;
  expect_tensor(run_sort({x}, a)[0], {5}, {kNan, kInf, 3, 2, 1});
  a.nan_last = true;
  expect_tensor(run_sort({x}, a)[0], {5}, {kInf, 3, 2, 1, kNan});
}

TEST(Sort, TiesKeepTheirOrderBothWays) {
  SortAttributes a;
  a.descending = true;
  expect_tensor(run_sort({floats({2, 1, 2, 2}, {4}), ints({0, 1, 2, 3}, {4})}, a)[1], {4}, {0, 2, 3, 1});
}

TEST(Sort, TwoKeys) {
  SortAttributes a;
  a.keys = 2;
  const auto out = run_sort({ints({1, 0, 1, 0}, {4}), floats({5, 7, 4, 6}, {4}), ints({0, 1, 2, 3}, {4})}, a);
  expect_tensor(out[2], {4}, {3, 1, 2, 0});
}

TEST(Sort, Gradient) {
  SortAttributes a;
  a.axis = 1;
  check_gradient({spread({2, 4}), spread({2, 4}, 0.9)}, [&](Builder& build, const auto& in) {
    return build.sort({in[0], in[1]}, a)[1];
  });
}

}  // namespace
}  // namespace transmuter::ir
