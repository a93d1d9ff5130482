// If, Loop and Scan in the program: what only the run knows decides there, without a break.
#include <atomic>
#include <thread>

#include "runtime_models.h"

namespace transmuter::runtime::testing {
namespace {

CompiledModel compiled_for(const Model& model, const std::string& backend, int64_t max_loop_trips = 1 << 24) {
  CompileOptions options;
  options.backend = backend;
  options.max_loop_trips = max_loop_trips;
  options.threads = 1;
  return model.compile(options);
}

class ControlFlow : public ::testing::TestWithParam<const char*> {
 protected:
  CompiledModel compiled_here(const GraphParts& parts) const { return compiled_for(load(parts), GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, ControlFlow, ::testing::Values("cpu", "reference"),
                         [](const auto& info) { return std::string(info.param); });

std::string body_of(const std::vector<std::string>& nodes, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  return graph({.nodes = nodes, .inputs = inputs, .outputs = outputs, .name = "body"});
}

TEST_P(ControlFlow, AStateThatGrowsReusesOneTrace) {
  const std::string body = body_of(
      {node("Concat", {"state", "row"}, {"grown"}, {int_attribute("axis", 0)}), node("Identity", {"go"}, {"on"}),
       node("ReduceSum", {"grown"}, {"sum"}, {int_attribute("keepdims", 0)})},
      {value("i", kInt64), value("go", kBool), value("state")}, {value("on", kBool), value("grown"), value("sum")});
  const CompiledModel run =
      compiled_here({.nodes = {node("Loop", {"trips", "", "x"}, {"y", "sums"}, {graph_attribute("body", body)})},
                     .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
                     .outputs = {value("y"), value("sums")},
                     .initializers = {float_tensor("row", {9})}});
  for (const int64_t trips : {3, 0, 7, 3, 40}) {
    for (const int64_t n : {2, 5}) {
      const TensorMap out = run({{"trips", Tensor::scalar(trips)}, {"x", counting({n})}});
      std::vector<float> y = floats_of(counting({n})), sums;
      float sum = static_cast<float>(n * (n - 1) / 2);
      for (int64_t t = 0; t < trips; ++t) {
        y.push_back(9);
        sums.push_back(sum += 9);
      }
      EXPECT_EQ(floats_of(out.at("y")), y);
      EXPECT_EQ(floats_of(out.at("sums")), sums);
    }
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().body_traces, 0);
  EXPECT_EQ(run.stats().breaks, 0);
}

// x doubles while its sum is below a limit: no trip count, the number of rows is known at the end.
GraphParts doubling() {
  const std::string body = body_of(
      {node("Add", {"state", "state"}, {"next"}), node("ReduceSum", {"next"}, {"sum"}, {int_attribute("keepdims", 0)}),
       node("Less", {"sum", "limit"}, {"on"})},
      {value("i", kInt64), value("go", kBool), value("state")}, {value("on", kBool), value("next"), value("next")});
  return {.nodes = {node("ReduceSum", {"x"}, {"first"}, {int_attribute("keepdims", 0)}),
                    node("Less", {"first", "limit"}, {"start"}),
                    node("Loop", {"", "start", "x"}, {"y", "rows"}, {graph_attribute("body", body)}),
                    node("Shape", {"rows"}, {"d"})},
          .inputs = {shaped("x", kFloat, {"n"}), shaped("limit", kFloat, {})},
          .outputs = {value("y"), value("rows"), value("d", kInt64)}};
}

TEST_P(ControlFlow, AConditionOfTheDataEndsALoop) {
  const CompiledModel run = compiled_here(doubling());
  const auto with = [&](float limit) {
    return run({{"x", Tensor(std::vector<float>{1, 2}, {2})}, {"limit", Tensor::scalar(limit)}});
  };
  for (int i = 0; i < 2; ++i) {
    const TensorMap three = with(20);
    EXPECT_EQ(floats_of(three.at("y")), (std::vector<float>{8, 16}));
    EXPECT_EQ(floats_of(three.at("rows")), (std::vector<float>{2, 4, 4, 8, 8, 16}));
    EXPECT_EQ(floats_of(three.at("d")), (std::vector<float>{3, 2}));
    const TensorMap none = with(1);
    EXPECT_EQ(floats_of(none.at("y")), (std::vector<float>{1, 2}));
    EXPECT_EQ(floats_of(none.at("d")), (std::vector<float>{0, 2}));
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

TEST_P(ControlFlow, ALoopThatNeverEndsStopsAtItsCapAndWhenCancelled) {
  const std::string body =
      body_of({node("Abs", {"state"}, {"next"}), node("Equal", {"state", "next"}, {"same"}),
               node("Cast", {"same"}, {"number"}, {int_attribute("to", 7)}),
               node("ReduceMin", {"number"}, {"least"}, {int_attribute("keepdims", 0)}),
               node("Cast", {"least"}, {"on"}, {int_attribute("to", 9)})},
              {value("i", kInt64), value("go", kBool), value("state")}, {value("on", kBool), value("next")});
  const Model model = load({.nodes = {node("Loop", {"", "", "x"}, {"y"}, {graph_attribute("body", body)})},
                            .inputs = {shaped("x", kFloat, {"n"})},
                            .outputs = {value("y")}});
  const TensorMap endless{{"x", Tensor(std::vector<float>{1, 2, 3}, {3})}};
  const TensorMap ends{{"x", Tensor(std::vector<float>{1, -2, 3}, {3})}};
  const CompiledModel capped = compiled_for(model, GetParam(), 1000);
  EXPECT_EQ(floats_of(capped(ends).at("y")), (std::vector<float>{1, 2, 3}));
  try {
    capped(endless);
    FAIL() << "an endless loop ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::limit);
    EXPECT_NE(std::string(error.what()).find("after 1000 trips"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("Loop"), std::string::npos);
  }
  EXPECT_EQ(floats_of(capped(ends).at("y")), (std::vector<float>{1, 2, 3}));
  const std::string warming = error_in([&] { capped.warm_up({.sizes = {{"n", {2, 4}}}}); });
  EXPECT_NE(warming.find("after 1000 trips"), std::string::npos) << warming;

  const CompiledModel run = compiled_for(model, GetParam(), INT64_MAX);
  const CancelToken token;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    token.cancel();
  });
  RunOptions options;
  options.cancel = &token;
  try {
    run(endless, options);
    ADD_FAILURE() << "an endless loop ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled) << error.what();
  }
  other.join();
  EXPECT_EQ(floats_of(run(ends).at("y")), (std::vector<float>{1, 2, 3}));
}

// Both branches are in the program; they differ in size, and one asks of x what it need not be.
TEST_P(ControlFlow, ABranchThatTheDataChooses) {
  const auto branch = [](const std::vector<std::string>& nodes, const std::string& out) {
    return graph({.nodes = nodes, .outputs = {value(out)}, .name = out});
  };
  const CompiledModel run = compiled_here(
      {.nodes = {node("ReduceSum", {"x"}, {"sum"}, {int_attribute("keepdims", 0)}),
                 node("Greater", {"sum", "zero"}, {"positive"}),
                 node("If", {"positive"}, {"y"},
                      {graph_attribute("then_branch", branch({node("Add", {"x", "w"}, {"a"})}, "a")),
                       graph_attribute("else_branch",
                                       branch({node("Concat", {"x", "x"}, {"b"}, {int_attribute("axis", 0)})}, "b"))}),
                 node("Neg", {"y"}, {"z"})},
       .inputs = {shaped("x", kFloat, {"n"}), shaped("w", kFloat, {"m"})},
       .outputs = {value("z")},
       .initializers = {tensor("zero", kFloat, {}, floats({0}))}});
  const auto with = [&](std::vector<float> x, int64_t m) {
    const int64_t n = static_cast<int64_t>(x.size());
    return floats_of(run({{"x", Tensor(x, {n})}, {"w", counting({m})}}).at("z"));
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(with({1, 2, 3}, 3), (std::vector<float>{-1, -3, -5}));
    EXPECT_EQ(with({-1, -2}, 2), (std::vector<float>{1, 2, 1, 2}));
    EXPECT_EQ(with({-1, -2}, 4), (std::vector<float>{1, 2, 1, 2}));  // the branch that would fail is not taken
    const std::string error = error_in([&] { with({1, 2}, 4); });
    EXPECT_NE(error.find("Add"), std::string::npos) << error;
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

TEST_P(ControlFlow, ScansAlongAnyAxisEitherWay) {
  const std::string body = body_of({node("Add", {"sum", "row"}, {"next"}), node("Identity", {"next"}, {"out"})},
                                   {value("sum"), value("row")}, {value("next"), value("out")});
  const CompiledModel run = compiled_here(
      {.nodes = {node("Scan", {"start", "x"}, {"last", "all"},
                      {graph_attribute("body", body), int_attribute("num_scan_inputs", 1),
                       ints_attribute("scan_input_axes", {1}), ints_attribute("scan_input_directions", {1}),
                       ints_attribute("scan_output_axes", {-1}), ints_attribute("scan_output_directions", {1})})},
       .inputs = {shaped("start", kFloat, {2}), shaped("x", kFloat, {2, "t"})},
       .outputs = {value("last"), value("all")}});
  for (const int64_t t : {3, 5}) {
    const TensorMap out = run({{"start", Tensor(std::vector<float>{0, 0}, {2})}, {"x", counting({2, t})}});
    std::vector<float> all(static_cast<size_t>(2 * t));
    for (int64_t r = 0; r < 2; ++r) {
      float sum = 0;
      for (int64_t i = t; i-- > 0;) all[static_cast<size_t>(r * t + i)] = sum += static_cast<float>(r * t + i);
      EXPECT_EQ(floats_of(out.at("last"))[static_cast<size_t>(r)], sum);
    }
    EXPECT_EQ(floats_of(out.at("all")), all);
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

TEST_P(ControlFlow, AScanWithAxesForSomeOfItsInputsIsRefused) {
  const std::string body = body_of({node("Add", {"a", "b"}, {"sum"})}, {value("a"), value("b")}, {value("sum")});
  const CompiledModel run =
      compiled_here({.nodes = {node("Scan", {"x", "x"}, {"all"},
                                    {graph_attribute("body", body), int_attribute("num_scan_inputs", 2),
                                     ints_attribute("scan_input_axes", {1})})},
                     .inputs = {shaped("x", kFloat, {2, "t"})},
                     .outputs = {value("all")}});
  const std::string error = error_in([&] { run({{"x", counting({2, 3})}}); });
  EXPECT_NE(error.find("scan_input_axes needs 2 values"), std::string::npos) << error;
}

// Trip i appends i + 1 copies of x[i].
GraphParts appending(const std::vector<std::string>& after, const std::vector<std::string>& outputs) {
  const std::string body =
      body_of({node("SequenceAt", {"parts", "i"}, {"part"}), node("Add", {"i", "one"}, {"length"}),
               node("Unsqueeze", {"length", "axis"}, {"shape"}), node("Expand", {"part", "shape"}, {"item"}),
               node("SequenceInsert", {"list", "item"}, {"longer"}), node("Identity", {"go"}, {"on"})},
              {value("i", kInt64), value("go", kBool), value("list", 0)}, {value("on", kBool), value("longer", 0)});
  GraphParts parts{.nodes = {node("SplitToSequence", {"x"}, {"parts"}, {int_attribute("axis", 0)}),
                             node("SequenceLength", {"parts"}, {"n"}), node("SequenceEmpty", {}, {"empty"}),
                             node("Loop", {"n", "", "empty"}, {"list"}, {graph_attribute("body", body)})},
                   .inputs = {shaped("x", kFloat, {"n"})},
                   .outputs = outputs,
                   .initializers = {int64_tensor("one", {1}, true), int64_tensor("axis", {0})}};
  parts.nodes.insert(parts.nodes.end(), after.begin(), after.end());
  return parts;
}

TEST_P(ControlFlow, SequencesAreCarried) {
  const CompiledModel run =
      compiled_here(appending({node("ConcatFromSequence", {"list"}, {"y"}, {int_attribute("axis", 0)}),
                               node("SequenceLength", {"list"}, {"c"})},
                              {value("y"), value("c", kInt64)}));
  for (const int64_t n : {3, 4, 6}) {
    const TensorMap out = run({{"x", counting({n})}});
    std::vector<float> y;
    for (int64_t i = 0; i < n; ++i) y.insert(y.end(), static_cast<size_t>(i + 1), static_cast<float>(i));
    EXPECT_EQ(floats_of(out.at("y")), y);
    EXPECT_EQ(floats_of(out.at("c")), (std::vector<float>{static_cast<float>(n)}));
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
  EXPECT_EQ(run.stats().specializations, 0);
}

TEST_P(ControlFlow, ACarriedSequenceLeavesAsOne) {
  const CompiledModel run = compiled_here(appending({}, {value("list", 0)}));
  const Value list = run({{"x", counting({3})}}).at("list");
  ASSERT_EQ(list.kind, Value::Kind::sequence);
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_EQ(floats_of(list.items[2]), (std::vector<float>{2, 2, 2}));
}

// y = sum over i < n, j < i of x[j]: a loop in a loop, whose length is a value of the outer one.
TEST_P(ControlFlow, LoopsNest) {
  const std::string inner = body_of(
      {node("Gather", {"x", "j"}, {"one"}), node("Add", {"sum", "one"}, {"next"}), node("Identity", {"go2"}, {"on2"})},
      {value("j", kInt64), value("go2", kBool), value("sum")}, {value("on2", kBool), value("next")});
  const std::string outer = body_of(
      {node("Loop", {"i", "", "total"}, {"more"}, {graph_attribute("body", inner)}), node("Identity", {"go"}, {"on"})},
      {value("i", kInt64), value("go", kBool), value("total")}, {value("on", kBool), value("more")});
  const CompiledModel run =
      compiled_here({.nodes = {node("Loop", {"n", "", "zero"}, {"y"}, {graph_attribute("body", outer)})},
                     .inputs = {shaped("n", kInt64, {}), shaped("x", kFloat, {"k"})},
                     .outputs = {value("y")},
                     .initializers = {tensor("zero", kFloat, {}, floats({0}))}});
  for (const int64_t n : {4, 0, 6}) {
    float y = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < i; ++j) y += static_cast<float>(j);
    EXPECT_EQ(floats_of(run({{"n", Tensor::scalar(n)}, {"x", counting({8})}}).at("y")), (std::vector<float>{y}));
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

// A length that the model computes (text to speech), and bounds of a Slice.
TEST_P(ControlFlow, ValuesOfTheRunAreSizes) {
  const CompiledModel run =
      compiled_here({.nodes = {node("ReduceMax", {"x"}, {"most"}, {int_attribute("keepdims", 0)}),
                               node("Cast", {"most"}, {"length"}, {int_attribute("to", 7)}),
                               node("Range", {"from", "length", "step"}, {"positions"}),
                               node("Unsqueeze", {"length", "axis"}, {"end"}), node("Sub", {"end", "two"}, {"start"}),
                               node("Slice", {"table", "start", "end"}, {"last"}), node("Neg", {"last"}, {"y"})},
                     .inputs = {shaped("x", kFloat, {"n"}), shaped("table", kFloat, {"k"})},
                     .outputs = {value("positions", kInt64), value("y")},
                     .initializers = {int64_tensor("from", {0}, true), int64_tensor("step", {1}, true),
                                      int64_tensor("axis", {0}), int64_tensor("two", {2})}});
  for (const float length : {3.F, 5.F, 2.F, 1.F}) {
    const TensorMap out = run({{"x", Tensor(std::vector<float>{1, length, 0}, {3})}, {"table", counting({6})}});
    std::vector<float> positions;
    for (float i = 0; i < length; ++i) positions.push_back(i);
    EXPECT_EQ(floats_of(out.at("positions")), positions);
    // At length 1 the start is -1: the last element, and the end lies before it.
    const std::vector<float> y = length < 2 ? std::vector<float>() : std::vector<float>{2 - length, 1 - length};
    EXPECT_EQ(floats_of(out.at("y")), y);
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

// Sizes that must agree and don't: an error that names the node, and the next call works.
TEST_P(ControlFlow, AFailedAssertionNamesItsNodeAndTheNextCallWorks) {
  const CompiledModel run = compiled_here({.nodes = {node("Add", {"a", "b"}, {"y"})},
                                           .inputs = {shaped("a", kFloat, {"n"}), shaped("b", kFloat, {"m"})},
                                           .outputs = {value("y")}});
  const auto with = [&](int64_t n, int64_t m) { return run({{"a", counting({n})}, {"b", counting({m})}}); };
  EXPECT_EQ(floats_of(with(3, 3).at("y")), (std::vector<float>{0, 2, 4}));
  const std::string error = error_in([&] { with(3, 4); });
  EXPECT_NE(error.find("Add"), std::string::npos) << error;
  EXPECT_NE(error.find("extent 0 of input"), std::string::npos) << error;
  EXPECT_EQ(floats_of(with(4, 4).at("y")), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(run.stats().traces, 1);
}

}  // namespace
}  // namespace transmuter::runtime::testing
