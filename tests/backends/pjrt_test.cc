// The backend pjrt: where plugins are found, what becomes of programs; and, where $TRANSMUTER_PJRT_PLUGIN names a
// plugin, compiled programs, caches and placement on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "backends/pjrt/plugin.h"
#include "backends/pjrt/products.h"
#include "backends/pjrt/program.h"
#include "backends/run_state.h"
#include "backends/weight_store.h"
#include "ir/builder.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir/primitives/primitives.h"
#include "pjrt_testing.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;

TEST(PjrtPlugins, AreFoundInInstalledPackages) {
  const fs::path packages = fs::path(testing::TempDir()) / "packages";
  fs::create_directories(packages / "jax_plugins" / "xla_cuda13");
  fs::create_directories(packages / "some_pjrt_cpu");
  fs::create_directories(packages / "other");
  const fs::path cuda = packages / "jax_plugins" / "xla_cuda13" / "xla_cuda_plugin.so";
  const fs::path cpu = packages / "some_pjrt_cpu" / "pjrt_cpu_plugin.so";
  // A python3 of the shell's, as pyenv lays it out.
  const fs::path python = packages / "pyenv";
  const fs::path tpu = python / "versions/3.12.1/lib/python3.12/site-packages/libtpu/libtpu.so";
  fs::create_directories(tpu.parent_path());
  fs::create_directories(python / "shims");
  for (const fs::path& file : {cuda, cpu, tpu, python / "shims" / "python3", packages / "other" / "pjrt_plugin.so"})
    std::ofstream(file) << "x";
  const std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  const char* before = std::getenv("TRANSMUTER_PJRT_PLUGIN");
  const std::string plugin = before ? before : "";
  ::unsetenv("TRANSMUTER_PJRT_PLUGIN");
  ::setenv("PYTHONPATH", ("/nowhere:" + packages.string()).c_str(), 1);
  ::setenv("PATH", (path + ":" + (python / "shims").string()).c_str(), 1);
  const std::vector<std::string> found = pjrt::find_plugins();
  ::unsetenv("PYTHONPATH");
  ::setenv("PATH", path.c_str(), 1);
  if (before) ::setenv("TRANSMUTER_PJRT_PLUGIN", plugin.c_str(), 1);
  const auto place = [&](const fs::path& path) { return std::find(found.begin(), found.end(), path.string()); };
  ASSERT_NE(place(cuda), found.end());
  ASSERT_NE(place(cpu), found.end());
  ASSERT_NE(place(tpu), found.end());
  EXPECT_LT(place(cuda), place(cpu));  // accelerators first
  EXPECT_EQ(place(packages / "other" / "pjrt_plugin.so"), found.end());
}

// relu(x), its nonzero places, twice those, and the sum of relu(x): the middle two run on the host.
TEST(PjrtPlacement, WhatDependsOnDataGoesToTheHost) {
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  ir::Builder build(scope);
  const ir::Value x = build.input({DType::f32, {5}}, "x");
  const ir::Value unused = build.input({DType::f32, {2}}, "unused");
  const ir::Value relu = build.maximum(x, build.like(x, 0));
  const ir::Value places = ir::nonzero(build, relu);
  const ir::Value twice = build.add(places, places);
  const ir::Value scaled = build.multiply(twice, build.broadcast_to(build.integer(DType::i64, 3), build.shape(twice)));
  const ir::Program program =
      build.finish({scaled, build.reduce(relu, ir::ReduceKind::add, {0}), unused}, {"i", "s", "u"});
  const pjrt::Placed placed = pjrt::place(program);
  ASSERT_TRUE(placed.device && placed.host);
  EXPECT_EQ(placed.host_inputs, std::vector<size_t>{});
  EXPECT_EQ(placed.host_from_device, std::vector<size_t>{2});
  EXPECT_EQ(placed.device_inputs, (std::vector<size_t>{0, 1}));
  ASSERT_EQ(placed.results.size(), 3u);
  EXPECT_TRUE(placed.results[0].on_host);
  EXPECT_FALSE(placed.results[1].on_host);
  const Tensor given(std::vector<float>{0, 1, -1, 2, 0}, {5});
  const Tensor two(std::vector<float>{7, 8}, {2});
  Bindings bindings(scope);
  const std::vector<Tensor> inputs{given, two};
  const std::vector<Tensor> device = ir::evaluate(*placed.device, inputs, &bindings);
  const std::vector<Tensor> host = ir::evaluate(*placed.host, std::vector<Tensor>{device[2]}, &bindings);
  EXPECT_EQ(host[0].to_vector<int64_t>(), (std::vector<int64_t>{6, 18}));
  EXPECT_EQ(device[0].to_vector<float>(), std::vector<float>{3});
  EXPECT_EQ(device[1].to_vector<float>(), (std::vector<float>{7, 8}));
}

