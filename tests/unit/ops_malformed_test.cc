// Nodes whose tensors have ranks, and whose attributes have values, that an operator cannot take: one Error that names
// the operator, never a read past a shape, a wrapped product of sizes or a loop without end. The fuzzer found each.
#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

constexpr int32_t kUint8 = 2, kInt8 = 3, kInt32 = 6;
constexpr int64_t kMost = INT64_MAX;

struct Given {
  int32_t type;
  std::vector<int64_t> dims;
};

struct Malformed {
  const char* domain;
  const char* op;
  std::vector<Given> inputs;  // no elements said; a type of 0: left out
  Strings attributes;
};

std::ostream& operator<<(std::ostream& out, const Malformed& m) {
  out << m.op;
  for (const Given& given : m.inputs) {
    out << ' ' << given.type << '[';
    for (const int64_t dim : given.dims) out << dim << ' ';
    out << ']';
  }
  return out;
}

constexpr const char *kMs = "com.microsoft", *kTrees = "ai.onnx.ml", *kOnnx = "";

const std::vector<Malformed>& rows() {
  const Given state{kFloat, {1, 2, 4}};
  static const std::vector<Malformed> all{
      {kMs,
       "DynamicQuantizeLSTM",
       {{kFloat, {5, 2, 3}},
        {kInt8, {1, 3, 16}},
        {kInt8, {1, 4, 16}},
        {kFloat, {1, 32}},
        {kInt32, {2}},
        {kFloat, {1}},
        state,
        {kFloat, {1, 12}},
        {kFloat, {1}},
        {kInt8, {1}},
        {kFloat, {1}},
        {kInt8, {1}}},
       {int_attribute("hidden_size", 4)}},
      {kMs, "DynamicQuantizeMatMul", {{kFloat, {}}, {kInt8, {}}, {kFloat, {}}}, {}},
      {kMs, "MatMulIntegerToFloat", {{kUint8, {}}, {kUint8, {2, 2}}, {kFloat, {}}, {kFloat, {}}}, {}},
      {kMs,
       "QGemm",
       {{kUint8, {2, 2}},
        {kFloat, {}},
        {kUint8, {}},
        {kInt8, {2, 2}},
        {kFloat, {}},
        {kInt8, {}},
        {0, {}},
        {kFloat, {}},
        {kInt64, {}}},
       {}},
      {kOnnx,
       "QLinearConv",
       {{kInt8, {1, 4, 5, 5}},
        {kFloat, {}},
        {kInt8, {}},
        {kUint8, {}},
        {kFloat, {4}},
        {kUint8, {4}},
        {kFloat, {}},
        {kInt8, {}}},
       {}},
      {kOnnx, "ConvInteger", {{kUint8, {1, 1, 3, 3}}, {kUint8, {}}, {kUint8, {}}, {kUint8, {}}}, {}},
      {kOnnx,
       "ConvTranspose",
       {{kFloat, {1, 4, 4, 0}}, {kFloat, {4, 4, 3, 3}}, {kFloat, {4}}},
       {ints_attribute("output_shape", {9, 9}), ints_attribute("strides", {2, 2})}},
      {kOnnx,
       "ReverseSequence",
       {{kFloat, {2, 2}}, {kInt64, {2}}},
       {int_attribute("batch_axis", 1), int_attribute("time_axis", kMost)}},
      {kOnnx, "Gather", {{kFloat, {3}}, {kInt64, {}}}, {int_attribute("axis", kMost)}},
      {kMs,
       "MatMulNBits",
       {{kFloat, {1, 16}}, {kUint8, {1, 1, 8}}, {kFloat, {1}}},
       {int_attribute("K", 16), int_attribute("N", 1), int_attribute("block_size", kMost)}},
      {kMs,
       "MatMulNBits",
       {{kFloat, {1, 16}}, {kUint8, {1, 1, 8}}, {kFloat, {1}}},
       {int_attribute("K", kMost), int_attribute("N", 1), int_attribute("block_size", 16)}},
      {kMs,
       "MatMulNBits",
       {{kFloat, {1, 16}}, {kUint8, {1, 1, 8}}, {kFloat, {1}}},
       {int_attribute("K", 16), int_attribute("N", kMost), int_attribute("block_size", 8)}},
      {kMs,
       "MatMulBnb4",
       {{kFloat, {1, 16}}, {kUint8, {8}}, {kFloat, {1}}},
       {int_attribute("K", 16), int_attribute("N", kMost), int_attribute("block_size", 16),
        int_attribute("quant_type", 0)}},
      {kMs,
       "GatherBlockQuantized",
       {{kUint8, {8, 64}}, {kInt64, {}}, {kFloat, {8, 2}}, {kUint8, {16}}},
       {int_attribute("bits", 8), int_attribute("block_size", 32)}},
      {kMs,
       "QMoE",
       {{kFloat, {4, 32}},
        {kFloat, {4, 3}},
        {kUint8, {3, 32, 16}},
        {kFloat, {3, 32}},
        {kFloat, {3, 32}},
        {kUint8, {0, 32, 16}},
        {kFloat, {3, 32}},
        {kFloat, {3, 32}}},
       {}},
      {kMs,
       "QMoE",
       {{kFloat, {4, 32}},
        {kFloat, {4, 3}},
        {kUint8, {0, 32, 16}},
        {kFloat, {3, 32}},
        {kFloat, {3, 32}},
        {kUint8, {3, 32, 16}},
        {kFloat, {3, 32}},
        {kFloat, {3, 32}}},
       {}},
      {kMs, "ComplexMulConj", {{kFloat, {}}, {kFloat, {}}}, {}},
      {kMs, "SkipSimplifiedLayerNormalization", {{kFloat, {}}, {kFloat, {}}, {kFloat, {}}}, {}},
      {kMs,
       "PackedAttention",
       {{kFloat, {4, 8}}, {kFloat, {8}}, {kFloat, {24}}, {kInt32, {2, 2}}, {kInt32, {3}}},
       {int_attribute("num_heads", 2)}},
      {kMs,
       "GatedRelativePositionBias",
       {{kFloat, {4, 8}},
        {kFloat, {8}},
        {kFloat, {1, 2, 2, 2}},
        {kFloat, {4, 8}},
        {kFloat, {8}},
        {kFloat, {1, 2, 1, 1}},
        {kInt32, {}}},
       {int_attribute("num_heads", 2)}},
      {kMs,
       "NGramHashMapping",
       {{kInt64, {1, 4}}, {kInt64, {3}}, {kInt64, {4}}},
       {int_attribute("max_ngram_size", kMost), int_attribute("n_head_per_ngram", 2), int_attribute("pad_id", 0)}},
      {kMs,
       "NGramHashMapping",
       {{kInt64, {1, 4}}, {kInt64, {3}}, {kInt64, {4}}},
       {int_attribute("max_ngram_size", 3), int_attribute("n_head_per_ngram", kMost), int_attribute("pad_id", 0)}},
      {kTrees,
       "TreeEnsembleRegressor",
       {{kFloat, {4, 2}}},
       {int_attribute("n_targets", INT64_MIN), ints_attribute("nodes_falsenodeids", {0}),
        ints_attribute("nodes_featureids", {0}), strings_attribute("nodes_modes", {"LEAF"}),
        ints_attribute("nodes_nodeids", {0}), ints_attribute("nodes_treeids", {0}),
        ints_attribute("nodes_truenodeids", {0}), ints_attribute("target_ids", {0}),
        ints_attribute("target_nodeids", {0}), ints_attribute("target_treeids", {0})}},
      {kOnnx,
       "TfIdfVectorizer",
       {{kInt32, {5}}},
       {int_attribute("max_gram_length", 1), int_attribute("max_skip_count", 0), int_attribute("min_gram_length", 1),
        text_attribute("mode", "TF"), ints_attribute("ngram_counts", {0}), ints_attribute("ngram_indexes", {kMost}),
        ints_attribute("pool_int64s", {0})}},
      // An n-gram that stands twice in the pool needs a column for each.
      {kOnnx,
       "TfIdfVectorizer",
       {{kInt32, {5}}},
       {int_attribute("max_gram_length", 1), int_attribute("max_skip_count", 0), int_attribute("min_gram_length", 1),
        text_attribute("mode", "TF"), ints_attribute("ngram_counts", {0}), ints_attribute("ngram_indexes", {0}),
        ints_attribute("pool_int64s", {1, 1, 0})}},
  };
  return all;
}

