// Random operators in compiled models: what they draw follows from seed, call and node alone, on every backend, eager
// or not, in loops, and from several threads; and it has the distribution that it should.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "runtime_testing.h"

namespace transmuter::runtime {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

CompiledModel with(const Model& model, uint64_t seed, const std::string& backend = "reference", bool eager = false) {
  CompileOptions options;
  options.backend = backend;
  options.seed = seed;
  options.eager = eager;
  return model.compile(options);
}

// One node `y` with the attributes.
Model drawing(const std::string& op, std::vector<std::string> attributes, int64_t version = 18) {
  return load({.nodes = {node(op, {}, {"y"}, std::move(attributes))}, .outputs = {value("y")}}, version);
}
Model uniform(int64_t count, std::vector<std::string> attributes = {}) {
  attributes.push_back(ints_attribute("shape", {count}));
  return drawing("RandomUniform", std::move(attributes));
}
Model normal(int64_t count, std::vector<std::string> attributes = {}) {
  attributes.push_back(ints_attribute("shape", {count}));
  return drawing("RandomNormal", std::move(attributes));
}
std::vector<float> draw(const CompiledModel& run, const TensorMap& inputs = {}) {
  return floats_of(run(inputs).at("y"));
}

double mean(const std::vector<float>& x) { return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()); }
double variance(const std::vector<float>& x) {
  const double m = mean(x);
  double sum = 0;
  for (const float v : x) sum += (v - m) * (v - m);
  return sum / double(x.size());
}
double correlation(const std::vector<float>& x, const std::vector<float>& y) {
  const double mx = mean(x), my = mean(y);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - mx) * (y[i] - my);
  return sum / double(x.size()) / std::sqrt(variance(x) * variance(y));
}
// Kolmogorov and Smirnov's distance times the root of the count: above 1.95 in one of a thousand fair samples.
double distance(std::vector<float> x, const std::function<double(double)>& cdf) {
  std::sort(x.begin(), x.end());
  double worst = 0;
  const double n = double(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double f = cdf(x[i]);
    worst = std::max({worst, std::fabs(f - double(i) / n), std::fabs(double(i + 1) / n - f)});
  }
  return worst * std::sqrt(n);
}

constexpr int64_t kMany = 40000;

TEST(Random, UniformsAreUniform) {
  const std::vector<float> x =
      draw(with(uniform(kMany, {float_attribute("low", -1.0F), float_attribute("high", 3.0F)}), 11));
  EXPECT_GE(*std::min_element(x.begin(), x.end()), -1.0F);
  EXPECT_LT(*std::max_element(x.begin(), x.end()), 3.0F);
  EXPECT_NEAR(mean(x), 1.0, 0.025);
  EXPECT_NEAR(variance(x), 16.0 / 12.0, 0.03);
  EXPECT_LT(distance(x, [](double v) { return (v + 1) / 4; }), 1.95);
  EXPECT_LT(std::fabs(correlation({x.begin(), x.end() - 1}, {x.begin() + 1, x.end()})), 0.02);
}

TEST(Random, NormalsAreNormal) {
  const std::vector<float> x =
      draw(with(normal(kMany, {float_attribute("mean", 2.0F), float_attribute("scale", 0.5F)}), 12));
  EXPECT_NEAR(mean(x), 2.0, 0.01);
  EXPECT_NEAR(variance(x), 0.25, 0.01);
  EXPECT_LT(distance(x, [](double v) { return 0.5 * std::erfc(-(v - 2) / 0.5 / std::sqrt(2.0)); }), 1.95);
}

TEST(Random, BernoulliMultinomialAndDropoutKeepTheirProbabilities) {
  const Model coin =
      load({.nodes = {node("Bernoulli", {"p"}, {"y"})}, .inputs = {value("p")}, .outputs = {value("y")}});
  const Tensor p(std::vector<float>(kMany, 0.3F), {kMany});
  EXPECT_NEAR(mean(draw(with(coin, 3), {{"p", p}})), 0.3, 0.01);

  const Model classes = load({.nodes = {node("Multinomial", {"logits"}, {"y"}, {int_attribute("sample_size", kMany)})},
                              .inputs = {value("logits")},
                              .outputs = {value("y", 6)}});
  const Tensor logits(std::vector<float>{std::log(0.1F), std::log(0.6F), std::log(0.3F)}, {1, 3});
  const std::vector<float> chosen = draw(with(classes, 4), {{"logits", logits}});
  const auto share = [&](float k) { return double(std::count(chosen.begin(), chosen.end(), k)) / double(kMany); };
  EXPECT_NEAR(share(0), 0.1, 0.01);
  EXPECT_NEAR(share(1), 0.6, 0.01);
  EXPECT_NEAR(share(2), 0.3, 0.01);

  const Model dropout = load({.nodes = {node("Dropout", {"x", "ratio", "training"}, {"y", "kept"})},
                              .inputs = {value("x"), shaped("ratio", kFloat, {}), shaped("training", kBool, {})},
                              .outputs = {value("y"), value("kept", kBool)}});
  const TensorMap inputs{{"x", Tensor(std::vector<float>(kMany, 1.0F), {kMany})},
                         {"ratio", Tensor::scalar(0.25F)},
                         {"training", truth(true)}};
  const TensorMap out = with(dropout, 5)(inputs);
  const std::vector<float> y = floats_of(out.at("y")), kept = floats_of(out.at("kept"));
  EXPECT_NEAR(mean(kept), 0.75, 0.01);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_FLOAT_EQ(y[i], kept[i] / 0.75F);
}

