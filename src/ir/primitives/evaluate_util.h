// What reference evaluators share: plain index arithmetic. Slow and obvious on purpose.
#pragma once

#include <cstdint>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter::ir {

inline std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Calls fn(index) for every index of `shape` in row-major order.
template <class Fn>
void for_each_index(const Shape& shape, Fn&& fn) {
  if (element_count(shape) == 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  for (;;) {
    fn(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

inline int64_t flat_index(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); ++i) flat += index[i] * strides[i];
  return flat;
}

}  // namespace transmuter::ir
