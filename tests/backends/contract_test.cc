// What every backend must hold, run on each one that this build has. The author of a new backend starts here: results
// against the plain interpreter, sizes bound at run time, inputs left alone, several threads, and life after an error.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "ir/builder.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "transmuter/backend.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

Tensor random_tensor(Shape shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (float& v : values) v = normal(generator);
  return Tensor(values, std::move(shape));
}

void expect_close(const Tensor& got, const Tensor& want, float tolerance) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<float> g = got.cast(DType::f32).to_vector<float>(), w = want.cast(DType::f32).to_vector<float>();
  for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], w[i], tolerance * (1 + std::fabs(w[i]))) << "element " << i;
}

class Contract : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Backend> backend() const { return Backend::get(GetParam()); }

  std::unique_ptr<Executable> compile(const ir::Program& program, int threads = 2) const {
    const auto target = backend();
    const ir::Program ready = ir::inline_composites(
        program, [&](const ir::Program& p, const ir::Op& op) { return target->takes_composite(p, op); });
    BackendOptions options;
    options.threads = threads;
    return target->compile(ready, options);
  }

  std::vector<Tensor> run(const Executable& executable, const std::vector<Tensor>& inputs, Bindings& bindings) const {
    std::vector<Buffer> buffers;
    for (const Tensor& input : inputs) buffers.push_back(backend()->upload(input));
    std::vector<Tensor> results;
    for (const Buffer& result : executable.run(buffers, bindings)) results.push_back(backend()->download(result));
    return results;
  }
};

// x [batch, 8] (batch symbolic) -> gelu(x W + b) + x W, softmax over rows, and the maximum of each row.
struct Dense {
  std::shared_ptr<ShapeScope> scope = ShapeScope::create();
  ir::Program program = make();

  ir::Program make() {
    const ShapeScope::Enter enter(scope);
    ir::Builder build(scope);
    const Dim batch = scope->input_extent(0, 0, 3, "batch");
    const ir::Value x = build.input({DType::f32, {batch, 8}}, "x");
    const ir::Value w = build.weight(random_tensor({8, 16}, 1), "w");
    const ir::Value b = build.weight(random_tensor({16}, 2), "b");
    ir::DotGeneralAttributes dot;
    dot.lhs_contracting = {1};
    dot.rhs_contracting = {0};
    dot.dtype = DType::f32;
    const ir::Value product = build.dot_general(x, w, dot);
    const ir::Value hidden = ir::gelu(build, build.add(product, build.broadcast_to(b, build.shape(product))));
    const ir::Value sum = build.add(hidden, product);
    return build.finish({ir::softmax(build, sum, 1), build.reduce(sum, ir::ReduceKind::max, {1})}, {"p", "m"});
  }

  Bindings bind(int64_t batch) const {
    Bindings bindings(scope);
    bindings.set(0, batch);
    return bindings;
  }

  std::vector<Tensor> expected(const Tensor& x) const {
    const ShapeScope::Enter enter(scope);
    Bindings bindings = bind(x.dim(0));
    const std::vector<Tensor> inputs{x};
    return ir::evaluate(program, inputs, &bindings);
  }
};

TEST_P(Contract, OneExecutableServesEverySizeAndLeavesItsInputsAlone) {
  const Dense dense;
  const ShapeScope::Enter enter(dense.scope);
  const auto executable = compile(dense.program);
  for (const int64_t batch : {3, 2, 17, 3, 64}) {
    const Tensor x = random_tensor({batch, 8}, static_cast<uint32_t>(batch));
    const Tensor before = x.clone();
    Bindings bindings = dense.bind(batch);
    const std::vector<Tensor> got = run(*executable, {x}, bindings), want = dense.expected(x);
    ASSERT_EQ(got.size(), 2u);
    expect_close(got[0], want[0], 1e-5f);
    expect_close(got[1], want[1], 1e-5f);
    EXPECT_EQ(std::memcmp(x.bytes(), before.bytes(), x.nbytes()), 0);
  }
}

TEST_P(Contract, ResultsAreTheSameForAnyNumberOfThreads) {
  const Dense dense;
  const ShapeScope::Enter enter(dense.scope);
  const Tensor x = random_tensor({40, 8}, 5);
  std::vector<std::vector<Tensor>> results;
  for (const int threads : {1, 2, 3}) {
    Bindings bindings = dense.bind(40);
    results.push_back(run(*compile(dense.program, threads), {x}, bindings));
  }
  for (size_t i = 1; i < results.size(); ++i) {
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(std::memcmp(results[i][k].bytes(), results[0][k].bytes(), results[0][k].nbytes()), 0);
    }
  }
}

TEST_P(Contract, SeveralThreadsMayRunOneExecutable) {
  const Dense dense;
  const ShapeScope::Enter enter(dense.scope);
  const auto executable = compile(dense.program);
  std::vector<std::vector<Tensor>> want;
  for (int64_t batch = 2; batch < 6; ++batch) want.push_back(dense.expected(random_tensor({batch, 8}, 9)));
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const int64_t batch = 2 + (round + static_cast<int64_t>(t)) % 4;
        Bindings bindings = dense.bind(batch);
        const std::vector<Tensor> got = run(*executable, {random_tensor({batch, 8}, 9)}, bindings);
        const std::vector<float> g = got[0].to_vector<float>();
        const std::vector<float> w = want[static_cast<size_t>(batch - 2)][0].to_vector<float>();
        for (size_t i = 0; i < g.size(); ++i) wrong[t] += std::fabs(g[i] - w[i]) > 1e-5f;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(3, 0));
}

