// Value: what an ONNX value may be at run time on the host: a tensor (strings included), a sequence, an optional, a
// map.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter {

struct Value {
  enum class Kind : uint8_t { none, tensor, sequence, optional, map };
  Kind kind = Kind::none;
  Tensor tensor;                   // tensor; a map's values (1-D, beside `keys`)
  Tensor keys;                     // map: i64 or strings, 1-D
  std::vector<Value> items;        // sequence: its elements; optional: zero or one
  DType element = DType::invalid;  // element dtype of an empty sequence or optional, where known

  Value() = default;
  Value(Tensor t) : kind(Kind::tensor), tensor(std::move(t)) {}  // NOLINT(google-explicit-constructor)
  static Value sequence(std::vector<Value> elements) {
    Value v;
    v.kind = Kind::sequence;
    v.items = std::move(elements);
    return v;
  }
  static Value optional(std::vector<Value> content) {
    Value v;
    v.kind = Kind::optional;
    v.items = std::move(content);
    return v;
  }
  bool is_tensor() const { return kind == Kind::tensor; }
};

}  // namespace transmuter
