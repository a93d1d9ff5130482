#include "onnx/edit.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "base/strings.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

AttributeValue attribute_value(const Field& field, const Source& source) {
  const Shown attribute(field);
  enum Kind : int64_t { kF = 1, kI = 2, kS = 3, kT = 4, kG = 5, kFs = 6, kIs = 7, kSs = 8, kGs = 10 };
  int64_t kind = attribute->integer(attribute_field::kKind);
  if (kind == kG || kind == kGs) return {};  // not encoded below either: it may hold all weights
  const std::string encoded = field.message ? encode(*attribute) : std::string();
  std::vector<float> floats;
  std::vector<int64_t> ints;
  float f = 0;
  Fields fields(field.message ? std::string_view(encoded) : field.bytes);
  while (fields.next()) {
    switch (fields.field()) {
      case attribute_field::kF:
        f = fields.float32();
        if (kind == 0) kind = kF;
        break;
      case attribute_field::kI:
        fields.skip();
        if (kind == 0) kind = kI;
        break;
      case attribute_field::kS:
        fields.skip();
        if (kind == 0) kind = kS;
        break;
      case attribute_field::kTensor:
        fields.skip();
        if (kind == 0) kind = kT;
        break;
      case attribute_field::kFloats:
        fields.each_float32([&](float x) { floats.push_back(x); });
        if (kind == 0) kind = kFs;
        break;
      case attribute_field::kInts:
        fields.each_int64([&](int64_t x) { ints.push_back(x); });
        if (kind == 0) kind = kIs;
        break;
      case attribute_field::kStrings:
        fields.skip();
        if (kind == 0) kind = kSs;
        break;
      default:
        fields.skip();
    }
  }
  if (attribute->find(attribute_field::kReference)) return {};
  switch (kind) {
    case kF:
      return f;
    case kI:
      return attribute->integer(attribute_field::kI);
    case kS:
      return std::string(attribute->text(attribute_field::kS));
    case kT: {
      const Field* tensor = attribute->find(attribute_field::kTensor);
      if (!tensor) return {};
      return tensor_of(*tensor, source).aligned();
    }
    case kFs:
      return floats;
    case kIs:
      return ints;
    case kSs:
      return attribute->texts(attribute_field::kStrings);
    default:
      return {};
  }
}

// Every name that a node reads, inside its graphs too.
void each_read(Message& node, const std::function<void(const std::string&)>& fn) {
  for (const std::string& input : node.texts(node_field::kInput)) fn(input);
  each_graph(node, [&](Message& graph) {
    for (Field& field : graph.fields) {
      if (field.number == graph_field::kNode) each_read(field.open(), fn);
      if (field.number == graph_field::kOutput) fn(value_name(field));
    }
  });
}

void sort_nodes(const Scope& scope) {
  std::vector<Field*> nodes;
  std::map<std::string, size_t> made_by;
  for (Field& field : scope.message->fields) {
    if (field.number != scope.node_number()) continue;
    for (const std::string& output : field.open().texts(node_field::kOutput)) made_by.emplace(output, nodes.size());
    nodes.push_back(&field);
  }
  made_by.erase("");
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> waiting(nodes.size(), 0);
  bool sorted = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    each_read(nodes[i]->open(), [&](const std::string& name) {
      const auto maker = made_by.find(name);
      if (maker == made_by.end()) return;
      readers[maker->second].push_back(i);
      ++waiting[i];
      sorted = sorted && maker->second < i;
    });
  }
  if (sorted) return;
  // The first of the file that can run comes first.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0) ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const size_t reader : readers[i])
      if (--waiting[reader] == 0) ready.push(reader);
  }
  if (order.size() < nodes.size()) return;  // a circle, which the reader names
  std::vector<Field> moved;
  for (const size_t i : order) moved.push_back(std::move(*nodes[i]));
  for (size_t i = 0; i < moved.size(); ++i) *nodes[i] = std::move(moved[i]);
}

// Marks what a graph's nodes make from stale values; true when anything in it is stale.
bool spread(Message& graph, uint32_t node_number, const std::unordered_set<uint32_t>& changed, bool inputs_stale,
            std::unordered_set<std::string>& stale) {
  bool any = inputs_stale;
  for (Field& field : graph.fields) {
    if (inputs_stale && field.number == graph_field::kInput) stale.insert(value_name(field));
    if (field.number != node_number) continue;
    Message& node = field.open();
    bool hit = changed.contains(node.id);
    each_read(node, [&](const std::string& name) { hit = hit || stale.contains(name); });
    each_graph(node, [&](Message& inner) { hit = spread(inner, graph_field::kNode, changed, hit, stale) || hit; });
    if (!hit) continue;
    any = true;
    for (const std::string& output : node.texts(node_field::kOutput))
      if (!output.empty()) stale.insert(output);
  }
  return any;
}

}  // namespace

