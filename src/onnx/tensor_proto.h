// TensorProto and SparseTensorProto bytes to tensors, and back.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "onnx/external_data.h"
#include "transmuter/tensor.h"

namespace transmuter::onnx {

// What the bytes being parsed belong to.
struct Source {
  std::shared_ptr<const void> owner;       // keeps the parsed bytes; views of tensors hold it
  std::shared_ptr<ExternalData> external;  // null: no external data
};

// The dtype of a TensorProto.DataType number. Throws Error: invalid_model for 0 and unknown numbers.
DType dtype_of_number(int32_t number);
int32_t number_of_dtype(DType dtype);

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// raw_data, packed float_data and double_data, and external data come as views (maybe unaligned), everything else as
// a copy. All sizes are checked against the bytes before anything is allocated.
NamedTensor parse_tensor(std::string_view message, const Source& source);
// The dense tensor; its size may exceed the stored bytes by a bounded factor only.
NamedTensor parse_sparse_tensor(std::string_view message, const Source& source);
// A tensor whose bytes are what raw_data and external data hold: itself, or bytes where elements lie closer there.
Tensor as_stored(const Tensor& tensor);
std::string serialize_tensor(const Tensor& tensor, const std::string& name);

}  // namespace transmuter::onnx
