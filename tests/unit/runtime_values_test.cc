// Sequences, optionals, strings and maps in and out of models, and inputs whose values are known while tracing.
#include "runtime_testing.h"
#include "transmuter/io.h"

namespace transmuter::runtime {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

// A value whose type is sequence or optional (`field` 4 or 9) of tensors.
std::string container(const std::string& name, uint32_t field, int32_t type = kFloat) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  protozero::pbf_writer type_writer(writer, 2);
  protozero::pbf_writer outer(type_writer, field);
  protozero::pbf_writer element(outer, 1);
  protozero::pbf_writer tensor_writer(element, 1);
  tensor_writer.add_int32(1, type);
  return out;
}
std::string sequence(const std::string& name) { return container(name, 4); }

// map(key, value)
std::string map_value(const std::string& name, int32_t key, int32_t type) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  protozero::pbf_writer type_writer(writer, 2);
  protozero::pbf_writer map(type_writer, 5);
  map.add_int32(1, key);
  protozero::pbf_writer element(map, 2);
  protozero::pbf_writer tensor_writer(element, 1);
  tensor_writer.add_int32(1, type);
  return out;
}

Value of(const std::vector<Tensor>& tensors) {
  return Value::sequence(std::vector<Value>(tensors.begin(), tensors.end()));
}

std::vector<CompiledModel> both(const Model& model) {
  CompileOptions options, eager;
  eager.eager = true;
  return {model.compile(options), model.compile(eager)};
}

GraphParts joins() {
  return {.nodes = {node("ConcatFromSequence", {"s"}, {"y"}, {int_attribute("axis", 0)}),
                    node("SequenceAt", {"s", "last"}, {"tail"}), node("Add", {"tail", "tail"}, {"twice"}),
                    node("SequenceInsert", {"s", "twice"}, {"longer"}), node("SequenceLength", {"longer"}, {"n"})},
          .inputs = {sequence("s")},
          .outputs = {value("y"), sequence("longer"), value("n", kInt64)},
          .initializers = {int64_tensor("last", {-1}, true)}};
}

TEST(Values, SequencesGoInAndOut) {
  for (const CompiledModel& run : both(load(joins()))) {
    for (const size_t count : {2u, 2u, 3u, 5u}) {
      std::vector<Tensor> items;
      for (size_t i = 0; i < count; ++i) items.push_back(counting({static_cast<int64_t>(i + 2)}));
      const TensorMap out = run({{"s", of(items)}});
      EXPECT_EQ(floats_of(out.at("y")).size(), count * (count + 3) / 2);
      const Value& longer = out.at("longer");
      ASSERT_EQ(longer.kind, Value::Kind::sequence);
      ASSERT_EQ(longer.items.size(), count + 1);
      EXPECT_EQ(floats_of(longer.items[count])[1], 2);
      EXPECT_EQ(floats_of(out.at("n"))[0], float(count + 1));
    }
  }
}

// The tensors of a sequence are inputs like others while its length stays; when that changes, one more trace does for
// every length.
TEST(Values, ASequenceOfOtherLengthMakesOneMoreTraceAtMost) {
  const CompiledModel run = load(joins()).compile();
  run({{"s", of({counting({2}), counting({3})})}});
  run({{"s", of({counting({5}), counting({9})})}});
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().breaks, 0);
  for (const size_t count : {3u, 4u, 5u, 2u}) run({{"s", of(std::vector<Tensor>(count, counting({2})))}});
  EXPECT_LE(run.stats().traces, 2);
}

TEST(Values, OptionalsGoInAndOut) {
  const Model model = load({.nodes = {node("OptionalHasElement", {"o"}, {"has"}), node("Identity", {"o"}, {"same"})},
                            .inputs = {container("o", 9)},
                            .outputs = {value("has", kBool), container("same", 9)}});
  for (const CompiledModel& run : both(model)) {
    const TensorMap full = run({{"o", Value::optional({counting({2})})}});
    EXPECT_EQ(floats_of(full.at("has"))[0], 1);
    ASSERT_EQ(full.at("same").items.size(), 1u);
    const TensorMap nothing = run({{"o", Value::optional({})}});
    EXPECT_EQ(floats_of(nothing.at("has"))[0], 0);
    EXPECT_EQ(nothing.at("same").kind, Value::Kind::optional);
    EXPECT_TRUE(nothing.at("same").items.empty());
  }
  const Model get = load({.nodes = {node("OptionalGetElement", {"o"}, {"x"}), node("Add", {"x", "x"}, {"y"})},
                          .inputs = {container("o", 9)},
                          .outputs = {value("y")}});
  for (const CompiledModel& run : both(get)) {
    EXPECT_EQ(floats_of(run({{"o", Value::optional({counting({3})})}}).at("y")), (std::vector<float>{0, 2, 4}));
    EXPECT_NE(error_in([&] { run({{"o", Value::optional({})}}); }).find("the optional is empty"), std::string::npos);
    EXPECT_EQ(floats_of(run({{"o", Value::optional({counting({2})})}}).at("y")), (std::vector<float>{0, 2}));
  }
}

