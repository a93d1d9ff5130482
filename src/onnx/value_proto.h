// Files of one value, as ONNX's test data have them: a TensorProto, SequenceProto, OptionalProto or MapProto.
#pragma once

#include <string>
#include <string_view>

#include "onnx/graph.h"
#include "transmuter/value.h"

namespace transmuter::onnx {

// The name inside the file; "" when it has none. Works before the value's type is known.
std::string read_value_name(const std::string& path);
// The value; `declared` says which message the file holds. Throws Error with the file in the chain.
Value read_value_file(const std::string& path, const ValueInfo& declared);
Value parse_value(std::string_view bytes, const ValueInfo& declared);

Tensor read_tensor_file(const std::string& path);
// A TensorProto, SequenceProto, OptionalProto or MapProto, as the value's kind asks.
std::string serialize_value(const Value& value, const std::string& name);
void write_value_file(const std::string& path, const Value& value, const std::string& name = "");
void write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name = "");

}  // namespace transmuter::onnx
