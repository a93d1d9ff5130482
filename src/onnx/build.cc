#include "onnx/build.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_set>

#include "onnx/wire.h"

namespace transmuter::onnx {
namespace {

constexpr size_t kNoNode = SIZE_MAX;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

class Builder {
 public:
  // `numbered`: how many nodes of the model have a number.
  Builder(GraphProto proto, const Builder* outer, uint64_t& numbered)
      : proto_(std::move(proto)), outer_(outer), numbered_(numbered) {}

  Graph build() {
    within([&] { return describe_graph(graph_.name); },
           [&] {
             graph_.name = std::move(proto_.name);
             take_inputs();
             take_nodes();
             for (size_t i = 0; i < graph_.nodes.size(); ++i) {
               Node& node = graph_.nodes[i];
               within([&] { return describe(node); }, [&] { build_node(i, std::move(proto_.nodes[i].attributes)); });
             }
             sort();
             collect_captures();
             take_outputs();
           });
    return std::move(graph_);
  }

 private:
  // Where a name of this graph comes from: a node, or kNoNode.
  const size_t* producer(const std::string& name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? nullptr : &found->second;
  }
  bool visible(const std::string& name) const {
    for (const Builder* scope = this; scope; scope = scope->outer_)
      if (scope->producer(name)) return true;
    return false;
  }

  void take_inputs() {
    graph_.inputs = std::move(proto_.inputs);
    for (const ValueInfo& input : graph_.inputs) {
      if (input.name.empty()) refuse("an input has no name");
      if (!producers_.emplace(input.name, kNoNode).second) refuse(str("two inputs are named \"", input.name, "\""));
      // Inputs of subgraphs take the type of what is fed to them.
      if (!outer_ && (input.kind == ValueInfo::Kind::none ||
                      (input.kind == ValueInfo::Kind::tensor && input.dtype == DType::invalid)))
        refuse(str("the input \"", input.name, "\" has no type"));
    }
    std::unordered_map<std::string, const ValueInfo*> declared;
    for (const ValueInfo& input : graph_.inputs) declared.emplace(input.name, &input);
    for (NamedTensor& initializer : proto_.initializers) {
      if (initializer.name.empty()) refuse("an initializer has no name");
      producers_.emplace(initializer.name, kNoNode);
      const auto input = declared.find(initializer.name);
      if (input != declared.end() && input->second->dtype != DType::invalid &&
          input->second->dtype != initializer.tensor.dtype())
        refuse(str("the input \"", initializer.name, "\" is declared ", name(input->second->dtype),
                   ", but its initializer is ", name(initializer.tensor.dtype())));
      if (!graph_.initializers.emplace(initializer.name, std::move(initializer.tensor)).second)
        refuse(str("two initializers are named \"", initializer.name, "\""));
    }
    for (ValueInfo& info : proto_.value_infos)
      if (!info.name.empty()) graph_.value_infos[info.name] = std::move(info);
  }

  // Defines the outputs of every node, so that subgraphs and later nodes can see them.
  void take_nodes() {
    graph_.nodes.reserve(proto_.nodes.size());
    for (NodeProto& node : proto_.nodes) {
      graph_.nodes.push_back(std::move(node.node));
      graph_.nodes.back().number = ++numbered_;
      const Node& taken = graph_.nodes.back();
      within([&] { return describe(taken); },
             [&] {
               if (taken.outputs.empty()) refuse("the node has no outputs");
               for (const std::string& output : taken.outputs)
                 if (!output.empty() && !producers_.emplace(output, graph_.nodes.size() - 1).second)
                   refuse(str("the value \"", output, "\" is defined twice"));
             });
    }
  }

  void build_node(size_t index, std::vector<AttributeProto> attributes) {
    Node& node = graph_.nodes[index];
    node.attributes.reserve(attributes.size());
    for (AttributeProto& proto : attributes) {
      Attribute attribute = std::move(proto.value);
      within([&] { return str("attribute \"", attribute.name, "\""); },
             [&] {
               if (proto.graph) attribute.graph = build_inner(proto.graph);
               for (const auto& graph : proto.graphs) attribute.graphs.push_back(build_inner(graph));
             });
      node.attributes.push_back(std::move(attribute));
    }
    each_read(node, [&](const std::string& name) {
      if (!visible(name))
        refuse(str("the input \"", name, "\" is no input, initializer or node output of ", describe_graph(graph_.name),
                   outer_ ? " or the graphs around it" : ""));
    });
    check_control_flow(node);
  }

