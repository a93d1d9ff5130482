// Small tools of the reference evaluations: strides, walking an index space, elements as one arithmetic type.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/dispatch.h"
#include "ir/primitives/evaluate_util.h"
#include "tensor/cast.h"
#include "transmuter/tensor.h"

namespace transmuter::ir {

// The entries of `values` at `axes`.
template <class T>
std::vector<T> pick(const std::vector<T>& values, const std::vector<int64_t>& axes) {
  std::vector<T> picked;
  picked.reserve(axes.size());
  for (const int64_t axis : axes) picked.push_back(values[static_cast<size_t>(axis)]);
  return picked;
}

inline bool contains(const std::vector<int64_t>& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The axes in [0, rank) that stand in neither list, ascending.
inline std::vector<int64_t> other_axes(int64_t rank, const std::vector<int64_t>& a,
                                       const std::vector<int64_t>& b = {}) {
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (!contains(a, axis) && !contains(b, axis)) others.push_back(axis);
  }
  return others;
}

inline std::vector<int64_t> joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The permutation that undoes `permutation`.
inline std::vector<int64_t> inverse_permutation(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  return inverse;
}

// Calls fn(offsets) for each index of `shape` in row-major order; offsets[n] = at[n] + sum of index * strides[n].
template <size_t N, class Fn>
void walk(const Shape& shape, const std::array<std::vector<int64_t>, N>& strides, const Fn& fn,
          std::array<int64_t, N> at = {}) {
  for (const int64_t extent : shape) {
    if (extent == 0) return;
  }
  if (shape.empty()) {
    fn(at);
    return;
  }
  const size_t last = shape.size() - 1;
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    std::array<int64_t, N> inner = at;
    for (int64_t i = 0; i < shape[last]; ++i) {
      fn(inner);
      for (size_t n = 0; n < N; ++n) inner[n] += strides[n][last];
    }
    size_t axis = last;
    while (axis > 0) {
      --axis;
      for (size_t n = 0; n < N; ++n) at[n] += strides[n][axis];
      if (++index[axis] < shape[axis]) break;
      for (size_t n = 0; n < N; ++n) at[n] -= strides[n][axis] * shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (last == 0) return;
  }
}

// Every element converted to T, in order.
template <class T>
std::vector<T> elements_as(const Tensor& tensor) {
  std::vector<T> out(static_cast<size_t>(tensor.size()));
  dispatch_stored(tensor.dtype(), "reading elements", [&]<class S>(TypeTag<S>) {
    const S* from = elements<S>(tensor);
    for (size_t i = 0; i < out.size(); ++i) out[i] = convert<T>(from[i]);
  });
  return out;
}

// Stores values converted to the tensor's dtype: floats round once, integers wrap around.
template <class T>
void store_elements(const std::vector<T>& values, Tensor& tensor) {
  dispatch_stored(tensor.dtype(), "storing elements", [&]<class S>(TypeTag<S>) {
    S* to = mutable_elements<S>(tensor);
    for (size_t i = 0; i < values.size(); ++i) to[i] = convert<S>(values[i]);
  });
}

// fn(TypeTag<A>): the type that reductions of a dtype are computed in: double for floats, 64-bit integers for integers
// and bool (wrapping around at the end is wrapping around all along).
template <class Fn>
decltype(auto) dispatch_accumulator(DType dtype, const char* what, Fn&& fn) {
  if (dtype == DType::u64) return fn(TypeTag<uint64_t>{});
  if (dtype == DType::boolean || is_integer(dtype)) return fn(TypeTag<int64_t>{});
  if (is_float(dtype)) return fn(TypeTag<double>{});
  refuse_dtype(dtype, what);
}

}  // namespace transmuter::ir
