// Eager runs: each node compiled once on the named backend, kept by dtypes and ranks, the same results as traces give.
#include <atomic>
#include <thread>

#include "runtime_testing.h"

namespace transmuter::runtime {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

CompiledModel eager(const Model& model, const std::string& backend = "cpu", int cache_size = 8) {
  CompileOptions options;
  options.backend = backend;
  options.cache_size = cache_size;
  options.eager = true;
  return model.compile(options);
}

// y = reshape(x @ w, shape), z = x where it is positive
GraphParts mixed() {
  return {.nodes = {node("MatMul", {"x", "w"}, {"product"}), node("Reshape", {"product", "shape"}, {"y"}),
                    node("Greater", {"x", "zero"}, {"above"}), node("Compress", {"x", "flat"}, {"z"}),
                    node("Reshape", {"above", "all"}, {"flat"})},
          .inputs = {shaped("x", kFloat, {"n", 2}), shaped("shape", kInt64, {"r"})},
          .outputs = {value("y"), value("z")},
          .initializers = {tensor("w", kFloat, {2, 2}, floats({1, 2, 3, 4})), tensor("zero", kFloat, {}, floats({0})),
                           int64_tensor("all", {-1})}};
}

TEST(Eager, EqualsATraceAndCompilesEachNodeOnce) {
  const Model model = load(mixed());
  for (const char* backend : {"cpu", "reference"}) {
    CompileOptions options;
    options.backend = backend;
    const CompiledModel run = model.compile(options), by_node = eager(model, backend);
    for (const int64_t n : {2, 3, 7, 4}) {
      const TensorMap inputs{{"x", counting({n, 2})}, {"shape", Tensor(std::vector<int64_t>{2, n}, {2})}};
      const TensorMap expected = run(inputs), got = by_node(inputs);
      for (const char* name : {"y", "z"}) {
        EXPECT_EQ(floats_of(got.at(name)), floats_of(expected.at(name))) << backend << " " << name;
        EXPECT_EQ(got.at(name).tensor.shape(), expected.at(name).tensor.shape());
      }
    }
    EXPECT_EQ(by_node.stats().node_traces, 5) << backend;  // one a node, whatever the sizes
    EXPECT_EQ(by_node.stats().runs, 4);
  }
}

TEST(Eager, AnotherDtypeOrRankIsCompiledAnew) {
  const Model model = load({.nodes = {node("Add", {"x", "x"}, {"y"})},
                            .inputs = {"\x0a\x01x\x12\x04\x0a\x02\x08\x01"},
                            .outputs = {value("y")}});
  const CompiledModel by_node = eager(model);
  by_node({{"x", counting({2})}});
  by_node({{"x", counting({5})}});
  EXPECT_EQ(by_node.stats().node_traces, 1);
  by_node({{"x", counting({2, 2})}});
  EXPECT_EQ(by_node.stats().node_traces, 2);
}

// What a lowering reads of an input is a constant of the compiled node; another value makes another.
TEST(Eager, ValuesThatANodeReadsAreGuarded) {
  const Model model =
      load({.nodes = {node("Range", {"start", "limit", "step"}, {"y"})},
            .inputs = {shaped("start", kFloat, {}), shaped("limit", kFloat, {}), shaped("step", kFloat, {})},
            .outputs = {value("y")}});
  const CompiledModel by_node = eager(model);
  const auto range = [&](float limit) {
    return floats_of(
        by_node({{"start", Tensor::scalar(0.0F)}, {"limit", Tensor::scalar(limit)}, {"step", Tensor::scalar(1.0F)}})
            .at("y"));
  };
  EXPECT_EQ(range(3), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(range(5), (std::vector<float>{0, 1, 2, 3, 4}));
  EXPECT_EQ(range(3), (std::vector<float>{0, 1, 2}));
  EXPECT_LE(by_node.stats().node_traces, 2);
}

TEST(Eager, AGivenInputReplacesItsInitializer) {
  const Model model = load({.nodes = {node("Mul", {"x", "scale"}, {"y"})},
                            .inputs = {shaped("x", kFloat, {"n"}), shaped("scale", kFloat, {1})},
                            .outputs = {value("y")},
                            .initializers = {float_tensor("scale", {10})}});
  const CompiledModel by_node = eager(model);
  EXPECT_EQ(floats_of(by_node({{"x", counting({3})}}).at("y")), (std::vector<float>{0, 10, 20}));
  EXPECT_EQ(floats_of(by_node({{"x", counting({3})}, {"scale", Tensor(std::vector<float>{2}, {1})}}).at("y")),
            (std::vector<float>{0, 2, 4}));
  EXPECT_EQ(floats_of(by_node({{"x", counting({3})}}).at("y")), (std::vector<float>{0, 10, 20}));
}

TEST(Eager, GoesOnAfterABadCall) {
  const Model model = load({.nodes = {node("MatMul", {"a", "b"}, {"y"})},
                            .inputs = {shaped("a", kFloat, {"n", "k"}), shaped("b", kFloat, {"l", "m"})},
                            .outputs = {value("y")}});
  const CompiledModel by_node = eager(model);
  const TensorMap good{{"a", counting({2, 3})}, {"b", counting({3, 2})}};
  const TensorMap bad{{"a", counting({2, 3})}, {"b", counting({4, 2})}};
  const auto expected = floats_of(by_node(good).at("y"));
  EXPECT_NE(error_in([&] { by_node(bad); }).find("node MatMul_0 (MatMul)"), std::string::npos);
  EXPECT_EQ(floats_of(by_node(good).at("y")), expected);
}

TEST(Eager, SeveralThreadsShareTheNodes) {
  const CompiledModel by_node = eager(load(mixed()));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t n = 2 + (i + t) % 5;
        const TensorMap out = by_node({{"x", counting({n, 2})}, {"shape", Tensor(std::vector<int64_t>{n, 2}, {2})}});
        const std::vector<float> y = floats_of(out.at("y"));
        for (int64_t row = 0; row < n; ++row)
          if (y[static_cast<size_t>(2 * row)] != static_cast<float>(8 * row + 3)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(by_node.stats().node_traces, 5);
}

TEST(Eager, HasNoTraceAndSaysSo) {
  const CompiledModel by_node = eager(load(mixed()));
  EXPECT_NE(error_in([&] { by_node.stablehlo(); }).find("operator by operator"), std::string::npos);
  EXPECT_NE(error_in([&] { by_node.trace({}); }), "");
}

// An operator that needs a value runs on the backend of the model, compiled once.
TEST(Eager, BreaksAreCompiledOnTheModelsBackend) {
  const Model model =
      load({.nodes = {node("Mul", {"x", "x"}, {"square"}),
                      node("ReduceMax", {"square"}, {"most"}, {int_attribute("keepdims", 0)}),
                      node("Range", {"zero", "most", "one"}, {"y"})},
            .inputs = {shaped("x", kFloat, {"n"})},
            .outputs = {value("y")},
            .initializers = {tensor("zero", kFloat, {}, floats({0})), tensor("one", kFloat, {}, floats({1}))}});
  CompileOptions options;
  options.backend = "cpu";
  const CompiledModel run = model.compile(options);
  EXPECT_EQ(floats_of(run({{"x", counting({3})}}).at("y")), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(floats_of(run({{"x", counting({4})}}).at("y")).size(), 9u);
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().node_traces, 2);  // one a limit
}

}  // namespace
}  // namespace transmuter::runtime
