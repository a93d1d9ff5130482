// gather, scatter, dynamic slices, fft, while and case. Expected numbers by hand; transforms from NumPy.
#include <cmath>
#include <numbers>

#include "ir/print.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

GatherAttributes rows(Dims sizes) {  // whole rows of a matrix by scalar indices
  GatherAttributes a;
  a.offset_dims = {1};
  a.collapsed_slice_dims = {0};
  a.start_index_map = {0};
  a.index_vector_dim = 1;
  a.slice_sizes = std::move(sizes);
  return a;
}

Tensor run_gather(const Tensor& x, const Tensor& indices, const GatherAttributes& a) {
  return run1({x, indices}, [&](Builder& build, const auto& in) { return build.gather(in[0], in[1], a); });
}

TEST(Gather, RowsAreClamped) {
  expect_tensor(run_gather(floats(counting(6), {3, 2}), ints({2, -5, 9, 1}, {4}), rows({1, 2})), {4, 2},
                {4, 5, 0, 1, 4, 5, 2, 3});
}

TEST(Gather, NothingFromNothing) {
  EXPECT_EQ(run_gather(floats({}, {0, 2}), ints({}, {0}), rows({1, 2})).shape(), (Shape{0, 2}));
  EXPECT_THAT(error_of([] {
                run_gather(floats({}, {0, 2}), ints({0}, {1}), rows({1, 2}));
              }),
              testing::HasSubstr("empty operand"));
}

TEST(Gather, WindowsWithIndexVectorsAndBatching) {
  // x (2, 3, 4), a start in the last axis for each batch: windows of 1 x 2 x 2
  GatherAttributes a;
  a.offset_dims = {1, 2};
  a.operand_batching_dims = {0};
  a.start_indices_batching_dims = {0};
  a.start_index_map = {2, 1};
  a.index_vector_dim = 1;
  a.slice_sizes = {1, 2, 2};
  expect_tensor(run_gather(floats(counting(24), {2, 3, 4}), ints({1, 0, 3, 1}, {2, 2}), a), {2, 2, 2},
                {1, 2, 5, 6, 18, 19, 22, 23});
}

TEST(Gather, RefusesWithTheConstraint) {
  GatherAttributes a = rows({1, 2});
  a.start_index_map = {0, 1};
  EXPECT_THAT(error_of([&] { run_gather(floats(counting(6), {3, 2}), ints({0}, {1}), a); }), testing::HasSubstr("C3"));
  EXPECT_THAT(error_of([&] {
                run_gather(floats(counting(6), {3, 2}), ints({0}, {1}), rows({1, 3}));
              }),
              testing::HasSubstr("C21"));
}

TEST(Gather, Gradient) {
  check_gradient({spread({3, 2}), ints({2, -5, 9, 1}, {4})}, [](Builder& build, const auto& in) {
    return build.gather(in[0], in[1], rows({1, 2}));
  });
}

ScatterAttributes scatter_rows(ScatterAttributes::Kind kind) {
  ScatterAttributes a;
  a.kind = kind;
  a.update_window_dims = {1};
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  return a;
}

Tensor run_scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, const ScatterAttributes& a) {
  return run1({x, indices, updates},
              [&](Builder& build, const auto& in) { return build.scatter(in[0], in[1], in[2], a); });
}

TEST(Scatter, KindsAndDroppedWindows) {
  using Kind = ScatterAttributes::Kind;
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {3, 2}), updates = floats({10, -1, 20, 1, 7, 7}, {3, 2});
  const Tensor indices = ints({2, 2, 3}, {3});  // the last lies outside
  expect_tensor(run_scatter(x, indices, updates, scatter_rows(Kind::set)), {3, 2}, {1, 2, 3, 4, 20, 1});
  expect_tensor(run_scatter(x, indices, updates, scatter_rows(Kind::add)), {3, 2}, {1, 2, 3, 4, 35, 6});
  expect_tensor(run_scatter(x, indices, updates, scatter_rows(Kind::mul)), {3, 2}, {1, 2, 3, 4, 1000, -6});
  expect_tensor(run_scatter(x, indices, updates, scatter_rows(Kind::max)), {3, 2}, {1, 2, 3, 4, 20, 6});
  expect_tensor(run_scatter(x, indices, updates, scatter_rows(Kind::min)), {3, 2}, {1, 2, 3, 4, 5, -1});
}

TEST(Scatter, Gradient) {
  using Kind = ScatterAttributes::Kind;
  for (const Kind kind : {Kind::set, Kind::add}) {
    check_gradient({spread({4, 2}), ints({2, 0, 4}, {3}), spread({3, 2}, 0.8)}, [&](Builder& build, const auto& in) {
      return build.scatter(in[0], in[1], in[2], scatter_rows(kind));
    });
  }
}

TEST(DynamicSlice, StartsAreClamped) {
  const Tensor x = floats(counting(12), {3, 4});
  const auto at = [&](int64_t r, int64_t c) {
    return run1({x, Tensor::scalar(r), Tensor::scalar(c)}, [](Builder& build, const auto& in) {
      return build.dynamic_slice(in[0], {in[1], in[2]}, {2, 2});
    });
  };
  expect_tensor(at(0, 1), {2, 2}, {1, 2, 5, 6});
  expect_tensor(at(-4, 9), {2, 2}, {2, 3, 6, 7});
  const Tensor put = run1({x, floats({-1, -2}, {1, 2}), Tensor::scalar(int64_t{7}), Tensor::scalar(int64_t{1})},
                          [](Builder& build, const auto& in) {
                            return build.dynamic_update_slice(in[0], in[1], {in[2], in[3]});
                          });
  expect_tensor(put, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -2, 11});
}