TEST_P(Contract, ViewsOfOneValueDoNotDisturbEachOther) {
  // t = transpose(x); y = reshape(t) + reverse(reshape(x)); the same memory is read in three orders.
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {6, 4}}, "x");
  const ir::Value doubled = build.add(x, x);
  const ir::Value t = build.reshape(build.transpose(doubled, {1, 0}), {24});
  const ir::Value r = build.reverse(build.reshape(doubled, {24}), {0});
  const ir::Value head = build.broadcast_in_dim(build.slice(build.reshape(doubled, {24}), {0}, {1}, {1}), {24}, {0});
  const ir::Program program = build.finish({build.add(build.add(t, r), head), doubled, t}, {"y", "d", "t"});
  const std::vector<Tensor> inputs{random_tensor({6, 4}, 3)};
  Bindings bindings(ShapeScope::create());
  const std::vector<Tensor> got = run(*compile(program), inputs, bindings), want = ir::evaluate(program, inputs);
  for (size_t i = 0; i < 3; ++i) expect_close(got[i], want[i], 0);
}

TEST_P(Contract, ConvolutionWithWhatFollowsIt) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {2, 4, 9, 7}}, "x");
  const ir::Value w = build.weight(random_tensor({6, 2, 3, 3}, 4), "w");
  const ir::Value b = build.weight(random_tensor({6}, 5), "b");
  ir::ConvolutionAttributes conv;
  conv.strides = {2, 1};
  conv.pad_low = {1, 0};
  conv.pad_high = {1, 2};
  conv.lhs_dilation = {1, 1};
  conv.rhs_dilation = {1, 2};
  conv.feature_groups = 2;
  conv.dtype = DType::f32;
  const ir::Value y = build.convolution(x, w, conv);
  const ir::Value biased = build.add(y, build.broadcast_in_dim(b, build.shape(y), {1}));
  const ir::Value relu = build.maximum(biased, build.like(biased, 0));
  const ir::Program program = build.finish({relu, build.reduce(relu, ir::ReduceKind::add, {2, 3})}, {"y", "s"});
  const std::vector<Tensor> inputs{random_tensor({2, 4, 9, 7}, 6)};
  Bindings bindings(ShapeScope::create());
  const std::vector<Tensor> got = run(*compile(program), inputs, bindings), want = ir::evaluate(program, inputs);
  for (size_t i = 0; i < 2; ++i) expect_close(got[i], want[i], 1e-5f);
}

TEST_P(Contract, ExtentsThatDataDecide) {
  if (!backend()->capabilities().data_dependent_extents) GTEST_SKIP() << "the capability is not claimed";
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  ir::Builder build(scope);
  const ir::Value x = build.input({DType::f32, {5}}, "x");
  const ir::Value indices = ir::nonzero(build, x);
  const ir::Value twice = build.add(indices, indices);
  const ir::Program program = build.finish({twice}, {"i"});
  const auto executable = compile(program);
  for (const std::vector<float>& values : {std::vector<float>{0, 1, 0, 2, 0}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}}) {
    Bindings bindings(scope);
    const std::vector<Tensor> got = run(*executable, {Tensor(values, {5})}, bindings);
    std::vector<int64_t> want;
    for (int64_t i = 0; i < 5; ++i) {
      if (values[static_cast<size_t>(i)] != 0) want.push_back(2 * i);
    }
    EXPECT_EQ(got[0].to_vector<int64_t>(), want);
    EXPECT_EQ(got[0].shape(), (Shape{1, static_cast<int64_t>(want.size())}));
  }
}

TEST_P(Contract, EmptyExtents) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {0, 4}}, "x");
  const ir::Program program = build.finish({build.add(x, x), build.reduce(x, ir::ReduceKind::add, {0})}, {"y", "s"});
  Bindings bindings(ShapeScope::create());
  const std::vector<Tensor> got = run(*compile(program), {Tensor(DType::f32, {0, 4})}, bindings);
  EXPECT_EQ(got[0].shape(), (Shape{0, 4}));
  EXPECT_EQ(got[1].to_vector<float>(), std::vector<float>(4, 0.0f));
}

TEST_P(Contract, AnInputOfTheWrongSizeIsAnErrorAndTheNextRunWorks) {
  const Dense dense;
  const ShapeScope::Enter enter(dense.scope);
  const auto executable = compile(dense.program);
  Bindings wrong = dense.bind(4);
  EXPECT_THROW(run(*executable, {random_tensor({3, 8}, 1)}, wrong), Error);
  const Tensor x = random_tensor({3, 8}, 1);
  Bindings bindings = dense.bind(3);
  expect_close(run(*executable, {x}, bindings)[0], dense.expected(x)[0], 1e-5f);
}

INSTANTIATE_TEST_SUITE_P(Backends, Contract, testing::ValuesIn(Backend::names()),
                         [](const auto& info) { return info.param; });

TEST(Backends, AnUnknownNameListsWhatThereIs) {
  try {
    Backend::get("abacus");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("reference"), std::string::npos);
  }
}

}  // namespace
}  // namespace transmuter
