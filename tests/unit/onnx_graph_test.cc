// Graph checks: order, names, captures, versions, broken bytes.
#include "onnx/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx_messages.h"

namespace transmuter::onnx::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> labels(const Graph& graph) {
  std::vector<std::string> result;
  for (const Node& node : graph.nodes) result.push_back(node.label);
  return result;
}

const GraphParts kAdd = {
    {node("Add", {"x", "w"}, {"y"}, {}, "", "add")}, {value("x")}, {value("y")}, {tensor("w", 1, {2}, floats({1, 2}))}};

TEST(OnnxGraph, ReadsAModel) {
  const Model m = parse(model_of(kAdd));
  EXPECT_EQ(m.ir_version, 9);
  EXPECT_EQ(m.producer, "tests");
  EXPECT_EQ(m.opsets.at(""), 18);
  ASSERT_EQ(m.graph.nodes.size(), 1u);
  EXPECT_EQ(m.graph.nodes[0].version, 18);
  EXPECT_THAT(m.graph.nodes[0].inputs, ElementsAre("x", "w"));
  EXPECT_EQ(m.graph.inputs.at(0).dtype, DType::f32);
  EXPECT_EQ(m.graph.initializers.at("w").aligned().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_TRUE(m.graph.captures.empty());
}

TEST(OnnxGraph, EveryPrefixIsRefusedOrReadWithoutReadingBeyond) {
  const std::string bytes = model_of(kAdd);
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_NE(error_of(bytes.substr(0, length)), "") << length;
}

TEST(OnnxGraph, UnsortedNodesAreSortedAndSortedOnesKeepTheirOrder) {
  const Model m =
      parse(model_of({{node("Neg", {"b"}, {"y"}, {}, "", "second"), node("Exp", {"x"}, {"b"}, {}, "", "first"),
                       node("Abs", {"x"}, {"z"}, {}, "", "third")},
                      {value("x")},
                      {value("y"), value("z")}}));
  EXPECT_THAT(labels(m.graph), ElementsAre("first", "second", "third"));
  const Model kept = parse(model_of({{node("Abs", {"x"}, {"z"}), node("Exp", {"x"}, {"b"}), node("Neg", {"b"}, {"y"})},
                                     {value("x")},
                                     {value("y"), value("z")}}));
  EXPECT_THAT(labels(kept.graph), ElementsAre("Abs_0", "Exp_1", "Neg_2"));
}

TEST(OnnxGraph, ACycleIsRefusedWithItsNodes) {
  EXPECT_THAT(
      error_of(model_of({{node("Add", {"x", "b"}, {"a"}, {}, "", "one"), node("Neg", {"a"}, {"b"}, {}, "", "two"),
                          node("Exp", {"b"}, {"y"}, {}, "", "after")},
                         {value("x")},
                         {value("y")}})),
      AllOf(HasSubstr("circle"), HasSubstr("\"one\""), HasSubstr("\"two\""), ::testing::Not(HasSubstr("after"))));
}

TEST(OnnxGraph, NamesMustBeDefinedOnce) {
  EXPECT_THAT(error_of(model_of({{node("Neg", {"x"}, {"y"}), node("Exp", {"x"}, {"y"})}, {value("x")}, {value("y")}})),
              HasSubstr("the value \"y\" is defined twice, in node \"Exp_1\" (Exp), in graph \"main\""));
  EXPECT_THAT(error_of(model_of({{node("Neg", {"x"}, {"x"})}, {value("x")}, {value("x")}})),
              HasSubstr("defined twice"));
  EXPECT_THAT(error_of(model_of({{}, {value("x"), value("x")}, {value("x")}})), HasSubstr("two inputs"));
  GraphParts twice = kAdd;
  twice.initializers.push_back(twice.initializers[0]);
  EXPECT_THAT(error_of(model_of(twice)), HasSubstr("two initializers"));
}

TEST(OnnxGraph, UndefinedNamesAreRefusedWithNodeAndGraph) {
  EXPECT_THAT(error_of(model_of({{node("Neg", {"nope"}, {"y"})}, {value("x")}, {value("y")}})),
              AllOf(HasSubstr("\"nope\""), HasSubstr("node \"Neg_0\" (Neg), in graph \"main\"")));
  EXPECT_THAT(error_of(model_of({{}, {value("x")}, {value("nope")}})), HasSubstr("the output \"nope\" is never made"));
}

TEST(OnnxGraph, InitializersThatAreInputsStayInputs) {
  GraphParts parts = kAdd;
  parts.inputs.push_back(value("w"));
  EXPECT_EQ(parse(model_of(parts)).graph.inputs.size(), 2u);
  EXPECT_EQ(parse(model(ModelParts{.graph = graph(parts), .ir_version = 3})).graph.inputs.size(), 2u);
  parts.inputs.back() = value("w", 7);
  EXPECT_THAT(error_of(model_of(parts)), HasSubstr("\"w\" is declared int64"));
}

TEST(OnnxGraph, InputsNeedATypeOutputsDoNot) {
  EXPECT_THAT(error_of(model_of({{node("Neg", {"x"}, {"y"})}, {value("x", 0)}, {value("y")}})),
              HasSubstr("has no type"));
  EXPECT_EQ(error_of(model_of({{node("Neg", {"x"}, {"y"})}, {value("x")}, {value("y", 0)}})), "");
}

std::string branch(const std::string& name, const Strings& nodes, const std::string& output) {
  return graph({nodes, {}, {value(output)}, {}, name});
}

TEST(OnnxGraph, SubgraphsCaptureAtAnyDepth) {
  // The inner branch reads `late`, which a later node of the top graph makes.
  const std::string inner = node("If", {"c"}, {"i"},
                                 {graph_attribute("then_branch", branch("tt", {node("Neg", {"late"}, {"t"})}, "t")),
                                  graph_attribute("else_branch", branch("te", {node("Neg", {"x"}, {"e"})}, "e"))});
  const Model m = parse(model_of({{node("If", {"c"}, {"y"},
                                        {graph_attribute("then_branch", branch("t", {inner}, "i")),
                                         graph_attribute("else_branch", branch("e", {}, "x"))},
                                        "", "if"),
                                   node("Exp", {"x"}, {"late"}, {}, "", "exp")},
                                  {value("c", 9), value("x")},
                                  {value("y")}}));
  EXPECT_THAT(labels(m.graph), ElementsAre("exp", "if"));
  const Graph& then_branch = *m.graph.nodes[1].find("then_branch")->graph;
  EXPECT_THAT(then_branch.captures, ElementsAre("c", "late", "x"));
  EXPECT_THAT(then_branch.nodes[0].find("then_branch")->graph->captures, ElementsAre("late"));
  EXPECT_THAT(m.graph.nodes[1].find("else_branch")->graph->captures, ElementsAre("x"));
}

TEST(OnnxGraph, ASubgraphThatReadsItsOwnNodeIsACycle) {
  EXPECT_THAT(error_of(model_of({{node("If", {"c"}, {"y"},
                                       {graph_attribute("then_branch", branch("t", {node("Neg", {"y"}, {"t"})}, "t")),
                                        graph_attribute("else_branch", branch("e", {}, "c"))})},
                                 {value("c", 9)},
                                 {value("y")}})),
              HasSubstr("circle"));
}

TEST(OnnxGraph, BranchesAndBodiesMustSuitTheirNode) {
  const std::string good = graph_attribute("then_branch", branch("t", {node("Neg", {"x"}, {"t"})}, "t"));
  const auto with = [&](const Strings& attributes) {
    return error_of(model_of({{node("If", {"c"}, {"y"}, attributes)}, {value("c", 9), value("x")}, {value("y")}}));
  };
  EXPECT_THAT(with({good}), HasSubstr("no graph \"else_branch\""));
  EXPECT_THAT(with({good, graph_attribute("else_branch", graph({}))}), HasSubstr("instead of 1"));
  EXPECT_THAT(with({good, int_attribute("else_branch", 1)}), HasSubstr("no graph \"else_branch\""));
}

TEST(OnnxGraph, VersionsAreChecked) {
  const std::string g = graph(kAdd);
  EXPECT_THAT(error_of(model(ModelParts{.graph = g, .ir_version = 0})), HasSubstr("IR version"));
  EXPECT_THAT(error_of(model(ModelParts{.graph = g, .ir_version = 99})), HasSubstr("newer"));
  EXPECT_THAT(error_of(model(ModelParts{.graph = g, .opsets = {opset("", 999)}})), HasSubstr("999"));
  EXPECT_THAT(error_of(model(ModelParts{.graph = g, .opsets = {opset("", 0)}})), HasSubstr("version 0"));
  EXPECT_THAT(error_of(model(ModelParts{.graph = g, .opsets = {}})),
              HasSubstr("\"ai.onnx\" is used, but not imported"));
  EXPECT_THAT(error_of(model(ModelParts{.graph = g, .opsets = {opset("", 18), opset("ai.onnx", 17)}})),
              HasSubstr("versions 18 and 17"));
  EXPECT_EQ(parse(model(ModelParts{.graph = g, .opsets = {opset("ai.onnx", 18)}})).graph.nodes[0].version, 18);
  const auto in_domain = [](const std::string& domain) {
    return model_of({{node("Gelu", {"x"}, {"y"}, {}, domain)}, {value("x")}, {value("y")}});
  };
  EXPECT_THAT(error_of(in_domain("somewhere")), HasSubstr("\"somewhere\" is used, but not imported"));
  EXPECT_EQ(parse(in_domain("com.microsoft")).graph.nodes[0].version, 1);
  EXPECT_EQ(parse(in_domain("ai.onnx")).graph.nodes[0].domain, "");
}

TEST(OnnxGraph, WrongWireTypesAreRefused) {
  std::string g;
  protozero::pbf_writer(g).add_int64(1, 5);  // a node that is a number
  EXPECT_THAT(error_of(model(ModelParts{.graph = g})), HasSubstr("wire type"));
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS"));
}

TEST(OnnxGraph, AttributesHoldOneValue) {
  std::string both;
  protozero::pbf_writer writer(both);
  writer.add_string(1, "axis");
  writer.add_float(2, 1.0f);
  writer.add_int64(3, 1);
  const auto with = [](const Strings& attributes) {
    return error_of(model_of({{node("Neg", {"x"}, {"y"}, attributes)}, {value("x")}, {value("y")}}));
  };
  EXPECT_THAT(with({both}), HasSubstr("\"axis\" holds values of another type"));
  EXPECT_THAT(with({int_attribute("a", 1), int_attribute("a", 1)}), HasSubstr("given twice"));
  EXPECT_THAT(with({reference_attribute("a", "b", 2)}), HasSubstr("outside of a function"));
  EXPECT_EQ(with({int_attribute("a", 1)}), "");
}

TEST(OnnxGraph, DeepNestingIsRefused) {
  std::string inner = branch("leaf", {}, "x");
  for (int i = 0; i < 500; ++i)
    inner =
        branch("b",
               {node("If", {"c"}, {"y"},
                     {graph_attribute("then_branch", inner), graph_attribute("else_branch", branch("e", {}, "x"))})},
               "y");
  EXPECT_THAT(
      error_of(model_of(
          {{node("If", {"c"}, {"y"},
                 {graph_attribute("then_branch", inner), graph_attribute("else_branch", branch("e", {}, "x"))})},
           {value("c", 9), value("x")},
           {value("y")}})),
      HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace transmuter::onnx::testing
