// Types of values: as the file declares them, and the dtype that follows from the standard's operators.
#include <algorithm>

#include "base/strings.h"
#include "onnx/edit.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

// The dtype of each output of the operators whose outputs do not simply have the first input's: a digit is the input
// with the same dtype, b bool, B uint8, i int32, l int64, f float32, s string; '?' may be anything; '@' an attribute
// says it. The last letter stands for all further outputs.
struct Rule {
  std::string_view op;
  std::string_view outputs;
};
constexpr Rule kRules[] = {
    {"And", "b"},
    {"ArgMax", "l"},
    {"ArgMin", "l"},
    {"Attention", "0120"},
    {"BatchNormalization", "03"},
    {"Bernoulli", "@"},
    {"BitCast", "@"},
    {"BlackmanWindow", "@"},
    {"Cast", "@"},
    {"CastLike", "1"},
    {"Constant", "@"},
    {"ConstantOfShape", "@"},
    {"ConvInteger", "i"},
    {"DequantizeLinear", "@"},
    {"Dropout", "0b"},
    {"DynamicQuantizeLinear", "BfB"},
    {"Equal", "b"},
    {"EyeLike", "@"},
    {"Greater", "b"},
    {"GreaterOrEqual", "b"},
    {"HammingWindow", "@"},
    {"HannWindow", "@"},
    {"If", "?"},
    {"ImageDecoder", "B"},
    {"IsInf", "b"},
    {"IsNaN", "b"},
    {"LayerNormalization", "0?"},
    {"Less", "b"},
    {"LessOrEqual", "b"},
    {"LinearAttention", "03"},
    {"Loop", "?"},
    {"MatMulInteger", "i"},
    {"MaxPool", "0l"},
    {"MelWeightMatrix", "?"},
    {"Multinomial", "@"},
    {"NonMaxSuppression", "l"},
    {"NonZero", "l"},
    {"Not", "b"},
    {"OneHot", "2"},
    {"Optional", "?"},
    {"OptionalGetElement", "?"},
    {"OptionalHasElement", "b"},
    {"Or", "b"},
    {"QLinearConv", "7"},
    {"QLinearMatMul", "7"},
    {"QuantizeLinear", "@"},
    {"RMSNormalization", "1"},
    {"RandomNormal", "@"},
    {"RandomNormalLike", "@"},
    {"RandomUniform", "@"},
    {"RandomUniformLike", "@"},
    {"RegexFullMatch", "b"},
    {"Scan", "?"},
    {"SequenceAt", "?"},
    {"SequenceConstruct", "?"},
    {"SequenceEmpty", "?"},
    {"SequenceLength", "l"},
    {"Shape", "l"},
    {"Size", "l"},
    {"SplitToSequence", "?"},
    {"ConcatFromSequence", "?"},
    {"StringSplit", "sl"},
    {"TfIdfVectorizer", "f"},
    {"TopK", "0l"},
    {"Unique", "0l"},
    {"Where", "1"},
    {"Xor", "b"},
};

// Operators of ONNX Runtime whose first output has the first input's dtype.
constexpr std::string_view kContribSame[] = {"Attention",
                                             "BiasAdd",
                                             "BiasGelu",
                                             "BiasSplitGelu",
                                             "BiasSoftmax",
                                             "DecoderMaskedMultiHeadAttention",
                                             "FastGelu",
                                             "FusedConv",
                                             "FusedGemm",
                                             "FusedMatMul",
                                             "Gelu",
                                             "GemmFastGelu",
                                             "GroupNorm",
                                             "GroupQueryAttention",
                                             "MatMulNBits",
                                             "MoE",
                                             "MultiHeadAttention",
                                             "NhwcConv",
                                             "PackedAttention",
                                             "PackedMultiHeadAttention",
                                             "QMoE",
                                             "QuickGelu",
                                             "RelativePositionBias",
                                             "RotaryEmbedding",
                                             "SimplifiedLayerNormalization",
                                             "SkipGroupNorm",
                                             "SkipLayerNormalization",
                                             "SkipSimplifiedLayerNormalization",
                                             "SparseAttention",
                                             "TransposeMatMul"};

