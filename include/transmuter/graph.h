// Graph: an ONNX model's structure, to look at and to edit. What an edit does not touch stays as the file has it, byte
// for byte: metadata, documentation, fields that nobody here knows, weights.
//
//   Graph graph = Graph::load("model.onnx");
//   GraphEdit edit = graph.edit();
//   for (const NodeInfo& node : edit.find(where::op_type("Greater"))) edit.set_operator(node.id, "GreaterOrEqual");
//   Graph edited = edit.add_output("hidden").commit();   // checked; `graph` is as it was
//   edited.save("edited.onnx");
//   CompiledModel run = Model::from_graph(edited).compile();
//
// Scopes: "" is the main graph; a graph inside a node is "NODE.then_branch", further in "NODE.body >
// INNER.else_branch"; a function is "function DOMAIN.NAME". Names in a scope are seen in the scopes inside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "transmuter/tensor.h"
#include "transmuter/value_spec.h"

namespace transmuter {

namespace onnx {
struct Document;
}

// What an attribute holds. Graphs, types, lists of tensors and references to a function's attribute are monostate: they
// are kept as they are (graphs are edited as scopes).
using AttributeValue = std::variant<std::monostate, int64_t, float, std::string, Tensor, std::vector<int64_t>,
                                    std::vector<float>, std::vector<std::string>>;

struct NodeInfo {
  uint32_t id = 0;    // of this node in the graph, in its edits and in what they give
  std::string name;   // may be empty
  std::string label;  // the name, or OpType_INDEX
  std::string op_type;
  std::string domain;  // "" is ai.onnx
  std::string scope;
  std::vector<std::string> inputs;   // "" = absent
  std::vector<std::string> outputs;  // "" = not wanted
  std::map<std::string, AttributeValue> attributes;
};

// Which nodes are meant: any function will do, these are the common ones. In `pattern`, * stands for any characters
// and ? for one.
using NodePredicate = std::function<bool(const NodeInfo&)>;
namespace where {
NodePredicate name(std::string pattern);  // of the name, or of the label of a node without one
NodePredicate op_type(std::string pattern);
NodePredicate domain(std::string name);
NodePredicate scope(std::string pattern);
NodePredicate input(std::string pattern);
NodePredicate output(std::string pattern);
NodePredicate attribute(std::string name);
NodePredicate attribute(std::string name, AttributeValue value);
NodePredicate all(std::vector<NodePredicate> of);
NodePredicate any(std::vector<NodePredicate> of);
NodePredicate none(NodePredicate of);
}  // namespace where

struct SaveOptions {
  enum class Weights {
    // Where they are: inside the model, or in other files, which must then lie beside the saved model too.
    keep,
    external,  // in one file beside the model; a model beyond 2 GB needs that
    embed,     // all inside the model
  };
  Weights weights = Weights::keep;
  std::string data_file;        // its name for `external`; "" = the model's with ".data" appended
  size_t external_from = 1024;  // bytes; smaller tensors stay inside
};

class GraphEdit;

// Immutable and cheap to copy; may be used from several threads.
class Graph {
 public:
  // Throw Error as Model::load does, but check only that the bytes are a model at all: broken graphs may be repaired.
  static Graph load(const std::string& path);
  // `folder`: where weights in other files lie; "" refuses them.
  static Graph from_bytes(std::vector<std::byte> bytes, const std::string& folder = "");

  std::vector<NodeInfo> nodes() const;  // every scope, each node before those inside it
  std::vector<NodeInfo> find(const NodePredicate& wanted) const;
  std::vector<std::string> scopes() const;
  std::vector<ValueSpec> inputs() const;
  std::vector<ValueSpec> outputs() const;
  std::vector<std::string> initializers(const std::string& scope = "") const;
  Tensor initializer(const std::string& name, const std::string& scope = "") const;
  std::map<std::string, std::string> metadata() const;  // the file's metadata properties

  GraphEdit edit() const;

  // An ONNX file; all of it or nothing: a failure leaves what was there. Throws Error: invalid_input where weights in
  // other files would not be found, or the model is too large for one file; io.
  void save(const std::string& path, const SaveOptions& options = {}) const;
  // The same as bytes; weights in other files stay there.
  std::vector<std::byte> to_bytes() const;