TEST(Values, MapsGoInAndOut) {
  const std::string dictionary =
      node("DictVectorizer", {"m"}, {"x"}, {strings_attribute("string_vocabulary", {"b", "a", "c"})}, "ai.onnx.ml");
  const std::string zip =
      node("ZipMap", {"y"}, {"maps"}, {strings_attribute("classlabels_strings", {"p", "q", "r"})}, "ai.onnx.ml");
  std::string bytes = model({.graph = graph({.nodes = {dictionary, node("Add", {"x", "x"}, {"y"}), zip},
                                             .inputs = {map_value("m", kString, kFloat)},
                                             .outputs = {value("y"), value("maps", 0)}}),
                             .opsets = {opset("", 18), opset("ai.onnx.ml", 3)}});
  const Model model = load(bytes);
  ASSERT_EQ(model.inputs()[0].kind, Value::Kind::map);
  EXPECT_EQ(model.inputs()[0].key_dtype, DType::string);
  for (const CompiledModel& run : both(model)) {
    const TensorMap out =
        run({{"m", Value::map(Tensor::of_strings({"a", "b"}, {2}), Tensor(std::vector<float>{1, 2}, {2}))}});
    EXPECT_EQ(floats_of(out.at("y")), (std::vector<float>{4, 2, 0}));
    const Value& maps = out.at("maps");
    ASSERT_EQ(maps.items.size(), 1u);
    EXPECT_EQ(maps.items[0].keys.strings(), (Strings{"p", "q", "r"}));
    EXPECT_EQ(maps.items[0].tensor.to_vector<float>(), (std::vector<float>{4, 2, 0}));
    EXPECT_NE(error_in([&] { run({{"m", Value(counting({2}))}}); }).find("input m: expected a map"), std::string::npos);
    const Value integers = Value::map(Tensor(std::vector<int64_t>{1}, {1}), counting({1}));
    EXPECT_NE(error_in([&] {
                run({{"m", integers}});
              }).find("expected a map from string to float32"),
              std::string::npos);
  }
  EXPECT_NE(error_in([] { Value::map(counting({2}), counting({2})); }), "");
  EXPECT_NE(error_in([] { Value::map(Tensor::of_strings({"a"}, {1}), counting({2})); }), "");
}

// What does not fit is named, and the model still works.
TEST(Values, OfAnotherTypeAreRefused) {
  for (const CompiledModel& run : both(load(joins()))) {
    const TensorMap good{{"s", of({counting({2}), counting({3})})}};
    const auto refused = [&](const Value& given) { return error_in([&] { run({{"s", given}}); }); };
    EXPECT_NE(refused(counting({2})).find("input s: expected a sequence"), std::string::npos);
    EXPECT_NE(refused(of({counting({2}), Tensor::scalar(int64_t{1})})).find("input s[1]: expected float32, got int64"),
              std::string::npos);
    EXPECT_NE(refused(Value::sequence({of({counting({2})})})).find("input s[0]: expected a tensor"), std::string::npos);
    EXPECT_NE(refused(of({})).find("node ConcatFromSequence_0"), std::string::npos);
    EXPECT_NE(refused(of({counting({2}), counting({3, 1})})), "");
    EXPECT_EQ(floats_of(run(good).at("y")).size(), 5u);
  }
}

