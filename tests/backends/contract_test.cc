// What every backend must hold, run on each one that this build has. The author of a new backend starts here: results
// against the plain interpreter, sizes bound at run time, inputs left alone, several threads, and life after an error.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "ir/builder.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/pipeline.h"
#include "random_tensor.h"
#include "transmuter/backend.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

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

// To the bit what the plain interpreter gives, for one program of fixed sizes.
class Exactly : public Contract {
 protected:
  void expect(const ir::Program& program, const std::vector<Tensor>& inputs) {
    Bindings bindings(ShapeScope::create());
    const std::vector<Tensor> got = run(*compile(program), inputs, bindings), want = ir::evaluate(program, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].dtype(), want[i].dtype()) << program.result_names()[i];
      ASSERT_EQ(got[i].shape(), want[i].shape()) << program.result_names()[i];
      const bool packed = is_packed(got[i].dtype());
      const Tensor g = packed ? got[i].cast(DType::f64) : got[i], w = packed ? want[i].cast(DType::f64) : want[i];
      const size_t width = g.nbytes() / std::max<size_t>(1, static_cast<size_t>(g.size()));
      for (size_t k = 0; k < static_cast<size_t>(g.size()); ++k) {
        const bool both_nan = is_float(g.dtype()) && std::isnan(g.cast(DType::f64).data<double>()[k]) &&
                              std::isnan(w.cast(DType::f64).data<double>()[k]);
        EXPECT_TRUE(both_nan || std::memcmp(g.bytes() + k * width, w.bytes() + k * width, width) == 0)
            << program.result_names()[i] << ", element " << k << " as float64: " << g.cast(DType::f64).data<double>()[k]
            << " in place of " << w.cast(DType::f64).data<double>()[k];
      }
    }
  }
};

TEST_P(Exactly, NaNWinsInMinimaMaximaAndClamps) {
  const float nan = std::nanf("");
  ir::Builder build(nullptr);
  const ir::Value a = build.input({DType::f32, {2, 4}}, "a"), b = build.input({DType::f32, {2, 4}}, "b");
  const ir::Program program =
      build.finish({build.maximum(a, b), build.minimum(a, b),
                    build.clamp(build.scalar(DType::f32, -1), a, build.scalar(DType::f32, 1)),
                    build.reduce(a, ir::ReduceKind::max, {1}), build.reduce(a, ir::ReduceKind::min, {0}),
                    build.compare(a, b, ir::CompareDirection::lt), build.compare(a, b, ir::CompareDirection::ne)},
                   {"max", "min", "clamp", "row max", "column min", "less", "unequal"});
  expect(program, {Tensor(std::vector<float>{nan, 1, 2, -3, 5, 6, -0.5f, 1e30f}, {2, 4}),
                   Tensor(std::vector<float>{1, nan, 2, 4, nan, -INFINITY, INFINITY, 0}, {2, 4})});
}

TEST_P(Exactly, IntegersDivideWrapAndShift) {
  const int32_t least = INT32_MIN;
  ir::Builder build(nullptr);
  const ir::Value a = build.input({DType::i32, {8}}, "a"), b = build.input({DType::i32, {8}}, "b");
  const ir::Value c = build.input({DType::u8, {8}}, "c"), d = build.input({DType::u8, {8}}, "d");
  const ir::Program program =
      build.finish({build.divide(a, b), build.remainder(a, b), build.add(a, b), build.multiply(a, b),
                    build.divide(c, d), build.remainder(c, d), build.subtract(c, d), build.shift_left(c, d),
                    build.shift_right_logical(c, d), build.shift_right_arithmetic(a, b), build.negate(a), build.abs(a)},
                   {"div", "rem", "add", "mul", "udiv", "urem", "sub", "shl", "shr", "sar", "neg", "abs"});
  expect(program, {Tensor(std::vector<int32_t>{7, -7, 7, least, least, 1, -1, 0}, {8}),
                   Tensor(std::vector<int32_t>{2, 2, 0, -1, 3, 31, 40, 0}, {8}),
                   Tensor(std::vector<uint8_t>{7, 200, 0, 255, 3, 128, 1, 9}, {8}),
                   Tensor(std::vector<uint8_t>{2, 0, 5, 7, 8, 1, 200, 3}, {8})});
}

