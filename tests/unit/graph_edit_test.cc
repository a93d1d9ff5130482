// Graph and GraphEdit: what an edit changes, what it keeps, what it refuses.
#include "transmuter/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "onnx_messages.h"
#include "transmuter/model.h"

namespace transmuter {
namespace {

using onnx::testing::GraphParts;
using onnx::testing::int_attribute;
using onnx::testing::node;
using onnx::testing::value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Graph graph_of(const std::string& model) { return Graph::from_bytes(bytes_of(model)); }

uint32_t id_of(const Graph& graph, const std::string& name) {
  const std::vector<NodeInfo> found = graph.find(where::name(name));
  EXPECT_EQ(found.size(), 1u) << name;
  return found.empty() ? 0 : found[0].id;
}

std::vector<float> run(const Graph& graph, const std::vector<float>& x, const std::string& output = "y") {
  CompileOptions options;
  options.backend = "reference";
  const TensorMap out = Model::from_graph(graph).compile(options)({{"x", Tensor(x, {static_cast<int64_t>(x.size())})}});
  return out.at(output).tensor.cast(DType::f32).to_vector<float>();
}

// x -> Relu -> h -> Add(h, w) -> y
std::string chain() {
  return onnx::testing::model_of(
      {.nodes = {node("Relu", {"x"}, {"h"}, {}, "", "act"), node("Add", {"h", "w"}, {"y"}, {}, "", "sum")},
       .inputs = {value("x")},
       .outputs = {value("y")},
       .initializers = {onnx::testing::tensor("w", 1, {1}, onnx::testing::floats({10}))}});
}

// y = x[0] > 0 ? Neg(x) + k : Abs(x); the branches see x and k from outside.
std::string branches() {
  const std::string positive =
      onnx::testing::graph({.nodes = {node("Neg", {"x"}, {"n"}), node("Add", {"n", "k"}, {"p"})},
                            .outputs = {value("p")},
                            .name = "positive"});
  const std::string negative =
      onnx::testing::graph({.nodes = {node("Abs", {"x"}, {"q"})}, .outputs = {value("q")}, .name = "negative"});
  return onnx::testing::model_of({.nodes = {node("ReduceMax", {"x"}, {"top"}, {int_attribute("keepdims", 0)}),
                                            node("Greater", {"top", "zero"}, {"c"}, {}, "", "compare"),
                                            node("If", {"c"}, {"y"},
                                                 {onnx::testing::graph_attribute("then_branch", positive),
                                                  onnx::testing::graph_attribute("else_branch", negative)},
                                                 "", "choose")},
                                  .inputs = {value("x")},
                                  .outputs = {value("y")},
                                  .initializers = {onnx::testing::tensor("zero", 1, {}, onnx::testing::floats({0})),
                                                   onnx::testing::tensor("k", 1, {1}, onnx::testing::floats({100}))}});
}

TEST(GraphEdit, AnUneditedModelIsTheSameBytes) {
  std::string model = chain();
  protozero::pbf_writer writer(model);
  writer.add_string(1000, "a field that nobody knows");
  writer.add_fixed64(1001, 7);
  writer.add_fixed32(1002, 8);
  EXPECT_EQ(text_of(graph_of(model).to_bytes()), model);
  EXPECT_EQ(text_of(graph_of(branches()).to_bytes()), branches());
}

TEST(GraphEdit, UnknownFieldsSurviveEditsAroundThem) {
  std::string relu = node("Relu", {"x"}, {"y"}, {}, "", "act");
  protozero::pbf_writer(relu).add_string(900, "kept");
  const std::string model = onnx::testing::model_of({.nodes = {relu}, .inputs = {value("x")}, .outputs = {value("y")}});
  const Graph graph = graph_of(model);
  const Graph edited = graph.edit().set_operator(id_of(graph, "act"), "Neg").commit();
  EXPECT_THAT(text_of(edited.to_bytes()), HasSubstr("kept"));
  EXPECT_EQ(run(edited, {1, -2}), (std::vector<float>{-1, 2}));
  EXPECT_EQ(text_of(graph.to_bytes()), model) << "the graph that was edited is as it was";
}

TEST(GraphEdit, OneOperatorBecomesAnother) {
  const Graph graph = graph_of(branches());
  EXPECT_EQ(run(graph, {0, 0}), (std::vector<float>{0, 0}));
  const std::vector<NodeInfo> found = graph.find(where::op_type("Greater"));
  ASSERT_EQ(found.size(), 1u);
  const Graph edited = graph.edit().set_operator(found[0].id, "GreaterOrEqual").commit();
  EXPECT_EQ(run(edited, {0, 0}), (std::vector<float>{100, 100}));
}

TEST(GraphEdit, NodesAreFoundByWhatTheyAre) {
  const Graph graph = graph_of(branches());
  EXPECT_EQ(graph.nodes().size(), 6u);
  EXPECT_EQ(graph.find(where::op_type("*Max")).size(), 1u);
  EXPECT_EQ(graph.find(where::name("comp?re")).size(), 1u);
  EXPECT_EQ(graph.find(where::output("n")).size(), 1u);
  EXPECT_EQ(graph.find(where::input("x")).size(), 3u);
  EXPECT_EQ(graph.find(where::attribute("keepdims", int64_t{0})).size(), 1u);
  EXPECT_EQ(graph.find(where::attribute("keepdims", int64_t{1})).size(), 0u);
  EXPECT_EQ(graph.find(where::scope("choose.then_branch")).size(), 2u);
  EXPECT_EQ(graph.find(where::all({where::input("x"), where::none(where::scope(""))})).size(), 2u);
  EXPECT_EQ(graph.find(where::any({where::op_type("Abs"), where::op_type("Neg")})).size(), 2u);
  EXPECT_THAT(graph.scopes(), ElementsAre("", "choose.then_branch", "choose.else_branch"));
}

TEST(GraphEdit, NodesInsideSubgraphsAreEditedInPlace) {
  const Graph graph = graph_of(branches());
  GraphEdit edit = graph.edit();
  edit.set_operator(graph.find(where::op_type("Neg"))[0].id, "Abs");
  edit.set_initializer("inner", Tensor(std::vector<float>{7}, {1}), "choose.then_branch");
  edit.set_input(graph.find(where::output("p"))[0].id, 1, "inner");
  EXPECT_EQ(run(edit.commit(), {-1, 2}), (std::vector<float>{8, 9}));
}

TEST(GraphEdit, ARenameReachesThroughCaptures) {
  const Graph graph = graph_of(branches());
  const Graph edited = graph.edit().rename_value("x", "input").rename_value("k", "offset").commit();
  const TensorMap out = Model::from_graph(edited).run({{"input", Tensor(std::vector<float>{-1, 2}, {2})}}, "reference");
  EXPECT_EQ(out.at("y").tensor.to_vector<float>(), (std::vector<float>{101, 98}));
  EXPECT_THAT(error_of([&] { graph.edit().rename_value("x", "n"); }), HasSubstr("the name \"n\" is taken"));
  EXPECT_THAT(error_of([&] { graph.edit().rename_value("n", "m"); }), HasSubstr("nothing in the main graph makes"));
  EXPECT_EQ(run(graph.edit().rename_value("n", "m", "choose.then_branch").commit(), {1}), (std::vector<float>{99}));
}

TEST(GraphEdit, FunctionsAreEditedForAllTheirCalls) {
  const std::string twice = onnx::testing::function(
      {.name = "twice", .inputs = {"a"}, .outputs = {"b"}, .nodes = {node("Add", {"a", "a"}, {"b"})}});
  const std::string model =
      onnx::testing::model({.graph = onnx::testing::graph({.nodes = {node("twice", {"x"}, {"h"}, {}, "local"),
                                                                     node("twice", {"h"}, {"y"}, {}, "local")},
                                                           .inputs = {value("x")},
                                                           .outputs = {value("y")}}),
                            .functions = {twice}});
  const Graph graph = graph_of(model);
  EXPECT_EQ(run(graph, {3}), (std::vector<float>{12}));
  const std::vector<NodeInfo> inside = graph.find(where::scope("function local.twice"));
  ASSERT_EQ(inside.size(), 1u);
  const Graph edited = graph.edit().set_operator(inside[0].id, "Mul").rename_value("a", "in", inside[0].scope).commit();
  EXPECT_EQ(run(edited, {3}), (std::vector<float>{81}));
}

TEST(GraphEdit, AttributesOfEveryKind) {
  const Graph graph = graph_of(chain());
  const uint32_t id = id_of(graph, "act");
  GraphEdit edit = graph.edit();
  edit.set_attribute(id, "i", int64_t{-3})
      .set_attribute(id, "f", 0.5f)
      .set_attribute(id, "s", std::string("text"))
      .set_attribute(id, "t", Tensor(std::vector<int64_t>{1, 2}, {2}))
      .set_attribute(id, "is", std::vector<int64_t>{1, -2})
      .set_attribute(id, "fs", std::vector<float>{1.5f})
      .set_attribute(id, "ss", std::vector<std::string>{"a", ""})
      .set_attribute(id, "none", std::vector<int64_t>{})
      .set_attribute(id, "i", int64_t{4});
  const NodeInfo held = edit.find(where::name("act"))[0];
  EXPECT_EQ(std::get<int64_t>(held.attributes.at("i")), 4);
  EXPECT_EQ(std::get<float>(held.attributes.at("f")), 0.5f);
  EXPECT_EQ(std::get<std::string>(held.attributes.at("s")), "text");
  EXPECT_EQ(std::get<Tensor>(held.attributes.at("t")).to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(held.attributes.at("is")), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(std::get<std::vector<float>>(held.attributes.at("fs")), (std::vector<float>{1.5f}));
  EXPECT_EQ(std::get<std::vector<std::string>>(held.attributes.at("ss")), (std::vector<std::string>{"a", ""}));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(held.attributes.at("none")).empty());
  EXPECT_THAT(error_of([&] { edit.commit(); }), HasSubstr("Relu: has no attribute"));
  for (const auto& [name, unused] : held.attributes) edit.remove_attribute(id, name);
  EXPECT_EQ(run(edit.commit(), {-1}), (std::vector<float>{10}));
  EXPECT_THAT(error_of([&] { edit.remove_attribute(id, "i"); }), HasSubstr("has no attribute \"i\""));
  const Graph inner = graph_of(branches());
  EXPECT_THAT(error_of([&] { inner.edit().set_attribute(id_of(inner, "choose"), "then_branch", int64_t{1}); }),
              HasSubstr("holds a graph"));
}

TEST(GraphEdit, AddedNodesStandWhereTheyCanRun) {
  const Graph graph = graph_of(chain());
  GraphEdit edit = graph.edit();
  edit.add_node({"Neg", {"h"}, {"minus"}, {}, "negate", ""});
  edit.rewire("h", "minus");
  const Graph edited = edit.commit();
  EXPECT_EQ(run(edited, {2, -2}), (std::vector<float>{8, 10}));
  std::vector<std::string> order;
  for (const NodeInfo& n : edited.nodes()) order.push_back(n.op_type);
  EXPECT_THAT(order, ElementsAre("Relu", "Neg", "Add"));
  EXPECT_THAT(error_of([&] { graph.edit().rewire("nothing", "h"); }), HasSubstr("there is no value \"nothing\""));
}

TEST(GraphEdit, ABypassedNodeLeavesNoGap) {
  const Graph graph = graph_of(chain());
  EXPECT_EQ(run(graph.edit().bypass_node(id_of(graph, "act")).commit(), {-5}), (std::vector<float>{5}));
  // The last node's output is the graph's, so what fed it takes the name.
  EXPECT_EQ(run(graph.edit().bypass_node(id_of(graph, "sum")).commit(), {-5, 5}), (std::vector<float>{0, 5}));
  const Graph one = graph_of(onnx::testing::model_of(
      {.nodes = {node("Relu", {"x"}, {"y"}, {}, "", "act")}, .inputs = {value("x")}, .outputs = {value("y")}}));
  EXPECT_THAT(error_of([&] { one.edit().bypass_node(id_of(one, "act")); }), HasSubstr("cannot take that name"));
}

TEST(GraphEdit, PruningKeepsWhatOutputsNeed) {
  const Graph graph = graph_of(branches());
  GraphEdit edit = graph.edit();
  edit.add_node({"Abs", {"x"}, {"dead"}, {}, "", ""});
  edit.add_node({"Neg", {"dead"}, {"deader"}, {}, "", ""}, "choose.else_branch");
  edit.set_initializer("unused", Tensor(std::vector<float>{1}, {1}));
  const Graph pruned = edit.prune().commit();
  EXPECT_EQ(pruned.nodes().size(), 6u);
  EXPECT_THAT(pruned.initializers(), ElementsAre("zero", "k"));
  EXPECT_EQ(run(pruned, {1}), (std::vector<float>{99}));
}

TEST(GraphEdit, IntermediateValuesBecomeOutputs) {
  const Graph graph = graph_of(chain());
  const Graph edited = graph.edit().add_output("h").commit();
  ASSERT_EQ(edited.outputs().size(), 2u);
  EXPECT_EQ(edited.outputs()[1].name, "h");
  EXPECT_EQ(edited.outputs()[1].dtype, DType::f32);
  EXPECT_EQ(run(edited, {-1, 4}, "h"), (std::vector<float>{0, 4}));
  EXPECT_EQ(run(edited.edit().remove_output("y").prune().commit(), {3}, "h"), (std::vector<float>{3}));
  EXPECT_THAT(error_of([&] { graph.edit().add_output("nothing"); }), HasSubstr("makes no value \"nothing\""));
  EXPECT_THAT(error_of([&] { graph.edit().add_output("y"); }), HasSubstr("is an output already"));
  EXPECT_EQ(graph_of(branches()).edit().add_output("c").commit().outputs()[1].dtype, DType::boolean);
}

TEST(GraphEdit, TypesThatNothingSaysMustBeGiven) {
  const Graph graph = graph_of(onnx::testing::model(
      {.graph = onnx::testing::graph(
           {.nodes = {node("Binarizer", {"x"}, {"h"}, {}, "ai.onnx.ml"), node("Relu", {"h"}, {"y"})},
            .inputs = {value("x")},
            .outputs = {value("y")}}),
       .opsets = {onnx::testing::opset("", 18), onnx::testing::opset("ai.onnx.ml", 1)}}));
  EXPECT_THAT(error_of([&] { graph.edit().add_output("h"); }), HasSubstr("give it"));
  ValueSpec spec;
  spec.name = "h";
  spec.dtype = DType::f32;
  spec.has_shape = true;
  spec.shape = {{-1, "n"}};
  EXPECT_EQ(graph.edit().add_output(spec).commit().outputs()[1].shape[0].symbol, "n");
}

TEST(GraphEdit, InitializersAreReplacedConvertedAndFed) {
  const Graph graph = graph_of(chain());
  EXPECT_EQ(graph.initializer("w").to_vector<float>(), (std::vector<float>{10}));
  EXPECT_EQ(run(graph.edit().set_initializer("w", Tensor(std::vector<float>{1}, {1})).commit(), {2}),
            (std::vector<float>{3}));
  const Graph half = graph.edit().convert_initializer("w", DType::f16).commit();
  EXPECT_EQ(half.initializer("w").dtype(), DType::f16);
  EXPECT_EQ(run(half, {2}), (std::vector<float>{12}));
  const Graph fed = graph.edit().initializer_to_input("w").commit();
  ASSERT_EQ(fed.inputs().size(), 2u);
  EXPECT_EQ(fed.inputs()[1].shape[0].value, 1);
  EXPECT_TRUE(fed.initializers().empty());
  EXPECT_THAT(error_of([&] { graph.edit().remove_initializer("v"); }), HasSubstr("no initializer \"v\""));
  EXPECT_THAT(error_of([&] { graph.edit().convert_initializer("w", DType::string); }),
              HasSubstr("cannot be converted"));
}

TEST(GraphEdit, ExtentsAreRenamedAndFixedWhereverTheyStand) {
  ValueSpec spec;
  spec.name = "x";
  spec.dtype = DType::f32;
  spec.has_shape = true;
  spec.shape = {{-1, "unk__1"}};
  GraphEdit edit = graph_of(chain()).edit();
  edit.set_type(spec);
  spec.name = "y";
  edit.set_type(spec).rename_dim("unk__1", "batch");
  EXPECT_EQ(edit.commit().inputs()[0].shape[0].symbol, "batch");
  EXPECT_EQ(edit.commit().outputs()[0].shape[0].symbol, "batch");
  edit.fix_dim("batch", 3);
  EXPECT_EQ(edit.commit().outputs()[0].shape[0].value, 3);
  EXPECT_THAT(error_of([&] { edit.fix_dim("batch", 4); }), HasSubstr("no declared shape has the symbol \"batch\""));
}

TEST(GraphEdit, WhatDoesNotHoldTogetherIsRefusedByName) {
  const Graph graph = graph_of(chain());
  EXPECT_THAT(error_of([&] { graph.edit().remove_node(id_of(graph, "act")).commit(); }), HasSubstr("\"h\""));
  EXPECT_THAT(error_of([&] { graph.edit().set_input(id_of(graph, "sum"), 1, "nowhere").commit(); }),
              HasSubstr("\"nowhere\""));
  EXPECT_THAT(error_of([&] { graph.edit().set_output(id_of(graph, "act"), 0, "y").commit(); }),
              HasSubstr("\"y\" is defined twice"));
  EXPECT_THAT(error_of([&] { graph.edit().set_input(id_of(graph, "act"), 0, "y").commit(); }), HasSubstr("circle"));
  EXPECT_THAT(error_of([&] { graph.edit().set_operator(id_of(graph, "act"), "Gelu").commit(); }),
              HasSubstr("came with opset 20"));
  EXPECT_EQ(run(graph.edit().set_operator(id_of(graph, "act"), "Gelu").set_opset("", 20).commit(), {0}),
            (std::vector<float>{10}));
  EXPECT_THAT(error_of([&] { graph.edit().set_operator(id_of(graph, "act"), "Gelu", "somewhere").commit(); }),
              HasSubstr("\"somewhere\" is used, but not imported"));
  const Graph contrib = graph.edit().set_operator(id_of(graph, "act"), "Gelu", "com.microsoft").commit();
  EXPECT_EQ(onnx::testing::parse(text_of(contrib.to_bytes())).opsets.at("com.microsoft"), 1);
  EXPECT_THAT(error_of([&] { graph.edit().remove_node(9999); }), HasSubstr("no node with the id 9999"));
  EXPECT_THAT(error_of([&] {
                graph.edit().add_node({"Relu", {"x"}, {"z"}, {}, "", ""}, "else");
              }),
              HasSubstr("no scope \"else\""));
}

TEST(GraphEdit, MetadataIsSetAndRemoved) {
  GraphEdit edit = graph_of(chain()).edit();
  edit.set_metadata("vocab_size", "7").set_metadata("vocab_size", "8");
  EXPECT_EQ(Model::from_graph(edit.commit()).metadata_integer("vocab_size", 0), 8);
  edit.remove_metadata("vocab_size");
  EXPECT_EQ(Model::from_graph(edit.commit()).metadata_integer("vocab_size", 0), 0);
}

TEST(GraphEdit, RecordedTypesBehindAChangeAreForgotten) {
  ValueSpec spec;
  spec.name = "h";
  spec.dtype = DType::f32;
  const Graph typed = graph_of(chain()).edit().set_type(spec).commit();
  const auto recorded = [](const Graph& graph) {
    return onnx::testing::parse(text_of(graph.to_bytes())).graph.value_infos.contains("h");
  };
  EXPECT_TRUE(recorded(typed));
  EXPECT_TRUE(recorded(typed.edit().rename_node(id_of(typed, "act"), "other").commit()));
  EXPECT_FALSE(recorded(typed.edit().set_operator(id_of(typed, "act"), "Abs").commit()));
}

TEST(GraphEdit, BytesThatAreNoModel) {
  EXPECT_THAT(error_of([] { graph_of(""); }), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of([] { graph_of("version https://git-lfs.github.com/spec/v1"); }), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(error_of([] { graph_of("no model at all"); }), HasSubstr("not a protobuf message"));
  std::string model = chain();
  EXPECT_THAT(error_of([&] { graph_of(model.substr(0, model.size() - 1)); }), HasSubstr("end early"));
  protozero::pbf_writer(model).add_message(7, onnx::testing::graph({}));
  EXPECT_THAT(error_of([&] { graph_of(model); }), HasSubstr("two graphs"));
  EXPECT_THAT(error_of([] { graph_of(onnx::testing::opset("a", 1)); }), HasSubstr("no graph"));
  // Broken further in, where it shows when somebody looks.
  std::string torn = onnx::testing::tensor("w", 1, {1}, "abcd");
  protozero::pbf_writer(torn).add_bytes(13, "\x0a\x7f");
  const Graph inside = graph_of(onnx::testing::model_of({.nodes = {node("Add", {"x", "w"}, {"y"})},
                                                         .inputs = {value("x")},
                                                         .outputs = {value("y")},
                                                         .initializers = {torn}}));
  EXPECT_THAT(error_of([&] { inside.initializer("w"); }), HasSubstr("end early"));
  EXPECT_THAT(error_of([&] { inside.edit().add_output("w"); }), HasSubstr("end early"));
  EXPECT_THAT(error_of([&] { inside.edit().commit(); }), HasSubstr("end early"));
}

}  // namespace
}  // namespace transmuter