  std::shared_ptr<const Graph> build_inner(const std::shared_ptr<GraphProto>& proto) {
    // A graph that was handed into a function may be used more than once.
    GraphProto own = proto.use_count() == 1 ? std::move(*proto) : *proto;
    return std::make_shared<const Graph>(Builder(std::move(own), this, numbered_).build());
  }

  // Every name that a node reads, in its inputs and in its subgraphs.
  template <class Fn>
  static void each_read(const Node& node, Fn fn) {
    for (const std::string& input : node.inputs)
      if (!input.empty()) fn(input);
    for (const Attribute& attribute : node.attributes) {
      if (attribute.graph)
        for (const std::string& capture : attribute.graph->captures) fn(capture);
      for (const auto& graph : attribute.graphs)
        for (const std::string& capture : graph->captures) fn(capture);
    }
  }

  void sort() {
    const size_t count = graph_.nodes.size();
    std::vector<std::vector<size_t>> readers(count);
    std::vector<size_t> waiting(count, 0);
    bool sorted = true;
    for (size_t i = 0; i < count; ++i) {
      each_read(graph_.nodes[i], [&](const std::string& name) {
        const size_t* made_by = producer(name);
        if (!made_by || *made_by == kNoNode) return;
        readers[*made_by].push_back(i);
        ++waiting[i];
        sorted = sorted && *made_by < i;
      });
    }
    if (sorted) return;
    // The first node of the file that can run comes first.
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < count; ++i)
      if (waiting[i] == 0) ready.push(i);
    std::vector<Node> nodes;
    nodes.reserve(count);
    while (!ready.empty()) {
      const size_t i = ready.top();
      ready.pop();
      for (const size_t reader : readers[i])
        if (--waiting[reader] == 0) ready.push(reader);
      nodes.push_back(std::move(graph_.nodes[i]));
    }
    if (nodes.size() < count) refuse_cycle(waiting, readers);
    graph_.nodes = std::move(nodes);
  }

  [[noreturn]] void refuse_cycle(const std::vector<size_t>& waiting, const std::vector<std::vector<size_t>>& readers) {
    // Nodes left over wait for each other, or for nodes that do: walking backwards must come round.
    const size_t count = waiting.size();
    std::vector<size_t> source(count, kNoNode);
    size_t at = kNoNode;
    for (size_t i = 0; i < count; ++i) {
      if (waiting[i] == 0) continue;
      at = i;
      for (const size_t reader : readers[i]) source[reader] = i;
    }
    std::vector<bool> seen(count, false);
    while (!seen[at]) {
      seen[at] = true;
      at = source[at];
    }
    constexpr size_t kShown = 8;
    const size_t first = at;
    std::string circle = str('"', graph_.nodes[first].label, '"');
    size_t shown = 1;
    for (at = source[first]; at != first && shown < kShown; at = source[at], ++shown)
      circle += str(" needs \"", graph_.nodes[at].label, '"');
    if (at != first) circle += " needs ...";
    refuse(str("nodes wait for each other in a circle: ", circle, " needs \"", graph_.nodes[first].label, '"'));
  }

  void capture(const std::string& name) {
    if (producer(name) || !captured_.insert(name).second) return;
    graph_.captures.push_back(name);
  }

  void collect_captures() {
    if (!outer_) return;
    for (const Node& node : graph_.nodes) each_read(node, [&](const std::string& name) { capture(name); });
  }

  void take_outputs() {
    graph_.outputs = std::move(proto_.outputs);
    if (!outer_ && graph_.outputs.empty()) refuse("the graph has no outputs");
    // The same value may be listed twice: a body hands it out under two outputs of its node.
    for (const ValueInfo& output : graph_.outputs) {
      if (output.name.empty()) refuse("an output has no name");
      if (!visible(output.name)) refuse(str("the output \"", output.name, "\" is never made"));
      if (outer_) capture(output.name);
    }
  }

  GraphProto proto_;
  const Builder* outer_;
  uint64_t& numbered_;
  Graph graph_;
  std::unordered_map<std::string, size_t> producers_;
  std::unordered_set<std::string> captured_;
};

}  // namespace

Graph build_graph(GraphProto proto) {
  uint64_t numbered = 0;
  return Builder(std::move(proto), nullptr, numbered).build();
}

}  // namespace transmuter::onnx