TEST_P(Exactly, CastsTruncateSaturateAndRound) {
  ir::Builder build(nullptr);
  std::vector<float> values{0,    -0.f,   0.5f,    -0.5f,  1.5f,     -1.5f,     2.5f,  7.9f,        -8.9f, 100,
                            -100, 127.9f, 128.5f,  255.5f, 300,      -129,      40000, -40000,      70000, 2147483648.f,
                            3e9f, -3e9f,  1.0e19f, -1e19f, INFINITY, -INFINITY, NAN,   1.00048828f, 1e-3f, 448};
  const int64_t n = static_cast<int64_t>(values.size());
  const ir::Value x = build.input({DType::f32, {n}}, "x");
  std::vector<ir::Value> results;
  std::vector<std::string> names;
  for (const DType dtype :
       {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64, DType::i4,
        DType::u4, DType::boolean, DType::f16, DType::bf16, DType::f64, DType::f8e4m3fn, DType::f8e5m2}) {
    results.push_back(build.convert(x, dtype));
    names.emplace_back(name(dtype));
  }
  const ir::Value wide = build.input({DType::f64, {3}}, "wide");
  results.push_back(build.convert(wide, DType::f16));  // rounded once, not by way of float32
  names.emplace_back("wide to half");
  expect(build.finish(std::move(results), std::move(names)),
         {Tensor(values, {n}), Tensor(std::vector<double>{1.0 + 0x1p-11 + 0x1p-40, 65519.999, 1e-9}, {3})});
}

TEST_P(Exactly, SmallIntegersKeepTheirPlaces) {
  std::vector<int8_t> numbers;
  for (int i = 0; i < 21; ++i) numbers.push_back(static_cast<int8_t>(i % 16 - 8));
  const Tensor signed4 = Tensor(numbers, {3, 7}).cast(DType::i4);
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::i4, {3, 7}}, "x"), u = build.input({DType::u4, {3}}, "u");
  const ir::Value w = build.weight(signed4, "w");
  const ir::Value sum = build.add(build.convert(x, DType::i32), build.convert(w, DType::i32));
  expect(build.finish({sum, build.transpose(x, {1, 0}), build.convert(u, DType::f32), u, build.convert(sum, DType::i4)},
                      {"sum", "transposed", "float", "same", "narrowed"}),
         {signed4, Tensor(std::vector<int8_t>{15, 0, 9}, {3}).cast(DType::u4)});
}

TEST_P(Exactly, IndicesOutsideAreClampedOrDropped) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {4, 3}}, "x"), at = build.input({DType::i64, {}}, "at");
  const ir::Value zero = build.integer(DType::i64, 0);
  const ir::Value update = build.slice(x, {0, 0}, {2, 3}, {1, 1});
  const ir::Program program =
      build.finish({build.dynamic_slice(x, {at, zero}, {2, 3}), build.dynamic_update_slice(x, update, {at, zero})},
                   {"slice", "update"});
  const Tensor values = random_tensor({4, 3}, 8);
  for (const int64_t place : {-5, 0, 1, 2, 3, 100}) expect(program, {values, Tensor::scalar(place)});
}

TEST_P(Exactly, WeightsMayLieAnywhere) {
  const Tensor weight = random_tensor({5, 3}, 1);
  auto bytes = std::make_shared<std::vector<std::byte>>(weight.nbytes() + 1);
  std::memcpy(bytes->data() + 1, weight.bytes(), weight.nbytes());
  ir::Builder build(nullptr);
  const ir::Value w = build.weight(Tensor::view(DType::f32, {5, 3}, bytes->data() + 1, bytes), "w");
  expect(build.finish({build.add(build.input({DType::f32, {5, 3}}, "x"), w)}, {"y"}), {random_tensor({5, 3}, 2)});
}

