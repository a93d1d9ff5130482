#include "onnx/functions.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "onnx/wire.h"

namespace transmuter::onnx {
namespace {

// What all inlined nodes may take in memory, roughly. Calls of calls multiply: a small file can ask for 2^25 nodes.
constexpr size_t kMaxInlinedBytes = size_t{256} << 20;
constexpr size_t kMaxCallDepth = 100;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

std::string describe(const FunctionProto& function) {
  return str("function \"", function.domain, function.domain.empty() ? "" : ".", function.name, "\"");
}

using Names = std::unordered_map<std::string, std::string>;  // in the function -> in the model
using Bound = std::unordered_map<std::string, const AttributeProto*>;

class Inliner {
 public:
  explicit Inliner(ModelProto& model) : model_(model) {
    for (const FunctionProto& function : model.functions) {
      const Key key{function.domain, function.name, function.overload};
      if (function.name.empty()) refuse("a function has no name");
      if (!functions_.emplace(key, &function).second) refuse(str("there are two of ", describe(function)));
    }
  }

  void run() {
    if (!functions_.empty()) collect(*model_.graph);
    expand(*model_.graph, model_.opsets);
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;

  // All value names of the model, so that new ones clash with none.
  void collect(const GraphProto& graph) {
    for (const ValueInfo& input : graph.inputs) taken_.insert(input.name);
    for (const NamedTensor& initializer : graph.initializers) taken_.insert(initializer.name);
    for (const NodeProto& node : graph.nodes) {
      taken_.insert(node.node.outputs.begin(), node.node.outputs.end());
      for (const AttributeProto& attribute : node.attributes) {
        if (attribute.graph) collect(*attribute.graph);
        for (const auto& inner : attribute.graphs) collect(*inner);
      }
    }
  }

  const FunctionProto* find(const NodeProto& node) const {
    const auto found = functions_.find({node.node.domain, node.node.op_type, node.overload});
    return found == functions_.end() ? nullptr : found->second;
  }

  // Replaces the calls in `graph`, whose nodes were written for `opsets`.
  void expand(GraphProto& graph, const Opsets& opsets) {
    within([&] { return describe_graph(graph.name); },
           [&] {
             // Functions called from subgraphs of functions nest deeper than the file does.
             if (++graph_depth_ > kMaxGraphDepth)
               refuse(str("graphs are nested deeper than ", kMaxGraphDepth, " levels"));
             std::vector<NodeProto> nodes;
             nodes.reserve(graph.nodes.size());
             for (NodeProto& node : graph.nodes) emit(std::move(node), opsets, nodes);
             graph.nodes = std::move(nodes);
             --graph_depth_;
           });
  }

  // Appends `node`, or what it calls, to `out`.
  void emit(NodeProto node, const Opsets& opsets, std::vector<NodeProto>& out) {
    const std::string where = onnx::describe(node.node);
    within([&] { return where; },
           [&] {
             if (node.node.version == 0) {
               for (AttributeProto& attribute : node.attributes) {
                 if (!attribute.reference.empty())
                   refuse(str("the attribute \"", attribute.value.name,
                              "\" refers to a function's attribute, outside of a function"));
                 if (attribute.graph) expand(*attribute.graph, opsets);
                 for (const auto& inner : attribute.graphs) expand(*inner, opsets);
               }
               if (const FunctionProto* function = find(node)) return call(node, *function, opsets, out);
               node.node.version = version_of(node.node.domain, opsets);
             }
             out.push_back(std::move(node));
           });
  }

  static int64_t version_of(const std::string& domain, const Opsets& opsets) {
    const auto found = opsets.find(domain);
    if (found != opsets.end()) return found->second;
    // ONNX Runtime's own optimizer adds such nodes without the import.
    if (domain == "com.microsoft") return 1;
    refuse(str("the operator set \"", domain.empty() ? "ai.onnx" : domain, "\" is used, but not imported"));
  }

  void call(const NodeProto& caller, const FunctionProto& function, const Opsets& opsets, std::vector<NodeProto>& out) {
    within([&] { return describe(function); },
           [&] {
             if (std::find(active_.begin(), active_.end(), &function) != active_.end())
               refuse(str(describe(function), " calls itself"));
             if (active_.size() == kMaxCallDepth) refuse(str("functions call each other ", kMaxCallDepth, " deep"));
             active_.push_back(&function);
             inline_call(caller, function, opsets, out);
             active_.pop_back();
           });
  }

  void inline_call(const NodeProto& caller, const FunctionProto& function, const Opsets& opsets,
                   std::vector<NodeProto>& out) {
    const Node& node = caller.node;
    if (node.inputs.size() > function.inputs.size())
      refuse(str("the call has ", node.inputs.size(), " inputs, the function ", function.inputs.size()));
    if (node.outputs.size() > function.outputs.size())
      refuse(str("the call has ", node.outputs.size(), " outputs, the function ", function.outputs.size()));
    const Bound bound = bind_attributes(caller, function);

    Names names;
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      const bool added = names.emplace(function.inputs[i], i < node.inputs.size() ? node.inputs[i] : "").second;
      if (!added) refuse(str("the function has two inputs \"", function.inputs[i], "\""));
    }
    std::vector<std::string> results(function.outputs.size());  // what the caller calls each output; "" = not wanted
    std::unordered_map<std::string, std::string> wanted;        // an output made by a node keeps the caller's name
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      const std::string result = i < node.outputs.size() ? node.outputs[i] : std::string();
      results[i] = result;
      if (!result.empty() && !wanted.emplace(function.outputs[i], result).second)
        refuse(str("the function has two outputs \"", function.outputs[i], "\""));
    }
    for (const NodeProto& inner : function.nodes) {
      for (const std::string& output : inner.node.outputs) {
        if (output.empty()) continue;
        const auto want = wanted.find(output);
        const std::string& name = want != wanted.end() ? want->second : fresh(node.label, output);
        if (!names.emplace(output, name).second) refuse(str("the function has two values \"", output, "\""));
      }
    }
    for (const NodeProto& inner : function.nodes) {
      NodeProto copy = instantiate(inner, {&names, nullptr}, bound, node.label);
      emit(std::move(copy), function.opsets, out);
    }
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      if (results[i].empty()) continue;
      const auto made = names.find(function.outputs[i]);
      if (made == names.end()) refuse(str("no node of the function makes its output \"", function.outputs[i], "\""));
      if (made->second == results[i]) continue;
      // The output is an input passed through.
      if (made->second.empty()) refuse(str("the output \"", results[i], "\" is an input that the call leaves out"));
      out.push_back(identity(made->second, results[i], node.label, function, opsets));
    }
  }

