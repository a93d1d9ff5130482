// How many traces runs take: shapes are symbols, 0 and 1 are not, decisions are guards, the cache is bounded.
#include <thread>

#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

// y = Reshape(x + x, [0, -1])
GraphParts flattening() {
  return {
      .nodes = {node("Add", {"x", "x"}, {"s"}), node("Shape", {"x"}, {"d"}), node("Gather", {"d", "zero"}, {"n"}),
                node("Concat", {"n", "rest"}, {"to"}, {int_attribute("axis", 0)}), node("Reshape", {"s", "to"}, {"y"})},
      .inputs = {shaped("x", kFloat, {"batch", "rows", 2})},
      .outputs = {shaped("y", kFloat, {"batch", ""})},
      .initializers = {int64_tensor("zero", {0}), int64_tensor("rest", {-1})}};
}

TEST(Traces, OtherSizesTakeNoNewTrace) {
  const CompiledModel run = compiled(load(flattening()));
  for (const Shape& shape : {Shape{2, 3, 2}, Shape{5, 7, 2}, Shape{3, 2, 2}}) {
    const Tensor y = run({{"x", counting(shape)}}).at("y");
    EXPECT_EQ(y.shape(), (Shape{shape[0], shape[1] * 2}));
    EXPECT_EQ(y.data<float>()[3], 6);
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().runs, 3);
  EXPECT_EQ(run.stats().breaks, 0);
  EXPECT_EQ(run.stats().specializations, 0);
}

TEST(Traces, OneIsTracedByItself) {
  const CompiledModel run = compiled(load(flattening()));
  run({{"x", counting({1, 4, 2})}});
  run({{"x", counting({2, 4, 2})}});
  EXPECT_EQ(run.stats().traces, 2);
  run({{"x", counting({1, 6, 2})}});
  run({{"x", counting({9, 6, 2})}});
  EXPECT_EQ(run.stats().traces, 2);
}

TEST(Traces, LeastRecentlyUsedGoesFirst) {
  const CompiledModel run = compiled(load(flattening()), 2);
  const auto with = [&](int64_t batch, int64_t rows) { run({{"x", counting({batch, rows, 2})}}); };
  with(1, 2), with(2, 1), with(1, 3);
  EXPECT_EQ(run.stats().traces, 2);
  with(2, 2);  // the third kind: (2, 1) goes
  with(1, 2);
  EXPECT_EQ(run.stats().traces, 3);
  with(2, 1);
  EXPECT_EQ(run.stats().traces, 4);
}

// y = x + x where flag, else x * x; each branch sees x from outside, one reads `past`.
GraphParts branching() {
  const std::string then_branch =
      graph({.nodes = {node("Add", {"x", "past"}, {"t"})}, .outputs = {value("t")}, .name = "then"});
  const std::string else_branch =
      graph({.nodes = {node("Mul", {"x", "x"}, {"e"})}, .outputs = {value("e")}, .name = "else"});
  return {.nodes = {node("If", {"flag"}, {"y"},
                         {graph_attribute("then_branch", then_branch), graph_attribute("else_branch", else_branch)})},
          .inputs = {shaped("flag", kBool, {}), shaped("x", kFloat, {"n"}), shaped("past", kFloat, {"p"})},
          .outputs = {value("y")}};
}

TEST(Traces, ABranchIsGuardedAndTheOtherOnesInputsDecideNothing) {
  const CompiledModel run = compiled(load(branching()));
  const auto with = [&](bool flag, int64_t n, int64_t past) {
    return floats_of(run({{"flag", truth(flag)}, {"x", counting({n})}, {"past", counting({past})}}).at("y"));
  };
  EXPECT_EQ(with(false, 3, 0), (std::vector<float>{0, 1, 4}));
  EXPECT_EQ(with(false, 4, 1), (std::vector<float>{0, 1, 4, 9}));  // nothing reads past: its 0 and 1 are one trace
  EXPECT_EQ(with(false, 2, 7), (std::vector<float>{0, 1}));
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(with(true, 3, 3), (std::vector<float>{0, 2, 4}));
  EXPECT_EQ(with(true, 2, 2), (std::vector<float>{0, 2}));
  EXPECT_EQ(with(false, 2, 2), (std::vector<float>{0, 1}));
  EXPECT_EQ(run.stats().traces, 2);
  EXPECT_EQ(run.stats().breaks, 0);
}

// If on a condition that the graph computes: both branches are in the program.
TEST(Traces, AComputedConditionIsABranchOfTheProgram) {
  GraphParts parts = branching();
  parts.nodes.insert(parts.nodes.begin(), {node("ReduceSum", {"x"}, {"sum"}, {int_attribute("keepdims", 0)}),
                                           node("Greater", {"sum", "ten"}, {"large"})});
  parts.nodes.back() = node(
      "If", {"large"}, {"y"},
      {graph_attribute("then_branch",
                       graph({.nodes = {node("Add", {"x", "x"}, {"t"})}, .outputs = {value("t")}, .name = "then"})),
       graph_attribute("else_branch",
                       graph({.nodes = {node("Neg", {"x"}, {"e"})}, .outputs = {value("e")}, .name = "else"}))});
  parts.inputs = {shaped("x", kFloat, {"n"})};
  parts.initializers = {tensor("ten", kFloat, {}, floats({10}))};
  const CompiledModel run = compiled(load(parts));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(floats_of(run({{"x", counting({3})}}).at("y")), (std::vector<float>{0, -1, -2}));
    EXPECT_EQ(floats_of(run({{"x", counting({6})}}).at("y"))[5], 10);
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

TEST(Traces, SeveralThreadsMayRunOneModel) {
  const CompiledModel run = compiled(load(flattening()));
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 20; ++i) {
        const int64_t batch = 1 + (i + static_cast<int64_t>(t)) % 4;
        const Tensor y = run({{"x", counting({batch, 3, 2})}}).at("y");
        right[t] += y.shape() == Shape{batch, 6} && y.data<float>()[5] == 10;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
  EXPECT_EQ(run.stats().runs, 80);
  EXPECT_EQ(run.stats().traces, 2);
}

TEST(Traces, TheTextNamesWhatDecided) {
  CompileOptions options;
  options.backend = "reference";
  options.verbose = true;
  const CompiledModel run = load(flattening()).compile(options);
  run({{"x", counting({2, 3, 2})}});
  const std::string text = run.trace_text();
  EXPECT_NE(text.find("symbol batch = 2: extent 0 of input x"), std::string::npos) << text;
  EXPECT_NE(text.find("known to = [batch, -1]"), std::string::npos) << text;
  EXPECT_NE(text.find("segments 1, breaks 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace transmuter::runtime::testing