TEST_P(Contract, ACacheGoesThroughRunsWhereverItLies) {
  // cache [4, 8] with a row written at `at`; the result goes into the next run as it is, given away or not.
  ir::Builder build(nullptr);
  const ir::Value cache = build.input({DType::f32, {4, 8}}, "cache"), row = build.input({DType::f32, {1, 8}}, "row");
  const ir::Value at = build.input({DType::i64, {}}, "at");
  const ir::Program program =
      build.finish({build.dynamic_update_slice(cache, row, {at, build.integer(DType::i64, 0)})}, {"next"});
  for (const bool donated : {true, false}) {
    const auto executable = compile(program);
    Tensor want = Tensor::zeros(DType::f32, {4, 8});
    Buffer kept = backend()->upload(want.clone());
    for (int64_t step = 0; step < 4; ++step) {
      const Tensor now = random_tensor({1, 8}, static_cast<uint32_t>(step));
      std::vector<Buffer> inputs{kept, backend()->upload(now), backend()->upload(Tensor::scalar(step))};
      inputs[0].donated = donated;
      Bindings bindings(ShapeScope::create());
      Buffer next = executable->run(inputs, bindings)[0];
      if (!donated) expect_close(backend()->download(kept), want, 0);
      want = ir::evaluate(program, std::vector<Tensor>{want, now, Tensor::scalar(step)})[0];
      kept = std::move(next);
      inputs.clear();
      expect_close(backend()->download(kept), want, 0);
    }
  }
}

TEST_P(Contract, LoopsRun) {
  // while (i < n) { i += 1; x = x * 2 }
  const auto region = [](const auto& body) {
    ir::Builder inner(nullptr);
    const ir::Value i = inner.input({DType::i64, {}}, "i"), n = inner.input({DType::i64, {}}, "n");
    const ir::Value x = inner.input({DType::f32, {3}}, "x");
    return std::make_shared<const ir::Program>(inner.finish(body(inner, i, n, x)));
  };
  ir::Builder build(nullptr);
  const ir::Value n = build.input({DType::i64, {}}, "n"), x = build.input({DType::f32, {3}}, "x");
  const auto condition = region([](ir::Builder& b, ir::Value i, ir::Value limit, ir::Value) {
    return std::vector<ir::Value>{b.compare(i, limit, ir::CompareDirection::lt)};
  });
  const auto body = region([](ir::Builder& b, ir::Value i, ir::Value limit, ir::Value state) {
    return std::vector<ir::Value>{b.add(i, b.integer(DType::i64, 1)), limit, b.add(state, state)};
  });
  const std::vector<ir::Value> out = build.while_loop({build.integer(DType::i64, 0), n, x}, condition, body);
  const ir::Program program = build.finish({out[0], out[2]}, {"i", "x"});
  const auto executable = compile(program);
  for (const int64_t trips : {0, 1, 10}) {
    Bindings bindings(ShapeScope::create());
    const std::vector<Tensor> got =
        run(*executable, {Tensor::scalar(trips), Tensor(std::vector<float>{1, -2, 0.5f}, {3})}, bindings);
    EXPECT_EQ(got[0].to_vector<int64_t>()[0], trips);
    EXPECT_EQ(got[1].to_vector<float>()[1], -std::ldexp(2.0f, static_cast<int>(trips)));
  }
}

// Those of this build, and a PJRT plugin where one is named.
std::vector<std::string> backends_to_test() {
  std::vector<std::string> names = Backend::names();
  const char* plugin = std::getenv("TRANSMUTER_PJRT_PLUGIN");
  if (plugin && *plugin) names.emplace_back("pjrt");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, Contract, testing::ValuesIn(backends_to_test()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Backends, Exactly, testing::ValuesIn(backends_to_test()),
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
