// What runs over breaks: counts of the run, loops with bodies of their own, sequences, strings.
#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

// Every position of x that is not zero, and how many; then a decision on the count (the If).
TEST(Breaks, ACountOfTheRunIsASymbolOnceKnown) {
  const auto branch = [](const std::string& op, const std::string& name) {
    return graph({.nodes = {node(op, {"as_float"}, {name})}, .outputs = {value(name)}, .name = name});
  };
  const GraphParts parts{.nodes = {node("NonZero", {"x"}, {"found"}), node("Shape", {"found"}, {"d"}),
                                   node("Gather", {"d", "one"}, {"count"}),
                                   node("Cast", {"found"}, {"as_float"}, {int_attribute("to", 1)}),
                                   node("Greater", {"count", "two"}, {"many"}),
                                   node("If", {"many"}, {"y"},
                                        {graph_attribute("then_branch", branch("Neg", "a")),
                                         graph_attribute("else_branch", branch("Identity", "b"))})},
                         .inputs = {shaped("x", kFloat, {"n"})},
                         .outputs = {value("y"), value("count", kInt64)},
                         .initializers = {int64_tensor("one", {1}, true), int64_tensor("two", {2}, true)}};
  const CompiledModel run = compiled(load(parts));
  const auto with = [&](std::vector<float> x) {
    const int64_t n = static_cast<int64_t>(x.size());
    return run({{"x", Tensor(x, {n})}});
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(floats_of(with({0, 1, 1, 0, 1}).at("y")), (std::vector<float>{-1, -2, -4}));
    EXPECT_EQ(floats_of(with({1, 1, 1, 1}).at("y")), (std::vector<float>{0, -1, -2, -3}));
    EXPECT_EQ(floats_of(with({0, 5, 0}).at("y")), (std::vector<float>{1}));
    EXPECT_EQ(floats_of(with({0, 0, 0, 0}).at("count")), (std::vector<float>{0}));
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

// The state grows by a row a trip; the trip's number is stacked.
GraphParts looping() {
  const std::string body = graph({.nodes = {node("Concat", {"state", "row"}, {"grown"}, {int_attribute("axis", 0)}),
                                            node("Identity", {"go"}, {"on"}), node("Mul", {"i", "i"}, {"square"})},
                                  .inputs = {value("i", kInt64), value("go", kBool), value("state")},
                                  .outputs = {value("on", kBool), value("grown"), value("square", kInt64)},
                                  .name = "body"});
  return {.nodes = {node("Loop", {"trips", "", "x"}, {"y", "squares"}, {graph_attribute("body", body)})},
          .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
          .outputs = {value("y"), value("squares", kInt64)},
          .initializers = {float_tensor("row", {9})}};
}

TEST(Breaks, ALoopIsInTheProgram) {
  const CompiledModel run = compiled(load(looping()));
  const TensorMap out = run({{"trips", Tensor::scalar(int64_t{3})}, {"x", counting({2})}});
  EXPECT_EQ(floats_of(out.at("y")), (std::vector<float>{0, 1, 9, 9, 9}));
  EXPECT_EQ(floats_of(out.at("squares")), (std::vector<float>{0, 1, 4}));
  const TensorMap none = run({{"trips", Tensor::scalar(int64_t{0})}, {"x", counting({4})}});
  EXPECT_EQ(floats_of(none.at("y")).size(), 4u);
  EXPECT_EQ(static_cast<const Tensor&>(none.at("squares")).shape(), Shape{0});
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

// Trainable models have their loops in the program: y = x * w^trips, and every x on the way.
TEST(Breaks, ATrainableLoopIsAWhile) {
  const std::string body =
      graph({.nodes = {node("Mul", {"state", "w"}, {"next"}), node("Identity", {"go"}, {"on"}),
                       node("Cast", {"i"}, {"f"}, {int_attribute("to", 1)}), node("Add", {"next", "f"}, {"row"})},
             .inputs = {value("i", kInt64), value("go", kBool), value("state")},
             .outputs = {value("on", kBool), value("next"), value("row")},
             .name = "body"});
  const GraphParts parts{.nodes = {node("Loop", {"trips", "", "x"}, {"y", "rows"}, {graph_attribute("body", body)})},
                         .inputs = {shaped("x", kFloat, {"n"}), shaped("trips", kInt64, {})},
                         .outputs = {value("y"), value("rows")},
                         .initializers = {float_tensor("w", {2})}};
  LoadOptions trainable;
  trainable.trainable = true;
  const CompiledModel run = compiled(load(model({.graph = graph(parts)}), trainable));
  const CompiledModel plain = compiled(load(parts));
  for (const int64_t trips : {3, 5}) {
    const TensorMap inputs{{"x", counting({3})}, {"trips", Tensor::scalar(trips)}};
    const TensorMap out = run(inputs), as_loop = plain(inputs);
    for (const char* name : {"y", "rows"}) {
      EXPECT_EQ(floats_of(out.at(name)), floats_of(as_loop.at(name))) << name;
      EXPECT_EQ(out.at(name).tensor.shape(), as_loop.at(name).tensor.shape()) << name;
    }
  }
  EXPECT_EQ(run.stats().breaks, 0);
  EXPECT_EQ(run.stats().traces, 1);
}

TEST(Breaks, SequencesPassThroughAndCross) {
  const GraphParts parts{
      .nodes = {node("SplitToSequence", {"x", "two"}, {"parts"}), node("SequenceAt", {"parts", "last"}, {"tail"}),
                node("NonZero", {"tail"}, {"found"}),
                node("ConcatFromSequence", {"parts"}, {"y"}, {int_attribute("axis", 0)})},
      .inputs = {shaped("x", kFloat, {"n"}), shaped("last", kInt64, {})},
      .outputs = {value("y"), value("found", kInt64)},
      .initializers = {int64_tensor("two", {2}, true)}};
  const CompiledModel run = compiled(load(parts));
  const TensorMap out = run({{"x", counting({5})}, {"last", Tensor::scalar(int64_t{-1})}});
  EXPECT_EQ(floats_of(out.at("y")), (std::vector<float>{0, 1, 2, 3, 4}));
  EXPECT_EQ(floats_of(out.at("found")), (std::vector<float>{0}));
}

TEST(Breaks, StringsMoveOnTheHost) {
  const GraphParts parts{.nodes = {node("Concat", {"words", "words"}, {"twice"}, {int_attribute("axis", 0)}),
                                   node("Gather", {"twice", "at"}, {"picked"}),
                                   node("Equal", {"picked", "picked"}, {"same"}), node("Shape", {"twice"}, {"d"})},
                         .inputs = {shaped("words", kString, {"n"}), shaped("at", kInt64, {"k"})},
                         .outputs = {value("picked", kString), value("same", kBool), value("d", kInt64)}};
  const CompiledModel run = compiled(load(parts, 19));  // Equal takes strings since opset 19
  const TensorMap out =
      run({{"words", Tensor::of_strings({"b", "", "a"}, {3})}, {"at", Tensor(std::vector<int64_t>{5, 0, -5}, {3})}});
  EXPECT_EQ(static_cast<const Tensor&>(out.at("picked")).strings(), (std::vector<std::string>{"a", "b", ""}));
  EXPECT_EQ(floats_of(out.at("same")), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(floats_of(out.at("d")), (std::vector<float>{6}));
}

TEST(Breaks, NodeByNodeIsTheSame) {
  for (const int64_t trips : {0, 1, 4}) {
    const Model model = load(looping());
    const TensorMap inputs{{"trips", Tensor::scalar(trips)}, {"x", counting({3})}};
    const TensorMap eager = model.run(inputs, "reference"), traced = compiled(model)(inputs);
    for (const auto& [name, value] : traced) EXPECT_EQ(floats_of(eager.at(name)), floats_of(value)) << name;
  }
}

}  // namespace
}  // namespace transmuter::runtime::testing
