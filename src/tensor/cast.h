// Conversions of single elements; the rules of Tensor::cast in one place for constant folding and kernels alike.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/dispatch.h"

namespace transmuter {

// Truncates towards zero and saturates; NaN gives 0.
template <std::integral I, std::floating_point F>
I saturate(F value) {
  constexpr F kEnd = static_cast<F>(uint64_t{1} << (std::numeric_limits<I>::digits - 1)) * 2;  // exact: max + 1
  constexpr F kLow = std::is_signed_v<I> ? -kEnd : F{0};
  if (!(value > kLow)) return value != value ? I{0} : std::numeric_limits<I>::min();
  return value < kEnd ? static_cast<I>(value) : std::numeric_limits<I>::max();
}

// To a float that rounds to odd, so that rounding once more to a narrower type is as rounding once.
float float_round_to_odd(double value);
double double_round_to_odd(int64_t value);
double double_round_to_odd(uint64_t value);

// ONNX Runtime's spelling: eight significant digits at most, "NaN", "INF", "-INF".
std::string float_to_string(double value);
// Plain, scientific or hexadecimal; "inf", "nan" in any case; blanks around. Throws Error where there is no number.
// Too large gives infinity, too small zero.
double parse_double(std::string_view text);
float parse_float(std::string_view text);
// An integer, or a float that is truncated. Throws Error outside the 64-bit range.
int64_t parse_int64(std::string_view text);
uint64_t parse_uint64(std::string_view text);  // "-1" wraps around

// One element of type From as To: float to integer truncates and saturates, integers wrap around, narrowing floats
// round once to nearest even, the eight-bit floats saturate.
template <class To, class From>
To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (is_small_float<From>) {
    return convert<To>(to_float(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From{};
  } else if constexpr (std::is_same_v<To, f16> && std::is_floating_point_v<From>) {
    return to_f16(from);
  } else if constexpr (is_small_float<To>) {
    if constexpr (std::is_same_v<From, float>)
      return small_float_from<To>(from);
    else if constexpr (std::is_same_v<From, int64_t> || std::is_same_v<From, uint64_t>)
      return small_float_from<To>(float_round_to_odd(double_round_to_odd(from)));
    else
      return small_float_from<To>(float_round_to_odd(static_cast<double>(from)));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturate<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

// The same for `count` elements of two dtypes with whole bytes, not complex; both addresses suit their dtype.
void convert_elements(DType from, const void* in, DType to, void* out, int64_t count);

}  // namespace transmuter