TEST(PjrtForm, SmallTypesTravelAsBytes) {
  ir::Builder build(nullptr);
  std::vector<int8_t> numbers;
  for (int i = 0; i < 15; ++i) numbers.push_back(static_cast<int8_t>(i % 16 - 8));
  const Tensor fours = Tensor(numbers, {3, 5}).cast(DType::i4);
  const ir::Value x = build.input({DType::i4, {3, 5}}, "x");
  const ir::Value w = build.weight(fours, "w");
  const ir::Value u = build.input({DType::u2, {3}}, "u");
  const ir::Value sum = build.add(build.convert(x, DType::i32), build.convert(w, DType::i32));
  const ir::Program program = build.finish({sum, x, build.convert(u, DType::i32), u}, {"s", "x", "v", "u"});
  const ir::Program form = pjrt::device_form(program, true);
  for (const ir::Parameter& parameter : form.parameters()) EXPECT_EQ(form.type(parameter.value).dtype, DType::u8);
  const Tensor twos = Tensor(std::vector<int8_t>{3, 1, 2}, {3}).cast(DType::u2);
  const auto bytes = [](const Tensor& tensor) {
    return Tensor::view(DType::u8, {static_cast<int64_t>(tensor.nbytes())}, tensor.bytes(),
                        std::make_shared<Tensor>(tensor));
  };
  const std::vector<Tensor> got = ir::evaluate(form, std::vector<Tensor>{bytes(fours), bytes(twos)}, nullptr);
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(got[0].to_vector<int32_t>()[i], 2 * numbers[i]);
  EXPECT_EQ(got[1].to_vector<uint8_t>(), bytes(fours).to_vector<uint8_t>());
  EXPECT_EQ(got[2].to_vector<int32_t>(), (std::vector<int32_t>{3, 1, 2}));
  EXPECT_EQ(got[3].to_vector<uint8_t>(), bytes(twos).to_vector<uint8_t>());
}

TEST(PjrtForm, ErfStaysWherePluginsHaveIt) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {3}}, "x"), wide = build.input({DType::f64, {3}}, "wide");
  const ir::Program program = build.finish({build.erf(x), build.erf(wide)}, {"y", "z"});
  const auto count = [](const ir::Program& form) {
    return std::count_if(form.ops().begin(), form.ops().end(),
                         [](const ir::Op& op) { return op.primitive == &ir::prim::erf; });
  };
  EXPECT_EQ(count(pjrt::device_form(program, true, false, true)), 1);  // of float32 alone
  EXPECT_EQ(count(pjrt::device_form(program, true, false, false)), 0);
}

