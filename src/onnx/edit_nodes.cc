// GraphEdit: nodes.
#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "onnx/edit.h"
#include "onnx/proto.h"
#include "transmuter/error.h"

namespace transmuter {

using namespace onnx;  // NOLINT: this file is about its messages

namespace {

constexpr size_t kMaxPosition = 65535;

Field* find_attribute(Message& node, const std::string& name) {
  for (Field& field : node.fields)
    if (field.number == node_field::kAttribute && value_name(field) == name) return &field;
  return nullptr;
}

bool holds_graph(const Field& attribute) {
  return attribute.message &&
         (attribute.message->find(attribute_field::kGraph) || attribute.message->find(attribute_field::kGraphs));
}

Field floats_field(float value) {
  Field field = bytes_field(attribute_field::kF, std::string(reinterpret_cast<const char*>(&value), sizeof value));
  field.wire = Wire::fixed32;
  return field;
}

Field attribute_of(const std::string& name, const AttributeValue& value) {
  Message attribute;
  attribute.set_text(attribute_field::kName, name);
  std::vector<Field>& fields = attribute.fields;
  struct Write {
    std::vector<Field>& fields;
    int64_t operator()(std::monostate) const { refuse_edit("an attribute without a value cannot be set"); }
    int64_t operator()(int64_t i) const {
      fields.push_back(integer_field(attribute_field::kI, i));
      return 2;
    }
    int64_t operator()(float f) const {
      fields.push_back(floats_field(f));
      return 1;
    }
    int64_t operator()(const std::string& s) const {
      fields.push_back(bytes_field(attribute_field::kS, s));
      return 3;
    }
    int64_t operator()(const Tensor& t) const {
      if (!t) refuse_edit("an attribute cannot be set to no tensor");
      fields.push_back(bytes_field(attribute_field::kTensor, serialize_tensor(t, "")));
      return 4;
    }
    int64_t operator()(const std::vector<int64_t>& values) const {
      for (const int64_t i : values) fields.push_back(integer_field(attribute_field::kInts, i));
      return 7;
    }
    int64_t operator()(const std::vector<float>& values) const {
      for (const float f : values) {
        fields.push_back(floats_field(f));
        fields.back().number = attribute_field::kFloats;
      }
      return 6;
    }
    int64_t operator()(const std::vector<std::string>& values) const {
      for (const std::string& s : values) fields.push_back(bytes_field(attribute_field::kStrings, s));
      return 8;
    }
  };
  const int64_t kind = std::visit(Write{fields}, value);
  attribute.set_integer(attribute_field::kKind, kind);
  return bytes_field(node_field::kAttribute, encode(attribute));
}

void set_position(Message& node, uint32_t number, size_t index, const std::string& value) {
  if (index > kMaxPosition) refuse_edit("position ", index, " of a node's values is out of range");
  std::vector<std::string> values = node.texts(number);
  if (values.size() <= index) values.resize(index + 1);
  values[index] = value;
  node.set_texts(number, values);
}

// ONNX Runtime's operators have one version, which is not everywhere imported.
void import_domain(Document& document, const Scope& root, const std::string& domain) {
  if (domain != "com.microsoft") return;
  const uint32_t number = root.function ? function_field::kOpset : model_field::kOpset;
  Message& holder = root.function ? *root.message : document.model;
  for (Field& field : holder.fields)
    if (field.number == number && domain_of(field.open(), 1) == domain) return;
  Message opset;
  opset.set_text(1, domain);
  opset.set_integer(2, 1);
  holder.fields.push_back(bytes_field(number, encode(opset)));
}

void erase_node(const Scope& scope, uint32_t id) {
  std::erase_if(scope.message->fields,
                [&](Field& field) { return field.number == scope.node_number() && field.open().id == id; });
}

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, after = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool same(const AttributeValue& a, const AttributeValue& b) {
  const Tensor* x = std::get_if<Tensor>(&a);
  const Tensor* y = std::get_if<Tensor>(&b);
  if (!x || !y) {
    if (a.index() != b.index() || x) return false;
    return std::visit(
        [&]<class T>(const T& value) {
          if constexpr (std::is_same_v<T, Tensor>)
            return false;
          else
            return value == std::get<T>(b);
        },
        a);
  }
  if (x->dtype() != y->dtype() || x->shape() != y->shape()) return false;
  if (x->dtype() == DType::string) return x->strings() == y->strings();
  return std::equal(x->bytes(), x->bytes() + x->nbytes(), y->bytes());
}

std::vector<NodeInfo> find_nodes(Document& document, const NodePredicate& wanted) {
  std::vector<NodeInfo> found;
  const Source source = source_of(document);
  for (const Scope& scope : scopes_of(document.model)) {
    each_node(scope, [&](Message& node, size_t index) {
      NodeInfo info = node_info(node, index, scope, source);
      if (!wanted || wanted(info)) found.push_back(std::move(info));
    });
  }
  return found;
}

}  // namespace

namespace where {

NodePredicate name(std::string pattern) {
  return [pattern = std::move(pattern)](const NodeInfo& node) { return matches(pattern, node.label); };
}
NodePredicate op_type(std::string pattern) {
  return [pattern = std::move(pattern)](const NodeInfo& node) { return matches(pattern, node.op_type); };
}
NodePredicate domain(std::string name) {
  return [name = normalised_domain(std::move(name))](const NodeInfo& node) { return node.domain == name; };
}
NodePredicate scope(std::string pattern) {
  return [pattern = std::move(pattern)](const NodeInfo& node) { return matches(pattern, node.scope); };
}
NodePredicate input(std::string pattern) {
  return [pattern = std::move(pattern)](const NodeInfo& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& v) { return matches(pattern, v); });
  };
}
NodePredicate output(std::string pattern) {
  return [pattern = std::move(pattern)](const NodeInfo& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](const auto& v) { return matches(pattern, v); });
  };
}
NodePredicate attribute(std::string name) {
  return [name = std::move(name)](const NodeInfo& node) { return node.attributes.contains(name); };
}
NodePredicate attribute(std::string name, AttributeValue value) {
  return [name = std::move(name), value = std::move(value)](const NodeInfo& node) {
    const auto found = node.attributes.find(name);
    return found != node.attributes.end() && same(found->second, value);
  };
}
NodePredicate all(std::vector<NodePredicate> of) {
  return [of = std::move(of)](const NodeInfo& node) {
    return std::all_of(of.begin(), of.end(), [&](const NodePredicate& p) { return p(node); });
  };
}
NodePredicate any(std::vector<NodePredicate> of) {
  return [of = std::move(of)](const NodeInfo& node) {
    return std::any_of(of.begin(), of.end(), [&](const NodePredicate& p) { return p(node); });
  };
}
NodePredicate none(NodePredicate of) {
  return [of = std::move(of)](const NodeInfo& node) { return !of(node); };
}

}  // namespace where

