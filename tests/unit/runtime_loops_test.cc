// Loops of the kinds that a program holds only after some rewriting, and those that the host drives: what is counted.
#include "runtime_models.h"

namespace transmuter::runtime::testing {
namespace {

class Loops : public ::testing::TestWithParam<const char*> {
 protected:
  static CompiledModel compiled_here(const Model& model) {
    CompileOptions options;
    options.backend = GetParam();
    options.threads = 1;
    return model.compile(options);
  }
  // A call gives what the walk over the nodes gives.
  static void expect_as_eager(const Model& model, const CompiledModel& run, const TensorMap& inputs) {
    const TensorMap eager = model.run(inputs, "reference"), got = run(inputs);
    EXPECT_EQ(got.size(), eager.size());
    for (const auto& [name, value] : eager) {
      if (value.kind == Value::Kind::sequence) {
        ASSERT_EQ(got.at(name).items.size(), value.items.size()) << name;
        for (size_t i = 0; i < value.items.size(); ++i) expect_same(got.at(name).items[i], value.items[i], name);
      } else {
        expect_same(got.at(name), value, name);
      }
    }
  }
  static void expect_same(const Value& got, const Value& expected, const std::string& name) {
    EXPECT_EQ(got.tensor.shape(), expected.tensor.shape()) << name;
    EXPECT_EQ(floats_of(got), floats_of(expected)) << name;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Loops, ::testing::Values("cpu", "reference"),
                         [](const auto& info) { return std::string(info.param); });

std::string body_of(const std::vector<std::string>& nodes, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  return graph({.nodes = nodes, .inputs = inputs, .outputs = outputs, .name = "body"});
}

// Sums along the sequence, of each of a batch; `w` is read from outside.
GraphParts batched_scan(bool with_lengths, int64_t direction) {
  const std::string body = body_of({node("Mul", {"row", "w"}, {"scaled"}), node("Add", {"sum", "scaled"}, {"next"}),
                                    node("Identity", {"next"}, {"out"})},
                                   {value("sum"), value("row")}, {value("next"), shaped("out", kFloat, {2})});
  GraphParts parts{
      .nodes = {node("Scan", {with_lengths ? "lengths" : "", "start", "x"}, {"last", "all"},
                     {graph_attribute("body", body), int_attribute("num_scan_inputs", 1),
                      ints_attribute("directions", {direction})})},
      .inputs = {shaped("start", kFloat, {"b", 2}), shaped("x", kFloat, {"b", "t", 2}), shaped("w", kFloat, {1})},
      .outputs = {value("last"), value("all")}};
  if (with_lengths) parts.inputs.push_back(shaped("lengths", kInt64, {"b"}));
  return parts;
}

TEST_P(Loops, AScanOverABatchIsInTheProgram) {
  for (const bool with_lengths : {false, true}) {
    for (const int64_t direction : {0, 1}) {
      const Model model = load(batched_scan(with_lengths, direction), 8);
      const CompiledModel run = compiled_here(model);
      for (const auto& [b, t] : {std::pair<int64_t, int64_t>{2, 3}, {3, 5}, {4, 2}}) {
        TensorMap inputs{{"start", counting({b, 2})}, {"x", counting({b, t, 2})}, {"w", counting({1})}};
        inputs["w"] = Tensor(std::vector<float>{3}, {1});
        std::vector<int64_t> lengths(static_cast<size_t>(b), t);
        if (with_lengths) {
          lengths[0] = t - 1;
          lengths[1] = 0;
          inputs["lengths"] = Tensor(lengths, {b});
        }
        const TensorMap out = run(inputs);
        std::vector<float> last, all;
        for (int64_t i = 0; i < b; ++i) {
          std::vector<float> sums{static_cast<float>(2 * i), static_cast<float>(2 * i + 1)};
          for (int64_t s = 0; s < t; ++s) {
            const int64_t length = lengths[static_cast<size_t>(i)];
            for (int64_t c = 0; c < 2; ++c) {
              const int64_t row = direction ? length - 1 - s : s;
              float& sum = sums[static_cast<size_t>(c)];
              if (s < length) sum += 3 * static_cast<float>((i * t + row) * 2 + c);
              all.push_back(s < length ? sum : 0);
            }
          }
          last.insert(last.end(), sums.begin(), sums.end());
        }
        EXPECT_EQ(floats_of(out.at("last")), last);
        EXPECT_EQ(floats_of(out.at("all")), all);
        EXPECT_EQ(out.at("all").tensor.shape(), (Shape{b, t, 2}));
        expect_as_eager(model, run, inputs);
      }
      EXPECT_EQ(run.stats().traces, 1);
      EXPECT_EQ(run.stats().breaks, 0);
    }
  }
}

TEST_P(Loops, ALengthThatAScanCannotHaveIsRefused) {
  const Model model = load(batched_scan(true, 0), 8);
  const CompiledModel run = compiled_here(model);
  TensorMap inputs{{"start", counting({2, 2})}, {"x", counting({2, 3, 2})}, {"w", counting({1})}};
  for (const int64_t bad : {4, -1}) {
    inputs["lengths"] = Tensor(std::vector<int64_t>{3, bad}, {2});
    const std::string error = error_in([&] { run(inputs); });
    EXPECT_NE(error.find("node Scan_0"), std::string::npos) << error;
    inputs["lengths"] = Tensor(std::vector<int64_t>{3, 1}, {2});
    expect_as_eager(model, run, inputs);
  }
}

// Items of a sequence whose length only the run knows, two of them and a tensor that all share.
TEST_P(Loops, ASequenceMapOverItemsInOneTensorIsInTheProgram) {
  const std::string body = body_of({node("Add", {"a", "c"}, {"moved"}), node("Mul", {"moved", "b"}, {"product"}),
                                    node("NonZero", {"product"}, {"places"})},
                                   {value("a"), value("c"), value("b")}, {value("product"), value("places", kInt64)});
  const Model model =
      load({.nodes = {node("SplitToSequence", {"x"}, {"xs"}, {int_attribute("axis", 0), int_attribute("keepdims", 0)}),
                      node("SplitToSequence", {"y"}, {"ys"}, {int_attribute("axis", 0), int_attribute("keepdims", 0)}),
                      node("SequenceMap", {"xs", "c", "ys"}, {"products", "places"}, {graph_attribute("body", body)}),
                      node("ConcatFromSequence", {"products"}, {"p"},
                           {int_attribute("axis", 0), int_attribute("new_axis", 1)}),
                      node("ConcatFromSequence", {"places"}, {"at"}, {int_attribute("axis", 1)}),
                      node("SequenceLength", {"products"}, {"n"})},
            .inputs = {shaped("x", kFloat, {"n", 3}), shaped("y", kFloat, {"n", 3}), shaped("c", kFloat, {3})},
            .outputs = {value("p"), value("at", kInt64), value("n", kInt64)}});
  const CompiledModel run = compiled_here(model);
  for (const int64_t n : {3, 2, 7}) {
    const TensorMap inputs{{"x", counting({n, 3})}, {"y", counting({n, 3})}, {"c", counting({3})}};
    expect_as_eager(model, run, inputs);
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

// More items than are written out one by one.
TEST_P(Loops, ASequenceMapOverManyItemsIsALoop) {
  GraphParts parts{.inputs = {shaped("x", kFloat, {"n"})}, .outputs = {value("mapped", 0)}};
  Strings names;
  for (int i = 0; i < 70; ++i) {
    names.push_back("x" + std::to_string(i));
    parts.initializers.push_back(float_tensor("c" + std::to_string(i), {static_cast<float>(i)}));
    parts.nodes.push_back(node("Add", {"x", "c" + std::to_string(i)}, {names.back()}));
  }
  const std::string body = body_of({node("Mul", {"item", "item"}, {"square"})}, {value("item")}, {value("square")});
  parts.nodes.push_back(node("SequenceConstruct", names, {"items"}));
  parts.nodes.push_back(node("SequenceMap", {"items"}, {"mapped"}, {graph_attribute("body", body)}));
  const Model model = load(parts);
  const CompiledModel run = compiled_here(model);
  for (const int64_t n : {3, 5}) expect_as_eager(model, run, {{"x", counting({n})}});
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
}

TEST_P(Loops, ASequenceMapDrawsAnewForEachItem) {
  const std::string body = body_of({node("RandomUniformLike", {"item"}, {"draw"})}, {value("item")}, {value("draw")});
  const Model model = load({.nodes = {node("SequenceConstruct", {"x", "x", "x"}, {"items"}),
                                      node("SequenceMap", {"items"}, {"draws"}, {graph_attribute("body", body)})},
                            .inputs = {shaped("x", kFloat, {"n"})},
                            .outputs = {value("draws", 0)}});
  const CompiledModel run = compiled_here(model);
  const Value draws = run({{"x", counting({4})}}).at("draws");
  ASSERT_EQ(draws.items.size(), 3u);
  EXPECT_NE(floats_of(draws.items[0]), floats_of(draws.items[1]));
  EXPECT_NE(floats_of(draws.items[1]), floats_of(draws.items[2]));
  EXPECT_EQ(run.stats().breaks, 0);
}

// A state that is a scalar before the first trip and a list after it: that trip stands before the loop.
TEST_P(Loops, AStateWhoseRankSettlesIsInTheProgram) {
  const std::string body = body_of(
      {node("Add", {"state", "w"}, {"next"}), node("Identity", {"go"}, {"on"}),
       node("Cast", {"i"}, {"f"}, {int_attribute("to", 1)}), node("Add", {"next", "f"}, {"row"})},
      {value("i", kInt64), value("go", kBool), value("state")}, {value("on", kBool), value("next"), value("row")});
  const Model model =
      load({.nodes = {node("Loop", {"trips", "", "start"}, {"y", "rows"}, {graph_attribute("body", body)})},
            .inputs = {shaped("trips", kInt64, {}), shaped("start", kFloat, {}), shaped("w", kFloat, {"n"})},
            .outputs = {value("y"), value("rows")}});
  const CompiledModel run = compiled_here(model);
  for (const int64_t trips : {4, 1, 6}) {
    for (const int64_t n : {2, 3}) {
      const TensorMap inputs{{"trips", Tensor::scalar(trips)}, {"start", Tensor::scalar(1.F)}, {"w", counting({n})}};
      expect_as_eager(model, run, inputs);
    }
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
  // Without a trip the scalar stays: a trace of its own, which the host drives.
  const TensorMap none{{"trips", Tensor::scalar(int64_t{0})}, {"start", Tensor::scalar(1.F)}, {"w", counting({2})}};
  EXPECT_EQ(run(none).at("y").tensor.shape(), Shape{});
  EXPECT_EQ(run.stats().traces, 2);
}

// Rows that no trip makes have the shape that a trip would give them, whoever drives the loop: in the program with a
// state that keeps its shape, with one that another follows, by the host, or node by node.
TEST_P(Loops, WithoutATripRowsKeepTheShapeOfOne) {
  struct Case {
    const char* what;
    std::vector<std::string> nodes;
    Shape rows;
  };
  const Case cases[] = {
      {"in the program", {node("Add", {"state", "w"}, {"next"}), node("MatMul", {"next", "m"}, {"row"})}, {0, 2, 4}},
      {"the state changes", {node("Add", {"state", "w"}, {"row"}), node("MatMul", {"row", "m"}, {"next"})}, {0, 2, 3}},
      {"another rank",
       {node("Unsqueeze", {"state", "axis"}, {"next"}), node("Add", {"state", "w"}, {"row"})},
       {0, 2, 3}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    std::vector<std::string> nodes = c.nodes;
    nodes.push_back(node("Identity", {"go"}, {"on"}));
    const std::string body = body_of(nodes, {value("i", kInt64), value("go", kBool), value("state")},
                                     {value("on", kBool), value("next"), value("row")});
    const Model model =
        load({.nodes = {node("Loop", {"trips", "", "start"}, {"y", "rows"}, {graph_attribute("body", body)})},
              .inputs = {shaped("trips", kInt64, {}), shaped("start", kFloat, {"a", "b"}), shaped("w", kFloat, {"b"}),
                         shaped("m", kFloat, {"b", "c"})},
              .outputs = {value("y"), value("rows")},
              .initializers = {int64_tensor("axis", {0})}});
    const TensorMap inputs{{"trips", Tensor::scalar(int64_t{0})},
                           {"start", counting({2, 3})},
                           {"w", counting({3})},
                           {"m", counting({3, 4})}};
    EXPECT_EQ(compiled_here(model)(inputs).at("rows").tensor.shape(), c.rows);
    EXPECT_EQ(model.run(inputs, GetParam()).at("rows").tensor.shape(), c.rows);
  }
}

// A state of one rank more each trip: a trace of the body for each rank, made once.
TEST_P(Loops, AStateWhoseRankGrowsTakesATraceOfTheBodyForEachRank) {
  const std::string body = body_of(
      {node("Unsqueeze", {"state", "axis"}, {"higher"}),
       node("Concat", {"higher", "higher"}, {"next"}, {int_attribute("axis", 0)}), node("Identity", {"go"}, {"on"})},
      {value("i", kInt64), value("go", kBool), value("state")}, {value("on", kBool), value("next")});
  const Model model = load({.nodes = {node("Loop", {"trips", "", "x"}, {"y"}, {graph_attribute("body", body)})},
                            .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
                            .outputs = {value("y")},
                            .initializers = {int64_tensor("axis", {0})}});
  const CompiledModel run = compiled_here(model);
  for (const int64_t n : {2, 5, 3}) {
    const TensorMap inputs{{"trips", Tensor::scalar(int64_t{3})}, {"x", counting({n})}};
    EXPECT_EQ(run(inputs).at("y").tensor.shape(), (Shape{2, 2, 2, n}));
    expect_as_eager(model, run, inputs);
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().body_traces, 3);
}

// What the host drives reuses the traces of the body, whatever the sizes.
TEST_P(Loops, ABodyThatTheHostDrivesReusesItsTraces) {
  // The sequence is edited in its middle, so no program holds it; the state grows by a row a trip.
  const std::string body =
      body_of({node("SequenceErase", {"list", "zero"}, {"shorter"}),
               node("Concat", {"state", "row"}, {"grown"}, {int_attribute("axis", 0)}),
               node("SequenceInsert", {"shorter", "grown"}, {"longer"}),
               node("ReduceSum", {"grown"}, {"sum"}, {int_attribute("keepdims", 0)}), node("Identity", {"go"}, {"on"})},
              {value("i", kInt64), value("go", kBool), value("list", 0), value("state")},
              {value("on", kBool), value("longer", 0), value("grown"), value("sum")});
  const Model model =
      load({.nodes = {node("SequenceConstruct", {"x", "x"}, {"list"}),
                      node("Loop", {"trips", "", "list", "x"}, {"left", "y", "sums"}, {graph_attribute("body", body)})},
            .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
            .outputs = {value("left", 0), value("y"), value("sums")},
            .initializers = {float_tensor("row", {9}), int64_tensor("zero", {0}, true)}});
  const CompiledModel run = compiled_here(model);
  for (const int64_t trips : {5, 2, 20}) {
    for (const int64_t n : {2, 4, 9}) {
      expect_as_eager(model, run, {{"trips", Tensor::scalar(trips)}, {"x", counting({n})}});
    }
  }
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_LE(run.stats().body_traces, 3);
  EXPECT_GE(run.stats().body_traces, 1);
}

}  // namespace
}  // namespace transmuter::runtime::testing
