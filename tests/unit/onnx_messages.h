// ONNX messages written by hand for the reader's tests: each function gives the bytes of one message.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "onnx/graph.h"
#include "transmuter/error.h"

namespace transmuter::onnx::testing {

using Strings = std::vector<std::string>;

inline std::string tensor(const std::string& name, int32_t type, const std::vector<int64_t>& dims,
                          const std::string& raw) {
  std::string out;
  protozero::pbf_writer writer(out);
  for (const int64_t dim : dims) writer.add_int64(1, dim);
  writer.add_int32(2, type);
  writer.add_string(8, name);
  writer.add_bytes(9, raw);
  return out;
}

inline std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline std::string entry(const std::string& key, const std::string& value) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, key);
  writer.add_string(2, value);
  return out;
}

// A float tensor of `dims` whose data lies elsewhere.
inline std::string external_tensor(const std::string& name, const std::vector<int64_t>& dims,
                                   const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out;
  protozero::pbf_writer writer(out);
  for (const int64_t dim : dims) writer.add_int64(1, dim);
  writer.add_int32(2, 1);
  writer.add_string(8, name);
  for (const auto& [key, value] : entries) writer.add_message(13, entry(key, value));
  writer.add_int32(14, 1);
  return out;
}

// A value of type float; type 0 leaves the type out.
inline std::string value(const std::string& name, int32_t type = 1) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  if (type != 0) {
    protozero::pbf_writer type_writer(writer, 2);
    protozero::pbf_writer tensor_writer(type_writer, 1);
    tensor_writer.add_int32(1, type);
  }
  return out;
}

inline std::string int_attribute(const std::string& name, int64_t i) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  writer.add_int64(3, i);
  writer.add_int32(20, 2);
  return out;
}

inline std::string float_attribute(const std::string& name, float f) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  writer.add_float(2, f);
  writer.add_int32(20, 1);
  return out;
}

inline std::string text_attribute(const std::string& name, const std::string& text) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  writer.add_bytes(4, text);
  writer.add_int32(20, 3);
  return out;
}

inline std::string ints_attribute(const std::string& name, const std::vector<int64_t>& values) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  for (const int64_t value : values) writer.add_int64(8, value);
  writer.add_int32(20, 7);
  return out;
}

inline std::string strings_attribute(const std::string& name, const Strings& values) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  for (const std::string& text : values) writer.add_string(9, text);
  writer.add_int32(20, 8);
  return out;
}

inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  writer.add_message(6, graph);
  writer.add_int32(20, 5);
  return out;
}

inline std::string reference_attribute(const std::string& name, const std::string& reference, int32_t type) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, name);
  writer.add_int32(20, type);
  writer.add_string(21, reference);
  return out;
}

inline std::string node(const std::string& op, const Strings& inputs, const Strings& outputs,
                        const Strings& attributes = {}, const std::string& domain = "", const std::string& name = "") {
  std::string out;
  protozero::pbf_writer writer(out);
  for (const std::string& input : inputs) writer.add_string(1, input);
  for (const std::string& output : outputs) writer.add_string(2, output);
  if (!name.empty()) writer.add_string(3, name);
  writer.add_string(4, op);
  for (const std::string& attribute : attributes) writer.add_message(5, attribute);
  if (!domain.empty()) writer.add_string(7, domain);
  return out;
}

struct GraphParts {
  Strings nodes = {};
  Strings inputs = {};   // values
  Strings outputs = {};  // values
  Strings initializers = {};
  std::string name = "main";
};

inline std::string graph(const GraphParts& parts) {
  std::string out;
  protozero::pbf_writer writer(out);
  for (const std::string& part : parts.nodes) writer.add_message(1, part);
  writer.add_string(2, parts.name);
  for (const std::string& part : parts.initializers) writer.add_message(5, part);
  for (const std::string& part : parts.inputs) writer.add_message(11, part);
  for (const std::string& part : parts.outputs) writer.add_message(12, part);
  return out;
}

inline std::string opset(const std::string& domain, int64_t version) {
  std::string out;
  protozero::pbf_writer writer(out);
  if (!domain.empty()) writer.add_string(1, domain);
  writer.add_int64(2, version);
  return out;
}

struct FunctionParts {
  std::string name;
  Strings inputs;
  Strings outputs;
  Strings nodes;
  Strings attributes = {};  // names without a default
  Strings defaults = {};    // attribute messages
  int64_t version = 17;
  std::string domain = "local";
};

inline std::string function(const FunctionParts& parts) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, parts.name);
  for (const std::string& part : parts.inputs) writer.add_string(4, part);
  for (const std::string& part : parts.outputs) writer.add_string(5, part);
  for (const std::string& part : parts.attributes) writer.add_string(6, part);
  for (const std::string& part : parts.nodes) writer.add_message(7, part);
  writer.add_message(9, opset("", parts.version));
  writer.add_string(10, parts.domain);
  for (const std::string& part : parts.defaults) writer.add_message(11, part);
  return out;
}

struct ModelParts {
  std::string graph;
  Strings functions = {};
  Strings opsets = {opset("", 18), opset("local", 1)};
  int64_t ir_version = 9;
};

inline std::string model(const ModelParts& parts) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_int64(1, parts.ir_version);
  writer.add_string(2, "tests");
  for (const std::string& part : parts.opsets) writer.add_message(8, part);
  writer.add_message(7, parts.graph);
  for (const std::string& part : parts.functions) writer.add_message(25, part);
  return out;
}

inline std::string model_of(const GraphParts& parts) { return model(ModelParts{.graph = graph(parts)}); }

inline Model parse(const std::string& bytes, const std::string& folder = "") {
  const auto owner = std::make_shared<const std::string>(bytes);
  return parse_model(reinterpret_cast<const std::byte*>(owner->data()), owner->size(), owner, folder);
}

// What the Error says; "" when there is none.
inline std::string error_of(const std::string& bytes, const std::string& folder = "") {
  try {
    parse(bytes, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace transmuter::onnx::testing
