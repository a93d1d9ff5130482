// Value: what an ONNX value may be on the host: a tensor (strings included), a sequence, an optional, a map. Values go
// in and out of Model::run and of compiled models alike. Copies share their tensors' storage.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transmuter/error.h"
#include "transmuter/tensor.h"

namespace transmuter {

struct Value {
  enum class Kind : uint8_t { none, tensor, sequence, optional, map };
  Kind kind = Kind::none;
  Tensor tensor;                   // tensor; a map's values (1-D, beside `keys`)
  Tensor keys;                     // map: i64 or strings, 1-D
  std::vector<Value> items;        // sequence: its elements; optional: zero or one
  DType element = DType::invalid;  // element dtype of an empty sequence or optional, where known
  // A tensor whose memory the run may take even where others hold it: they must not feed it to a run again (an error).
  bool donated = false;

  Value() = default;
  Value(Tensor t) : kind(Kind::tensor), tensor(std::move(t)) {}  // NOLINT(google-explicit-constructor)
  // Its elements may be tensors, sequences, maps or optionals, all of one kind.
  static Value sequence(std::vector<Value> elements) {
    Value v;
    v.kind = Kind::sequence;
    v.items = std::move(elements);
    return v;
  }
  // `content`: what it holds, or nothing.
  static Value optional(std::vector<Value> content) {
    Value v;
    v.kind = Kind::optional;
    v.items = std::move(content);
    return v;
  }
  // keys[i] -> values[i]. Throws Error(invalid_input) unless `keys` is a 1-D tensor of integers or strings and `values`
  // one of the same length.
  static Value map(Tensor keys, Tensor values) {
    if (keys.rank() != 1 || values.rank() != 1 || keys.size() != values.size())
      throw Error(ErrorCode::invalid_input, "a map's keys and values must be two lists of one length");
    if (keys.dtype() != DType::string && !is_integer(keys.dtype()))
      throw Error(ErrorCode::invalid_input, "a map's keys must be integers or strings");
    Value v;
    v.kind = Kind::map;
    v.keys = std::move(keys);
    v.tensor = std::move(values);
    return v;
  }
  bool is_tensor() const { return kind == Kind::tensor; }
  operator const Tensor&() const {  // NOLINT(google-explicit-constructor): run(...)["logits"] is a Tensor to most
    if (kind != Kind::tensor) throw Error(ErrorCode::invalid_input, "the value is not a tensor");
    return tensor;
  }
};

// Inputs or outputs of a run by name.
using TensorMap = std::map<std::string, Value>;

}  // namespace transmuter
