#include "onnx/document.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "base/strings.h"
#include "onnx/proto.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

void open_nodes(Message& holder, uint32_t number, uint32_t& next_id, int depth) {
  if (depth > kMaxGraphDepth) refuse(str("graphs are nested deeper than ", kMaxGraphDepth, " levels"));
  for (Field& field : holder.fields)
    if (field.number == number) open_node(field.open(), next_id, depth);
}

Document parse(std::string_view bytes, std::shared_ptr<const void> owner) {
  if (bytes.empty()) refuse("the file is empty");
  if (bytes.rfind("version https://git-lfs", 0) == 0)
    refuse("the file is a Git LFS pointer: fetch the model itself first");
  Document document;
  document.model = parse_fields(bytes, nullptr);
  document.owner = std::move(owner);
  int graphs = 0;
  for (Field& field : document.model.fields) {
    if (field.number == model_field::kGraph) {
      ++graphs;
      open_nodes(field.open(), graph_field::kNode, document.next_id, 0);
    } else if (field.number == model_field::kFunction) {
      open_nodes(field.open(), function_field::kNode, document.next_id, 0);
    }
  }
  if (graphs != 1) refuse(graphs == 0 ? "there is no graph: this is not an ONNX model" : "the model holds two graphs");
  return document;
}

void add_scopes(std::vector<Scope>& scopes, size_t index) {
  size_t position = 0;
  for (Field& field : scopes[index].message->fields) {
    if (field.number != scopes[index].node_number()) continue;
    Message& node = field.open();
    const std::string label = label_of(node, position++);
    for (Field& attribute : node.fields) {
      if (attribute.number != node_field::kAttribute || !attribute.message) continue;
      const std::string name(attribute.message->text(attribute_field::kName));
      int nth = 0;
      for (Field& held : attribute.message->fields) {
        if (held.number != attribute_field::kGraph && held.number != attribute_field::kGraphs) continue;
        Scope scope;
        scope.message = &held.open();
        scope.name = str(scopes[index].name.empty() ? "" : scopes[index].name + " > ", label, ".", name);
        if (held.number == attribute_field::kGraphs) scope.name += str("[", nth++, "]");
        scope.parent = index;
        scope.root = scopes[index].root;
        scope.node = node.id;
        scopes.push_back(std::move(scope));
        add_scopes(scopes, scopes.size() - 1);
      }
    }
  }
}

}  // namespace

void open_node(Message& node, uint32_t& next_id, int depth) {
  node.id = next_id++;
  for (Field& field : node.fields) {
    if (field.number != node_field::kAttribute || field.wire != Wire::bytes) continue;
    if (!field.message) {
      const Message attribute = parse_fields(field.bytes, field.owner);
      if (!attribute.find(attribute_field::kGraph) && !attribute.find(attribute_field::kGraphs)) continue;
    }
    for (Field& held : field.open().fields)
      if (held.number == attribute_field::kGraph || held.number == attribute_field::kGraphs)
        open_nodes(held.open(), graph_field::kNode, next_id, depth + 1);
  }
}

Document read_document(const std::string& path) {
  return within([&] { return str("file ", path); },
                [&] {
                  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
                  Document document = parse(file->view(), file);
                  document.path = path;
                  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
                  document.folder = parent.empty() ? "." : parent.string();
                  return document;
                });
}

Document parse_document(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& folder) {
  return within([] { return "a model in memory"; },
                [&] {
                  Document document = parse(bytes, std::move(owner));
                  document.folder = folder;
                  return document;
                });
}

Source source_of(const Document& document) {
  return {document.owner, std::make_shared<ExternalData>(document.folder, true)};
}

Tensor tensor_of(const Field& field, const Source& source) {
  return checked([&] {
    if (!field.message)
      return parse_tensor(field.bytes, {field.owner ? field.owner : source.owner, source.external}).tensor;
    auto bytes = std::make_shared<const std::string>(encode(*field.message));
    return parse_tensor(*bytes, {bytes, source.external}).tensor;
  });
}

std::pair<std::string, std::string> entry_of(const Field& field) {
  return checked([&] { return parse_entry(contents(field)); });
}

Field entry_field(uint32_t number, const std::string& key, const std::string& value) {
  Message entry;
  entry.set_text(1, key);
  entry.set_text(2, value);
  return bytes_field(number, encode(entry));
}

std::vector<Scope> scopes_of(Message& model) {
  std::vector<Scope> scopes;
  const auto add_root = [&](Message& message, bool function, std::string name) {
    Scope scope;
    scope.message = &message;
    scope.function = function;
    scope.name = std::move(name);
    scope.root = scopes.size();
    scopes.push_back(std::move(scope));
    add_scopes(scopes, scopes.size() - 1);
  };
  add_root(model.find(model_field::kGraph)->open(), false, "");
  for (Field& field : model.fields) {
    if (field.number != model_field::kFunction) continue;
    Message& function = field.open();
    const std::string domain = domain_of(function, function_field::kDomain);
    add_root(function, true,
             str("function ", domain.empty() ? "" : domain + ".", std::string(function.text(function_field::kName))));
  }
  return scopes;
}

std::string label_of(const Message& node, size_t index) {
  const std::string_view name = node.text(node_field::kName);
  return name.empty() ? str(node.text(node_field::kOp), '_', index) : std::string(name);
}

std::string domain_of(const Message& message, uint32_t number) {
  return normalised_domain(std::string(message.text(number)));
}

std::string initializer_name(const Field& field) {
  const Shown outer(field);
  if (field.number == graph_field::kInitializer) return std::string(outer->text(tensor_field::kName));
  const Field* values = outer->find(1);
  return values ? std::string(Shown(*values)->text(tensor_field::kName)) : "";
}

std::string value_name(const Field& field) {
  if (!field.message && field.wire != Wire::bytes) return "";
  return std::string(Shown(field)->text(value_field::kName));
}

std::unordered_set<std::string> defined_in(const Scope& scope) {
  std::unordered_set<std::string> names;
  for (Field& field : scope.message->fields) {
    if (scope.function) {
      if (field.number == function_field::kInput) names.emplace(field.bytes);
    } else if (field.number == graph_field::kInput) {
      names.insert(value_name(field));
    } else if (field.number == graph_field::kInitializer || field.number == graph_field::kSparse) {
      names.insert(initializer_name(field));
    }
  }
  each_node(scope, [&](Message& node, size_t) {
    for (const std::string& output : node.texts(node_field::kOutput)) names.insert(output);
  });
  names.erase("");
  return names;
}

std::unordered_set<std::string> names_in(const std::vector<Scope>& scopes, size_t root) {
  std::unordered_set<std::string> names;
  for (const Scope& scope : scopes) {
    if (scope.root != root) continue;
    names.merge(defined_in(scope));
    each_node(scope, [&](Message& node, size_t) {
      for (const std::string& input : node.texts(node_field::kInput)) names.insert(input);
    });
    for (const Field& field : scope.message->fields) {
      if (!scope.function && field.number == graph_field::kOutput) names.insert(value_name(field));
      if (scope.function && field.number == function_field::kOutput) names.emplace(field.bytes);
    }
  }
  names.erase("");
  return names;
}

}  // namespace transmuter::onnx