 private:
  friend class GraphEdit;
  friend class Model;
  std::shared_ptr<const onnx::Document> document_;
};

// Changes to a copy of a graph, in order; each throws Error(invalid_input) and changes nothing where it can't be done.
// commit() checks the result as loading it would: every name defined once and before its use, operators, attributes and
// input counts as the imported operator sets have them, inputs and outputs typed. Recorded types of values that changed
// nodes lead to are forgotten (they are hints only); declared types of outputs are kept unless set_type changes them.
class GraphEdit {
 public:
  struct NewNode {
    std::string op_type;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::map<std::string, AttributeValue> attributes;
    std::string name;
    std::string domain;
  };

  std::vector<NodeInfo> find(const NodePredicate& wanted) const;

  // Nodes. Inputs, outputs, attributes that a new operator doesn't have must be removed too.
  GraphEdit& set_operator(uint32_t node, const std::string& op_type, const std::string& domain = "");
  GraphEdit& set_attribute(uint32_t node, const std::string& name, const AttributeValue& value);
  GraphEdit& remove_attribute(uint32_t node, const std::string& name);
  GraphEdit& rename_node(uint32_t node, const std::string& name);
  GraphEdit& set_input(uint32_t node, size_t index, const std::string& value);  // "" = absent
  GraphEdit& set_output(uint32_t node, size_t index, const std::string& value);
  // Returns the new node's id. Where it stands is found by what it reads.
  uint32_t add_node(const NewNode& node, const std::string& scope = "");
  GraphEdit& remove_node(uint32_t node);
  // Removes a node; its first output's readers read its first input instead. An output of the graph keeps its name.
  GraphEdit& bypass_node(uint32_t node);
  // Removes nodes and initializers that nothing leads to an output from, in every scope.
  GraphEdit& prune();

  // Values. `rewire`: every node that reads `from` reads `to` (the graph's outputs keep their names).
  GraphEdit& rewire(const std::string& from, const std::string& to, const std::string& scope = "");
  GraphEdit& rename_value(const std::string& from, const std::string& to, const std::string& scope = "");
  // The declared type of an input, output or other value of the main graph.
  GraphEdit& set_type(const ValueSpec& spec);
  GraphEdit& rename_dim(const std::string& from, const std::string& to);  // a symbol, wherever it is declared
  GraphEdit& fix_dim(const std::string& symbol, int64_t value);

  // Inputs and outputs of the main graph. An output without a type gets that of the value, where it is recorded or
  // follows from the operators; throws if not.
  GraphEdit& add_input(const ValueSpec& spec);
  GraphEdit& remove_input(const std::string& name);
  GraphEdit& add_output(const std::string& name);
  GraphEdit& add_output(const ValueSpec& spec);
  GraphEdit& remove_output(const std::string& name);

  // Initializers. `set` adds or replaces.
  GraphEdit& set_initializer(const std::string& name, const Tensor& tensor, const std::string& scope = "");
  GraphEdit& remove_initializer(const std::string& name, const std::string& scope = "");
  // Stores the values as another dtype; a Cast gives the readers the type that they had.
  GraphEdit& convert_initializer(const std::string& name, DType dtype, const std::string& scope = "");
  // The values come from outside from now on.
  GraphEdit& initializer_to_input(const std::string& name);

  GraphEdit& set_opset(const std::string& domain, int64_t version);  // no node is converted
  GraphEdit& set_metadata(const std::string& key, const std::string& value);
  GraphEdit& remove_metadata(const std::string& key);

  // Throws Error as loading the result would.
  Graph commit() const;

 private:
  friend class Graph;
  explicit GraphEdit(const onnx::Document& document);
  void changed(uint32_t node) { changed_.push_back(node); }
  GraphEdit& take_name(const std::string& from, const std::string& to, const std::string& scope);

  std::shared_ptr<onnx::Document> document_;  // this edit's own
  std::vector<uint32_t> changed_;             // nodes whose results may have other types now

 public:
  // A copy is an edit of its own.
  GraphEdit(const GraphEdit& other);
  GraphEdit& operator=(const GraphEdit& other);
  GraphEdit(GraphEdit&&) = default;
  GraphEdit& operator=(GraphEdit&&) = default;
  ~GraphEdit() = default;
};

}  // namespace transmuter
