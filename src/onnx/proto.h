// A model file as plain structs, before functions are inlined and graphs are checked: one struct a protobuf message.
// Tensors are parsed already (views of the file); everything else is copied.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/graph.h"
#include "onnx/tensor_proto.h"

namespace transmuter::onnx {

struct GraphProto;

// Graphs in graphs: deeper ones are refused, so that recursion over them is safe.
inline constexpr int kMaxGraphDepth = 64;

struct AttributeProto {
  Attribute value;        // but for graphs, which stand below
  std::string reference;  // ref_attr_name: inside a function, the caller's attribute of this name
  std::shared_ptr<GraphProto> graph;
  std::vector<std::shared_ptr<GraphProto>> graphs;
};

struct NodeProto {
  Node node;  // label set; version 0 until an opset is found for it; no attributes
  std::string overload;
  std::vector<AttributeProto> attributes;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  std::vector<NamedTensor> initializers;
};

std::string normalised_domain(std::string domain);  // "ai.onnx" becomes ""
using Opsets = std::map<std::string, int64_t>;      // by normalised domains

struct FunctionProto {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;   // without a default
  std::vector<AttributeProto> defaults;  // with one
  std::vector<NodeProto> nodes;
  Opsets opsets;
};

struct ModelProto {
  int64_t ir_version = 0;  // 0 = not given
  std::string producer;
  std::string producer_version;
  Opsets opsets;
  std::map<std::string, std::string> metadata;
  std::unique_ptr<GraphProto> graph;  // null = not given
  std::vector<FunctionProto> functions;
};

// Throws Error with graph, node and attribute in the chain. The depth of nested graphs and types is limited.
ModelProto parse_model_proto(std::string_view bytes, const Source& source);

// A whole model (reader.cc). `path` names it in errors; "" = it is in memory.
Model parse_model_bytes(std::string_view bytes, const Source& source, const std::string& path);

// A ValueInfoProto.
ValueInfo parse_value_info(std::string_view message);

// `node "name" (Op)` and `graph "name"`, for error chains.
std::string describe(const Node& node);
std::string describe_graph(const std::string& name);

}  // namespace transmuter::onnx
