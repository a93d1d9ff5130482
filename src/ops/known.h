// Known values: what tracing knows of a small tensor's elements, so that shape arithmetic in a graph is arithmetic on
// Dims and never reaches the program.
//   Elements  up to kKnownLimit elements of a constant shape, each an integer Dim (bools are 0/1 Dims), a Real, or
//   unknown Splat     one value everywhere, any (symbolic) shape Iota      start + step * index along one axis, any
//   shape
#pragma once

#include <optional>
#include <vector>

#include "base/dim.h"
#include "ir/builder.h"
#include "transmuter/tensor.h"

namespace transmuter::ops {

inline constexpr int64_t kKnownLimit = 256;

struct Scalar {
  enum class Kind : uint8_t { unknown, integer, real };
  Kind kind = Kind::unknown;
  Dim dim;    // integer and bool dtypes
  Real real;  // float dtypes
  Scalar() = default;
  Scalar(Dim d) : kind(Kind::integer), dim(d) {}  // NOLINT(google-explicit-constructor)
  Scalar(Real r) : kind(Kind::real), real(r) {}   // NOLINT(google-explicit-constructor)
  bool known() const { return kind != Kind::unknown; }
};

struct Known {
  enum class Kind : uint8_t { none, elements, splat, iota };
  Kind kind = Kind::none;
  DType dtype = DType::invalid;
  Dims shape;                    // elements: constants
  std::vector<Scalar> elements;  // elements: row-major
  Scalar value;                  // splat; iota: the start
  Dim step;                      // iota
  int64_t axis = 0;              // iota

  explicit operator bool() const { return kind != Kind::none; }
  bool fully_known() const;  // no unknown element
  int64_t size() const { return static_cast<int64_t>(elements.size()); }

  static Known of(DType dtype, Dims shape, std::vector<Scalar> elements);
  static Known scalar(DType dtype, Scalar value) { return of(dtype, {}, {value}); }
  static Known vector(DType dtype, const Dims& values);
  static Known splat(DType dtype, Dims shape, Scalar value);  // becomes elements when the shape is constant and small
  static Known iota(DType dtype, Dims shape, int64_t axis, Dim start, Dim step);
  // From concrete bytes; none when too large or of another dtype than bool, integers, f16, bf16, f32, f64.
  static Known from(const Tensor& tensor);
};

bool knowable(DType dtype);  // bool, integers up to i64 (u64 values beyond int64 stay unknown), f16, bf16, f32, f64
RealDType real_dtype(DType dtype);

// Element by element with NumPy broadcasting; the result has `dtype`. fn sees known scalars only; unknown gives
// unknown. Result none when either is none or the combination cannot be expressed (an iota with a non-linear function).
template <class Fn>
Known map_known(const Known& a, DType dtype, Fn fn) {
  if (a.kind == Known::Kind::none || a.kind == Known::Kind::iota) return {};
  Known out = a;
  out.dtype = dtype;
  auto apply = [&](const Scalar& s) { return s.known() ? Scalar(fn(s)) : Scalar(); };
  if (a.kind == Known::Kind::splat) out.value = apply(a.value);
  for (Scalar& s : out.elements) s = apply(s);
  return out;
}
using ScalarFn2 = Scalar (*)(const Scalar&, const Scalar&, DType dtype);
Known zip_known(const Known& a, const Known& b, DType dtype, ScalarFn2 fn);

// Puts a known value into the program: constants, dim_values, broadcasts, iotas. Error when an element is unknown.
ir::Value materialise(ir::Builder& build, const Known& known);

}  // namespace transmuter::ops
