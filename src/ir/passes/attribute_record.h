// The fields of an attribute struct as data, for comparing attributes and for finding the dims in them.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace transmuter::ir {

struct AttributeRecord {
  std::string key;  // field names and values; dims and reals by their hints, tensors by their types
  Dims dims;
  std::vector<Real> reals;
  std::vector<Tensor> tensors;

  explicit AttributeRecord(const Attributes* attributes);
};
// Equal for equal fields; dims, reals and tensors count by what says most without looking far: hints, sizes.
uint64_t attribute_hash(const Attributes* attributes);
// Equal fields: dims are the same expression, tensors the same bytes (large ones: the same storage). No guards.
bool same(const AttributeRecord& a, const AttributeRecord& b);

// No symbols: the same in every run.
bool all_constant(const Dims& dims);
bool all_constant(const AttributeRecord& attributes);

// "axis=1 permutation=[1, 0]": for dumps.
std::string attribute_text(const Attributes* attributes);

}  // namespace transmuter::ir
