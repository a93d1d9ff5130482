// Breaks whose later decisions change: what leads to a break is traced, compiled and run once, what follows has traces
// of its own.
#include <atomic>
#include <thread>

#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/execute.h"
#include "runtime/graph_runner.h"
#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

// The reference backend, which counts what it compiles and runs.
class Counting : public Backend {
 public:
  struct Counted : Executable {
    Counted(std::unique_ptr<Executable> e, std::atomic<int>& r) : inner(std::move(e)), runs(r) {}
    std::vector<Buffer> run(std::span<Buffer> inputs, Bindings& bindings) const override {
      ++runs;
      return inner->run(inputs, bindings);
    }
    std::unique_ptr<Executable> inner;
    std::atomic<int>& runs;
  };

  std::string name() const override { return "counting"; }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  bool takes_composite(const ir::Program& program, const ir::Op& op) const override {
    return inner_->takes_composite(program, op);
  }
  Buffer upload(const Tensor& tensor) const override { return inner_->upload(tensor); }
  Tensor download(const Buffer& buffer) const override { return inner_->download(buffer); }
  std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions& options) const override {
    ++compiled;
    return std::make_unique<Counted>(inner_->compile(program, options), runs);
  }

  mutable std::atomic<int> compiled{0}, runs{0};

 private:
  std::shared_ptr<Backend> inner_ = Backend::get("reference");
};

std::string encoder(const std::string& in, const std::string& out) {
  return node("LabelEncoder", {in}, {out},
              {strings_attribute("keys_strings", {"a", "b"}), ints_attribute("values_int64s", {1, 2})}, "ai.onnx.ml");
}

// Are there more than two of `labels`? -x if so, else x + x.
Strings decide(const std::string& labels, const std::string& x, const std::string& y) {
  const auto branch = [&](const std::string& op, const Strings& inputs) {
    const std::string out = y + op;
    return graph({.nodes = {node(op, inputs, {out})}, .outputs = {value(out)}, .name = op});
  };
  return {node("Shape", {labels}, {labels + "_shape"}), node("Gather", {labels + "_shape", "zero"}, {labels + "_n"}),
          node("Greater", {labels + "_n", "two"}, {labels + "_many"}),
          node("If", {labels + "_many"}, {y},
               {graph_attribute("then_branch", branch("Neg", {x})),
                graph_attribute("else_branch", branch("Add", {x, x}))})};
}

// x * 3, decided on by the number of words; `twice`: again by the number of other words. Plus x.
GraphParts parts(bool twice) {
  GraphParts p{
      .nodes = {node("Mul", {"x", "three"}, {"scaled"}), encoder("words", "labels")},
      .inputs = {shaped("x", kFloat, {"n"}), shaped("words", kString, {"m"})},
      .outputs = {value("z"), value("labels", kInt64)},
      .initializers = {float_tensor("three", {3}), int64_tensor("zero", {0}, true), int64_tensor("two", {2}, true)}};
  for (const std::string& n : decide("labels", "scaled", "y")) p.nodes.push_back(n);
  if (twice) {
    p.inputs.push_back(shaped("others", kString, {"k"}));
    p.nodes.push_back(encoder("others", "other_labels"));
    for (const std::string& n : decide("other_labels", "y", "y2")) p.nodes.push_back(n);
  }
  p.nodes.push_back(node("Add", {twice ? "y2" : "y", "x"}, {"z"}));
  return p;
}

std::string bytes_of(const GraphParts& p) {
  return model({.graph = graph(p), .opsets = {opset("", 18), opset("ai.onnx.ml", 3)}, .ir_version = 9});
}

Tensor words(int64_t count) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) texts.push_back(i % 2 ? "b" : "a");
  return Tensor::of_strings(std::move(texts), {count});
}

std::vector<float> expected(int64_t n, bool many, bool twice = false, bool many_others = false) {
  std::vector<float> z;
  for (int64_t i = 0; i < n; ++i) {
    const float x = static_cast<float>(i), y = (many ? -1.0F : 2.0F) * 3 * x;
    z.push_back((twice ? (many_others ? -1.0F : 2.0F) * y : y) + x);
  }
  return z;
}