using DTypes = std::map<std::string, DType>;

// Element type of a TypeProto that is a tensor; invalid for all others.
DType dtype_in(const Field& type) {
  const Shown message(type);
  const Field* tensor = message->find(1);
  if (!tensor) return DType::invalid;
  const Shown inner(*tensor);
  const int64_t number = inner->integer(1);
  return number > 0 ? dtype_of_number(static_cast<int32_t>(number)) : DType::invalid;
}

DType by_attribute(const NodeInfo& node, const DTypes& known) {
  const auto attribute = [&]<class T>(const char* name, T) -> const T* {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
  };
  const auto of_input = [&](size_t index) {
    const auto found = index < node.inputs.size() ? known.find(node.inputs[index]) : known.end();
    return found == known.end() ? DType::invalid : found->second;
  };
  const auto numbered = [&](const char* name, DType otherwise) {
    const int64_t* number = attribute(name, int64_t{});
    return number && *number != 0 ? dtype_of_number(static_cast<int32_t>(*number)) : otherwise;
  };
  if (node.op_type == "Constant") {
    for (const char* name : {"value", "sparse_value"})
      if (const Tensor* value = attribute(name, Tensor{})) return value->dtype();
    if (node.attributes.contains("value_float") || node.attributes.contains("value_floats")) return DType::f32;
    if (node.attributes.contains("value_int") || node.attributes.contains("value_ints")) return DType::i64;
    if (node.attributes.contains("value_string") || node.attributes.contains("value_strings")) return DType::string;
    return DType::invalid;
  }
  if (node.op_type == "ConstantOfShape") {
    const Tensor* value = attribute("value", Tensor{});
    return value ? value->dtype() : DType::f32;
  }
  if (node.op_type == "Cast" || node.op_type == "BitCast") return numbered("to", DType::invalid);
  if (node.op_type == "QuantizeLinear")
    return node.inputs.size() > 2 && !node.inputs[2].empty() ? of_input(2) : numbered("output_dtype", DType::u8);
  if (node.op_type == "DequantizeLinear") return numbered("output_dtype", of_input(1));
  if (node.op_type == "Multinomial") return numbered("dtype", DType::i32);
  if (node.op_type.ends_with("Window")) return numbered("output_datatype", DType::f32);
  if (node.op_type == "RandomNormal" || node.op_type == "RandomUniform") return numbered("dtype", DType::f32);
  return numbered("dtype", of_input(0));
}

// One output of a node of the standard.
DType dtype_of_output(const NodeInfo& node, size_t index, const DTypes& known) {
  std::string_view outputs = "0";
  for (const Rule& rule : kRules)
    if (rule.op == node.op_type) outputs = rule.outputs;
  const char letter = outputs[std::min(index, outputs.size() - 1)];
  switch (letter) {
    case 'b':
      return DType::boolean;
    case 'B':
      return DType::u8;
    case 'i':
      return DType::i32;
    case 'l':
      return DType::i64;
    case 'f':
      return DType::f32;
    case 's':
      return DType::string;
    case '@':
      return by_attribute(node, known);
    case '?':
      return DType::invalid;
    default: {
      const auto input = static_cast<size_t>(letter - '0');
      const auto found = input < node.inputs.size() ? known.find(node.inputs[input]) : known.end();
      return found == known.end() ? DType::invalid : found->second;
    }
  }
}

// What a node's output may be called by a graph inside it: the branches of an If give their own types.
DType dtype_of_branch(Message& node, size_t index) {
  DType dtype = DType::invalid;
  each_graph(node, [&](Message& graph) {
    size_t position = 0;
    for (const Field& field : graph.fields) {
      if (field.number != graph_field::kOutput || position++ != index) continue;
      const Shown value(field);
      if (const Field* type = value->find(value_field::kType); type && dtype == DType::invalid) dtype = dtype_in(*type);
    }
  });
  return dtype;
}