  static NodeProto identity(const std::string& from, const std::string& to, const std::string& label,
                            const FunctionProto& function, const Opsets& opsets) {
    NodeProto result;
    result.node.op_type = "Identity";
    result.node.label = label + "/Identity";
    result.node.version = 1;
    for (const Opsets* sets : {&function.opsets, &opsets})
      if (const auto found = sets->find(""); found != sets->end()) result.node.version = found->second;
    result.node.inputs = {from};
    result.node.outputs = {to};
    return result;
  }

  Bound bind_attributes(const NodeProto& caller, const FunctionProto& function) const {
    Bound bound;
    for (const AttributeProto& attribute : function.defaults) {
      if (attribute.graph || !attribute.graphs.empty())
        throw Error(ErrorCode::unsupported, "a function's attribute has a graph as its default");
      bound[attribute.value.name] = &attribute;
    }
    for (const AttributeProto& attribute : caller.attributes) {
      const std::string& name = attribute.value.name;
      if (bound.count(name) == 0 &&
          std::find(function.attributes.begin(), function.attributes.end(), name) == function.attributes.end())
        refuse(str("the call has an attribute \"", name, "\", the function has none"));
      bound[name] = &attribute;
    }
    return bound;
  }

  // The names of a function's body; a subgraph's own names come first.
  struct Scope {
    const Names* names;
    const Scope* outer;

    const std::string* find(const std::string& name) const {
      for (const Scope* scope = this; scope; scope = scope->outer)
        if (const auto found = scope->names->find(name); found != scope->names->end()) return &found->second;
      return nullptr;
    }
  };

  std::string renamed(const Scope& scope, const std::string& name) const {
    if (name.empty()) return name;
    if (const std::string* found = scope.find(name)) return *found;
    refuse(str("the function reads \"", name, "\", which it does not define; functions do not see the caller's names"));
  }