struct Runner {
  explicit Runner(const GraphParts& p, int cache_size = 8) {
    auto parsed = std::make_shared<onnx::Model>(parse(bytes_of(p)));
    auto engine = std::make_shared<Engine>();
    engine->backend = backend;
    engine->cache_size = cache_size;
    state = engine->state;
    runner = std::make_unique<GraphRunner>(std::shared_ptr<const onnx::Graph>(parsed, &parsed->graph),
                                           std::move(engine), GraphRunner::Role::model);
  }
  std::vector<float> run(std::vector<Value> inputs) { return floats_of(runner->run(inputs, RunContext())[0]); }

  std::shared_ptr<Counting> backend = std::make_shared<Counting>();
  std::shared_ptr<RunState> state;
  std::unique_ptr<GraphRunner> runner;
};

TEST(Continuations, WhatLeadsToABreakIsKept) {
  Runner r(parts(false));
  EXPECT_EQ(r.run({counting({4}), words(1)}), expected(4, false));
  EXPECT_EQ(r.backend->compiled, 2);
  EXPECT_EQ(r.backend->runs, 2);  // tracing runs nothing twice
  EXPECT_EQ(r.run({counting({5}), words(3)}), expected(5, true));
  EXPECT_EQ(r.backend->compiled, 3);  // only what follows
  EXPECT_EQ(r.backend->runs, 4);
  for (const int64_t m : {2, 7, 0, 1, 4}) EXPECT_EQ(r.run({counting({3}), words(m)}), expected(3, m > 2)) << m;
  EXPECT_EQ(r.backend->compiled, 3);
  EXPECT_EQ(r.state->counters.traces, 1);
  EXPECT_EQ(r.state->counters.continuations, 2);
  EXPECT_EQ(r.state->counters.breaks, 1);
  EXPECT_EQ(r.state->counters.evictions, 0);
  // Another kind of x is another trace from the start.
  EXPECT_EQ(r.run({counting({1}), words(3)}), expected(1, true));
  EXPECT_EQ(r.state->counters.traces, 2);
  EXPECT_EQ(r.state->counters.continuations, 3);
}

TEST(Continuations, EachBreakKeepsItsOwn) {
  Runner r(parts(true));
  for (int round = 0; round < 2; ++round) {
    for (const int64_t m : {1, 3}) {
      for (const int64_t k : {5, 2, 3})
        EXPECT_EQ(r.run({counting({4}), words(m), words(k)}), expected(4, m > 2, true, k > 2)) << m << " " << k;
    }
  }
  // One before the first break, two between them, two behind the second for each of those.
  EXPECT_EQ(r.backend->compiled, 1 + 2 + 4);
  EXPECT_EQ(r.state->counters.traces, 1);
  EXPECT_EQ(r.state->counters.continuations, 2 + 4);
  EXPECT_EQ(r.state->counters.breaks, 1 + 2);
}

TEST(Continuations, TheOnesUsedLongestAgoGoFirst) {
  Runner r(parts(false), 1);
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(r.run({counting({4}), words(1)}), expected(4, false));
    EXPECT_EQ(r.run({counting({4}), words(3)}), expected(4, true));
    EXPECT_EQ(r.backend->compiled, 1 + 2 * round);
  }
  EXPECT_EQ(r.state->counters.traces, 1);
  EXPECT_EQ(r.state->counters.evictions, 5);
}

TEST(Continuations, AreMadeWithoutARunToTheEnd) {
  Runner r(parts(true));
  const std::vector<Value> inputs{counting({4}), words(1), words(3)};
  r.runner->ensure_trace(inputs, RunContext());
  EXPECT_EQ(r.backend->compiled, 3);
  EXPECT_EQ(r.backend->runs, 2);
  EXPECT_EQ(r.run(inputs), expected(4, false, true, true));
  EXPECT_EQ(r.backend->compiled, 3);
}

TEST(Continuations, ThreadsShareThem) {
  const CompiledModel run = load(bytes_of(parts(true))).compile({});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const int64_t n = 2 + (i + t) % 3, m = 1 + (i + 3 * t) % 5, k = 1 + (2 * i + t) % 5;
        const TensorMap out = run({{"x", counting({n})}, {"words", words(m)}, {"others", words(k)}});
        wrong += floats_of(out.at("z")) != expected(n, m > 2, true, k > 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().continuations, 2 + 4);
  EXPECT_EQ(run.stats().evictions, 0);
  run.trim();
  EXPECT_EQ(floats_of(run({{"x", counting({3})}, {"words", words(3)}, {"others", words(1)}}).at("z")),
            expected(3, true, true, false));
}