TEST(Values, FilesHoldEveryKind) {
  const Value map = Value::map(Tensor(std::vector<int64_t>{3, 1}, {2}), Tensor::of_strings({"x", "y"}, {2}));
  Value empty = Value::sequence({});
  empty.element = DType::f32;
  const std::vector<Value> values{counting({2, 3}),           of({counting({2}), counting({1, 1})}),  empty,
                                  Value::optional({}),        Value::optional({of({counting({1})})}), map,
                                  Value::sequence({map, map})};
  for (const Value& v : values) {
    const std::string path = ::testing::TempDir() + "value.pb";
    write_value(path, v, "named");
    EXPECT_EQ(value_name(path), "named");
    ValueSpec spec;
    spec.kind = v.kind;
    const Value read = read_value(path, &spec);
    ASSERT_EQ(read.kind, v.kind);
    ASSERT_EQ(read.items.size(), v.items.size());
    if (v.kind == Value::Kind::map) {
      EXPECT_EQ(read.keys.to_vector<int64_t>(), v.keys.to_vector<int64_t>());
      EXPECT_EQ(read.tensor.strings(), v.tensor.strings());
    }
    if (v.is_tensor()) {
      EXPECT_EQ(floats_of(read), floats_of(v));
    }
  }
  EXPECT_NE(error_in([] { write_value(::testing::TempDir() + "none.pb", Value()); }), "");
}

// y = x summed over the axis that `mode` decides on: a float that no lowering could read otherwise.
GraphParts steered() {
  return {.nodes = {node("Mul", {"x", "factor"}, {"scaled"}), node("Range", {"zero", "factor", "one"}, {"steps"}),
                    node("Add", {"scaled", "steps"}, {"y"})},
          .inputs = {shaped("x", kFloat, {"n"}), shaped("factor", kFloat, {})},
          .outputs = {value("y")},
          .initializers = {tensor("zero", kFloat, {}, floats({0})), tensor("one", kFloat, {}, floats({1}))}};
}

TEST(StaticInputs, AreKnownWhileTracing) {
  const Model model = load(steered());
  CompileOptions options;
  const CompiledModel breaks = model.compile(options);
  options.static_inputs = {"factor"};
  const CompiledModel run = model.compile(options);
  for (const float factor : {3.0F, 5.0F, 3.0F}) {
    const TensorMap inputs{{"x", counting({static_cast<int64_t>(factor)})}, {"factor", Tensor::scalar(factor)}};
    EXPECT_EQ(floats_of(run(inputs).at("y")), floats_of(breaks(inputs).at("y")));
  }
  EXPECT_EQ(breaks.stats().breaks, 1);
  EXPECT_EQ(run.stats().breaks, 0);
  EXPECT_EQ(run.stats().traces, 2);  // one a value
}

TEST(StaticInputs, ThatAreMissingOrUnknownAreErrors) {
  const Model model = load(steered());
  CompileOptions options;
  options.static_inputs = {"factor"};
  const CompiledModel run = model.compile(options);
  const TensorMap good{{"x", counting({2})}, {"factor", Tensor::scalar(2.0F)}};
  run(good);
  const std::string missing = error_in([&] { run({{"x", counting({2})}}); });
  EXPECT_NE(missing.find("input factor: missing; it is a static input"), std::string::npos) << missing;
  EXPECT_EQ(floats_of(run(good).at("y")), (std::vector<float>{0, 3}));
  options.static_inputs = {"faktor"};
  EXPECT_NE(error_in([&] { model.compile(options); }).find("static input faktor"), std::string::npos);
}

// What strings alone decide is computed once, with no break left.
TEST(StaticInputs, StringsFold) {
  const Model model = load({.nodes = {node("StringNormalizer", {"words"}, {"upper"}),
                                      node("Shape", {"upper"}, {"count"}), node("Expand", {"x", "count"}, {"y"})},
                            .inputs = {shaped("words", kString, {"w"}), shaped("x", kFloat, {1})},
                            .outputs = {value("y"), value("upper", kString)}});
  CompileOptions options;
  options.static_inputs = {"words"};
  const CompiledModel run = model.compile(options);
  const TensorMap inputs{{"words", Tensor::of_strings({"a", "b", "c"}, {3})},
                         {"x", Tensor(std::vector<float>{4}, {1})}};
  const TensorMap out = run(inputs);
  EXPECT_EQ(floats_of(out.at("y")), (std::vector<float>{4, 4, 4}));
  EXPECT_EQ(out.at("upper").tensor.strings(), (Strings{"a", "b", "c"}));
  EXPECT_EQ(run.stats().breaks, 0);
}

}  // namespace
}  // namespace transmuter::runtime
