#include "edit_script.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "inputs.h"

namespace transmuter::cli {

using nlohmann::json;

namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_input, message); }

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1));
}

std::pair<std::string, std::string> split(const std::string& text, size_t at) {
  return {text.substr(0, at), text.substr(at + 1)};
}

// "NODE SIGN TEXT" at `at`; @, what is selected, where there is no sign.
std::pair<std::string, std::string> node_and(const std::string& text, size_t at) {
  return at == std::string::npos ? std::pair(std::string("@"), text) : split(text, at);
}

// KEY=VALUE at the first sign; `form` says in the error what was expected.
std::pair<std::string, std::string> pair_of(const std::string& text, const char* form) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) refuse(std::string("expected ") + form + ", got \"" + text + "\"");
  return split(text, at);
}

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

int64_t need_integer(const std::string& text) {
  const std::optional<int64_t> value = integer(text);
  if (!value) refuse("expected a whole number, got \"" + text + "\"");
  return *value;
}

std::optional<DType> dtype_named(const std::string& text) {
  for (int i = 1; i <= static_cast<int>(DType::string); ++i)
    if (text == name(static_cast<DType>(i))) return static_cast<DType>(i);
  return std::nullopt;
}

DType need_dtype(const std::string& text) {
  const std::optional<DType> dtype = dtype_named(text);
  if (!dtype) refuse("there is no element type \"" + text + "\" (float32, int64, bool, ...)");
  return *dtype;
}

// DTYPE, or DTYPE[EXTENT, ...] with numbers, symbols or ? as extents.
ValueSpec type_of(const std::string& value, const std::string& text) {
  ValueSpec spec;
  spec.name = value;
  const size_t open = text.find('[');
  spec.dtype = need_dtype(trimmed(text.substr(0, open)));
  if (open == std::string::npos) return spec;
  if (text.back() != ']') refuse("the shape in \"" + text + "\" is not closed");
  spec.has_shape = true;
  std::string rest = text.substr(open + 1, text.size() - open - 2);
  while (!trimmed(rest).empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string extent = trimmed(rest.substr(0, comma));
    rest.erase(0, comma + 1);
    const std::optional<int64_t> number = integer(extent);
    if (number && *number < 0) refuse("an extent cannot be " + extent);
    if (number)
      spec.shape.push_back({*number, ""});
    else
      spec.shape.push_back({-1, extent == "?" ? "" : extent});
  }
  return spec;
}

// NAME:TYPE; a name may hold colons itself.
ValueSpec typed_value(const std::string& text) {
  const size_t open = text.rfind('[');
  const size_t at = text.rfind(':', open);
  if (at == std::string::npos || at == 0) refuse("expected NAME:TYPE, got \"" + text + "\"");
  const auto [value, type] = split(text, at);
  return type_of(value, type);
}

AttributeValue list_value(const json& list) {
  if (std::all_of(list.begin(), list.end(), [](const json& x) { return x.is_number_integer(); }))
    return list.get<std::vector<int64_t>>();
  if (std::all_of(list.begin(), list.end(), [](const json& x) { return x.is_number(); }))
    return list.get<std::vector<float>>();
  if (std::all_of(list.begin(), list.end(), [](const json& x) { return x.is_string(); }))
    return list.get<std::vector<std::string>>();
  refuse("a list of an attribute holds numbers or strings only");
}

// Numbers, lists and quoted strings as JSON has them, FILE.npy and FILE.pb as tensors, everything else as a string.
// What the attribute held before decides between kinds that are written alike.
AttributeValue attribute_value(const std::string& text, const AttributeValue* before) {
  if (names_value_file(text)) return read_value(text).tensor;
  if (before && std::holds_alternative<std::string>(*before) && !text.starts_with('"')) return text;
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_string()) return parsed.get<std::string>();
  if (parsed.is_boolean()) return int64_t{parsed.get<bool>()};
  if (parsed.is_array()) {
    if (before && std::holds_alternative<std::vector<float>>(*before) &&
        std::all_of(parsed.begin(), parsed.end(), [](const json& x) { return x.is_number(); }))
      return parsed.get<std::vector<float>>();
    return list_value(parsed);
  }
  if (!parsed.is_number()) return text;
  if (before && std::holds_alternative<float>(*before)) return parsed.get<float>();
  if (parsed.is_number_integer()) return parsed.get<int64_t>();
  return parsed.get<float>();
}

// Op or DOMAIN.Op
std::pair<std::string, std::string> operator_of(const std::string& text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string::npos) return {text, ""};
  return {text.substr(dot + 1), text.substr(0, dot)};
}

std::vector<std::string> list_of(const std::string& text, char separator) {
  std::vector<std::string> items;
  if (trimmed(text).empty()) return items;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != separator || depth > 0)) continue;
    items.push_back(trimmed(std::string_view(text).substr(start, i - start)));
    start = i + 1;
  }
  return items;
}

