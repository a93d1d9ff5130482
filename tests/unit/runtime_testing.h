// What the runtime's tests share: models put together by hand, and small tensors.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "onnx_messages.h"
#include "transmuter/model.h"

namespace transmuter::runtime::testing {

using namespace onnx::testing;  // NOLINT(google-build-using-namespace): the words of the messages

using Extent = std::variant<int, std::string>;  // a size, or a dim_param; "" = nothing said

// A value declared with a shape.
inline std::string shaped(const std::string& name, int32_t type, const std::vector<Extent>& extents) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  protozero::pbf_writer type_writer(writer, 2);
  protozero::pbf_writer tensor_writer(type_writer, 1);
  tensor_writer.add_int32(1, type);
  protozero::pbf_writer shape_writer(tensor_writer, 2);
  for (const Extent& extent : extents) {
    protozero::pbf_writer dim(shape_writer, 1);
    if (const int* size = std::get_if<int>(&extent)) {
      dim.add_int64(1, *size);
    } else if (const std::string& param = std::get<std::string>(extent); !param.empty()) {
      dim.add_string(2, param);
    }
  }
  return out;
}

inline constexpr int32_t kFloat = 1, kInt64 = 7, kString = 8, kBool = 9;

inline std::string int64_tensor(const std::string& name, const std::vector<int64_t>& values, bool scalar = false) {
  std::vector<int64_t> dims{static_cast<int64_t>(values.size())};
  if (scalar) dims.clear();
  return tensor(name, kInt64, dims, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
}

inline std::string float_tensor(const std::string& name, const std::vector<float>& values) {
  return tensor(name, kFloat, {static_cast<int64_t>(values.size())}, floats(values));
}

inline Model load(const std::string& bytes, const LoadOptions& options = {}) {
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return Model::from_bytes({first, first + bytes.size()}, options);
}

inline Model load(const GraphParts& parts, int64_t version = 18, int64_t ir_version = 9) {
  return load(model({.graph = graph(parts), .opsets = {opset("", version)}, .ir_version = ir_version}));
}

inline CompiledModel compiled(const Model& model, int cache_size = 8) {
  CompileOptions options;
  options.backend = "reference";
  options.cache_size = cache_size;
  return model.compile(options);
}

// 0, 1, 2, ... in a shape.
inline Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor(values, shape);
}

inline Tensor truth(bool value) { return Tensor(std::vector<uint8_t>{value}, {}).bitcast(DType::boolean); }

inline std::vector<float> floats_of(const Value& value) {
  return static_cast<const Tensor&>(value).aligned().cast(DType::f32).to_vector<float>();
}

// What the Error of fn says; "" when there is none.
template <class Fn>
std::string error_in(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace transmuter::runtime::testing