TEST(Random, EachCallDrawsAnewAndASeedRepeatsThem) {
  const Model model = uniform(1000);
  const CompiledModel a = with(model, 7), b = with(model, 7), other = with(model, 8), standard = with(model, 0);
  const auto first = draw(a), second = draw(a);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(b), first);
  EXPECT_EQ(draw(b), second);
  EXPECT_NE(draw(other), first);
  EXPECT_EQ(draw(standard), draw(compiled(model)));  // 0 unless another is given
  EXPECT_EQ(a.random_state().call, 2u);
  a.set_random_state({7, 1});
  EXPECT_EQ(draw(a), second);
  EXPECT_LT(std::fabs(correlation(first, second)), 0.1);
}

TEST(Random, NodesDrawIndependently) {
  const Model model = load({.nodes = {node("RandomUniform", {}, {"a"}, {ints_attribute("shape", {kMany})}),
                                      node("RandomUniform", {}, {"b"}, {ints_attribute("shape", {kMany})})},
                            .outputs = {value("a"), value("b")}});
  for (const char* backend : {"reference", "cpu"}) {
    const TensorMap out = with(model, 1, backend)({});
    EXPECT_LT(std::fabs(correlation(floats_of(out.at("a")), floats_of(out.at("b")))), 0.02) << backend;
  }
}

TEST(Random, ASeedAttributeMakesAStreamOfItsOwn) {
  const Model model = uniform(100, {float_attribute("seed", 3.0F)}),
              other = uniform(100, {float_attribute("seed", 4.0F)});
  const CompiledModel a = with(model, 1), b = with(model, 2);
  const auto first = draw(a);
  EXPECT_EQ(first, draw(b));
  EXPECT_NE(first, draw(a));
  EXPECT_NE(first, draw(with(other, 1)));
}

TEST(Random, IsTheSameOnEveryBackend) {
  const auto bits_of = [](const std::vector<float>& x) {
    std::vector<uint32_t> bits(x.size());
    std::memcpy(bits.data(), x.data(), x.size() * sizeof(float));
    return bits;
  };
  EXPECT_EQ(bits_of(draw(with(uniform(1001), 9, "cpu"))), bits_of(draw(with(uniform(1001), 9, "reference"))));
  const auto cpu = draw(with(normal(1001), 9, "cpu")), reference = draw(with(normal(1001), 9, "reference"));
  for (size_t i = 0; i < cpu.size(); ++i) ASSERT_NEAR(cpu[i], reference[i], 2e-6F * (1 + std::fabs(reference[i])));
}

TEST(Random, EagerDrawsTheSame) {
  const Model model = load({.nodes = {node("RandomNormalLike", {"x"}, {"noise"}), node("Add", {"x", "noise"}, {"y"})},
                            .inputs = {shaped("x", kFloat, {"n"})},
                            .outputs = {value("y")}});
  const CompiledModel run = with(model, 21), eager = with(model, 21, "reference", true);
  for (const int64_t n : {3, 300, 4}) {
    const TensorMap inputs{{"x", counting({n})}};
    EXPECT_EQ(draw(run, inputs), draw(eager, inputs));
  }
  EXPECT_EQ(draw(with(model, 0, "cpu"), {{"x", counting({5})}}),
            floats_of(model.run({{"x", counting({5})}}, "cpu").at("y")));
}

// x + a random row for each trip, rows stacked.
GraphParts noisy_loop() {
  const std::string body = graph(
      {.nodes = {node("Identity", {"go"}, {"on"}), node("RandomUniform", {}, {"noise"}, {ints_attribute("shape", {4})}),
                 node("Add", {"state", "noise"}, {"next"}), node("Identity", {"noise"}, {"row"})},
       .inputs = {value("i", kInt64), value("go", kBool), value("state")},
       .outputs = {value("on", kBool), value("next"), value("row")},
       .name = "body"});
  return {.nodes = {node("Loop", {"trips", "", "x"}, {"end", "y"}, {graph_attribute("body", body)})},
          .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {4})},
          .outputs = {value("end"), value("y")}};
}

TEST(Random, EachTripOfALoopDrawsAnew) {
  const TensorMap inputs{{"trips", Tensor::scalar(int64_t{3})}, {"x", counting({4})}};
  const std::string bytes = model({.graph = graph(noisy_loop())});
  const CompiledModel driven = with(load(bytes), 5), eager = with(load(bytes), 5, "reference", true);
  LoadOptions trainable;
  trainable.trainable = true;
  const CompiledModel in_program = with(load(bytes, trainable), 5);
  std::set<float> seen;
  for (int call = 0; call < 2; ++call) {
    const std::vector<float> rows = draw(driven, inputs);
    seen.insert(rows.begin(), rows.end());
    EXPECT_EQ(rows, draw(eager, inputs));
    EXPECT_EQ(rows, draw(in_program, inputs));
  }
  EXPECT_EQ(seen.size(), 24u);
  EXPECT_EQ(in_program.stats().breaks, 0);
}

TEST(Random, ThreadsTakeCallsOfTheirOwn) {
  const Model model = uniform(16);
  const CompiledModel run = with(model, 31, "cpu"), alone = with(model, 31, "cpu");
  constexpr int kThreads = 4, kCalls = 25;
  std::vector<std::vector<std::vector<float>>> drawn(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) drawn[static_cast<size_t>(t)].push_back(draw(run));
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::vector<float>> all, expected;
  for (const auto& of_thread : drawn) all.insert(of_thread.begin(), of_thread.end());
  for (int i = 0; i < kThreads * kCalls; ++i) expected.insert(draw(alone));
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace transmuter::runtime