TEST(Continuations, AreListed) {
  const CompiledModel run = load(bytes_of(parts(false))).compile({});
  for (const int64_t m : {1, 3}) run({{"x", counting({4})}, {"words", words(m)}});
  const std::string text = run.trace_text();
  EXPECT_NE(text.find("trace: segments 1, breaks 1"), std::string::npos) << text;
  EXPECT_NE(text.find("continuation 1 of 2: segments 1, breaks 0, guards 1"), std::string::npos) << text;
  EXPECT_NE(text.find("continuation 2 of 2"), std::string::npos) << text;
  EXPECT_EQ(text.find("segment 2"), std::string::npos) << text;
  EXPECT_NE(run.stablehlo().find("segment_1"), std::string::npos);
}

// How many positions of x are not zero decides on the rank of what is made of them.
TEST(Continuations, ACountThatDecidesIsKnownBehindTheBreak) {
  const auto branch = [](const std::string& op, const Strings& inputs, const std::string& out) {
    return graph({.nodes = {node(op, inputs, {out})}, .outputs = {value(out, kInt64)}, .name = op});
  };
  Runner r({.nodes = {node("Mul", {"x", "three"}, {"scaled"}), node("NonZero", {"scaled"}, {"found"}),
                      node("Shape", {"found"}, {"d"}), node("Gather", {"d", "one"}, {"n"}),
                      node("Greater", {"n", "two"}, {"many"}),
                      node("If", {"many"}, {"y"},
                           {graph_attribute("then_branch", branch("Squeeze", {"found", "axes"}, "a")),
                            graph_attribute("else_branch", branch("Identity", {"found"}, "b"))}),
                      node("Cast", {"y"}, {"z"}, {int_attribute("to", 1)})},
            .inputs = {shaped("x", kFloat, {"n"})},
            .outputs = {value("z")},
            .initializers = {float_tensor("three", {3}), int64_tensor("one", {1}, true), int64_tensor("two", {2}, true),
                             int64_tensor("axes", {0})}});
  const auto with = [&](std::vector<float> x) {
    const int64_t n = static_cast<int64_t>(x.size());
    return r.runner->run({Tensor(x, {n})}, RunContext())[0];
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(floats_of(with({0, 1, 0, 4})), (std::vector<float>{1, 3}));
    EXPECT_EQ(with({0, 1, 0, 4}).tensor.rank(), 2);
    EXPECT_EQ(floats_of(with({1, 1, 0, 4, 5})), (std::vector<float>{0, 1, 3, 4}));
    EXPECT_EQ(with({1, 1, 1}).tensor.rank(), 1);
    EXPECT_EQ(floats_of(with({0, 0})), std::vector<float>());
  }
  EXPECT_EQ(r.state->counters.traces, 1);
  EXPECT_LE(r.state->counters.continuations, 3);  // none is a kind of its own where a lowering asks
}

// A branch that is inlined is left by what follows a break in it.
TEST(Continuations, ABreakInsideOfABranchEndsTheTrace) {
  Strings inside{encoder("words", "labels")};
  for (const std::string& n : decide("labels", "scaled", "y")) inside.push_back(n);
  const std::string taken = graph({.nodes = inside, .outputs = {value("y")}, .name = "taken"});
  const std::string other =
      graph({.nodes = {node("Identity", {"scaled"}, {"same"})}, .outputs = {value("same")}, .name = "other"});
  Runner r(
      {.nodes = {node("Mul", {"x", "three"}, {"scaled"}), node("Shape", {"x"}, {"d"}),
                 node("Gather", {"d", "zero"}, {"n"}), node("Greater", {"n", "two"}, {"long"}),
                 node("If", {"long"}, {"chosen"},
                      {graph_attribute("then_branch", taken), graph_attribute("else_branch", other)}),
                 node("Add", {"chosen", "x"}, {"z"})},
       .inputs = {shaped("x", kFloat, {"n"}), shaped("words", kString, {"m"})},
       .outputs = {value("z")},
       .initializers = {float_tensor("three", {3}), int64_tensor("zero", {0}, true), int64_tensor("two", {2}, true)}});
  for (int round = 0; round < 2; ++round) {
    for (const int64_t m : {1, 3, 2, 5}) EXPECT_EQ(r.run({counting({4}), words(m)}), expected(4, m > 2)) << m;
    EXPECT_EQ(r.run({counting({2}), words(2)}), (std::vector<float>{0, 4}));
  }
  EXPECT_EQ(r.state->counters.traces, 2);
  EXPECT_EQ(r.state->counters.continuations, 2);
}

