// Model-local functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "onnx_messages.h"

namespace transmuter::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelParts calling(const std::string& call, const Strings& functions) {
  return {.graph = graph({{call}, {value("x"), value("c", 9)}, {value("y")}}), .functions = functions};
}
std::string call(const std::string& name, const Strings& inputs = {"x"}, const Strings& outputs = {"y"},
                 const Strings& attributes = {}) {
  return node(name, inputs, outputs, attributes, "local", "call");
}

TEST(OnnxFunctions, BodiesReplaceCalls) {
  const Model m = parse(model(
      calling(call("F"), {function({"F", {"a"}, {"b"}, {node("Neg", {"a"}, {"x"}), node("Exp", {"x"}, {"b"})}})})));
  ASSERT_EQ(m.graph.nodes.size(), 2u);
  const Node& neg = m.graph.nodes[0];
  const Node& exp = m.graph.nodes[1];
  EXPECT_THAT(neg.inputs, ElementsAre("x"));
  EXPECT_EQ(neg.version, 17);  // the function's operator set, not the model's
  EXPECT_EQ(neg.label, "call/Neg_0");
  EXPECT_NE(neg.outputs[0], "x");  // the function's own x is another value
  EXPECT_EQ(exp.inputs, neg.outputs);
  EXPECT_THAT(exp.outputs, ElementsAre("y"));
}

TEST(OnnxFunctions, TwoCallsShareNoNames) {
  const std::string f = function({"F", {"a"}, {"b"}, {node("Neg", {"a"}, {"t"}), node("Exp", {"t"}, {"b"})}});
  const std::string one = node("F", {"x"}, {"m"}, {}, "local", "same");
  const std::string two = node("F", {"m"}, {"y"}, {}, "local", "same");
  const Model m = parse(model({.graph = graph({{one, two}, {value("x")}, {value("y")}}), .functions = {f}}));
  std::set<std::string> names;
  for (const Node& node : m.graph.nodes) EXPECT_TRUE(names.insert(node.outputs[0]).second) << node.outputs[0];
  EXPECT_EQ(names.size(), 4u);
}

TEST(OnnxFunctions, NestedCallsAndUnwantedOutputs) {
  const std::string inner = function({"G", {"a"}, {"b", "d"}, {node("Neg", {"a"}, {"b"}), node("Abs", {"a"}, {"d"})}});
  const std::string outer =
      function({"F", {"a"}, {"b"}, {node("G", {"a"}, {"", "q"}, {}, "local"), node("Exp", {"q"}, {"b"})}});
  const Model m = parse(model(calling(call("F"), {outer, inner})));
  ASSERT_EQ(m.graph.nodes.size(), 3u);
  EXPECT_EQ(m.graph.nodes[1].outputs, m.graph.nodes[2].inputs);
  EXPECT_EQ(m.graph.nodes[1].label, "call/G_0/Abs_1");
}

TEST(OnnxFunctions, AttributesComeFromTheCallerThenTheDefault) {
  const std::string f = function({"F",
                                  {"a"},
                                  {"b"},
                                  {node("Op", {"a"}, {"b"},
                                        {reference_attribute("axis", "axis", 2), reference_attribute("k", "size", 2),
                                         reference_attribute("gone", "optional", 2)})},
                                  {"axis", "optional"},
                                  {int_attribute("size", 3)}});
  const Model by_default = parse(model(calling(call("F", {"x"}, {"y"}, {int_attribute("axis", 5)}), {f})));
  EXPECT_EQ(by_default.graph.nodes[0].find("axis")->i, 5);
  EXPECT_EQ(by_default.graph.nodes[0].find("k")->i, 3);
  EXPECT_EQ(by_default.graph.nodes[0].find("gone"), nullptr);
  const Model given = parse(model(calling(call("F", {"x"}, {"y"}, {int_attribute("size", 7)}), {f})));
  EXPECT_EQ(given.graph.nodes[0].find("k")->i, 7);
  EXPECT_THAT(error_of(model(calling(call("F", {"x"}, {"y"}, {int_attribute("other", 7)}), {f}))),
              HasSubstr("an attribute \"other\""));
}

TEST(OnnxFunctions, AReferenceReachesThroughNestedCalls) {
  const std::string inner =
      function({"G", {"a"}, {"b"}, {node("Op", {"a"}, {"b"}, {reference_attribute("axis", "n", 2)})}, {"n"}});
  const std::string outer =
      function({"F", {"a"}, {"b"}, {node("G", {"a"}, {"b"}, {reference_attribute("n", "m", 2)}, "local")}, {"m"}});
  const Model m = parse(model(calling(call("F", {"x"}, {"y"}, {int_attribute("m", 11)}), {inner, outer})));
  EXPECT_EQ(m.graph.nodes[0].find("axis")->i, 11);
}

