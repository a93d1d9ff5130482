// What the edits of transmuter/graph.h share: finding nodes and names in a document, and what an edit leaves to do.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/strings.h"
#include "onnx/document.h"
#include "transmuter/error.h"
#include "transmuter/graph.h"

namespace transmuter::onnx {

template <class... Pieces>
[[noreturn]] void refuse_edit(const Pieces&... pieces) {
  throw Error(ErrorCode::invalid_input, str(pieces...));
}

struct Place {
  size_t scope = 0;  // in scopes_of()
  Field* field = nullptr;
  Message& node() const { return *field->message; }
};
// Throw Error(invalid_input) where there is none.
Place place_of(const std::vector<Scope>& scopes, uint32_t node);
size_t scope_of(const std::vector<Scope>& scopes, const std::string& name);

// `index` and the scopes inside it that do not define `name` themselves.
std::vector<size_t> scopes_that_see(const std::vector<Scope>& scopes, size_t index, const std::string& name);

// The dense values of an initializer.
Tensor read_initializer(const Document& document, const Scope& graph, const std::string& name);
NodeInfo node_info(Message& node, size_t index, const Scope& scope, const Source& source);
std::string describe_node(const Message& node);

// A field of a graph or function by number and name; null where there is none.
Field* find_value(const Scope& graph, uint32_t number, const std::string& name);
Field* find_initializer(const Scope& graph, const std::string& name);

// ValueInfoProto and TypeProto.
Field value_field_of(uint32_t number, const ValueSpec& spec);
std::string encode_type(const ValueSpec& spec);
// The declared or derived type of a value of the main graph as a TypeProto; "" where nothing says it. Hints in `stale`
// do not count.
std::string type_of_value(const Document& document, const std::vector<Scope>& scopes, const std::string& name,
                          const std::unordered_set<std::string>& stale);

// Names whose recorded types may no longer hold: what nodes in `changed` make, and everything made from that.
std::unordered_set<std::string> stale_values(const std::vector<Scope>& scopes, const std::vector<uint32_t>& changed);
// After the last edit: nodes in an order in which each comes after what it reads, no types recorded for stale values or
// for values that are gone.
void finish_edit(Document& document, const std::vector<uint32_t>& changed);

}  // namespace transmuter::onnx