class MalformedNode : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Rows, MalformedNode, ::testing::Range<size_t>(0, rows().size()),
                         [](const auto& info) { return rows()[info.param].op + std::to_string(info.param); });

DType dtype_of(int32_t type) {
  return type == kFloat   ? DType::f32
         : type == kInt8  ? DType::i8
         : type == kUint8 ? DType::u8
         : type == kInt32 ? DType::i32
                          : DType::i64;
}

// What a row says, of zeros: constants of the model, or inputs of a run.
ErrorCode outcome(const Malformed& row, bool constant, std::string& what) {
  GraphParts parts{.outputs = {value("y")}};
  TensorMap inputs;
  Strings names;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const auto& [type, dims] = row.inputs[i];
    if (type == 0) {
      names.emplace_back();
      continue;
    }
    names.push_back("x" + std::to_string(i));
    const Tensor zeros = Tensor::zeros(dtype_of(type), dims);
    if (constant) {
      parts.initializers.push_back(
          tensor(names.back(), type, dims, {reinterpret_cast<const char*>(zeros.bytes()), zeros.nbytes()}));
    } else {
      parts.inputs.push_back(shaped(names.back(), type, std::vector<Extent>(dims.size(), "")));
      inputs[names.back()] = zeros;
    }
  }
  parts.nodes = {node(row.op, names, {"y"}, row.attributes, row.domain)};
  try {
    const Model model =
        load(onnx::testing::model({.graph = graph(parts), .opsets = {opset("", 18), opset(kMs, 1), opset(kTrees, 3)}}));
    CompileOptions options;
    options.backend = "reference";
    model.compile(options)(inputs);
  } catch (const Error& error) {
    what = error.what();
    return error.code();
  }
  return ErrorCode::internal;
}

