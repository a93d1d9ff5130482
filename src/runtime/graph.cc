// Graph: loading, looking, checking. The edits themselves are in onnx/edit_*.cc.
#include "transmuter/graph.h"

#include <algorithm>
#include <cstring>

#include "onnx/edit.h"
#include "onnx/proto.h"
#include "onnx/writer.h"
#include "runtime/compiled_model.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

std::vector<ValueSpec> values_of(const onnx::Document& document, uint32_t number) {
  std::vector<ValueSpec> specs;
  for (const onnx::Field& field : document.model.find(onnx::model_field::kGraph)->message->fields)
    if (field.number == number) specs.push_back(spec_of(onnx::parse_value_info(onnx::contents(field))));
  return specs;
}

}  // namespace

Graph Graph::load(const std::string& path) {
  Graph graph;
  graph.document_ = std::make_shared<const onnx::Document>(onnx::read_document(path));
  return graph;
}

Graph Graph::from_bytes(std::vector<std::byte> bytes, const std::string& folder) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::string_view view(reinterpret_cast<const char*>(owner->data()), owner->size());
  Graph graph;
  graph.document_ = std::make_shared<const onnx::Document>(onnx::parse_document(view, owner, folder));
  return graph;
}

std::vector<NodeInfo> Graph::nodes() const { return find({}); }

std::vector<NodeInfo> Graph::find(const NodePredicate& wanted) const { return edit().find(wanted); }

std::vector<std::string> Graph::scopes() const {
  onnx::Document copy = *document_;
  std::vector<std::string> names;
  for (const onnx::Scope& scope : onnx::scopes_of(copy.model)) names.push_back(scope.name);
  return names;
}

std::vector<ValueSpec> Graph::inputs() const {
  std::vector<ValueSpec> specs = values_of(*document_, onnx::graph_field::kInput);
  const std::vector<std::string> defaults = initializers();
  for (ValueSpec& spec : specs)
    spec.optional = std::find(defaults.begin(), defaults.end(), spec.name) != defaults.end();
  return specs;
}

std::vector<ValueSpec> Graph::outputs() const { return values_of(*document_, onnx::graph_field::kOutput); }

std::vector<std::string> Graph::initializers(const std::string& scope) const {
  onnx::Document copy = *document_;
  const auto scopes = onnx::scopes_of(copy.model);
  const onnx::Scope& graph = scopes[onnx::scope_of(scopes, scope)];
  std::vector<std::string> names;
  if (graph.function) return names;
  for (const onnx::Field& field : graph.message->fields)
    if (field.number == onnx::graph_field::kInitializer || field.number == onnx::graph_field::kSparse)
      names.push_back(onnx::initializer_name(field));
  return names;
}

std::map<std::string, std::string> Graph::metadata() const {
  onnx::Message model = document_->model;
  std::map<std::string, std::string> properties;
  for (onnx::Field& field : model.fields) {
    if (field.number != onnx::model_field::kMetadata) continue;
    const onnx::Message& entry = field.open();
    properties.emplace(entry.text(1), entry.text(2));
  }
  return properties;
}

Tensor Graph::initializer(const std::string& name, const std::string& scope) const {
  onnx::Document copy = *document_;
  const auto scopes = onnx::scopes_of(copy.model);
  return onnx::read_initializer(copy, scopes[onnx::scope_of(scopes, scope)], name).aligned();
}

GraphEdit Graph::edit() const { return GraphEdit(*document_); }

void Graph::save(const std::string& path, const SaveOptions& options) const {
  onnx::save_document(*document_, path, options);
}

std::vector<std::byte> Graph::to_bytes() const {
  const std::string text = onnx::encode_document(*document_);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Graph GraphEdit::commit() const {
  auto finished = std::make_shared<onnx::Document>(*document_);
  onnx::finish_edit(*finished, changed_);
  check_model(onnx::parse_document_model(*finished));
  Graph graph;
  graph.document_ = std::move(finished);
  return graph;
}

}  // namespace transmuter
