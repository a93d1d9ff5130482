// com.microsoft Rfft, Irfft, ComplexMul, ComplexMulConj: complex numbers are pairs along a last axis of 2.
#include "ops/complex_pairs.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// cuFFT's halves are computed in f32 too.
DType inner_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

std::pair<Value, Value> parts(Builder& b, Value x) {
  return complex_parts(b, x, "the last axis holds real and imaginary parts");
}

// The last 1 to 3 axes that are transformed.
size_t signal_axes(OpContext& op, int64_t available) {
  const int64_t count = op.attribute_int("signal_ndim", 1);
  op.check(count >= 1 && count <= 3 && count <= available, "signal_ndim is ", count, " for ", available, " axes");
  if (op.attribute_int("onesided", 1) != 1) op.unsupported("onesided 0");
  if (op.attribute_int("normalized", 0) != 0) op.unsupported("normalized 1");
  return static_cast<size_t>(count);
}

void rfft(OpContext& op) {
  require_float(op, 0);
  const size_t count = signal_axes(op, op.rank(0));
  Builder& b = op.build();
  const Value x = b.convert(op.input(0), inner_dtype(op.dtype(0)));
  const Dims shape = b.shape(x);
  const Value y = b.fft(x, ir::FftKind::rfft, Dims(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end()));
  op.output(0, b.convert(paired(b, y), op.dtype(0)));
}

// Of n / 2 + 1 values the even n; divided by the number of elements.
void irfft(OpContext& op) {
  require_float(op, 0);
  const size_t count = signal_axes(op, op.rank(0) - 1);
  Builder& b = op.build();
  const auto [re, im] = parts(b, b.convert(op.input(0), inner_dtype(op.dtype(0))));
  const Dims shape = b.shape(re);
  Dims lengths(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end());
  lengths.back() = (lengths.back() - 1) * 2;
  op.output(0, b.convert(b.fft(b.complex(re, im), ir::FftKind::irfft, lengths), op.dtype(0)));
}

// a * b, or a * conjugate(b); NumPy broadcasting.
template <bool conjugate>
void complex_multiply(OpContext& op) {
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& b = op.build();
  const auto [left, right] = b.numpy_broadcast(op.input(0), op.input(1));
  const DType dtype = op.dtype(0), inner = inner_dtype(dtype);
  const auto [ar, ai] = parts(b, b.convert(left, inner));
  const auto [br, bi_given] = parts(b, b.convert(right, inner));
  const Value bi = conjugate ? b.negate(bi_given) : bi_given;
  const Value re = b.subtract(b.multiply(ar, br), b.multiply(ai, bi));
  const Value im = b.add(b.multiply(ar, bi), b.multiply(ai, br));
  op.output(0, b.convert(paired(b, re, im), dtype));
}

}  // namespace

void register_contrib_signal(Registry& r) {
  r.add("Rfft", {1}, rfft, kMicrosoft);
  r.add("Irfft", {1}, irfft, kMicrosoft);
  r.add("ComplexMul", {1}, complex_multiply<false>, kMicrosoft);
  r.add("ComplexMulConj", {1}, complex_multiply<true>, kMicrosoft);
}

}  // namespace transmuter::ops
