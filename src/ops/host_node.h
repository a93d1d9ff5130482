// What operators that run on host values, and the check of schemas, read of a node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "onnx/graph.h"
#include "transmuter/error.h"
#include "transmuter/value.h"

namespace transmuter::ops {

// The node, or what it was given, is not what the operator allows.
template <class... Pieces>
[[noreturn]] void invalid(const onnx::Node& node, const Pieces&... pieces) {
  throw Error(ErrorCode::invalid_model, str(node.op_type, ": ", pieces...));
}

inline bool has_input(const std::vector<Value>& inputs, size_t i) {
  return i < inputs.size() && inputs[i].kind != Value::Kind::none;
}

inline const Tensor& tensor_input(const onnx::Node& node, const std::vector<Value>& inputs, size_t i) {
  if (i >= inputs.size() || !inputs[i].is_tensor()) invalid(node, "input ", i, " must be a tensor");
  return inputs[i].tensor;
}

inline std::vector<int64_t> integers(const Tensor& tensor) {
  return tensor.aligned().cast(DType::i64).to_vector<int64_t>();
}

inline std::string text_attribute(const onnx::Node& node, const char* name, const char* otherwise) {
  const onnx::Attribute* a = node.find(name);
  return a ? a->s : otherwise;
}

// Required where nothing is said for `otherwise`.
inline int64_t integer_attribute(const onnx::Node& node, const char* name, std::optional<int64_t> otherwise = {}) {
  const onnx::Attribute* a = node.find(name);
  if (!a && !otherwise) invalid(node, "attribute ", name, " is required");
  return a ? a->i : *otherwise;
}

}  // namespace transmuter::ops