// The branch of a branch: what follows the break leaves both, and an error in it names all three nodes.
TEST(Continuations, ABreakInsideOfNestedBranches) {
  Strings inside{encoder("words", "labels")};
  for (const std::string& n : decide("labels", "scaled", "y")) inside.push_back(n);
  const auto choice = [](const std::string& out, const std::string& taken, const std::string& name) {
    const std::string other = graph({.nodes = {node("Identity", {"scaled"}, {name + "_same"})},
                                     .outputs = {value(name + "_same")},
                                     .name = name + "_other"});
    return node("If", {"long"}, {out}, {graph_attribute("then_branch", taken), graph_attribute("else_branch", other)});
  };
  inside.push_back(node("Sub", {"y", "x"}, {"less"}));
  const std::string inner = graph({.nodes = inside, .outputs = {value("less")}, .name = "inner"});
  const std::string outer =
      graph({.nodes = {node("Neg", {"x"}, {"negative"}), choice("given", inner, "a"),
                       node("Sub", {"given", "negative"}, {"more"}), node("Add", {"more", "other"}, {"sum"})},
             .outputs = {value("sum")},
             .name = "outer"});
  const CompiledModel run =
      load(bytes_of(
               {.nodes = {node("Mul", {"x", "three"}, {"scaled"}), node("Shape", {"x"}, {"d"}),
                          node("Gather", {"d", "zero"}, {"n"}), node("Greater", {"n", "two"}, {"long"}),
                          choice("chosen", outer, "b"), node("Add", {"chosen", "x"}, {"z"})},
                .inputs = {shaped("x", kFloat, {"n"}), shaped("words", kString, {"m"}), shaped("other", kFloat, {"k"})},
                .outputs = {value("z")},
                .initializers = {float_tensor("three", {3}), int64_tensor("zero", {0}, true),
                                 int64_tensor("two", {2}, true)}}))
          .compile({});
  const auto with = [&](int64_t m, int64_t other) {
    return run({{"x", counting({4})}, {"words", words(m)}, {"other", Tensor(std::vector<float>(other, 0.f), {other})}});
  };
  for (int round = 0; round < 2; ++round)
    for (const int64_t m : {1, 3, 2, 5}) EXPECT_EQ(floats_of(with(m, 4).at("z")), expected(4, m > 2)) << m;
  const std::string error = error_in([&] { with(3, 5); });
  EXPECT_NE(error.find("Add"), std::string::npos) << error;
  EXPECT_EQ(floats_of(with(3, 4).at("z")), expected(4, true));
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_LE(run.stats().continuations, 3);
}

// Given away: what is read before and after a break is not written over between.
TEST(Continuations, InputsGivenAwayAreTakenByTheLastReader) {
  const CompiledModel run = load(bytes_of(parts(true))).compile({});
  for (int i = 0; i < 3; ++i) {
    TensorMap inputs{{"x", counting({4})}, {"words", words(3)}, {"others", words(i + 1)}};
    EXPECT_EQ(floats_of(run(std::move(inputs)).at("z")), expected(4, true, true, i + 1 > 2));
  }
}

// A failing assertion behind a break is an error of that call.
TEST(Continuations, AnErrorBehindABreakLeavesTheRestUsable) {
  GraphParts p = parts(false);
  p.nodes.push_back(node("Add", {"z", "other"}, {"sum"}));
  p.inputs.push_back(shaped("other", kFloat, {""}));
  p.outputs.push_back(value("sum"));
  const CompiledModel run = load(bytes_of(p)).compile({});
  const auto with = [&](int64_t n, int64_t m, int64_t other) {
    return run({{"x", counting({n})}, {"words", words(m)}, {"other", counting({other})}});
  };
  with(4, 3, 4);
  EXPECT_NE(error_in([&] { with(4, 3, 5); }), "");
  EXPECT_EQ(floats_of(with(5, 3, 5).at("z")), expected(5, true));
  EXPECT_EQ(run.stats().traces, 1);
}

}  // namespace
}  // namespace transmuter::runtime::testing
