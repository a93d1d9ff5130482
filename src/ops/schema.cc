#include "ops/schema.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "onnx/tensor_proto.h"
#include "ops/host_node.h"
#include "ops/registry.h"

namespace transmuter::ops {
namespace {

using Kind = onnx::Attribute::Kind;

// The piece of `text` before `separator`, which leaves `text`.
std::string_view next(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

int64_t integer(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const SchemaRow* find_row(std::span<const SchemaRow> rows, const onnx::Node& node) {
  const auto key = [](const SchemaRow& row) {
    return std::pair<std::string_view, std::string_view>(row.domain, row.name);
  };
  const std::pair<std::string_view, std::string_view> wanted(node.domain, node.op_type);
  const auto row =
      std::lower_bound(rows.begin(), rows.end(), wanted, [&](const SchemaRow& r, const auto& w) { return key(r) < w; });
  return row != rows.end() && key(*row) == wanted ? &*row : nullptr;
}

// What stands in a row for an opset, and since when; empty before the first.
std::pair<int64_t, std::string_view> piece_for(std::string_view text, int64_t opset) {
  std::pair<int64_t, std::string_view> chosen;
  while (!text.empty()) {
    std::string_view piece = next(text, ';');
    const int64_t version = integer(next(piece, ':'));
    if (version > opset) break;
    chosen = {version, piece};
  }
  return chosen;
}

char letter(Kind kind) {
  switch (kind) {
    case Kind::f:
      return 'f';
    case Kind::i:
      return 'i';
    case Kind::s:
      return 's';
    case Kind::tensor:
      return 't';
    case Kind::graph:
      return 'g';
    case Kind::floats:
      return 'F';
    case Kind::ints:
      return 'I';
    case Kind::strings:
      return 'S';
    case Kind::tensors:
      return 'T';
    case Kind::graphs:
      return 'G';
    case Kind::type:
      return 'y';
    case Kind::sparse_tensor:
      return 'p';
    case Kind::none:
      break;
  }
  return ' ';
}

const char* words(char kind) {
  switch (kind) {
    case 'f':
      return "a float";
    case 'i':
      return "an integer";
    case 's':
      return "a string";
    case 't':
    case 'p':
      return "a tensor";
    case 'g':
      return "a graph";
    case 'y':
      return "a type";
    case 'F':
      return "a list of floats";
    case 'I':
      return "a list of integers";
    case 'S':
      return "a list of strings";
    default:
      return "a list";
  }
}

bool is_empty_list(const onnx::Attribute& a) {
  return a.ints.empty() && a.floats.empty() && a.strings.empty() && a.tensors.empty() && a.graphs.empty() &&
         (a.kind == Kind::ints || a.kind == Kind::floats || a.kind == Kind::strings || a.kind == Kind::tensors ||
          a.kind == Kind::graphs);
}

bool kind_fits(const onnx::Attribute& a, char wanted) {
  if (letter(a.kind) == wanted || (a.kind == Kind::tensor && wanted == 'p')) return true;
  return is_empty_list(a) && wanted >= 'A' && wanted <= 'Z';  // an empty list does not say of what
}

void check_inputs(const onnx::Node& node, std::string_view parameters) {
  if (parameters == "-") parameters = {};
  const bool variadic = parameters.ends_with('v');
  size_t given = node.inputs.size();
  while (given > 0 && node.inputs[given - 1].empty()) --given;
  if (given > parameters.size() && !variadic)
    invalid(node, "takes at most ", parameters.size(), " inputs, has ", node.inputs.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i] == 'r' && (i >= given || node.inputs[i].empty())) invalid(node, "input ", i, " is missing");
  }
}

void check_outputs(const onnx::Node& node, std::string_view range) {
  const size_t least = static_cast<size_t>(integer(next(range, '-')));
  size_t wanted = node.outputs.size();
  if (wanted < least) invalid(node, "has ", least, " outputs, the node names ", wanted);
  while (wanted > 0 && node.outputs[wanted - 1].empty()) --wanted;
  if (range != "*" && wanted > static_cast<size_t>(integer(range)))
    invalid(node, "has at most ", range, " outputs, the node names ", node.outputs.size());
}

void check_attributes(const onnx::Node& node, std::string_view list) {
  std::vector<bool> known(node.attributes.size(), false);
  while (!list.empty()) {
    std::string_view rest = next(list, ' ');
    const std::string_view attribute = next(rest, '=');
    bool found = false;
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      const onnx::Attribute& a = node.attributes[i];
      if (a.name != attribute) continue;
      known[i] = found = true;
      if (!kind_fits(a, rest[0])) invalid(node, "attribute ", attribute, " must be ", words(rest[0]));
    }
    if (!found && rest.ends_with('!')) invalid(node, "attribute ", attribute, " is required");
  }
  for (size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) invalid(node, "has no attribute ", node.attributes[i].name, " in opset ", node.version);
  }
}

}  // namespace

void check_schema(const onnx::Node& node) {
  const SchemaRow* row = find_row({kSchemas, kSchemaCount}, node);
  if (!row) return;
  const int64_t first = integer(row->versions);
  auto [since, chosen] = piece_for(row->versions, node.version);
  if (chosen.empty()) {
    const Operator* op = registry().find(node.domain, node.op_type);
    if (op && !op->versions.empty() && op->versions.front() <= node.version) return;
    invalid(node, "the operator came with opset ", first, ", the model imports ", node.version);
  }
  if (chosen == "removed") invalid(node, "the operator left the standard with opset ", since);
  std::string_view arity = next(chosen, ' ');
  check_inputs(node, next(arity, '/'));
  check_outputs(node, arity);
  check_attributes(node, chosen);
}

void check_types(const onnx::Node& node, std::span<const DType> inputs) {
  const SchemaRow* row = find_row({kSchemaTypes, kSchemaTypesCount}, node);
  if (!row) return;
  std::string_view sets = piece_for(row->versions, node.version).second;
  if (sets == "-") return;
  uint32_t set = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!sets.empty()) set = kTypeSets[integer(next(sets, ' '))];
    if (inputs[i] == DType::invalid || set == 0) continue;
    if ((set >> onnx::number_of_dtype(inputs[i]) & 1u) == 0)
      invalid(node, "input ", i, " cannot be ", name(inputs[i]), " in opset ", node.version);
  }
}

}  // namespace transmuter::ops