std::vector<NodeInfo> GraphEdit::find(const NodePredicate& wanted) const { return find_nodes(*document_, wanted); }

GraphEdit& GraphEdit::set_operator(uint32_t id, const std::string& op_type, const std::string& domain) {
  const auto scopes = scopes_of(document_->model);
  const Place place = place_of(scopes, id);
  Message& node = place.node();
  if (op_type.empty()) refuse_edit("an operator needs a name");
  node.set_text(node_field::kOp, op_type);
  node.remove(node_field::kOverload);
  if (const std::string name = normalised_domain(domain); name.empty())
    node.remove(node_field::kDomain);
  else
    node.set_text(node_field::kDomain, name);
  import_domain(*document_, scopes[scopes[place.scope].root], domain);
  changed(id);
  return *this;
}

GraphEdit& GraphEdit::set_attribute(uint32_t id, const std::string& name, const AttributeValue& value) {
  const auto scopes = scopes_of(document_->model);
  Message& node = place_of(scopes, id).node();
  if (name.empty()) refuse_edit("an attribute needs a name");
  Field* old = find_attribute(node, name);
  if (old && holds_graph(*old))
    refuse_edit("the attribute \"", name, "\" of ", describe_node(node), " holds a graph: edit that graph as a scope");
  Field attribute = attribute_of(name, value);
  if (old)
    *old = std::move(attribute);
  else
    node.fields.push_back(std::move(attribute));
  changed(id);
  return *this;
}

GraphEdit& GraphEdit::remove_attribute(uint32_t id, const std::string& name) {
  const auto scopes = scopes_of(document_->model);
  Message& node = place_of(scopes, id).node();
  Field* old = find_attribute(node, name);
  if (!old) refuse_edit(describe_node(node), " has no attribute \"", name, "\"");
  node.erase(old);
  changed(id);
  return *this;
}

GraphEdit& GraphEdit::rename_node(uint32_t id, const std::string& name) {
  const auto scopes = scopes_of(document_->model);
  place_of(scopes, id).node().set_text(node_field::kName, name);
  return *this;
}

GraphEdit& GraphEdit::set_input(uint32_t id, size_t index, const std::string& value) {
  const auto scopes = scopes_of(document_->model);
  set_position(place_of(scopes, id).node(), node_field::kInput, index, value);
  changed(id);
  return *this;
}

GraphEdit& GraphEdit::set_output(uint32_t id, size_t index, const std::string& value) {
  const auto scopes = scopes_of(document_->model);
  set_position(place_of(scopes, id).node(), node_field::kOutput, index, value);
  changed(id);
  return *this;
}

uint32_t GraphEdit::add_node(const NewNode& made, const std::string& scope_name) {
  const auto scopes = scopes_of(document_->model);
  const Scope& scope = scopes[scope_of(scopes, scope_name)];
  if (made.op_type.empty()) refuse_edit("a node needs an operator");
  Field field = bytes_field(scope.node_number(), std::string());
  Message& node = field.open();
  for (const std::string& input : made.inputs) node.fields.push_back(bytes_field(node_field::kInput, input));
  for (const std::string& output : made.outputs) node.fields.push_back(bytes_field(node_field::kOutput, output));
  if (!made.name.empty()) node.set_text(node_field::kName, made.name);
  node.set_text(node_field::kOp, made.op_type);
  for (const auto& [name, value] : made.attributes) node.fields.push_back(attribute_of(name, value));
  if (const std::string domain = normalised_domain(made.domain); !domain.empty())
    node.set_text(node_field::kDomain, domain);
  const uint32_t id = node.id = document_->next_id++;
  scope.message->fields.push_back(std::move(field));
  import_domain(*document_, scopes[scope.root], made.domain);
  changed(id);
  return id;
}

