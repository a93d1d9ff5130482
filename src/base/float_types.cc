#include "base/float_types.h"

#include <algorithm>

namespace transmuter {
namespace {

// Magnitude of `value` as a code of a format with `mantissa` stored bits, rounded to nearest even. Codes grow with the
// value and carry past the largest finite code, which the caller compares with. Not for NaN and infinity.
template <class F, class Bits, int kMantissa>
uint32_t encode(F value, int mantissa, int bias) {
  constexpr Bits kHidden = Bits{1} << kMantissa;
  constexpr int kBias = sizeof(F) == 4 ? 127 : 1023;
  const Bits bits = std::bit_cast<Bits>(std::fabs(value));
  int exponent = static_cast<int>(bits >> kMantissa);
  if (exponent == 0) return 0;  // subnormal here, far below half of any target's least value
  exponent += bias - kBias;
  if (exponent > 254) return ~uint32_t{0};
  const Bits significand = (bits & (kHidden - 1)) | kHidden;
  const int below_normal = exponent < 1 ? 1 - exponent : 0;
  const int shift = kMantissa - mantissa + below_normal;
  if (shift > kMantissa + 2) return 0;
  Bits kept = significand >> shift;
  const Bits rest = significand & ((Bits{1} << shift) - 1);
  const Bits half = Bits{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // The hidden bit in `kept` adds one to the exponent field of a normal number.
  const uint32_t field = below_normal ? 0 : static_cast<uint32_t>(exponent - 1);
  return (field << mantissa) + static_cast<uint32_t>(kept);
}

uint32_t encode(float value, int mantissa, int bias) { return encode<float, uint32_t, 23>(value, mantissa, bias); }

// Finite magnitude of a code of that format.
float decode(uint32_t code, int mantissa, int bias) {
  const uint32_t exponent = code >> mantissa;
  const uint32_t fraction = code & ((1u << mantissa) - 1);
  const int scale = static_cast<int>(exponent ? exponent : 1) - bias - mantissa;
  const uint32_t significand = exponent ? fraction | (1u << mantissa) : fraction;
  return static_cast<float>(significand) * std::bit_cast<float>(static_cast<uint32_t>(scale + 127) << 23);
}

float with_sign(float magnitude, bool negative) { return negative ? -magnitude : magnitude; }
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One of the two kinds without infinities and minus zero; 0x80 is NaN.
uint8_t encode_fnuz(float value, bool saturate, int mantissa, int bias) {
  if (std::isnan(value)) return 0x80;
  uint32_t code = std::isinf(value) ? ~uint32_t{0} : encode(value, mantissa, bias);
  if (code > 0x7f) {
    if (!saturate) return 0x80;
    code = 0x7f;
  }
  if (code == 0) return 0;
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80u : 0u));
}

// One of the kinds whose codes are all finite, of a sign and `bits` more: NaN gives minus zero, as ml_dtypes and ONNX's
// own cases have it.
uint8_t encode_finite(float value, int mantissa, int bias, int bits) {
  const uint32_t sign = 1u << bits, most = sign - 1;
  if (std::isnan(value)) return static_cast<uint8_t>(sign);
  const uint32_t code = std::isinf(value) ? most : std::min(encode(value, mantissa, bias), most);
  return static_cast<uint8_t>((std::signbit(value) ? sign : 0u) | code);
}

template <class F, class Bits, int kMantissa>
f16 encode_half(F value) {
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7e00u)};
  const uint32_t code =
      std::isinf(value) ? 0x7c00u : std::min<uint32_t>(encode<F, Bits, kMantissa>(value, 10, 15), 0x7c00u);
  return {static_cast<uint16_t>(sign | code)};
}

}  // namespace

float to_float(f16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u) return with_sign(static_cast<float>(magnitude) * 0x1p-24f, sign != 0);
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

float to_float(f8e4m3fn value) {
  const uint32_t magnitude = value.bits & 0x7fu;
  return with_sign(magnitude == 0x7f ? kNaN : decode(magnitude, 3, 7), value.bits & 0x80u);
}

