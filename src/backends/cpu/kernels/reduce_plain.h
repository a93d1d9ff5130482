// What the vector loops and the plain loops of reduce.cc share: identities, joining, one piece by plain loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/reduce.h"

namespace transmuter::cpu {

// Totals of floats are kept in double.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

template <ReduceKind kKind, class T>
constexpr T identity() {
  using Limits = std::numeric_limits<T>;
  if constexpr (kKind == ReduceKind::sum) return T{0};
  if constexpr (kKind == ReduceKind::mul) return T{1};
  if constexpr (kKind == ReduceKind::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if constexpr (kKind == ReduceKind::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

template <ReduceKind kKind, class T>
inline T join(T a, T b) {
  if constexpr (kKind == ReduceKind::max) {
    return a != a || a > b ? a : b;
  } else if constexpr (kKind == ReduceKind::min) {
    return a != a || a < b ? a : b;
  } else if constexpr (std::is_floating_point_v<T>) {
    return kKind == ReduceKind::sum ? a + b : a * b;
  } else {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);  // wraps
    return static_cast<T>(kKind == ReduceKind::sum ? x + y : x * y);
  }
}

template <ReduceKind kKind, class T>
inline void plain_piece(const T* p, int64_t rows, int64_t stride, int64_t cols, T* total) {
  std::fill(total, total + cols, identity<kKind, T>());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) total[c] = join<kKind>(total[c], p[r * stride + c]);
  }
}

template <class Fn>
decltype(auto) with_kind(ReduceKind kind, Fn&& fn) {
  switch (kind) {
    case ReduceKind::sum:
      return fn.template operator()<ReduceKind::sum>();
    case ReduceKind::max:
      return fn.template operator()<ReduceKind::max>();
    case ReduceKind::min:
      return fn.template operator()<ReduceKind::min>();
    default:
      return fn.template operator()<ReduceKind::mul>();
  }
}

}  // namespace transmuter::cpu
