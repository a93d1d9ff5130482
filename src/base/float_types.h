// Small floating-point types as storage: each converts to float exactly and from float by rounding to nearest even.
// Semantics of the eight-, six- and four-bit kinds: ONNX "Float stored in 8 bits" and ml_dtypes; conversions saturate
// where `saturate` is set (ONNX Cast), else overflow gives infinity or NaN as the kind has it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace transmuter {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
struct f8e4m3fn {
  uint8_t bits;
};
struct f8e4m3fnuz {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};
struct f8e5m2fnuz {
  uint8_t bits;
};
struct f8e8m0 {
  uint8_t bits;
};
struct f6e2m3 {
  uint8_t bits;  // the low six bits
};
struct f6e3m2 {
  uint8_t bits;  // the low six bits
};
struct f4e2m1 {
  uint8_t bits;  // the low four bits
};

float to_float(f16 value);
float to_float(f8e4m3fn value);
float to_float(f8e4m3fnuz value);
float to_float(f8e5m2 value);
float to_float(f8e5m2fnuz value);
float to_float(f8e8m0 value);
float to_float(f6e2m3 value);
float to_float(f6e3m2 value);
float to_float(f4e2m1 value);
inline float to_float(bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

f16 to_f16(float value);
f16 to_f16(double value);  // one rounding
inline bf16 to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>(bits >> 16)};
}
f8e4m3fn to_f8e4m3fn(float value, bool saturate = true);
f8e4m3fnuz to_f8e4m3fnuz(float value, bool saturate = true);
f8e5m2 to_f8e5m2(float value, bool saturate = true);
f8e5m2fnuz to_f8e5m2fnuz(float value, bool saturate = true);
// Powers of two from 2^-127; NaN is 255. `up`: round away from zero, `down`: towards zero, otherwise to nearest (ties
// up).
enum class RoundMode : uint8_t { nearest, up, down };
f8e8m0 to_f8e8m0(float value, bool saturate = true, RoundMode mode = RoundMode::up);
// These have neither NaN nor infinity: always saturating, NaN gives minus zero.
f6e2m3 to_f6e2m3(float value);
f6e3m2 to_f6e3m2(float value);
f4e2m1 to_f4e2m1(float value);

// One spelling for every element type: element_to<float>(x), element_from<f16>(1.0f).
template <class T>
inline constexpr bool is_small_float = false;
template <>
inline constexpr bool is_small_float<f16> = true;
template <>
inline constexpr bool is_small_float<bf16> = true;
template <>
inline constexpr bool is_small_float<f8e4m3fn> = true;
template <>
inline constexpr bool is_small_float<f8e4m3fnuz> = true;
template <>
inline constexpr bool is_small_float<f8e5m2> = true;
template <>
inline constexpr bool is_small_float<f8e5m2fnuz> = true;
template <>
inline constexpr bool is_small_float<f8e8m0> = true;
template <>
inline constexpr bool is_small_float<f6e2m3> = true;
template <>
inline constexpr bool is_small_float<f6e3m2> = true;
template <>
inline constexpr bool is_small_float<f4e2m1> = true;

template <class T>
T small_float_from(float value) {
  static_assert(is_small_float<T>);
  if constexpr (requires(T t, f16 h) { t = h; })
    return to_f16(value);
  else if constexpr (requires(T t, bf16 h) { t = h; })
    return to_bf16(value);
  else if constexpr (requires(T t, f8e4m3fn h) { t = h; })
    return to_f8e4m3fn(value);
  else if constexpr (requires(T t, f8e4m3fnuz h) { t = h; })
    return to_f8e4m3fnuz(value);
  else if constexpr (requires(T t, f8e5m2 h) { t = h; })
    return to_f8e5m2(value);
  else if constexpr (requires(T t, f8e5m2fnuz h) { t = h; })
    return to_f8e5m2fnuz(value);
  else if constexpr (requires(T t, f8e8m0 h) { t = h; })
    return to_f8e8m0(value);
  else if constexpr (requires(T t, f6e2m3 h) { t = h; })
    return to_f6e2m3(value);
  else if constexpr (requires(T t, f6e3m2 h) { t = h; })
    return to_f6e3m2(value);
  else
    return to_f4e2m1(value);
}

}  // namespace transmuter