TEST(DynamicSlice, Gradients) {
  const Tensor start = Tensor::scalar(int64_t{5}), zero = Tensor::scalar(int64_t{0});
  check_gradient({spread({3, 4}), start, zero}, [](Builder& build, const auto& in) {
    return build.dynamic_slice(in[0], {in[1], in[2]}, {2, 2});
  });
  check_gradient({spread({3, 4}), spread({1, 2}), start, zero}, [](Builder& build, const auto& in) {
    return build.dynamic_update_slice(in[0], in[1], {in[2], in[3]});
  });
}

// Real and imaginary parts of a complex result.
std::pair<Tensor, Tensor> parts(const Tensor& x, FftKind kind, Dims lengths) {
  const auto out = run({x}, [&](Builder& build, const auto& in) {
    const Value y = build.fft(in[0], kind, lengths);
    return std::vector<Value>{build.real(y), build.imag(y)};
  });
  return {out[0], out[1]};
}

TEST(Fft, RealTransforms) {
  const auto [re, im] = parts(floats({1, 2, 3, 4, 5, 6}, {6}), FftKind::rfft, {6});
  expect_tensor(re, {4}, {21, -3, -3, -3});
  expect_tensor(im, {4}, {0, 5.196152422706632, 1.7320508075688772, 0});
  EXPECT_EQ(im.data<float>()[0], 0.0f);
  EXPECT_EQ(im.data<float>()[3], 0.0f);
  const auto [re2, im2] = parts(floats(counting(6), {2, 3}), FftKind::rfft, {2, 3});
  expect_tensor(re2, {2, 2}, {15, -3, -9, 0});
  expect_tensor(im2, {2, 2}, {0, 1.7320508075688772, 0, 0});
}

// Exports take a phase as atan(im / re). A windowed constant, a frame of silence, has no part beyond the first; what is
// left there must not be 0 / 0.
TEST(Fft, TheAngleOfSilenceIsANumber) {
  constexpr int64_t kLength = 20;
  for (const float level : {0.03f, -0.0087f, 0.25f, 1.7e-4f}) {
    std::vector<float> frame;
    for (int64_t i = 0; i < kLength; ++i)
      frame.push_back(level * static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * double(i) / kLength)));
    const auto [re, im] = parts(Tensor(frame, {kLength}), FftKind::rfft, {kLength});
    for (int64_t k = 0; k <= kLength / 2; ++k) EXPECT_FALSE(std::isnan(im.data<float>()[k] / re.data<float>()[k])) << k;
  }
}

TEST(Fft, InverseGivesTheInputBack) {
  for (const int64_t n : {1, 2, 5, 6, 7, 12, 30, 49}) {
    const Tensor x = spread({2, n});
    const auto there_and_back = run1({x}, [&](Builder& build, const auto& in) {
      return build.fft(build.fft(in[0], FftKind::rfft, {2, n}), FftKind::irfft, {2, n});
    });
    expect_tensor(there_and_back, {2, n}, numbers(x), 1e-12);
    const auto complex = run1({x}, [&](Builder& build, const auto& in) {
      const Value z = build.complex(in[0], build.negate(in[0]));
      return build.imag(build.fft(build.fft(z, FftKind::fft, {n}), FftKind::ifft, {n}));
    });
    std::vector<double> negated = numbers(x);
    for (double& value : negated) value = -value;
    expect_tensor(complex, {2, n}, negated, 1e-12);
  }
}

ProgramPtr program(Builder& build, std::vector<Value> results) {
  return std::make_shared<const Program>(build.finish(std::move(results)));
}

TEST(Control, WhileSumsUp) {
  Builder condition(nullptr), body(nullptr);
  const Type i64{DType::i64, {}};
  const Value n = condition.input(i64, "n");
  condition.input(i64, "sum");
  const ProgramPtr test =
      program(condition, {condition.compare(n, condition.integer(DType::i64, 0), CompareDirection::gt)});
  const Value m = body.input(i64, "n"), sum = body.input(i64, "sum");
  const ProgramPtr step = program(body, {body.subtract(m, body.integer(DType::i64, 1)), body.add(sum, m)});
  for (const int64_t count : {0, 4}) {
    const auto out = run({Tensor::scalar(count), Tensor::scalar(int64_t{0})},
                         [&](Builder& build, const auto& in) { return build.while_loop(in, test, step); });
    expect_tensor(out[1], {}, {count == 0 ? 0.0 : 10.0});
  }
}

TEST(Control, CaseTakesTheLastBranchOutOfRange) {
  std::vector<ProgramPtr> branches;
  for (const double factor : {1.0, 10.0, 100.0}) {
    Builder branch(nullptr);
    const Value x = branch.input({DType::f32, {2}}, "x");
    branches.push_back(program(branch, {branch.multiply(x, branch.like(x, factor))}));
  }
  const auto at = [&](int32_t index) {
    return run1({Tensor(std::vector<int32_t>{index}, {}), floats({1, 2}, {2})},
                [&](Builder& build, const auto& in) { return build.case_of(in[0], {in[1]}, branches)[0]; });
  };
  expect_tensor(at(0), {2}, {1, 2});
  expect_tensor(at(1), {2}, {10, 20});
  expect_tensor(at(2), {2}, {100, 200});
  expect_tensor(at(-1), {2}, {100, 200});
  expect_tensor(at(3), {2}, {100, 200});
}

}  // namespace
}  // namespace transmuter::ir
