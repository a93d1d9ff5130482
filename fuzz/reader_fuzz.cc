// Whatever the bytes are, the readers of models, values and .npy files return or throw Error.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "onnx/graph.h"
#include "onnx/value_proto.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A block of exactly this size, which ends where AddressSanitizer watches.
  const std::shared_ptr<std::byte[]> owner(new std::byte[size]);
  if (size != 0) std::memcpy(owner.get(), data, size);
  const std::string_view bytes(reinterpret_cast<const char*>(owner.get()), size);
  attempt([&] { touch(onnx::parse_model(owner.get(), size, owner).graph); });
  attempt([&] { touch(parse_npy(bytes)); });
  using Kind = onnx::ValueInfo::Kind;
  for (const Kind kind : {Kind::tensor, Kind::sequence, Kind::optional, Kind::map}) {
    onnx::ValueInfo declared;
    declared.kind = kind;
    attempt([&] { touch(onnx::parse_value(bytes, declared)); });
  }
  return 0;
}
