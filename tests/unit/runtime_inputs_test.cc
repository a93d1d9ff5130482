// What a run says of wrong inputs, inputs with defaults, and what a load says of nodes that break the standard.
#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

GraphParts adding() {
  return {.nodes = {node("Add", {"x", "w"}, {"y"})},
          .inputs = {shaped("x", kFloat, {"n", 2}), value("w")},
          .outputs = {value("y")},
          .initializers = {float_tensor("w", {1, 2})}};
}

TEST(Inputs, WrongOnesAreNamed) {
  const CompiledModel run = compiled(load(adding()));
  const auto says = [&](const TensorMap& inputs) { return error_in([&] { run(inputs); }); };
  const Tensor x = counting({3, 2});
  EXPECT_EQ(says({}), "input x: missing; the model wants x, w");
  EXPECT_EQ(says({{"x", x}, {"z", x}}), "there is no input z; the model has x, w");
  EXPECT_EQ(says({{"x", x.cast(DType::i64)}}), "input x: expected float32, got int64");
  EXPECT_EQ(says({{"x", counting({6})}}), "input x: expected rank 2 [n, 2], got [6]");
  EXPECT_EQ(says({{"x", counting({2, 3})}}), "input x: expected shape [n, 2], got [2, 3]");
  EXPECT_EQ(says({{"x", Value::sequence({x})}}), "input x: expected a tensor");
  EXPECT_EQ(says({{"x", x}}), "");
}

// By name it is one entry.
TEST(Inputs, AnOutputMayBeListedTwice) {
  GraphParts parts = adding();
  parts.outputs.push_back(value("y"));
  const TensorMap outputs = compiled(load(parts))({{"x", counting({1, 2})}});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(floats_of(outputs.at("y")), (std::vector<float>{1, 3}));
}

TEST(Inputs, AnInitializerIsADefault) {
  for (const int64_t ir_version : {3, 9}) {
    const CompiledModel run = compiled(load(adding(), 8, ir_version));
    EXPECT_EQ(floats_of(run({{"x", counting({1, 2})}}).at("y")), (std::vector<float>{1, 3}));
    const Tensor w(std::vector<float>{10, 20}, {2});
    EXPECT_EQ(floats_of(run({{"x", counting({1, 2})}, {"w", w}}).at("y")), (std::vector<float>{10, 21}));
    EXPECT_EQ(floats_of(run({{"x", counting({1, 2})}}).at("y")), (std::vector<float>{1, 3}));
    EXPECT_EQ(run.stats().traces, 2);
  }
}

// A shape that is fed in place of its default is not the default.
TEST(Inputs, AnOverriddenShapeIsRead) {
  const GraphParts parts{.nodes = {node("Reshape", {"x", "to"}, {"y"})},
                         .inputs = {shaped("x", kFloat, {"n"}), shaped("to", kInt64, {2})},
                         .outputs = {value("y")},
                         .initializers = {int64_tensor("to", {2, -1})}};
  const CompiledModel run = compiled(load(parts));
  const auto shape = [&](TensorMap inputs) {
    inputs["x"] = counting({12});
    return static_cast<const Tensor&>(run(inputs).at("y")).shape();
  };
  EXPECT_EQ(shape({}), (Shape{2, 6}));
  EXPECT_EQ(shape({{"to", Tensor(std::vector<int64_t>{3, 4}, {2})}}), (Shape{3, 4}));
  EXPECT_EQ(shape({{"to", Tensor(std::vector<int64_t>{-1, 2}, {2})}}), (Shape{6, 2}));
}

TEST(Inputs, NothingTracesWhatNoOutputNeeds) {
  GraphParts parts = adding();
  parts.nodes.push_back(node("Reshape", {"x", "bad"}, {"unused"}));
  parts.initializers.push_back(int64_tensor("bad", {7, 7}));
  const CompiledModel run = compiled(load(parts));
  EXPECT_EQ(floats_of(run({{"x", counting({1, 2})}}).at("y")), (std::vector<float>{1, 3}));
}

std::string says_of(const std::string& broken, int64_t version = 18) {
  GraphParts parts = adding();
  parts.nodes = {broken};
  return error_in([&] { load(parts, version); });
}

TEST(Inputs, NodesThatBreakTheStandardAreRefusedAtTheDoor) {
  EXPECT_EQ(says_of(node("Neg", {"x", "x"}, {"y"})),
            "Neg: takes at most 1 inputs, has 2, in node Neg_0 (Neg), in graph main");
  EXPECT_EQ(says_of(node("Add", {"x", ""}, {"y"})), "Add: input 1 is missing, in node Add_0 (Add), in graph main");
  EXPECT_EQ(says_of(node("Neg", {"x"}, {"y"}, {int_attribute("axis", 0)})),
            "Neg: has no attribute axis in opset 18, in node Neg_0 (Neg), in graph main");
  EXPECT_EQ(says_of(node("Concat", {"x"}, {"y"})),
            "Concat: attribute axis is required, in node Concat_0 (Concat), in graph main");
  EXPECT_EQ(says_of(node("Transpose", {"x"}, {"y"}, {int_attribute("perm", 0)})),
            "Transpose: attribute perm must be a list of integers, in node Transpose_0 (Transpose), in graph main");
  EXPECT_EQ(says_of(node("Trilu", {"x"}, {"y"}), 10),
            "Trilu: the operator came with opset 14, the model imports 10, in node Trilu_0 (Trilu), in graph main");
  EXPECT_EQ(says_of(node("Upsample", {"x", "w"}, {"y"})),
            "Upsample: the operator left the standard with opset 10, in node Upsample_0 (Upsample), in graph main");
  EXPECT_EQ(says_of(node("Split", {"x"}, {"y", "", "z"}), 1), "");
}

}  // namespace
}  // namespace transmuter::runtime::testing
