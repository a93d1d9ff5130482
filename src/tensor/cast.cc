#include "tensor/cast.h"

#include <bit>

#include "tensor/packed.h"

namespace transmuter {

float float_round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(value)) return nearest;
  // Inexact: of the two neighbours the one with an odd last bit.
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1u) return nearest;
  const bool too_far = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  bits = too_far ? bits - 1 : bits + 1;
  return std::bit_cast<float>(bits);
}

double double_round_to_odd(uint64_t value) {
  const int surplus = 11 - std::countl_zero(value);
  if (surplus <= 0) return static_cast<double>(value);
  const uint64_t mask = (uint64_t{1} << surplus) - 1;
  return static_cast<double>((value & ~mask) | (value & mask ? uint64_t{1} << surplus : 0));
}

double double_round_to_odd(int64_t value) {
  if (value >= 0) return double_round_to_odd(static_cast<uint64_t>(value));
  return -double_round_to_odd(uint64_t{0} - static_cast<uint64_t>(value));
}

namespace {

template <class From, class To>
void convert_all(const From* in, To* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = convert<To>(in[i]);
}

template <class T>
T from_string(const std::string& text) {
  if constexpr (std::is_same_v<T, float>)
    return parse_float(text);
  else if constexpr (std::is_floating_point_v<T>)
    return parse_double(text);
  else if constexpr (is_small_float<T>)
    return convert<T>(parse_double(text));
  else if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>)
    return static_cast<T>(parse_uint64(text));
  else
    return convert<T>(parse_int64(text));
}

template <class T>
std::string to_text(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "1" : "0";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else
    return float_to_string(static_cast<double>(load(value)));
}

Tensor to_strings(const Tensor& from) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(from.size()));
  dispatch_stored(from.dtype(), "a cast to string", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < from.size(); ++i) texts.push_back(to_text(elements<T>(from)[i]));
  });
  return Tensor::of_strings(std::move(texts), from.shape());
}

Tensor from_strings(const Tensor& from, DType dtype) {
  Tensor result(dtype, from.shape());
  const std::vector<std::string>& texts = from.strings();
  dispatch_stored(dtype, "a cast from string", [&]<class T>(TypeTag<T>) {
    T* out = mutable_elements<T>(result);
    for (size_t i = 0; i < texts.size(); ++i) out[i] = from_string<T>(texts[i]);
  });
  return result;
}

template <class To>
Tensor to_complex(const Tensor& from, DType dtype, DType part) {
  Tensor result(dtype, from.shape());
  auto* out = mutable_elements<Complex<To>>(result);
  const auto copy = [&](const auto* in) {
    for (int64_t i = 0; i < from.size(); ++i) out[i] = {static_cast<To>(in[i].re), static_cast<To>(in[i].im)};
  };
  if (from.dtype() == DType::c64) {
    copy(elements<c64>(from));
  } else if (from.dtype() == DType::c128) {
    copy(elements<c128>(from));
  } else {
    const Tensor real = from.cast(part);
    for (int64_t i = 0; i < from.size(); ++i) out[i] = {elements<To>(real)[i], To{0}};
  }
  return result;
}

Tensor f4_to_f32(const Tensor& from) {
  const Tensor bytes = unpack(from);
  Tensor result(DType::f32, from.shape());
  float* out = result.mutable_data<float>();
  for (int64_t i = 0; i < from.size(); ++i) out[i] = to_float(f4e2m1{bytes.data<uint8_t>()[i]});
  return result;
}

Tensor to_f4(const Tensor& from) {
  Tensor codes(DType::u8, from.shape());
  auto* out = codes.mutable_data<uint8_t>();
  dispatch_stored(from.dtype(), "a cast to float4_e2m1fn", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < from.size(); ++i) out[i] = convert<f4e2m1>(elements<T>(from)[i]).bits;
  });
  return pack(codes, DType::f4e2m1);
}

}  // namespace

void convert_elements(DType from, const void* in, DType to, void* out, int64_t count) {
  dispatch_stored(from, "a cast", [&]<class From>(TypeTag<From>) {
    dispatch_stored(to, "a cast", [&]<class To>(TypeTag<To>) {
      convert_all(static_cast<const From*>(in), static_cast<To*>(out), count);
    });
  });
}

Tensor Tensor::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (!is_aligned() && dtype_ != DType::string) return aligned().cast(dtype);
  if (dtype_ == DType::f4e2m1) return f4_to_f32(*this).cast(dtype);
  if (is_packed(dtype_)) return unpack(*this).cast(dtype);
  if (dtype == DType::f4e2m1) return dtype_ == DType::string ? cast(DType::f64).cast(dtype) : to_f4(*this);
  // The low bits of a byte: a float outside the few bits' range wraps around, as in ONNX's own cases.
  if (is_packed(dtype)) return pack(cast(DType::i8), dtype);
  if (dtype == DType::c64) return to_complex<float>(*this, dtype, DType::f32);
  if (dtype == DType::c128) return to_complex<double>(*this, dtype, DType::f64);
  if (dtype == DType::string) return to_strings(*this);
  if (dtype_ == DType::string) return from_strings(*this, dtype);
  Tensor result(dtype, shape_);
  convert_elements(dtype_, bytes(), dtype, result.mutable_bytes(), size_);
  return result;
}

}  // namespace transmuter