TEST_P(MalformedNode, IsRefused) {
  const Malformed& row = rows()[GetParam()];
  for (const bool constant : {false, true}) {
    std::string what = "nothing: it ran";
    const ErrorCode code = outcome(row, constant, what);
    EXPECT_TRUE(code != ErrorCode::internal && code != ErrorCode::cancelled) << row << ": " << what;
    EXPECT_NE(what.find(row.op), std::string::npos) << row << ": " << what;
  }
}

// Gaps longer than the text are none, and end.
TEST(MalformedNode, GapsBeyondTheText) {
  const CompiledModel run =
      compiled(load({.nodes = {node("TfIdfVectorizer", {"x"}, {"y"},
                                    {int_attribute("max_gram_length", 2), int_attribute("max_skip_count", kMost),
                                     int_attribute("min_gram_length", 2), text_attribute("mode", "TF"),
                                     ints_attribute("ngram_counts", {0, 0}), ints_attribute("ngram_indexes", {0}),
                                     ints_attribute("pool_int64s", {1, 2})})},
                     .inputs = {shaped("x", kInt64, {"n"})},
                     .outputs = {value("y")}}));
  EXPECT_EQ(floats_of(run({{"x", Tensor(std::vector<int64_t>{1, 1, 2}, {3})}}).at("y")), (std::vector<float>{2}));
}

// A body takes more than its node gives.
TEST(MalformedNode, ABodyWithAnInputThatNobodyFeeds) {
  const std::string body = graph({.nodes = {node("Mul", {"x", "w"}, {"y"})},
                                  .inputs = {value("x"), value("w")},
                                  .outputs = {value("y")},
                                  .name = "body"});
  const Model model = load({.nodes = {node("SequenceConstruct", {"a"}, {"s"}),
                                      node("SequenceMap", {"s"}, {"o"}, {graph_attribute("body", body)})},
                            .inputs = {shaped("a", kFloat, {"n"})},
                            .outputs = {value("o", 0)}});
  for (const bool eager : {false, true}) {
    CompileOptions options;
    options.backend = "reference";
    options.eager = eager;
    EXPECT_THROW(model.compile(options)({{"a", counting({2})}}), Error);
  }
}

}  // namespace
}  // namespace transmuter::runtime::testing
