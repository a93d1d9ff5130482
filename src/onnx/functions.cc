#include "onnx/functions.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "onnx/wire.h"

namespace transmuter::onnx {
namespace {

// Calls of calls multiply: a small file can ask for 2^25 nodes. A model may have this many nodes once its functions are
// inlined, or kMaxGrowth times those in the file.
constexpr size_t kMaxNodes = 100000;
constexpr size_t kMaxGrowth = 32;
// What inlined nodes may take in memory, roughly: names grow with the calls, attributes are copied.
constexpr size_t kMaxInlinedBytes = size_t{256} << 20;
constexpr size_t kMaxCallDepth = 50;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

std::string describe(const FunctionProto& function) {
  return str("function \"", function.domain, function.domain.empty() ? "" : ".", function.name, "\"");
}

using Names = std::unordered_map<std::string, std::string>;  // in the function -> in the model
using Bound = std::unordered_map<std::string, const AttributeProto*>;

using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
using Functions = std::map<Key, const FunctionProto*>;

const FunctionProto* find(const Functions& functions, const NodeProto& node) {
  const auto found = functions.find({node.node.domain, node.node.op_type, node.overload});
  return found == functions.end() ? nullptr : found->second;
}

// How large the model gets, found before anything is inlined: each function is measured once.
class Measure {
 public:
  explicit Measure(const Functions& functions) : functions_(functions) {}

  // Throws Error where functions call themselves, or call each other too deep.
  size_t inlined_nodes(const GraphProto& graph) { return of_nodes(graph.nodes).nodes; }
  // As the file has them.
  size_t nodes_in_file(const ModelProto& model) const {
    size_t count = own_nodes(model.graph->nodes);
    for (const FunctionProto& function : model.functions) count += own_nodes(function.nodes);
    return count;
  }

 private:
  struct Extent {
    size_t nodes = 0;  // at most kEnough
    size_t depth = 0;  // of calls
    bool measured = false;
  };
  static constexpr size_t kEnough = SIZE_MAX / 4;

  template <class Fn>
  static void each_graph(const NodeProto& node, Fn fn) {
    for (const AttributeProto& attribute : node.attributes) {
      if (attribute.graph) fn(*attribute.graph);
      for (const auto& graph : attribute.graphs) fn(*graph);
    }
  }

  static size_t own_nodes(const std::vector<NodeProto>& nodes) {
    size_t count = nodes.size();
    for (const NodeProto& node : nodes)
      each_graph(node, [&](const GraphProto& graph) { count += own_nodes(graph.nodes); });
    return count;
  }

  Extent of_nodes(const std::vector<NodeProto>& nodes) {
    Extent sum;
    const auto add = [&](const Extent& part) {
      sum.nodes = std::min(kEnough, sum.nodes + part.nodes);
      sum.depth = std::max(sum.depth, part.depth);
    };
    for (const NodeProto& node : nodes) {
      within([&] { return onnx::describe(node.node); },
             [&] {
               each_graph(node, [&](const GraphProto& graph) { add(of_nodes(graph.nodes)); });
               const FunctionProto* function = find(functions_, node);
               add(function ? of_function(*function) : Extent{1, 0, true});
             });
    }
    return sum;
  }

  Extent of_function(const FunctionProto& function) {
    const auto [at, added] = extents_.emplace(&function, Extent());
    if (added) {
      within([&] { return describe(function); },
             [&] {
               if (++open_ > kMaxCallDepth) refuse_depth();
               Extent extent = of_nodes(function.nodes);
               --open_;
               ++extent.depth;
               if (extent.depth > kMaxCallDepth) refuse_depth();
               extent.measured = true;
               extents_[&function] = extent;
             });
    } else if (!at->second.measured) {
      refuse(str(describe(function), " calls itself"));
    }
    return extents_[&function];
  }

  [[noreturn]] static void refuse_depth() {
    refuse(str("functions call each other more than ", kMaxCallDepth, " deep"));
  }

  const Functions& functions_;
  std::unordered_map<const FunctionProto*, Extent> extents_;
  size_t open_ = 0;
};

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
    if (!functions_.empty()) {
      Measure measure(functions_);
      if (measure.inlined_nodes(*model_.graph) > std::max(kMaxNodes, kMaxGrowth * measure.nodes_in_file(model_)))
        refuse_size();
      collect(*model_.graph);
    }
    expand(*model_.graph, model_.opsets);
  }

 private:
  // All value names of the model, so that new ones clash with none.
  void collect(const GraphProto& graph) {
    for (const ValueInfo& input : graph.inputs) taken_.emplace(input.name, 2);
    for (const NamedTensor& initializer : graph.initializers) taken_.emplace(initializer.name, 2);
    for (const NodeProto& node : graph.nodes) {
      for (const std::string& output : node.node.outputs) taken_.emplace(output, 2);
      for (const AttributeProto& attribute : node.attributes) {
        if (attribute.graph) collect(*attribute.graph);
        for (const auto& inner : attribute.graphs) collect(*inner);
      }
    }
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
               if (const FunctionProto* function = find(functions_, node)) return call(node, *function, opsets, out);
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
    within([&] { return describe(function); }, [&] { inline_call(caller, function, opsets, out); });
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

  // A name that the model does not have yet. The count starts where the last one ended, so many calls stay cheap.
  std::string fresh(const std::string& prefix, const std::string& name) {
    const std::string base = prefix + "/" + name;
    std::string candidate = base;
    bool added = taken_.emplace(base, 2).second;
    while (!added) {
      size_t& next = taken_.at(base);
      candidate = str(base, "_", next++);
      added = taken_.emplace(candidate, 2).second;
    }
    charge(2 * candidate.size());
    return candidate;
  }

  void charge(const NodeProto& node) {
    size_t size = sizeof(NodeProto) + node.node.name.size() + node.node.label.size();
    for (const std::string& name : node.node.inputs) size += sizeof(std::string) + name.size();
    for (const std::string& name : node.node.outputs) size += sizeof(std::string) + name.size();
    for (const AttributeProto& attribute : node.attributes) {
      const Attribute& value = attribute.value;
      size += sizeof(AttributeProto) + value.s.size() + value.floats.size() * sizeof(float) +
              value.ints.size() * sizeof(int64_t) + value.tensors.size() * sizeof(Tensor);
      for (const std::string& text : value.strings) size += sizeof(std::string) + text.size();
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
    if (inlined_bytes_ > kMaxInlinedBytes) refuse_size();
  }
  [[noreturn]] static void refuse_size() {
    throw Error(ErrorCode::unsupported, "the model's functions grow beyond what is allowed when they are inlined");
  }

  ModelProto& model_;
  Functions functions_;
  std::unordered_map<std::string, size_t> taken_;  // all value names, each with the next suffix to try
  size_t inlined_bytes_ = 0;
  int graph_depth_ = 0;
};

}  // namespace

void inline_functions(ModelProto& model) { Inliner(model).run(); }

}  // namespace transmuter::onnx
