// ValueSpec: one input or output of a model as declared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transmuter/value.h"

namespace transmuter {

struct ValueSpec {
  struct Dim {
    int64_t value = -1;  // -1: not fixed
    std::string symbol;  // "batch"; may be empty
  };
  std::string name;
  Value::Kind kind = Value::Kind::tensor;
  DType dtype = DType::invalid;
  bool has_shape = false;
  std::vector<Dim> shape;
  std::vector<ValueSpec> element;    // one, of a sequence or an optional; `dtype` is that of a map's values
  DType key_dtype = DType::invalid;  // a map's
  bool optional = false;             // an input with a default (an initializer of the same name)
};

}  // namespace transmuter