TEST(OnnxFunctions, SubgraphsInAFunctionAreRenamedToo) {
  const std::string then_branch = graph({{node("Neg", {"a"}, {"x"})}, {}, {value("x")}, {}, "t"});
  const std::string else_branch =
      graph({{node("Op", {"a"}, {"x"}, {reference_attribute("axis", "n", 2)})}, {}, {value("x")}, {}, "e"});
  const std::string f =
      function({"F",
                {"cond", "a"},
                {"b"},
                {node("If", {"cond"}, {"b"},
                      {graph_attribute("then_branch", then_branch), graph_attribute("else_branch", else_branch)})},
                {"n"}});
  const Model m = parse(model(calling(call("F", {"c", "x"}, {"y"}, {int_attribute("n", 2)}), {f})));
  const Graph& taken = *m.graph.nodes[0].find("then_branch")->graph;
  EXPECT_THAT(taken.captures, ElementsAre("x"));  // the caller's, though the branch has an x of its own
  EXPECT_NE(taken.nodes[0].outputs[0], "x");
  EXPECT_EQ(taken.outputs[0].name, taken.nodes[0].outputs[0]);
  EXPECT_EQ(m.graph.nodes[0].find("else_branch")->graph->nodes[0].find("axis")->i, 2);
}

TEST(OnnxFunctions, AnInputPassedThroughBecomesIdentity) {
  const Model m = parse(model(calling(call("F"), {function({"F", {"a"}, {"a"}, {}})})));
  ASSERT_EQ(m.graph.nodes.size(), 1u);
  EXPECT_EQ(m.graph.nodes[0].op_type, "Identity");
  EXPECT_THAT(m.graph.nodes[0].inputs, ElementsAre("x"));
}

TEST(OnnxFunctions, InputsLeftOutAreAbsentInside) {
  const std::string f = function({"F", {"a", "min"}, {"b"}, {node("Clip", {"a", "min"}, {"b"})}});
  EXPECT_THAT(parse(model(calling(call("F"), {f}))).graph.nodes[0].inputs, ElementsAre("x", ""));
  EXPECT_THAT(error_of(model(calling(call("F", {"x", "x", "x"}), {f}))), HasSubstr("the call has 3 inputs"));
}

TEST(OnnxFunctions, FaultsAreRefused) {
  const auto f = [](const Strings& nodes) { return function({"F", {"a"}, {"b"}, nodes}); };
  EXPECT_THAT(error_of(model(calling(call("F"), {f({node("F", {"a"}, {"b"}, {}, "local")})}))),
              HasSubstr("\"local.F\" calls itself"));
  EXPECT_THAT(error_of(model(calling(call("F"), {f({node("Add", {"a", "c"}, {"b"})})}))),
              HasSubstr("functions do not see the caller's names"));
  EXPECT_THAT(error_of(model(calling(call("F"), {f({node("Neg", {"a"}, {"q"})})}))),
              HasSubstr("makes its output \"b\""));
  EXPECT_THAT(error_of(model(calling(call("F"), {f({node("Neg", {"a"}, {"a"})})}))), HasSubstr("two values \"a\""));
  EXPECT_THAT(error_of(model(calling(call("F"), {f({}), f({})}))), HasSubstr("two of function"));
  EXPECT_THAT(error_of(model(calling(call("F"), {f({node("Op", {"a"}, {"b"}, {}, "elsewhere")})}))),
              HasSubstr("\"elsewhere\" is used, but not imported"));
}

TEST(OnnxFunctions, DoublingCallsAreLimited) {
  Strings functions = {function({"F0", {"a"}, {"b"}, {node("Neg", {"a"}, {"b"})}})};
  for (int i = 1; i < 40; ++i) {
    const std::string callee = "F" + std::to_string(i - 1);
    functions.push_back(function({"F" + std::to_string(i),
                                  {"a"},
                                  {"b"},
                                  {node(callee, {"a"}, {"m"}, {}, "local"), node(callee, {"m"}, {"b"}, {}, "local")}}));
  }
  EXPECT_THAT(error_of(model(calling(call("F39"), functions))), HasSubstr("grow beyond"));
}

}  // namespace
}  // namespace transmuter::onnx::testing
