// GraphEdit: values, types, inputs and outputs, and what the model says of itself.
#include <algorithm>

#include "base/strings.h"
#include "onnx/edit.h"
#include "onnx/proto.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter {

using namespace onnx;  // NOLINT: this file is about its messages

namespace {

bool replace_texts(Message& message, uint32_t number, const std::string& from, const std::string& to) {
  bool any = false;
  for (Field& field : message.fields) {
    if (field.number != number || field.wire != Wire::bytes || field.bytes != from) continue;
    field = bytes_field(number, to);
    any = true;
  }
  return any;
}

void rename_info(Message& graph, uint32_t number, const std::string& from, const std::string& to) {
  for (Field& field : graph.fields)
    if (field.number == number && value_name(field) == from) field.open().set_text(value_field::kName, to);
}

// TensorAnnotation: whose quantisation is meant, and where its parameters are.
void rename_annotations(Message& graph, const std::string& from, const std::string& to) {
  for (Field& field : graph.fields) {
    if (field.number != graph_field::kQuantization) continue;
    Message& annotation = field.open();
    replace_texts(annotation, 1, from, to);
    for (Field& entry : annotation.fields)
      if (entry.number == 2) replace_texts(entry.open(), 2, from, to);
  }
}

void rename_initializers(Message& graph, const std::string& from, const std::string& to) {
  for (Field& field : graph.fields) {
    if (field.number != graph_field::kInitializer && field.number != graph_field::kSparse) continue;
    if (initializer_name(field) != from) continue;
    Message& message = field.open();
    (field.number == graph_field::kSparse ? message.find(1)->open() : message).set_text(tensor_field::kName, to);
  }
}

// fn(Message& dim) for every dimension of a TypeProto.
template <class Fn>
void each_dim(Message& type, const Fn& fn, int depth = 0) {
  constexpr int kMaxDepth = 64;
  if (depth > kMaxDepth) throw Error(ErrorCode::invalid_model, "a type is nested too deeply");
  for (Field& field : type.fields) {
    if (field.number == 1 || field.number == 8) {
      for (Field& shape : field.open().fields) {
        if (shape.number != 2) continue;
        for (Field& dim : shape.open().fields)
          if (dim.number == 1) fn(dim.open());
      }
    } else if (field.number == 4 || field.number == 9 || field.number == 5) {
      const uint32_t element = field.number == 5 ? 2 : 1;
      for (Field& inner : field.open().fields)
        if (inner.number == element) each_dim(inner.open(), fn, depth + 1);
    }
  }
}

template <class Fn>
void each_declared_dim(Message& model, const Fn& fn) {
  for (const Scope& scope : scopes_of(model)) {
    for (Field& field : scope.message->fields) {
      const bool declares = scope.function
                                ? field.number == function_field::kValueInfo
                                : field.number >= graph_field::kInput && field.number <= graph_field::kValueInfo;
      if (!declares) continue;
      for (Field& type : field.open().fields)
        if (type.number == value_field::kType) each_dim(type.open(), fn);
    }
  }
}

Field* find_entry(Message& model, const std::string& key) {
  for (Field& field : model.fields)
    if (field.number == model_field::kMetadata && entry_of(field).first == key) return &field;
  return nullptr;
}

}  // namespace

GraphEdit::GraphEdit(const Document& document) : document_(std::make_shared<Document>(document)) {}
GraphEdit::GraphEdit(const GraphEdit& other)
    : document_(std::make_shared<Document>(*other.document_)), changed_(other.changed_) {}
GraphEdit& GraphEdit::operator=(const GraphEdit& other) {
  if (this != &other) *this = GraphEdit(other);
  return *this;
}

