// Files that hold one value: NumPy's .npy, ONNX's .pb (TensorProto, SequenceProto, OptionalProto, MapProto).
#pragma once

#include <string>

#include "transmuter/model.h"
#include "transmuter/value.h"

namespace transmuter {

// By the file's ending. For .pb, `spec` says which kind of proto it is (a tensor when null). Throw Error that names the
// file.
Value read_value(const std::string& path, const ValueSpec* spec = nullptr);
// The name stored inside a .pb file; "" where there is none.
std::string value_name(const std::string& path);
// ONNX's .pb of the value's kind, `name` inside. Throws Error(invalid_input) for a value that is none.
void write_value(const std::string& path, const Value& value, const std::string& name = "");
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace transmuter
