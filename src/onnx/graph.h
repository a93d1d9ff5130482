// The ONNX graph as read: plain data. Names are the file's; weights are views into the mapped file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter::onnx {

struct Graph;

// One axis of a declared shape: a value, a symbol (dim_param), or nothing known.
struct DeclaredDim {
  int64_t value = -1;  // >= 0 when given
  std::string param;
};

// The declared type of a value.
struct ValueInfo {
  enum class Kind : uint8_t { none, tensor, sequence, optional, map };
  std::string name;
  Kind kind = Kind::none;
  DType dtype = DType::invalid;      // tensor: the element; map: the values' element
  DType key_dtype = DType::invalid;  // map
  bool has_shape = false;
  std::vector<DeclaredDim> shape;            // tensor
  std::shared_ptr<const ValueInfo> element;  // sequence, optional
};

struct Attribute {
  enum class Kind : uint8_t {
    none,
    f,
    i,
    s,
    tensor,
    graph,
    floats,
    ints,
    strings,
    tensors,
    graphs,
    type,
    sparse_tensor
  };
  std::string name;
  Kind kind = Kind::none;
  float f = 0;
  int64_t i = 0;
  std::string s;
  Tensor tensor;  // sparse tensors arrive dense
  std::shared_ptr<const Graph> graph;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;
  std::vector<std::shared_ptr<const Graph>> graphs;
  ValueInfo type;
};

struct Node {
  std::string name;   // may be empty; `label` never is
  std::string label;  // for messages: the name, or OpType_index
  std::string op_type;
  uint64_t number = 0;               // no two nodes of a model share one, subgraphs included
  std::string domain;                // "" is ai.onnx ("ai.onnx" is normalised to "")
  int64_t version = 0;               // of the domain's opset that this node was written for
  std::vector<std::string> inputs;   // "" = absent
  std::vector<std::string> outputs;  // "" = not wanted
  std::vector<Attribute> attributes;

  const Attribute* find(const std::string& attribute) const {
    for (const Attribute& a : attributes)
      if (a.name == attribute) return &a;
    return nullptr;
  }
};

// Nodes stand in topological order whatever the file's order was; model-local functions are inlined (names made
// unique). In a subgraph, names not defined inside are captured from the graphs around it.
struct Graph {
  std::string name;
  std::vector<Node> nodes;
  // As the file lists them. One that `initializers` has too may be left out: the initializer is its default. Before IR
  // version 4 every initializer is listed.
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::unordered_map<std::string, ValueInfo> value_infos;
  std::unordered_map<std::string, Tensor> initializers;  // dense; sparse ones arrive dense
  std::vector<std::string> captures;  // names this (sub)graph reads from outside, each once, in order of first use
};

struct Model {
  std::string path;  // "" when read from memory
  int64_t ir_version = 0;
  std::string producer;
  std::string producer_version;
  std::map<std::string, int64_t> opsets;
  std::map<std::string, std::string> metadata;
  Graph graph;
};

struct ReadOptions {
  bool map = true;  // false reads the file into memory instead of mapping it
};

// Throw Error with the file, graph, node in the chain. `folder` is where external data of a model in memory is looked
// up ("" = none).
Model read_model(const std::string& path, const ReadOptions& options = {});
Model parse_model(const std::byte* bytes, size_t size, std::shared_ptr<const void> owner,
                  const std::string& folder = "");
struct Document;
// What writing the document (document.h) and reading it again would give; weights are views of what the document shows.
Model parse_document_model(const Document& document);

}  // namespace transmuter::onnx