GraphEdit& GraphEdit::rewire(const std::string& from, const std::string& to, const std::string& scope_name) {
  const auto scopes = scopes_of(document_->model);
  if (from.empty() || to.empty()) refuse_edit("a value that is rewired needs a name");
  bool any = false;
  for (const size_t i : scopes_that_see(scopes, scope_of(scopes, scope_name), from)) {
    each_node(scopes[i], [&](Message& node, size_t) {
      const std::vector<std::string> outputs = node.texts(node_field::kOutput);
      if (std::find(outputs.begin(), outputs.end(), to) != outputs.end()) return;  // it may be made from `from`
      if (!replace_texts(node, node_field::kInput, from, to)) return;
      changed(node.id);
      any = true;
    });
    if (scopes[i].parent == SIZE_MAX) continue;
    for (Field& field : scopes[i].message->fields) {
      if (field.number != graph_field::kOutput || value_name(field) != from) continue;
      // The output of a graph inside a node is found by its position: any name will do.
      field.open().set_text(value_field::kName, to);
      changed(scopes[i].node);
      any = true;
    }
  }
  if (!any && !names_in(scopes, scopes[scope_of(scopes, scope_name)].root).contains(from))
    refuse_edit("there is no value \"", from, "\"", scope_name.empty() ? "" : " in the scope \"" + scope_name + "\"");
  return *this;
}

GraphEdit& GraphEdit::take_name(const std::string& from, const std::string& to, const std::string& scope_name) {
  const auto scopes = scopes_of(document_->model);
  for (const size_t i : scopes_that_see(scopes, scope_of(scopes, scope_name), from)) {
    Message& graph = *scopes[i].message;
    each_node(scopes[i], [&](Message& node, size_t) {
      replace_texts(node, node_field::kInput, from, to);
      replace_texts(node, node_field::kOutput, from, to);
    });
    if (scopes[i].function) {
      replace_texts(graph, function_field::kInput, from, to);
      replace_texts(graph, function_field::kOutput, from, to);
      rename_info(graph, function_field::kValueInfo, from, to);
      continue;
    }
    for (const uint32_t number : {graph_field::kInput, graph_field::kOutput, graph_field::kValueInfo})
      rename_info(graph, number, from, to);
    rename_initializers(graph, from, to);
    rename_annotations(graph, from, to);
  }
  return *this;
}

GraphEdit& GraphEdit::rename_value(const std::string& from, const std::string& to, const std::string& scope_name) {
  const auto scopes = scopes_of(document_->model);
  const size_t index = scope_of(scopes, scope_name);
  if (to.empty()) refuse_edit("a value needs a name");
  if (!defined_in(scopes[index]).contains(from))
    refuse_edit("nothing in ", scope_name.empty() ? "the main graph" : "the scope \"" + scope_name + "\"",
                " makes a value \"", from, "\"");
  if (names_in(scopes, scopes[index].root).contains(to)) refuse_edit("the name \"", to, "\" is taken already");
  return take_name(from, to, scope_name);
}

GraphEdit& GraphEdit::set_type(const ValueSpec& spec) {
  const auto scopes = scopes_of(document_->model);
  const std::string type = encode_type(spec);
  bool any = false;
  for (const uint32_t number : {graph_field::kInput, graph_field::kOutput, graph_field::kValueInfo}) {
    Field* field = find_value(scopes[0], number, spec.name);
    if (!field) continue;
    field->open().set_text(value_field::kType, type);
    any = true;
  }
  if (any) return *this;
  if (!defined_in(scopes[0]).contains(spec.name)) refuse_edit("the main graph has no value \"", spec.name, "\"");
  scopes[0].message->fields.push_back(value_field_of(graph_field::kValueInfo, spec));
  return *this;
}

GraphEdit& GraphEdit::rename_dim(const std::string& from, const std::string& to) {
  if (from.empty() || to.empty()) refuse_edit("the symbol of an extent needs a name");
  bool any = false;
  each_declared_dim(document_->model, [&](Message& dim) { any = replace_texts(dim, 2, from, to) || any; });
  if (!any) refuse_edit("no declared shape has the symbol \"", from, "\"");
  return *this;
}