TEST(PjrtForm, ProductsOfSmallIntegersAreExactInFloats) {
  const auto random_bytes = [](DType dtype, Shape shape, uint32_t seed) {
    std::mt19937 generator(seed);
    std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
    for (int64_t& v : values)
      v = (generator() % 3 == 0 ? 255 : static_cast<int64_t>(generator() % 256)) - (is_signed_integer(dtype) ? 128 : 0);
    return Tensor(values, std::move(shape)).cast(dtype);
  };
  ir::Builder build(nullptr);
  const ir::Value a = build.input({DType::u8, {3, 600}}, "a"), b = build.input({DType::i8, {600, 4}}, "b");
  const ir::Value x = build.input({DType::u8, {1, 80, 4, 4}}, "x"), w = build.input({DType::i8, {2, 80, 3, 3}}, "w");
  ir::DotGeneralAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  dot.dtype = DType::i32;
  ir::ConvolutionAttributes conv;
  conv.strides = conv.lhs_dilation = conv.rhs_dilation = {1, 1};
  conv.pad_low = conv.pad_high = {1, 1};
  conv.dtype = DType::i32;
  const ir::Value wide = build.convert(x, DType::i32);
  const ir::Value moved = build.subtract(
      wide, build.broadcast_to(build.convert(build.scalar(DType::u8, 7), DType::i32), build.shape(wide)));
  const ir::Program program = build.finish({build.dot_general(a, b, dot), build.convolution(x, w, conv),
                                            build.convolution(moved, build.convert(w, DType::i32), conv)},
                                           {"dot", "convolution", "moved"});
  const ir::Program floats = pjrt::products_in_floats(program);
  int64_t products = 0;
  for (const ir::Op& op : floats.ops()) {
    const std::string name = op.primitive->name;
    if (name != "dot_general" && name != "convolution") continue;
    ++products;
    EXPECT_EQ(floats.type(op.operands[0]).dtype, DType::f32);
  }
  EXPECT_GT(products, 3);  // in pieces
  const std::vector<Tensor> inputs{random_bytes(DType::u8, {3, 600}, 1), random_bytes(DType::i8, {600, 4}, 2),
                                   random_bytes(DType::u8, {1, 80, 4, 4}, 3),
                                   random_bytes(DType::i8, {2, 80, 3, 3}, 4)};
  const std::vector<Tensor> got = ir::evaluate(floats, inputs), want = ir::evaluate(program, inputs);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].to_vector<int32_t>(), want[i].to_vector<int32_t>());
}

// ---- on a real plugin

class Pjrt : public testing::Test {
 protected:
  void SetUp() override {
    const char* plugin = std::getenv("TRANSMUTER_PJRT_PLUGIN");
    if (!plugin || !*plugin) GTEST_SKIP() << "TRANSMUTER_PJRT_PLUGIN names no plugin";
  }
};

TEST_F(Pjrt, APositionIsTheSameAsOnTheHost) {
  // (i + 0.5) / 3.5 - 0.5 at i = 3 is exactly one half: a compiler that multiplies by 1 / 3.5 misses it.
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {7}}, "x");
  const ir::Value i = build.convert(build.iota(DType::i64, {7}, 0), DType::f32);
  const ir::Value at =
      build.subtract(build.divide(build.add(i, build.like(i, 0.5)), build.like(i, 3.5)), build.like(i, 0.5));
  const ir::Value over = build.convert(build.compare(at, build.like(at, 0.5), ir::CompareDirection::gt), DType::f32);
  const ir::Program program = build.finish({build.multiply(x, over)}, {"y"});
  const Tensor ones(std::vector<float>(7, 1), {7});
  const auto backend = Backend::get("pjrt");
  std::vector<Buffer> inputs{backend->upload(ones)};
  Bindings bindings(ShapeScope::create());
  const auto executable = backend->compile(program, {});
  EXPECT_EQ(backend->download(executable->run(inputs, bindings)[0]).to_vector<float>(),
            ir::evaluate(program, std::vector<Tensor>{ones})[0].to_vector<float>());
}

TEST_F(Pjrt, SizesAreCompiledOnceAndTheLastOnesKept) {
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  ir::Builder build(scope);
  const Dim n = scope->input_extent(0, 0, 3, "n");
  const ir::Value x = build.input({DType::f32, {n}}, "x");
  const ir::Program program = build.finish({build.add(x, x)}, {"y"});
  const auto backend = Backend::get("pjrt");
  BackendOptions options;
  options.state = std::make_shared<RunState>();
  const auto executable = backend->compile(program, options);
  const auto run = [&](int64_t size) {
    Bindings bindings(scope);
    bindings.set(0, size);
    std::vector<Buffer> inputs{backend->upload(Tensor(std::vector<float>(static_cast<size_t>(size), 1.5f), {size}))};
    return backend->download(executable->run(inputs, bindings)[0]);
  };
  for (const int64_t size : {3, 4, 3, 5, 3}) {
    EXPECT_EQ(run(size).to_vector<float>(), std::vector<float>(static_cast<size_t>(size), 3));
  }
  EXPECT_EQ(options.state->counters.binds.load(), 3);
  EXPECT_EQ(options.state->counters.plan_hits.load(), 2);
  EXPECT_EQ(executable->stats().plans, 3u);
  executable->trim();
  EXPECT_EQ(executable->stats().plans, 1u);
  EXPECT_EQ(run(4).dim(0), 4);
}