// Op(input, ...; attribute=value, ...) -> output, ...
GraphEdit::NewNode new_node(const std::string& text) {
  const char* form = "expected \"Op(INPUT, ...; ATTRIBUTE=VALUE, ...) -> OUTPUT, ...\", got \"";
  const size_t open = text.find('(');
  const size_t arrow = text.rfind("->");
  const size_t close = arrow == std::string::npos ? arrow : text.rfind(')', arrow);
  if (open == std::string::npos || close == std::string::npos || close < open) refuse(form + text + "\"");
  GraphEdit::NewNode node;
  std::tie(node.op_type, node.domain) = operator_of(trimmed(text.substr(0, open)));
  const std::string inside = text.substr(open + 1, close - open - 1);
  const size_t semicolon = std::min(inside.find(';'), inside.size());
  node.inputs = list_of(inside.substr(0, semicolon), ',');
  node.outputs = list_of(text.substr(arrow + 2), ',');
  if (semicolon < inside.size()) {
    for (const std::string& item : list_of(inside.substr(semicolon + 1), ',')) {
      const auto [key, value] = pair_of(item, "ATTRIBUTE=VALUE");
      node.attributes[trimmed(key)] = attribute_value(trimmed(value), nullptr);
    }
  }
  return node;
}

// FILE.npy, FILE.pb, or DTYPE:JSON
Tensor tensor_value(const std::string& text) {
  if (names_value_file(text)) {
    const Value value = read_value(text);
    if (!value.is_tensor()) refuse(text + " holds no tensor");
    return value.tensor;
  }
  const size_t at = text.find(':');
  if (at == std::string::npos) refuse("expected FILE.npy, FILE.pb or DTYPE:JSON, got \"" + text + "\"");
  const auto [dtype, numbers] = split(text, at);
  return tensor_from_json(numbers, need_dtype(dtype));
}

}  // namespace

std::string full_label(const NodeInfo& node) { return (node.scope.empty() ? "" : node.scope + " > ") + node.label; }

std::vector<NodeInfo> EditScript::selected() const { return edit_.find(where_.empty() ? nullptr : where::all(where_)); }

std::vector<NodeInfo> EditScript::nodes(const std::string& wanted) const {
  if (wanted.empty() || wanted == "@") {
    if (where_.empty()) refuse("nothing is selected: name a node, or select some with --where first");
    std::vector<NodeInfo> found = selected();
    if (found.empty()) refuse("no node fits what --where asks for");
    return found;
  }
  std::vector<NodeInfo> found =
      edit_.find([&](const NodeInfo& node) { return node.label == wanted || full_label(node) == wanted; });
  if (found.empty()) {
    found = edit_.find([&](const NodeInfo& node) {
      return std::find(node.outputs.begin(), node.outputs.end(), wanted) != node.outputs.end();
    });
  }
  if (found.empty()) refuse("no node is named \"" + wanted + "\" or makes a value of that name (--list shows all)");
  if (found.size() > 1) {
    std::string all;
    for (size_t i = 0; i < found.size() && i < 6; ++i) all += (i ? ", \"" : "\"") + full_label(found[i]) + "\"";
    refuse("several nodes are named \"" + wanted + "\": " + all + "; use --where");
  }
  return found;
}

void EditScript::select(const std::string& condition) {
  if (!selecting_) where_.clear();
  selecting_ = true;
  const auto [key, value] = pair_of(condition, "op_type=, name=, domain=, scope=, input=, output= or attr.NAME=VALUE");
  if (key == "op_type") return where_.push_back(where::op_type(value));
  if (key == "name") return where_.push_back(where::name(value));
  if (key == "domain") return where_.push_back(where::domain(value));
  if (key == "scope") return where_.push_back(where::scope(value));
  if (key == "input") return where_.push_back(where::input(value));
  if (key == "output") return where_.push_back(where::output(value));
  if (!key.starts_with("attr."))
    refuse("nodes have no \"" + key + "\"; --where knows op_type, name, domain, scope, input, output and attr.NAME");
  const std::string attribute = key.substr(5);
  where_.push_back([attribute, value = value](const NodeInfo& node) {
    const auto held = node.attributes.find(attribute);
    return held != node.attributes.end() && where::attribute(attribute, attribute_value(value, &held->second))(node);
  });
}

void EditScript::apply(const EditStep& step) {
  try {
    if (step.option == "--where") return select(step.value);
    selecting_ = false;
    run(step);
  } catch (Error& error) {
    error.in(step.option + (step.value.empty() ? "" : " \"" + step.value + "\""));
    throw;
  }
}

