// From a dtype at run time to a C++ element type, once, outside the element loop:
//   dispatch(dtype, [&]<class T>(Type<T>) { ... });
// Packed dtypes are not dispatched: unpack them first (tensor/packed.h). In storage a bool is one byte, 0 or 1.
#pragma once

#include "base/float_types.h"
#include "base/strings.h"
#include "transmuter/error.h"
#include "transmuter/tensor.h"

namespace transmuter {

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
struct Complex {
  T re, im;
};
using c64 = Complex<float>;
using c128 = Complex<double>;

[[noreturn]] inline void refuse_dtype(DType dtype, const char* what) {
  throw Error(ErrorCode::unsupported, str(what, " does not take ", name(dtype)));
}

template <class Fn>
decltype(auto) dispatch_integer(DType dtype, const char* what, Fn&& fn) {
  switch (dtype) {
    case DType::i8:
      return fn(TypeTag<int8_t>{});
    case DType::i16:
      return fn(TypeTag<int16_t>{});
    case DType::i32:
      return fn(TypeTag<int32_t>{});
    case DType::i64:
      return fn(TypeTag<int64_t>{});
    case DType::u8:
      return fn(TypeTag<uint8_t>{});
    case DType::u16:
      return fn(TypeTag<uint16_t>{});
    case DType::u32:
      return fn(TypeTag<uint32_t>{});
    case DType::u64:
      return fn(TypeTag<uint64_t>{});
    default:
      refuse_dtype(dtype, what);
  }
}

// f16, bf16, f32, f64
template <class Fn>
decltype(auto) dispatch_float(DType dtype, const char* what, Fn&& fn) {
  switch (dtype) {
    case DType::f32:
      return fn(TypeTag<float>{});
    case DType::f64:
      return fn(TypeTag<double>{});
    case DType::f16:
      return fn(TypeTag<f16>{});
    case DType::bf16:
      return fn(TypeTag<bf16>{});
    default:
      refuse_dtype(dtype, what);
  }
}

template <class Fn>
decltype(auto) dispatch_numeric(DType dtype, const char* what, Fn&& fn) {
  if (is_integer(dtype)) return dispatch_integer(dtype, what, fn);
  return dispatch_float(dtype, what, fn);
}

// Numeric and bool (as uint8_t would lose its meaning in a cast, bool arrives as bool).
template <class Fn>
decltype(auto) dispatch_real(DType dtype, const char* what, Fn&& fn) {
  if (dtype == DType::boolean) return fn(TypeTag<bool>{});
  return dispatch_numeric(dtype, what, fn);
}

// Everything with whole bytes but complex.
template <class Fn>
decltype(auto) dispatch_stored(DType dtype, const char* what, Fn&& fn) {
  switch (dtype) {
    case DType::f8e4m3fn:
      return fn(TypeTag<f8e4m3fn>{});
    case DType::f8e4m3fnuz:
      return fn(TypeTag<f8e4m3fnuz>{});
    case DType::f8e5m2:
      return fn(TypeTag<f8e5m2>{});
    case DType::f8e5m2fnuz:
      return fn(TypeTag<f8e5m2fnuz>{});
    case DType::f8e8m0:
      return fn(TypeTag<f8e8m0>{});
    case DType::f6e2m3:
      return fn(TypeTag<f6e2m3>{});
    case DType::f6e3m2:
      return fn(TypeTag<f6e3m2>{});
    default:
      return dispatch_real(dtype, what, fn);
  }
}

// By width alone, for code that only moves elements: uint8_t, uint16_t, uint32_t, uint64_t or c128.
template <class Fn>
decltype(auto) dispatch_width(DType dtype, const char* what, Fn&& fn) {
  switch (bit_width(dtype)) {
    case 8:
      return fn(TypeTag<uint8_t>{});
    case 16:
      return fn(TypeTag<uint16_t>{});
    case 32:
      return fn(TypeTag<uint32_t>{});
    case 64:
      return fn(TypeTag<uint64_t>{});
    case 128:
      return fn(TypeTag<c128>{});
    default:
      refuse_dtype(dtype, what);
  }
}

// The type that arithmetic on T happens in: float for small floats, T otherwise.
template <class T>
struct ComputeOf {
  using type = T;
};
template <class T>
requires(is_small_float<T>) struct ComputeOf<T> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

template <class T>
Compute<T> load(T value) {
  if constexpr (is_small_float<T>)
    return to_float(value);
  else
    return value;
}
template <class T>
T store(Compute<T> value) {
  if constexpr (is_small_float<T>)
    return small_float_from<T>(value);
  else
    return value;
}

// Typed pointers for storage types without a public dtype_of (half, f8). The caller has checked the dtype.
template <class T>
const T* elements(const Tensor& tensor) {
  return reinterpret_cast<const T*>(tensor.bytes());
}
template <class T>
T* mutable_elements(Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.mutable_bytes());
}

}  // namespace transmuter
