// The one contraction loop of the reference, under dot_general and convolution.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/primitives/walk.h"

namespace transmuter::ir {

inline constexpr int64_t kPanel = 32;

// sums[i * kPanel + j] = sum over p of a[i * k + p] * panel[p * kPanel + j], for T double or uint64_t (wraps around).
template <class T>
void multiply_panel(const T* a, const T* panel, int64_t m, int64_t k, T* sums) {
  for (int64_t i = 0; i < m; ++i) {
    T sum[kPanel] = {};
    for (int64_t p = 0; p < k; ++p) {
      const T x = a[i * k + p];
      const T* row = panel + p * kPanel;
      for (int64_t j = 0; j < kPanel; ++j) sum[j] += x * row[j];
    }
    std::copy(sum, sum + kPanel, sums + i * kPanel);
  }
}

// fn(TypeTag<T>): double where it is exact or the result is a float, else uint64_t.
template <class Fn>
void dispatch_product(DType a, DType b, DType result, const char* what, Fn&& fn) {
  if (is_float(result) || (is_integer(a) && is_integer(b) && bit_width(a) + bit_width(b) <= 32))
    fn(TypeTag<double>{});
  else if (is_integer(a) && is_integer(b) && is_integer(result))
    fn(TypeTag<uint64_t>{});
  else
    refuse_dtype(result, what);
}

// Stores sums of products; integers wrap around.
template <class T>
void store_products(const std::vector<T>& sums, Tensor& result) {
  if constexpr (std::is_same_v<T, double>) {
    if (is_integer(result.dtype())) {
      store_elements(std::vector<int64_t>(sums.begin(), sums.end()), result);
      return;
    }
  }
  store_elements(sums, result);
}

// Operand dtypes of a contraction whose result is `result`: integers for an integer, else anything numeric.
inline bool contraction_takes(DType a, DType b, DType result) {
  const auto number = [](DType t) { return is_integer(t) || (is_float(t) && t != DType::f4e2m1); };
  if (is_integer(result)) return is_integer(a) && is_integer(b) && !is_packed(result);
  return number(a) && number(b) &&
         (result == DType::f16 || result == DType::bf16 || result == DType::f32 || result == DType::f64);
}

}  // namespace transmuter::ir