GraphEdit& GraphEdit::fix_dim(const std::string& symbol, int64_t value) {
  if (value < 0) refuse_edit("an extent cannot be ", value);
  if (symbol.empty()) refuse_edit("the symbol of an extent needs a name");
  bool any = false;
  each_declared_dim(document_->model, [&](Message& dim) {
    if (dim.text(2) != symbol) return;
    dim.remove(2);
    dim.set_integer(1, value);
    any = true;
  });
  if (!any) refuse_edit("no declared shape has the symbol \"", symbol, "\"");
  return *this;
}

GraphEdit& GraphEdit::add_input(const ValueSpec& spec) {
  const auto scopes = scopes_of(document_->model);
  if (spec.name.empty()) refuse_edit("an input needs a name");
  if (find_value(scopes[0], graph_field::kInput, spec.name))
    refuse_edit("there is an input \"", spec.name, "\" already");
  scopes[0].message->fields.push_back(value_field_of(graph_field::kInput, spec));
  return *this;
}

GraphEdit& GraphEdit::remove_input(const std::string& name) {
  const auto scopes = scopes_of(document_->model);
  Field* field = find_value(scopes[0], graph_field::kInput, name);
  if (!field) refuse_edit("there is no input \"", name, "\"");
  scopes[0].message->erase(field);
  return *this;
}

GraphEdit& GraphEdit::add_output(const std::string& name) {
  const auto scopes = scopes_of(document_->model);
  if (!defined_in(scopes[0]).contains(name)) refuse_edit("the main graph makes no value \"", name, "\"");
  if (find_value(scopes[0], graph_field::kOutput, name)) refuse_edit("\"", name, "\" is an output already");
  const std::string type = type_of_value(*document_, scopes, name, stale_values(scopes, changed_));
  if (type.empty())
    refuse_edit("the type of \"", name, "\" is not recorded and does not follow from the operators: give it");
  Message value;
  value.set_text(value_field::kName, name);
  value.set_text(value_field::kType, type);
  scopes[0].message->fields.push_back(bytes_field(graph_field::kOutput, encode(value)));
  return *this;
}

GraphEdit& GraphEdit::add_output(const ValueSpec& spec) {
  const auto scopes = scopes_of(document_->model);
  if (!defined_in(scopes[0]).contains(spec.name)) refuse_edit("the main graph makes no value \"", spec.name, "\"");
  if (find_value(scopes[0], graph_field::kOutput, spec.name)) refuse_edit("\"", spec.name, "\" is an output already");
  scopes[0].message->fields.push_back(value_field_of(graph_field::kOutput, spec));
  return *this;
}

GraphEdit& GraphEdit::remove_output(const std::string& name) {
  const auto scopes = scopes_of(document_->model);
  Field* field = find_value(scopes[0], graph_field::kOutput, name);
  if (!field) refuse_edit("there is no output \"", name, "\"");
  scopes[0].message->erase(field);
  return *this;
}

GraphEdit& GraphEdit::set_opset(const std::string& domain, int64_t version) {
  if (version < 1) refuse_edit("an operator set cannot have version ", version);
  const std::string wanted = normalised_domain(domain);
  for (Field& field : document_->model.fields) {
    if (field.number != model_field::kOpset || domain_of(field.open(), 1) != wanted) continue;
    field.open().set_integer(2, version);
    return *this;
  }
  Message opset;
  opset.set_text(1, wanted);
  opset.set_integer(2, version);
  document_->model.fields.push_back(bytes_field(model_field::kOpset, encode(opset)));
  return *this;
}

GraphEdit& GraphEdit::set_metadata(const std::string& key, const std::string& value) {
  if (key.empty()) refuse_edit("metadata needs a key");
  if (Field* field = find_entry(document_->model, key)) {
    field->open().set_text(2, value);
    return *this;
  }
  document_->model.fields.push_back(entry_field(model_field::kMetadata, key, value));
  return *this;
}

GraphEdit& GraphEdit::remove_metadata(const std::string& key) {
  const Field* field = find_entry(document_->model, key);
  if (!field) refuse_edit("there is no metadata \"", key, "\"");
  document_->model.erase(field);
  return *this;
}

}  // namespace transmuter