TEST_F(Pjrt, ErfIsWithinRounding) {
  std::vector<float> values;
  for (int i = -400; i <= 400; ++i) values.push_back(static_cast<float>(i) * 0.01f);
  values.insert(values.end(), {1e-30f, -0.0f, INFINITY, -INFINITY});
  const int64_t n = static_cast<int64_t>(values.size());
  ir::Builder build(nullptr);
  const ir::Program program = build.finish({build.erf(build.input({DType::f32, {n}}, "x"))}, {"y"});
  const auto backend = Backend::get("pjrt");
  EXPECT_TRUE(backend->takes_composite(program, program.ops()[0]));  // true of both plugins of the tests
  const auto executable = backend->compile(program, {});
  std::vector<Buffer> inputs{backend->upload(Tensor(values, {n}))};
  Bindings bindings(ShapeScope::create());
  const std::vector<float> got = backend->download(executable->run(inputs, bindings)[0]).to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got[i], std::erf(values[i]), 6e-7 * std::abs(got[i]));
}

TEST_F(Pjrt, WorkingMemoryIsTold) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {64, 64}}, "x");
  ir::DotGeneralAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  dot.dtype = DType::f32;
  const ir::Value y = build.dot_general(x, x, dot);
  const ir::Program program = build.finish({build.dot_general(build.exponential(y), y, dot)}, {"y"});
  const auto backend = Backend::get("pjrt");
  const auto executable = backend->compile(program, {});
  std::vector<Buffer> inputs{backend->upload(Tensor(std::vector<float>(64 * 64, 0.01f), {64, 64}))};
  Bindings bindings(ShapeScope::create());
  executable->run(inputs, bindings);
  EXPECT_GE(executable->stats().arena_bytes, 64u * 64 * 4);
}

TEST_F(Pjrt, ExecutablesShareTheirWeights) {
  const Tensor weight(std::vector<float>(1000, 2), {1000});
  ir::Builder build(nullptr);
  const ir::Value w = build.weight(weight, "w");
  const ir::Program program = build.finish({build.add(build.input({DType::f32, {1000}}, "x"), w)}, {"y"});
  BackendOptions options;
  options.weights = std::make_shared<WeightStore>();
  const auto backend = Backend::get("pjrt");
  const auto first = backend->compile(program, options);
  const auto made = [&] {
    bool fresh = false;
    const auto key = "pjrt float32 [1000] " + std::to_string(reinterpret_cast<uintptr_t>(weight.bytes()));
    options.weights->get<int>(key, [&] {
      fresh = true;
      return std::make_shared<int>(0);
    });
    return fresh;
  };
  EXPECT_FALSE(made());
  EXPECT_EQ(first->stats().weight_bytes, 4000u);
}

TEST_F(Pjrt, AProgramThatTheCompilerRefusesIsOneError) {
  // 2^40 elements of 8 bytes: no device has room for the result.
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f64, {}}, "x");
  const int64_t million = int64_t{1} << 20;
  const ir::Program program = build.finish({build.broadcast_in_dim(x, {million, million}, {})}, {"y"});
  const auto backend = Backend::get("pjrt");
  const auto run = [&] {
    const auto executable = backend->compile(program, {});
    std::vector<Buffer> inputs{backend->upload(Tensor(std::vector<double>{1}, {}))};
    Bindings bindings(ShapeScope::create());
    backend->download(executable->run(inputs, bindings)[0]);
  };
  EXPECT_TRUE(error_of(run));
  EXPECT_EQ(run_small(*backend).to_vector<float>(), (std::vector<float>{2, 3, 4}));
}

}  // namespace
}  // namespace transmuter
