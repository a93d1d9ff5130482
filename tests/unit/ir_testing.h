// What the IR tests share: small tensors, and programs run by the plain interpreter.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ir/builder.h"
#include "ir/evaluate.h"

namespace transmuter::ir {

template <class T>
Tensor tensor_of(std::vector<T> values) {
  int64_t n = static_cast<int64_t>(values.size());
  return Tensor(values, {n});
}

// Every element as a double, whatever the dtype.
inline std::vector<double> numbers(const Tensor& tensor) { return tensor.cast(DType::f64).to_vector<double>(); }

inline Tensor make(DType dtype, const std::vector<double>& values, Shape shape) {
  return Tensor(values, std::move(shape)).cast(dtype);
}
inline Tensor make(DType dtype, const std::vector<double>& values) {
  return make(dtype, values, {static_cast<int64_t>(values.size())});
}

// fn(builder, inputs) -> value, evaluated without a scope.
template <class Fn>
Tensor run(const std::vector<Tensor>& inputs, Fn&& fn) {
  Builder b(nullptr);
  std::vector<Value> values;
  for (const Tensor& x : inputs) values.push_back(b.input({x.dtype(), Dims(x.shape().begin(), x.shape().end())}, "x"));
  Value out = fn(b, values);
  return evaluate(b.finish({out}), inputs)[0];
}

}  // namespace transmuter::ir
