// GraphEdit: initializers.
#include <algorithm>

#include "base/strings.h"
#include "onnx/edit.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter {

using namespace onnx;  // NOLINT: this file is about its messages

namespace {

// The bytes stay the tensor's own.
Field tensor_field_of(const std::string& name, const Tensor& tensor) {
  if (!tensor) refuse_edit("the initializer \"", name, "\" cannot be set to no tensor");
  if (tensor.dtype() == DType::string) return bytes_field(graph_field::kInitializer, serialize_tensor(tensor, name));
  Field field = bytes_field(graph_field::kInitializer, std::string());
  Message& message = field.open();
  for (const int64_t dim : tensor.shape()) message.fields.push_back(integer_field(tensor_field::kDims, dim));
  message.set_integer(tensor_field::kDType, number_of_dtype(tensor.dtype()));
  message.set_text(tensor_field::kName, name);
  auto owner = std::make_shared<const Tensor>(as_stored(tensor));
  const std::string_view bytes(reinterpret_cast<const char*>(owner->bytes()), owner->nbytes());
  message.fields.push_back(bytes_field(tensor_field::kRaw, bytes, std::move(owner)));
  return field;
}

void mark_readers(const std::vector<Scope>& scopes, size_t index, const std::string& name,
                  std::vector<uint32_t>& changed) {
  for (const size_t i : scopes_that_see(scopes, index, name)) {
    each_node(scopes[i], [&](Message& node, size_t) {
      const std::vector<std::string> inputs = node.texts(node_field::kInput);
      if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) changed.push_back(node.id);
    });
  }
}

}  // namespace

namespace onnx {

Tensor read_initializer(const Document& document, const Scope& graph, const std::string& name) {
  const Field* field = find_initializer(graph, name);
  if (!field) refuse_edit("there is no initializer \"", name, "\"", graph.name.empty() ? "" : " in " + graph.name);
  const Source source = source_of(document);
  if (field->number == graph_field::kInitializer) return tensor_of(*field, source);
  auto bytes = std::make_shared<const std::string>(contents(*field));
  return checked([&] { return parse_sparse_tensor(*bytes, {bytes, source.external}).tensor; });
}

}  // namespace onnx

GraphEdit& GraphEdit::set_initializer(const std::string& name, const Tensor& tensor, const std::string& scope) {
  const auto scopes = scopes_of(document_->model);
  const size_t index = scope_of(scopes, scope);
  if (name.empty()) refuse_edit("an initializer needs a name");
  if (scopes[index].function) refuse_edit("a function holds no initializers: add a Constant node");
  Field added = tensor_field_of(name, tensor);
  if (Field* old = find_initializer(scopes[index], name))
    *old = std::move(added);
  else
    scopes[index].message->fields.push_back(std::move(added));
  mark_readers(scopes, index, name, changed_);
  return *this;
}

GraphEdit& GraphEdit::remove_initializer(const std::string& name, const std::string& scope) {
  const auto scopes = scopes_of(document_->model);
  const Scope& graph = scopes[scope_of(scopes, scope)];
  Field* old = find_initializer(graph, name);
  if (!old) refuse_edit("there is no initializer \"", name, "\"");
  graph.message->erase(old);
  return *this;
}

GraphEdit& GraphEdit::convert_initializer(const std::string& name, DType dtype, const std::string& scope) {
  const auto scopes = scopes_of(document_->model);
  const size_t index = scope_of(scopes, scope);
  const Tensor old = read_initializer(*document_, scopes[index], name);
  if (old.dtype() == dtype) return *this;
  if (dtype == DType::invalid || dtype == DType::string || old.dtype() == DType::string)
    refuse_edit("the initializer \"", name, "\" cannot be converted from ", transmuter::name(old.dtype()), " to ",
                transmuter::name(dtype));
  if (find_value(scopes[index], graph_field::kInput, name) || find_value(scopes[index], graph_field::kOutput, name))
    refuse_edit("the initializer \"", name, "\" is an input or output of its graph too, so its type must stay");
  const std::unordered_set<std::string> taken = names_in(scopes, scopes[index].root);
  std::string converted = str(name, "_", transmuter::name(old.dtype()));
  for (int i = 2; taken.contains(converted); ++i) converted = str(name, "_", transmuter::name(old.dtype()), "_", i);
  Field* field = find_initializer(scopes[index], name);
  *field = tensor_field_of(name, old.aligned().cast(dtype));
  add_node({"Cast", {name}, {converted}, {{"to", int64_t{number_of_dtype(old.dtype())}}}, converted, ""}, scope);
  return rewire(name, converted, scope);
}

GraphEdit& GraphEdit::initializer_to_input(const std::string& name) {
  const auto scopes = scopes_of(document_->model);
  const Tensor tensor = read_initializer(*document_, scopes[0], name);
  ValueSpec spec;
  spec.name = name;
  spec.dtype = tensor.dtype();
  spec.has_shape = true;
  for (const int64_t extent : tensor.shape()) spec.shape.push_back({extent, ""});
  if (!find_value(scopes[0], graph_field::kInput, name)) add_input(spec);
  return remove_initializer(name);
}

}  // namespace transmuter
