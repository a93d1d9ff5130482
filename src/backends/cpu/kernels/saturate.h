// Number conversions with one answer everywhere: float to integer truncates and saturates, NaN is 0; integer to integer
// wraps; anything to bool is "not zero".
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace transmuter::cpu {

template <class To, class From>
inline To saturate_cast(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(value == value)) return 0;
    // Both bounds are powers of two (or zero), so exact in From.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (value < kLow) return std::numeric_limits<To>::min();
    if (value >= kHigh) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace transmuter::cpu
