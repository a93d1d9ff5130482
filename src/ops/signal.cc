// DFT, STFT, the window functions, MelWeightMatrix. Complex numbers are pairs along a last axis of 2.
#include <algorithm>
#include <cmath>

#include "onnx/tensor_proto.h"
#include "ops/complex_pairs.h"
#include "ops/ranks.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// The first `length` elements along an axis, zeros where there are fewer.
Value with_length(Builder& b, Value x, int64_t axis, Dim length) {
  const Dim extent = b.shape(x)[static_cast<size_t>(axis)];
  if (provably_eq(extent, length)) return x;
  if (decide_lt(length, extent, "DFT: is the signal longer?")) return b.slice_axis(x, axis, 0, length);
  Dims none(static_cast<size_t>(b.rank(x)), Dim(0)), high = none;
  high[static_cast<size_t>(axis)] = length - extent;
  return b.pad(x, b.scalar(b.dtype(x), 0), none, high, none);
}

// The parts of [..., 1] or [..., 2]; the second is invalid for real numbers.
std::pair<Value, Value> parts(Builder& b, Value x) {
  if (provably_eq(b.shape(x).back(), 1)) return {b.squeeze(x, {b.rank(x) - 1}), {}};
  return complex_parts(b, x, "DFT: the last axis holds real and imaginary parts");
}

// Along the last axis, which has `length` elements (length / 2 + 1 for a one-sided inverse).
Value transform(Builder& b, Value re, Value im, Dim length, bool inverse, bool one_sided) {
  if (one_sided && !inverse) {
    if (im) throw Error(ErrorCode::invalid_model, "DFT: onesided takes a real signal");
    return paired(b, b.fft(re, ir::FftKind::rfft, {length}));
  }
  const Value complex = b.complex(re, im ? im : b.like(re, 0));
  if (one_sided) return b.expand_dims(b.fft(complex, ir::FftKind::irfft, {length}), {b.rank(re)});
  return paired(b, b.fft(complex, inverse ? ir::FftKind::ifft : ir::FftKind::fft, {length}));
}

// The axis is an attribute (default 1) in opset 17, an input (default -2) from 20.
void dft(OpContext& op) {
  const bool inverse = op.attribute_int("inverse", 0) != 0, one_sided = op.attribute_int("onesided", 0) != 0;
  require_float(op, 0);
  Builder& b = op.build();
  const int64_t rank = op.rank(0);
  op.check(rank >= 2, "the input must have rank 2 or more, has ", rank);
  int64_t axis = op.version() < 20 ? op.attribute_int("axis", 1) : op.has_input(2) ? op.require_int(2) : -2;
  axis = op.axis(axis, rank);
  op.check(axis != rank - 1, "the last axis holds the parts of the numbers");
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  const bool half = inverse && one_sided;
  const Dim length = op.has_input(1) ? op.require_dim(1) : half ? (extent - 1) * 2 : extent;
  const Value x = with_length(b, b.convert(op.input(0), inner), axis, half ? floor_div(length, 2) + 1 : length);
  const auto [re, im] = parts(b, x);
  std::vector<int64_t> last, back;  // the axis to the end, and home again before the parts
  for (int64_t i = 0; i < rank - 1; ++i)
    if (i != axis) last.push_back(i);
  last.push_back(axis);
  for (int64_t i = 0; i < rank - 1; ++i) back.push_back(i < axis ? i : i == axis ? rank - 2 : i - 1);
  back.push_back(rank - 1);
  const Value y = transform(b, b.transpose(re, last), im ? b.transpose(im, last) : im, length, inverse, one_sided);
  op.output(0, b.convert(b.transpose(y, back), dtype));
}

// x [b, n] at positions [frames, length]: [b, frames, length].
Value framed(Builder& b, Value x, Value positions) {
  ir::GatherAttributes gather;
  gather.offset_dims = {0};
  gather.collapsed_slice_dims = {1};
  gather.start_index_map = {1};
  gather.index_vector_dim = 2;
  gather.slice_sizes = {b.shape(x)[0], 1};
  return b.gather(x, positions, std::move(gather));
}

