#include "runtime/string_ranks.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace transmuter::runtime {
namespace {

bool holds_strings(const Value& value) {
  if (value.is_tensor()) return value.tensor.dtype() == DType::string;
  return std::any_of(value.items.begin(), value.items.end(), holds_strings);
}

void collect(const Value& value, std::vector<std::string>& strings) {
  if (value.is_tensor() && value.tensor.dtype() == DType::string)
    strings.insert(strings.end(), value.tensor.strings().begin(), value.tensor.strings().end());
  for (const Value& item : value.items) collect(item, strings);
}

Value to_ranks(const Value& value, const std::vector<std::string>& sorted) {
  Value out = value;
  if (value.is_tensor() && value.tensor.dtype() == DType::string) {
    std::vector<int64_t> ranks;
    for (const std::string& text : value.tensor.strings())
      ranks.push_back(std::lower_bound(sorted.begin(), sorted.end(), text) - sorted.begin());
    out.tensor = Tensor(ranks, value.tensor.shape());
  }
  if (out.element == DType::string) out.element = DType::i64;
  for (Value& item : out.items) item = to_ranks(item, sorted);
  return out;
}

Value to_strings(const Value& value, const std::vector<std::string>& sorted) {
  Value out = value;
  if (value.is_tensor() && value.tensor.dtype() == DType::i64) {
    const Tensor ranks = value.tensor.aligned();
    std::vector<std::string> texts;
    for (int64_t rank : ranks.to_vector<int64_t>()) texts.push_back(sorted.at(static_cast<size_t>(rank)));
    out.tensor = Tensor::of_strings(std::move(texts), ranks.shape());
  }
  if (out.element == DType::i64) out.element = DType::string;
  for (Value& item : out.items) item = to_strings(item, sorted);
  return out;
}

template <size_t n>
bool contains(const std::array<std::string_view, n>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// These only hand values on, read shapes, or convert: they take strings as they are.
constexpr std::array<std::string_view, 15> kPassing = {"Cast",
                                                       "CastLike",
                                                       "Identity",
                                                       "Shape",
                                                       "Size",
                                                       "SequenceInsert",
                                                       "SequenceAt",
                                                       "SequenceConstruct",
                                                       "SequenceErase",
                                                       "SequenceEmpty",
                                                       "SequenceLength",
                                                       "Optional",
                                                       "OptionalHasElement",
                                                       "OptionalGetElement",
                                                       "If"};

// These move elements or compare them, which ranks do as well; nothing else can be made of strings.
constexpr std::array<std::string_view, 35> kMoving = {"ArrayFeatureExtractor",
                                                      "CenterCropPad",
                                                      "Compress",
                                                      "Concat",
                                                      "ConcatFromSequence",
                                                      "DepthToSpace",
                                                      "DynamicSlice",
                                                      "Equal",
                                                      "Expand",
                                                      "Flatten",
                                                      "Gather",
                                                      "GatherElements",
                                                      "GatherND",
                                                      "NonZero",
                                                      "OneHot",
                                                      "Pad",
                                                      "Reshape",
                                                      "Resize",
                                                      "ReverseSequence",
                                                      "Scatter",
                                                      "ScatterND",
                                                      "ScatterElements",
                                                      "Slice",
                                                      "SpaceToDepth",
                                                      "Split",
                                                      "SplitToSequence",
                                                      "Squeeze",
                                                      "TensorScatter",
                                                      "Tile",
                                                      "Transpose",
                                                      "Trilu",
                                                      "Unique",
                                                      "Unsqueeze",
                                                      "Upsample",
                                                      "Where"};

bool calculates(const onnx::Node& node) {
  if (!contains(kMoving, node.op_type)) return true;
  const onnx::Attribute *reduction = node.find("reduction"), *mode = node.find("mode");
  if (reduction) return reduction->s != "none";
  return mode && (node.op_type == "Resize" || node.op_type == "Upsample") && mode->s != "nearest";
}

bool is_string_output(const onnx::Node& node, size_t i) {
  if (node.op_type == "Equal" || node.op_type == "NonZero") return false;
  return node.op_type != "Unique" || i == 0;
}

}  // namespace

bool moves_strings(const onnx::Node& node, const std::vector<Value>& inputs) {
  const bool moves = node.domain.empty() || node.op_type == "ArrayFeatureExtractor" || node.op_type == "GatherND";
  if (!moves || contains(kPassing, node.op_type) || std::none_of(inputs.begin(), inputs.end(), holds_strings))
    return false;
  if (calculates(node))
    throw Error(ErrorCode::invalid_model, str(node.op_type, ": strings are nothing to calculate with"));
  return true;
}

std::vector<Value> run_on_ranks(const onnx::Node& node, const std::vector<Value>& inputs,
                                const std::function<std::vector<Value>(const std::vector<Value>&)>& run) {
  std::vector<std::string> sorted{""};
  for (const Value& input : inputs) collect(input, sorted);
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<Value> ranked;
  for (const Value& input : inputs) ranked.push_back(to_ranks(input, sorted));
  std::vector<Value> outputs = run(ranked);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (is_string_output(node, i)) outputs[i] = to_strings(outputs[i], sorted);
  return outputs;
}

}  // namespace transmuter::runtime