DTypes dtypes_of(const Document& document, const Scope& graph, const std::unordered_set<std::string>& stale) {
  DTypes known;
  for (const Field& field : graph.message->fields) {
    switch (field.number) {
      case graph_field::kInput:
      case graph_field::kValueInfo: {
        const Shown value(field);
        const std::string name(value->text(value_field::kName));
        if (field.number == graph_field::kValueInfo && stale.contains(name)) break;
        if (const Field* type = value->find(value_field::kType)) known[name] = dtype_in(*type);
        break;
      }
      case graph_field::kInitializer: {
        const Shown tensor(field);
        known[std::string(tensor->text(tensor_field::kName))] =
            dtype_of_number(static_cast<int32_t>(tensor->integer(tensor_field::kDType)));
        break;
      }
      default:
        break;
    }
  }
  const Source source = source_of(document);
  // Twice: added nodes stand last until the edit is finished.
  for (int round = 0; round < 2; ++round) {
    each_node(graph, [&](Message& node, size_t index) {
      const NodeInfo info = node_info(node, index, graph, source);
      if (info.domain == "com.microsoft" && !info.outputs.empty() && !info.inputs.empty() &&
          std::find(std::begin(kContribSame), std::end(kContribSame), info.op_type) != std::end(kContribSame)) {
        // The normalised sum, its mean and deviation, and the sum itself.
        const size_t last = info.op_type.starts_with("Skip") ? 3 : 0;
        for (const size_t i : {size_t{0}, last})
          if (i < info.outputs.size() && known[info.outputs[i]] == DType::invalid)
            known[info.outputs[i]] = known[info.inputs[0]];
      }
      if (!info.domain.empty()) return;
      for (size_t i = 0; i < info.outputs.size(); ++i) {
        DType& dtype = known[info.outputs[i]];
        if (dtype == DType::invalid)
          dtype = info.op_type == "If" ? dtype_of_branch(node, i) : dtype_of_output(info, i, known);
      }
    });
  }
  return known;
}

}  // namespace

std::string encode_type(const ValueSpec& spec) {
  if (spec.kind != Value::Kind::tensor || spec.dtype == DType::invalid)
    refuse_edit("the type of \"", spec.name, "\" must be a tensor's, with an element type");
  Message tensor;
  tensor.set_integer(1, number_of_dtype(spec.dtype));
  if (spec.has_shape) {
    Message shape;
    for (const ValueSpec::Dim& extent : spec.shape) {
      Message dim;
      if (extent.value >= 0)
        dim.set_integer(1, extent.value);
      else if (!extent.symbol.empty())
        dim.set_text(2, extent.symbol);
      shape.fields.push_back(bytes_field(1, encode(dim)));
    }
    tensor.set_text(2, encode(shape));
  }
  Message type;
  type.set_text(1, encode(tensor));
  return encode(type);
}

Field value_field_of(uint32_t number, const ValueSpec& spec) {
  Message value;
  value.set_text(value_field::kName, spec.name);
  value.set_text(value_field::kType, encode_type(spec));
  return bytes_field(number, encode(value));
}

std::string type_of_value(const Document& document, const std::vector<Scope>& scopes, const std::string& name,
                          const std::unordered_set<std::string>& stale) {
  for (const uint32_t number : {graph_field::kInput, graph_field::kValueInfo}) {
    const Field* field = find_value(scopes[0], number, name);
    if (!field || (number == graph_field::kValueInfo && stale.contains(name))) continue;
    const Shown value(*field);
    if (const Field* type = value->find(value_field::kType)) return contents(*type);
  }
  ValueSpec spec;
  spec.name = name;
  if (const Field* field = find_initializer(scopes[0], name); field && field->number == graph_field::kInitializer) {
    const Tensor tensor = tensor_of(*field, source_of(document));
    spec.dtype = tensor.dtype();
    spec.has_shape = true;
    for (const int64_t extent : tensor.shape()) spec.shape.push_back({extent, ""});
    return encode_type(spec);
  }
  const DTypes known = dtypes_of(document, scopes[0], stale);
  const auto found = known.find(name);
  if (found == known.end() || found->second == DType::invalid) return "";
  spec.dtype = found->second;
  return encode_type(spec);
}

}  // namespace transmuter::onnx