void stft(OpContext& op) {
  const bool one_sided = op.attribute_int("onesided", 1) != 0;
  require_float(op, 0);
  Builder& b = op.build();
  op.check(op.rank(0) == 2 || op.rank(0) == 3, "the signal must have rank 2 or 3, has ", op.rank(0));
  require_rank(op, 2, 1);
  const DType dtype = op.dtype(0), inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  Value signal = b.convert(op.input(0), inner);
  if (op.rank(0) == 2) signal = b.expand_dims(signal, {2});
  const Dim step = op.require_dim(1), extent = b.shape(signal)[1];
  const bool windowed = op.has_input(2);
  const Dim length = op.has_input(3) ? op.require_dim(3) : windowed ? op.shape(2)[0] : extent;
  require(less(0, step), "STFT: frame_step must be positive");
  require(less_equal(length, extent), "STFT: the frame is longer than the signal");
  const Dims frames{floor_div(extent - length, step) + 1, length};
  const auto number = [&](Dim dim) { return b.broadcast_in_dim(b.dim_value(dim, DType::i64), frames, {}); };
  const Value positions = b.add(b.multiply(b.iota(DType::i64, frames, 0), number(step)), b.iota(DType::i64, frames, 1));
  const auto cut = [&](Value part) {
    if (!part) return part;
    const Value pieces = framed(b, part, positions);
    if (!windowed) return pieces;
    require_eq(op.shape(2)[0], length, "STFT: the window's extent and frame_length");
    return b.multiply(pieces, b.broadcast_to(b.convert(op.input(2), inner), b.shape(pieces)));
  };
  const auto [re, im] = parts(b, signal);
  op.output(0, b.convert(transform(b, cut(re), cut(im), length, false, one_sided), dtype));
}

DType output_dtype(OpContext& op) {
  return onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("output_datatype", 1)));
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n); periodic: n is the size, else one less (NaN for a single sample).
void cosine_window(OpContext& op, double a0, double a1, double a2) {
  constexpr double kPi = 3.14159265358979323846;
  const DType dtype = output_dtype(op);
  const bool periodic = op.attribute_int("periodic", 1) != 0;
  Builder& b = op.build();
  const Dim size = op.require_dim(0);
  require(less_equal(0, size), "window: the size must not be negative");
  const Dims shape{size};
  const Value period = b.broadcast_in_dim(b.dim_value(periodic ? size : size - 1, DType::f64), shape, {});
  const Value index = b.iota(DType::f64, shape, 0);
  const Value angle = b.divide(b.multiply(index, b.like(index, 2 * kPi)), period);
  Value y = b.subtract(b.like(angle, a0), b.multiply(b.cosine(angle), b.like(angle, a1)));
  if (a2 != 0) y = b.add(y, b.multiply(b.cosine(b.multiply(angle, b.like(angle, 2))), b.like(angle, a2)));
  op.output(0, b.convert(y, dtype));
}

void hann(OpContext& op) { cosine_window(op, 0.5, 0.5, 0); }
void hamming(OpContext& op) { cosine_window(op, 25.0 / 46, 21.0 / 46, 0); }
void blackman(OpContext& op) { cosine_window(op, 0.42, 0.5, 0.08); }

// Triangles between neighbouring points that are evenly spaced on the mel scale, rounded down to whole bins.
void mel_weights(OpContext& op) {
  const DType dtype = output_dtype(op);
  const int64_t bands = op.require_int(0), length = op.require_int(1), rate = op.require_int(2);
  const double low_hertz = op.require_number(3), high_hertz = op.require_number(4);
  op.check(bands > 0 && length > 0 && rate > 0, "num_mel_bins, dft_length and sample_rate must be positive");
  op.check(bands <= (1 << 20) && length <= (1 << 28), "the matrix is too large");
  const int64_t rows = length / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(low_hertz), step = (mel(high_hertz) - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> points;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + low) / 2595) - 1);
    points.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  std::vector<float> weights(static_cast<size_t>(rows * bands), 0.0F);
  const auto set = [&](int64_t row, int64_t band, double value) {
    if (row >= 0 && row < rows) weights[static_cast<size_t>(row * bands + band)] = static_cast<float>(value);
  };
  for (int64_t i = 0; i < bands; ++i) {
    const int64_t lower = points[static_cast<size_t>(i)], centre = points[static_cast<size_t>(i) + 1];
    const int64_t upper = points[static_cast<size_t>(i) + 2];
    if (centre == lower) set(centre, i, 1);
    for (int64_t j = std::max<int64_t>(lower, 0); centre > lower && j <= std::min(centre, rows - 1); ++j)
      set(j, i, static_cast<double>(j - lower) / static_cast<double>(centre - lower));
    for (int64_t j = std::max<int64_t>(centre, 0); upper > centre && j < std::min(upper, rows); ++j)
      set(j, i, static_cast<double>(upper - j) / static_cast<double>(upper - centre));
  }
  op.output_constant(0, Tensor(weights, {rows, bands}).cast(dtype));
}

}  // namespace

void register_signal(Registry& r) {
  r.add("DFT", {17, 20}, dft);
  r.add("STFT", {17}, stft);
  r.add("HannWindow", {17}, hann);
  r.add("HammingWindow", {17}, hamming);
  r.add("BlackmanWindow", {17}, blackman);
  r.add("MelWeightMatrix", {17}, mel_weights);
}

}  // namespace transmuter::ops