void EditScript::run(const EditStep& step) {
  const std::string& option = step.option;
  const std::string& value = step.value;
  if (option == "--in") {
    scope_ = value;
  } else if (option == "--set-op") {
    const auto [name, op] = node_and(value, value.rfind('='));
    const auto [op_type, domain] = operator_of(op);
    for (const NodeInfo& node : nodes(name)) edit_.set_operator(node.id, op_type, domain);
  } else if (option == "--set-attr") {
    const auto [key, text] = pair_of(value, "NODE.ATTRIBUTE=VALUE");
    const auto [name, attribute] = node_and(key, key.rfind('.'));
    for (const NodeInfo& node : nodes(name)) {
      const auto before = node.attributes.find(attribute);
      edit_.set_attribute(node.id, attribute,
                          attribute_value(text, before == node.attributes.end() ? nullptr : &before->second));
    }
  } else if (option == "--remove-attr") {
    const auto [name, attribute] = node_and(value, value.rfind('.'));
    for (const NodeInfo& node : nodes(name)) edit_.remove_attribute(node.id, attribute);
  } else if (option == "--rename-node") {
    const auto [name, to] = pair_of(value, "NODE=NAME");
    const std::vector<NodeInfo> found = nodes(name);
    if (found.size() > 1) refuse("several nodes cannot have one name");
    edit_.rename_node(found[0].id, to);
  } else if (option == "--remove" || option == "--bypass") {
    for (const NodeInfo& node : nodes(value)) {
      if (option == "--remove")
        edit_.remove_node(node.id);
      else
        edit_.bypass_node(node.id);
    }
  } else if (option == "--rewire") {
    const auto [from, to] = pair_of(value, "OLD=NEW or NODE[INDEX]=VALUE");
    const size_t open = from.rfind('[');
    const std::optional<int64_t> index = open != std::string::npos && from.back() == ']'
                                             ? integer(from.substr(open + 1, from.size() - open - 2))
                                             : std::nullopt;
    if (!index || *index < 0) {
      edit_.rewire(from, to, scope_);
      return;
    }
    for (const NodeInfo& node : nodes(from.substr(0, open))) edit_.set_input(node.id, static_cast<size_t>(*index), to);
  } else if (option == "--add-node") {
    edit_.add_node(new_node(value), scope_);
  } else if (option == "--prune") {
    edit_.prune();
  } else {
    run_on_values(option, value);
  }
}

void EditScript::run_on_values(const std::string& option, const std::string& value) {
  if (option == "--rename") {
    const auto [from, to] = pair_of(value, "OLD=NEW");
    edit_.rename_value(from, to, scope_);
  } else if (option == "--rename-dim") {
    const auto [from, to] = pair_of(value, "OLD=NEW");
    edit_.rename_dim(from, to);
  } else if (option == "--fix-dim") {
    const auto [symbol, extent] = pair_of(value, "SYMBOL=NUMBER");
    edit_.fix_dim(symbol, need_integer(extent));
  } else if (option == "--set-type") {
    edit_.set_type(typed_value(value));
  } else if (option == "--add-input") {
    edit_.add_input(typed_value(value));
  } else if (option == "--remove-input") {
    edit_.remove_input(value);
  } else if (option == "--add-output") {
    const size_t at = value.rfind(':', value.rfind('['));
    const bool typed =
        at != std::string::npos && at > 0 && dtype_named(trimmed(value.substr(at + 1, value.find('[', at) - at - 1)));
    if (typed)
      edit_.add_output(typed_value(value));
    else
      edit_.add_output(value);
  } else if (option == "--remove-output") {
    edit_.remove_output(value);
  } else if (option == "--set-initializer") {
    const auto [name, tensor] = pair_of(value, "NAME=FILE.npy, NAME=FILE.pb or NAME=DTYPE:JSON");
    edit_.set_initializer(name, tensor_value(tensor), scope_);
  } else if (option == "--convert-initializer") {
    const auto [name, dtype] = pair_of(value, "NAME=DTYPE");
    edit_.convert_initializer(name, need_dtype(dtype), scope_);
  } else if (option == "--remove-initializer") {
    edit_.remove_initializer(value, scope_);
  } else if (option == "--initializer-to-input") {
    edit_.initializer_to_input(value);
  } else if (option == "--set-opset") {
    const size_t at = value.find('=');
    const auto [domain, version] = at == std::string::npos ? std::pair(std::string(), value) : split(value, at);
    edit_.set_opset(domain, need_integer(version));
  } else if (option == "--set-metadata") {
    const auto [key, text] = pair_of(value, "KEY=VALUE");
    edit_.set_metadata(key, text);
  } else if (option == "--remove-metadata") {
    edit_.remove_metadata(value);
  } else {
    throw Error(ErrorCode::internal, "no edit is called " + option);
  }
}

}  // namespace transmuter::cli