GraphEdit& GraphEdit::remove_node(uint32_t id) {
  const auto scopes = scopes_of(document_->model);
  const Place place = place_of(scopes, id);
  erase_node(scopes[place.scope], id);
  return *this;
}

GraphEdit& GraphEdit::bypass_node(uint32_t id) {
  const auto scopes = scopes_of(document_->model);
  const Place place = place_of(scopes, id);
  const Scope& scope = scopes[place.scope];
  const std::vector<std::string> inputs = place.node().texts(node_field::kInput);
  const std::vector<std::string> outputs = place.node().texts(node_field::kOutput);
  if (inputs.empty() || inputs[0].empty() || outputs.empty() || outputs[0].empty())
    refuse_edit(describe_node(place.node()), " has no first input to take the place of its first output");
  const auto handed_out = [&](const std::string& value) {
    if (!scope.function) return find_value(scope, graph_field::kOutput, value) != nullptr;
    const std::vector<std::string> names = scope.message->texts(function_field::kOutput);
    return std::find(names.begin(), names.end(), value) != names.end();
  };
  if (!handed_out(outputs[0])) {
    erase_node(scope, id);
    return rewire(outputs[0], inputs[0], scope.name);
  }
  // The output's name must stay, so the input's maker takes it.
  bool made_here = false;
  each_node(scope, [&](Message& node, size_t) {
    const std::vector<std::string> made = node.texts(node_field::kOutput);
    made_here = made_here || std::find(made.begin(), made.end(), inputs[0]) != made.end();
  });
  if (!made_here || handed_out(inputs[0]))
    refuse_edit(describe_node(place.node()), " makes the output \"", outputs[0],
                "\", and its first input cannot take that name: it is an input, an initializer or an output itself");
  const std::string name = scope.name;
  erase_node(scope, id);
  rewire(outputs[0], inputs[0], name);
  // Nothing but the graph's output list has the name now; it is free for the input's maker.
  return take_name(inputs[0], outputs[0], name);
}

GraphEdit& GraphEdit::prune() {
  const auto scopes = scopes_of(document_->model);
  for (size_t root = 0; root < scopes.size(); ++root) {
    if (scopes[root].parent != SIZE_MAX) continue;
    std::map<std::string, int64_t> reads;
    std::unordered_set<uint32_t> dead;
    const std::function<void(Message&, int64_t)> count_node = [&](Message& node, int64_t by) {
      for (const std::string& input : node.texts(node_field::kInput)) reads[input] += by;
      each_graph(node, [&](Message& graph) {
        for (Field& field : graph.fields) {
          if (field.number == graph_field::kOutput) reads[value_name(field)] += by;
          if (field.number == graph_field::kNode && !dead.contains(field.open().id)) count_node(field.open(), by);
        }
      });
    };
    for (Field& field : scopes[root].message->fields) {
      if (scopes[root].function && field.number == function_field::kOutput) ++reads[std::string(field.bytes)];
      if (!scopes[root].function && field.number == graph_field::kOutput) ++reads[value_name(field)];
    }
    each_node(scopes[root], [&](Message& node, size_t) { count_node(node, 1); });
    for (bool again = true; again;) {
      again = false;
      for (size_t i = scopes.size(); i-- > 0;) {
        if (scopes[i].root != root || dead.contains(scopes[i].node)) continue;
        std::vector<Message*> nodes;
        each_node(scopes[i], [&](Message& node, size_t) { nodes.push_back(&node); });
        for (size_t n = nodes.size(); n-- > 0;) {
          Message& node = *nodes[n];
          const std::vector<std::string> outputs = node.texts(node_field::kOutput);
          if (dead.contains(node.id) || std::any_of(outputs.begin(), outputs.end(), [&](const std::string& output) {
                return !output.empty() && reads[output] > 0;
              }))
            continue;
          count_node(node, -1);
          dead.insert(node.id);
          again = true;
        }
      }
    }
    for (size_t i = scopes.size(); i-- > root;) {  // inner graphs first: erasing moves the outer fields
      if (scopes[i].root != root) continue;
      std::unordered_set<std::string> inputs;
      for (Field& field : scopes[i].message->fields)
        if (!scopes[i].function && field.number == graph_field::kInput) inputs.insert(value_name(field));
      std::erase_if(scopes[i].message->fields, [&](Field& field) {
        if (field.number == scopes[i].node_number()) return dead.contains(field.open().id);
        if (scopes[i].function) return false;
        if (field.number != graph_field::kInitializer && field.number != graph_field::kSparse) return false;
        const std::string name = initializer_name(field);
        return reads[name] <= 0 && !inputs.contains(name);
      });
    }
  }
  return *this;
}

}  // namespace transmuter