Place place_of(const std::vector<Scope>& scopes, uint32_t id) {
  for (size_t i = 0; i < scopes.size(); ++i)
    for (Field& field : scopes[i].message->fields)
      if (field.number == scopes[i].node_number() && field.open().id == id) return {i, &field};
  refuse_edit("there is no node with the id ", id, " in this graph (it may have been removed)");
}

size_t scope_of(const std::vector<Scope>& scopes, const std::string& name) {
  size_t found = SIZE_MAX;
  for (size_t i = 0; i < scopes.size(); ++i) {
    if (scopes[i].name != name) continue;
    if (found != SIZE_MAX) refuse_edit("two scopes are named \"", name, "\"; rename one of the nodes first");
    found = i;
  }
  if (found == SIZE_MAX) {
    std::string known;
    for (size_t i = 1; i < scopes.size() && i <= 8; ++i) known += str(i == 1 ? "" : ", ", '"', scopes[i].name, '"');
    refuse_edit("there is no scope \"", name, "\"; ",
                scopes.size() == 1 ? "the model has the main graph only" : "besides the main graph there are " + known);
  }
  return found;
}

std::vector<size_t> scopes_that_see(const std::vector<Scope>& scopes, size_t index, const std::string& name) {
  std::vector<bool> sees(scopes.size(), false);
  std::vector<size_t> all;
  for (size_t i = index; i < scopes.size(); ++i) {
    sees[i] =
        i == index || (scopes[i].parent != SIZE_MAX && sees[scopes[i].parent] && !defined_in(scopes[i]).contains(name));
    if (sees[i]) all.push_back(i);
  }
  return all;
}

std::string describe_node(const Message& node) {
  const std::string_view name = node.text(node_field::kName);
  const std::vector<std::string> outputs = node.texts(node_field::kOutput);
  return str("node \"", name.empty() && !outputs.empty() ? std::string_view(outputs[0]) : name, "\" (",
             node.text(node_field::kOp), ")");
}

NodeInfo node_info(Message& node, size_t index, const Scope& scope, const Source& source) {
  NodeInfo info;
  info.id = node.id;
  info.name = std::string(node.text(node_field::kName));
  info.label = label_of(node, index);
  info.op_type = std::string(node.text(node_field::kOp));
  info.domain = domain_of(node, node_field::kDomain);
  info.scope = scope.name;
  info.inputs = node.texts(node_field::kInput);
  info.outputs = node.texts(node_field::kOutput);
  for (const Field& field : node.fields) {
    if (field.number != node_field::kAttribute) continue;
    info.attributes[value_name(field)] =
        within([&] { return describe_node(node); }, [&] { return attribute_value(field, source); });
  }
  return info;
}

Field* find_value(const Scope& graph, uint32_t number, const std::string& name) {
  for (Field& field : graph.message->fields)
    if (field.number == number && value_name(field) == name) return &field;
  return nullptr;
}

Field* find_initializer(const Scope& graph, const std::string& name) {
  if (graph.function) return nullptr;
  for (Field& field : graph.message->fields)
    if ((field.number == graph_field::kInitializer || field.number == graph_field::kSparse) &&
        initializer_name(field) == name)
      return &field;
  return nullptr;
}

std::unordered_set<std::string> stale_values(const std::vector<Scope>& scopes, const std::vector<uint32_t>& changed) {
  std::unordered_set<std::string> stale;
  const std::unordered_set<uint32_t> ids(changed.begin(), changed.end());
  if (ids.empty()) return stale;
  // Twice: a node may stand before what it reads until finish_edit().
  for (int round = 0; round < 2; ++round)
    for (const Scope& scope : scopes)
      if (scope.parent == SIZE_MAX) spread(*scope.message, scope.node_number(), ids, false, stale);
  return stale;
}

void finish_edit(Document& document, const std::vector<uint32_t>& changed) {
  for (const Scope& scope : scopes_of(document.model)) sort_nodes(scope);
  const std::vector<Scope> scopes = scopes_of(document.model);
  const std::unordered_set<std::string> stale = stale_values(scopes, changed);
  for (const Scope& scope : scopes) {
    const std::unordered_set<std::string> known = names_in(scopes, scope.root);
    const uint32_t number = scope.function ? function_field::kValueInfo : graph_field::kValueInfo;
    std::erase_if(scope.message->fields, [&](const Field& field) {
      if (field.number != number) return false;
      const std::string name = value_name(field);
      return stale.contains(name) || !known.contains(name);
    });
  }
}

}  // namespace transmuter::onnx
