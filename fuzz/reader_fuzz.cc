// Whatever the bytes are, the readers of models, values and .npy files return or throw Error, and so do edits; what was
// read as messages is written as messages that are read the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "limits.h"
#include "onnx/edit.h"
#include "onnx/graph.h"
#include "onnx/value_proto.h"
#include "onnx/writer.h"
#include "tensor/npy.h"
#include "transmuter/error.h"

namespace {

using namespace transmuter;

// Reads every byte that a tensor claims to have.
void touch(const Tensor& tensor) {
  if (!tensor || tensor.dtype() == DType::string) return;
  volatile unsigned char sink = 0;
  for (size_t i = 0; i < tensor.nbytes(); ++i)
    sink = static_cast<unsigned char>(sink ^ std::to_integer<unsigned char>(tensor.bytes()[i]));
}

void touch(const onnx::Graph& graph) {
  for (const auto& [name, tensor] : graph.initializers) touch(tensor);
  for (const onnx::Node& node : graph.nodes) {
    for (const onnx::Attribute& attribute : node.attributes) {
      touch(attribute.tensor);
      for (const Tensor& tensor : attribute.tensors) touch(tensor);
      if (attribute.graph) touch(*attribute.graph);
      for (const auto& inner : attribute.graphs) touch(*inner);
    }
  }
}

void touch(const Value& value) {
  touch(value.tensor);
  touch(value.keys);
  for (const Value& item : value.items) touch(item);
}

template <class Body>
void attempt(Body body) {
  try {
    body();
  } catch (const Error&) {
  }
}

bool readable(const std::string& bytes) {
  try {
    const auto owner = std::make_shared<const std::string>(bytes);
    onnx::parse_model(reinterpret_cast<const std::byte*>(owner->data()), owner->size(), owner);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void write_anew(const std::shared_ptr<std::byte[]>& owner, std::string_view bytes) {
  onnx::Document document = onnx::parse_document(bytes, owner, "");
  const std::string written = onnx::encode_document(document);
  const auto kept = std::make_shared<const std::string>(written);
  if (onnx::encode_document(onnx::parse_document(*kept, kept, "")) != written) std::abort();
  if (readable(std::string(bytes)) && !readable(written)) std::abort();
  std::vector<uint32_t> changed;
  for (const onnx::Scope& scope : onnx::scopes_of(document.model)) {
    onnx::each_node(scope, [&](onnx::Message& node, size_t index) {
      changed.push_back(node.id);
      attempt([&] { onnx::node_info(node, index, scope, onnx::source_of(document)); });
    });
  }
  attempt([&] {
    const auto scopes = onnx::scopes_of(document.model);
    for (const std::string& name : onnx::names_in(scopes, 0)) onnx::type_of_value(document, scopes, name, {});
  });
  onnx::finish_edit(document, changed);
  // Sorting may repair a file, never break it.
  if (readable(written) && !readable(onnx::encode_document(document))) std::abort();
  touch(onnx::parse_document_model(document).graph);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A block of exactly this size, which ends where AddressSanitizer watches.
  const std::shared_ptr<std::byte[]> owner(new std::byte[size]);
  if (size != 0) std::memcpy(owner.get(), data, size);
  const std::string_view bytes(reinterpret_cast<const char*>(owner.get()), size);
  // Functions that call functions double what is read with each level: what takes too much is not looked at further.
  try {
    const fuzzing::Limits limits;
    touch(onnx::parse_model(owner.get(), size, owner).graph);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) return 0;
  }
  attempt([&] { write_anew(owner, bytes); });
  attempt([&] { touch(parse_npy(bytes)); });
  using Kind = onnx::ValueInfo::Kind;
  for (const Kind kind : {Kind::tensor, Kind::sequence, Kind::optional, Kind::map}) {
    onnx::ValueInfo declared;
    declared.kind = kind;
    attempt([&] { touch(onnx::parse_value(bytes, declared)); });
  }
  return 0;
}