float to_float(f8e4m3fnuz value) {
  if (value.bits == 0x80) return kNaN;
  return with_sign(decode(value.bits & 0x7fu, 3, 8), value.bits & 0x80u);
}

float to_float(f8e5m2 value) {
  const uint32_t magnitude = value.bits & 0x7fu;
  if (magnitude >= 0x7c) return with_sign(magnitude == 0x7c ? kInfinity : kNaN, value.bits & 0x80u);
  return with_sign(decode(magnitude, 2, 15), value.bits & 0x80u);
}

float to_float(f8e5m2fnuz value) {
  if (value.bits == 0x80) return kNaN;
  return with_sign(decode(value.bits & 0x7fu, 2, 16), value.bits & 0x80u);
}

float to_float(f8e8m0 value) {
  if (value.bits == 0xff) return kNaN;
  return std::bit_cast<float>(value.bits == 0 ? 0x00400000u : uint32_t{value.bits} << 23);
}

float to_float(f6e2m3 value) { return with_sign(decode(value.bits & 0x1fu, 3, 1), value.bits & 0x20u); }
float to_float(f6e3m2 value) { return with_sign(decode(value.bits & 0x1fu, 2, 3), value.bits & 0x20u); }
float to_float(f4e2m1 value) { return with_sign(decode(value.bits & 0x7u, 1, 1), value.bits & 0x8u); }

f16 to_f16(float value) { return encode_half<float, uint32_t, 23>(value); }
f16 to_f16(double value) { return encode_half<double, uint64_t, 52>(value); }

f8e4m3fn to_f8e4m3fn(float value, bool saturate) {
  const uint32_t sign = std::signbit(value) ? 0x80u : 0u;
  if (std::isnan(value)) return {static_cast<uint8_t>(sign | 0x7fu)};
  uint32_t code = std::isinf(value) ? ~uint32_t{0} : encode(value, 3, 7);
  if (code > 0x7e) code = saturate ? 0x7e : 0x7f;
  return {static_cast<uint8_t>(sign | code)};
}

f8e4m3fnuz to_f8e4m3fnuz(float value, bool saturate) { return {encode_fnuz(value, saturate, 3, 8)}; }

f8e5m2 to_f8e5m2(float value, bool saturate) {
  const uint32_t sign = std::signbit(value) ? 0x80u : 0u;
  if (std::isnan(value)) return {static_cast<uint8_t>(sign | 0x7eu)};
  uint32_t code = std::isinf(value) ? ~uint32_t{0} : encode(value, 2, 15);
  if (code > 0x7b) code = saturate ? 0x7b : 0x7c;
  return {static_cast<uint8_t>(sign | code)};
}

f8e5m2fnuz to_f8e5m2fnuz(float value, bool saturate) { return {encode_fnuz(value, saturate, 2, 16)}; }

f8e8m0 to_f8e8m0(float value, bool saturate, RoundMode mode) {
  if (!std::isfinite(value)) return {0xff};
  // The sign is dropped, as ONNX's own conversion does.
  const float magnitude = std::fabs(value);
  if (magnitude <= 0x1p-127f) return {0};
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  uint32_t code = bits >> 23;
  if (code == 0) {  // between 2^-127 and 2^-126
    if (mode == RoundMode::up || (mode == RoundMode::nearest && magnitude >= 0x1.8p-127f)) code = 1;
    return {static_cast<uint8_t>(code)};
  }
  const uint32_t fraction = bits & 0x7fffffu;
  if ((mode == RoundMode::up && fraction != 0) || (mode == RoundMode::nearest && fraction >= 0x400000u)) ++code;
  if (code == 0xff && saturate) code = 0xfe;
  return {static_cast<uint8_t>(code)};
}

f6e2m3 to_f6e2m3(float value) { return {encode_finite(value, 3, 1, 5)}; }
f6e3m2 to_f6e3m2(float value) { return {encode_finite(value, 2, 3, 5)}; }
f4e2m1 to_f4e2m1(float value) { return {encode_finite(value, 1, 1, 3)}; }

}  // namespace transmuter