  NodeProto instantiate(const NodeProto& node, const Scope& scope, const Bound& bound, const std::string& prefix) {
    NodeProto copy;
    within([&] { return onnx::describe(node.node); },
           [&] {
             copy.overload = node.overload;
             copy.node.name = node.node.name;
             copy.node.label = prefix + "/" + node.node.label;
             copy.node.op_type = node.node.op_type;
             copy.node.domain = node.node.domain;
             for (const std::string& name : node.node.inputs) copy.node.inputs.push_back(renamed(scope, name));
             for (const std::string& name : node.node.outputs) copy.node.outputs.push_back(renamed(scope, name));
             for (const AttributeProto& attribute : node.attributes) {
               if (attribute.reference.empty()) {
                 copy.attributes.push_back(instantiate(attribute, scope, bound, prefix));
               } else if (const auto found = bound.find(attribute.reference); found != bound.end()) {
                 const AttributeProto& actual = *found->second;
                 if (attribute.value.kind != Attribute::Kind::none && attribute.value.kind != actual.value.kind)
                   refuse(str("the attribute \"", attribute.value.name, "\" refers to \"", attribute.reference,
                              "\", which has another type"));
                 charge(actual);
                 copy.attributes.push_back(actual);
                 copy.attributes.back().value.name = attribute.value.name;
               }
             }
             charge(copy);
           });
    return copy;
  }

  AttributeProto instantiate(const AttributeProto& attribute, const Scope& scope, const Bound& bound,
                             const std::string& prefix) {
    AttributeProto copy = attribute;
    if (attribute.graph) copy.graph = instantiate(*attribute.graph, scope, bound, prefix);
    for (auto& graph : copy.graphs) graph = instantiate(*graph, scope, bound, prefix);
    return copy;
  }

  std::shared_ptr<GraphProto> instantiate(const GraphProto& graph, const Scope& outer, const Bound& bound,
                                          const std::string& prefix) {
    Names names;
    const Scope scope{&names, &outer};
    const auto add = [&](const std::string& name) {
      if (!name.empty()) names.emplace(name, fresh(prefix, name));
    };
    for (const ValueInfo& input : graph.inputs) add(input.name);
    for (const NamedTensor& initializer : graph.initializers)
      if (names.count(initializer.name) == 0) add(initializer.name);
    for (const NodeProto& node : graph.nodes)
      for (const std::string& output : node.node.outputs) {
        if (names.count(output) != 0) refuse(str("the value \"", output, "\" is made twice"));
        add(output);
      }
    auto copy = std::make_shared<GraphProto>();
    copy->name = graph.name;
    copy->inputs = graph.inputs;
    copy->outputs = graph.outputs;
    copy->initializers = graph.initializers;
    for (ValueInfo& input : copy->inputs) input.name = renamed(scope, input.name);
    for (ValueInfo& output : copy->outputs) output.name = renamed(scope, output.name);
    for (NamedTensor& initializer : copy->initializers) initializer.name = renamed(scope, initializer.name);
    for (const NodeProto& node : graph.nodes) copy->nodes.push_back(instantiate(node, scope, bound, prefix));
    return copy;
  }

  std::string fresh(const std::string& prefix, const std::string& name) {
    std::string candidate = prefix + "/" + name;
    for (size_t i = 2; !taken_.insert(candidate).second; ++i) candidate = str(prefix, "/", name, "_", i);
    charge(2 * candidate.size());
    return candidate;
  }

  void charge(const NodeProto& node) {
    size_t size = sizeof(NodeProto) + node.node.name.size() + node.node.label.size();
    for (const std::string& name : node.node.inputs) size += sizeof(name) + name.size();
    for (const std::string& name : node.node.outputs) size += sizeof(name) + name.size();
    for (const AttributeProto& attribute : node.attributes) {
      const Attribute& value = attribute.value;
      size += sizeof(AttributeProto) + value.s.size() + value.floats.size() * sizeof(float) +
              value.ints.size() * sizeof(int64_t) + value.tensors.size() * sizeof(Tensor);
      for (const std::string& text : value.strings) size += sizeof(text) + text.size();
    }
    charge(size);
  }
  // An attribute handed into a function: its graphs are built anew wherever it is used.
  void charge(const AttributeProto& attribute) {
    if (attribute.graph) charge(*attribute.graph);
    for (const auto& graph : attribute.graphs) charge(*graph);
  }
  void charge(const GraphProto& graph) {
    for (const NodeProto& node : graph.nodes) {
      charge(node);
      for (const AttributeProto& attribute : node.attributes) charge(attribute);
    }
  }
  void charge(size_t bytes) {
    inlined_bytes_ += bytes;
    if (inlined_bytes_ > kMaxInlinedBytes)
      throw Error(ErrorCode::unsupported, "the model's functions grow beyond what is allowed when they are inlined");
  }

  ModelProto& model_;
  std::map<Key, const FunctionProto*> functions_;
  std::unordered_set<std::string> taken_;
  std::vector<const FunctionProto*> active_;
  size_t inlined_bytes_ = 0;
  int graph_depth_ = 0;
};

}  // namespace

void inline_functions(ModelProto& model) { Inliner(model).run(); }

}  // namespace transmuter::onnx
