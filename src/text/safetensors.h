// Tensors of a safetensors file: a header in JSON, then bytes.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "transmuter/tensor.h"

namespace transmuter {

// All of it, as f32. Throws Error(invalid_model) that names the file and the tensor: a header that is none, bytes that
// lie outside, another type than F64, F32, F16 and BF16.
std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path);

}  // namespace transmuter
