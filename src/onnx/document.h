// A model file as the messages it consists of, for edits: every graph, function and node opened, everything else still
// bytes. Field numbers are those of onnx.proto.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx/external_data.h"
#include "onnx/graph.h"
#include "onnx/message.h"
#include "onnx/tensor_proto.h"

namespace transmuter::onnx {

// Field numbers, by message.
namespace model_field {
inline constexpr uint32_t kGraph = 7, kOpset = 8, kMetadata = 14, kFunction = 25;
}
namespace graph_field {
inline constexpr uint32_t kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12, kValueInfo = 13,
                          kQuantization = 14, kSparse = 15;
}
namespace node_field {
inline constexpr uint32_t kInput = 1, kOutput = 2, kName = 3, kOp = 4, kAttribute = 5, kDomain = 7, kOverload = 8;
}
namespace attribute_field {
inline constexpr uint32_t kName = 1, kF = 2, kI = 3, kS = 4, kTensor = 5, kGraph = 6, kFloats = 7, kInts = 8,
                          kStrings = 9, kTensors = 10, kGraphs = 11, kType = 14, kKind = 20, kReference = 21,
                          kSparse = 22, kSparses = 23;
}
namespace function_field {
inline constexpr uint32_t kName = 1, kInput = 4, kOutput = 5, kNode = 7, kOpset = 9, kDomain = 10, kValueInfo = 12;
}
namespace tensor_field {
inline constexpr uint32_t kDims = 1, kDType = 2, kFloatData = 4, kInt32Data = 5, kStringData = 6, kInt64Data = 7,
                          kName = 8, kRaw = 9, kDoubleData = 10, kUint64Data = 11, kExternal = 13, kLocation = 14;
}
namespace value_field {
inline constexpr uint32_t kName = 1, kType = 2;
}

struct Document {
  Message model;
  std::shared_ptr<const void> owner;  // of the bytes that fields show
  std::string path;                   // "" when read from memory
  std::string folder;                 // of weights in other files; "" = none are allowed
  uint32_t next_id = 1;
};

// Throw Error with the file in the chain; only what an edit needs is checked: that the bytes are messages and hold one
// graph.
Document read_document(const std::string& path);
Document parse_document(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& folder);

// For the parsers of tensors: where those with data elsewhere find it. Each call maps the files anew.
Source source_of(const Document& document);

// What a field that is a TensorProto holds.
Tensor tensor_of(const Field& field, const Source& source);

// A field that is a StringStringEntryProto: its key and value, and one made of them.
std::pair<std::string, std::string> entry_of(const Field& field);
Field entry_field(uint32_t number, const std::string& key, const std::string& value);

// A graph, a graph inside a node, or a function.
struct Scope {
  Message* message = nullptr;
  bool function = false;
  std::string name;  // "": the main graph; "NODE.then_branch", "NODE.body > NODE.else_branch", "function DOMAIN.NAME"
  size_t parent = SIZE_MAX;  // the graph around it
  size_t root = 0;           // the main graph or function that it lies in
  uint32_t node = 0;         // whose attribute it is

  uint32_t node_number() const { return function ? function_field::kNode : graph_field::kNode; }
};
// The main graph first, each before those inside it. Pointers hold until a node is added or removed.
std::vector<Scope> scopes_of(Message& model);
// A node's name, or OpType_INDEX.
std::string label_of(const Message& node, size_t index);
std::string domain_of(const Message& message, uint32_t number);  // "ai.onnx" becomes ""

// fn(Message& node, size_t index) for each node of a scope, not of those inside.
template <class Fn>
void each_node(const Scope& scope, Fn fn) {
  size_t index = 0;
  for (Field& field : scope.message->fields)
    if (field.number == scope.node_number()) fn(field.open(), index++);
}

// fn(Message& graph) for each graph that a node's attributes hold.
template <class Fn>
void each_graph(Message& node, Fn fn) {
  for (Field& field : node.fields) {
    if (field.number != node_field::kAttribute || !field.message) continue;
    for (Field& held : field.message->fields)
      if (held.number == attribute_field::kGraph || held.number == attribute_field::kGraphs) fn(held.open());
  }
}

// Opens what is new: a node's attributes that hold graphs, and those graphs; gives ids. `depth` bounds the nesting.
void open_node(Message& node, uint32_t& next_id, int depth = 0);

// Names that a scope itself defines: inputs, initializers, outputs of nodes.
std::unordered_set<std::string> defined_in(const Scope& scope);
// Every name of a value in a root and the graphs inside it, read or made.
std::unordered_set<std::string> names_in(const std::vector<Scope>& scopes, size_t root);
// The tensor's name, of an initializer or (`sparse`) of a SparseTensorProto's values.
std::string initializer_name(const Field& field);
// The name of a ValueInfoProto.
std::string value_name(const Field& field);

}  // namespace transmuter::onnx
