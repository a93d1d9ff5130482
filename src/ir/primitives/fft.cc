// fft: StableHLO fft over the last axes, 1 to 3 of them. fft, ifft: complex to complex; rfft: real to complex with
// n / 2 + 1 values along the last axis; irfft the reverse. Inverse transforms divide by the number of elements. The
// imaginary parts of a real transform at 0 and n / 2 are exactly zero, and not read by its inverse.
// The reference splits by prime factors and computes in double. Not by kissfft (base/fft.h): where terms cancel, its
// steps of 4 give zeros, and exports that take a phase as atan(im / re) then have 0 / 0 in each frame of silence; what
// rounding leaves there, as in the other runtimes, is a number.
#include <complex>
#include <numbers>

#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/walk.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

using Number = std::complex<double>;

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& fft = ctx.as<FftAttributes>();
  const Type& x = ctx.operands[0];
  const size_t count = fft.lengths.size();
  ctx.check(count >= 1 && count <= 3, "C3", "takes 1 to 3 lengths, got ", count);
  ctx.check(x.shape.size() >= count, "C1", "the operand has rank ", x.rank(), " for ", count, " lengths");
  const bool from_real = fft.kind == FftKind::rfft;
  ctx.check(from_real ? x.dtype == DType::f32 || x.dtype == DType::f64 : is_complex(x.dtype), "C2",
            "this kind does not take ", name(x.dtype));
  Type result = x;
  const size_t first = x.shape.size() - count;
  for (size_t i = 0; i < count; ++i) {
    const bool halved = fft.kind == FftKind::irfft && i + 1 == count;
    check_same_extent(ctx, x.shape[first + i], halved ? floor_div(fft.lengths[i], 2) + 1 : fft.lengths[i], "C4",
                      "extents and lengths");
  }
  if (from_real) {
    result.dtype = x.dtype == DType::f32 ? DType::c64 : DType::c128;
    result.shape.back() = floor_div(fft.lengths.back(), 2) + 1;
  } else if (fft.kind == FftKind::irfft) {
    result.dtype = x.dtype == DType::c64 ? DType::f32 : DType::f64;
    result.shape.back() = fft.lengths.back();
  }
  return {std::move(result)};
}

// The discrete Fourier transform of n values that lie `stride` apart. roots[j] = exp(+-2 pi i j / roots.size()).
void transform(const Number* in, int64_t stride, Number* out, int64_t n, const std::vector<Number>& roots) {
  if (n == 1) {
    *out = *in;
    return;
  }
  int64_t radix = 2;
  while (n % radix != 0) radix = radix * radix > n ? n : radix + 1;
  const int64_t part = n / radix, step = static_cast<int64_t>(roots.size()) / n;
  for (int64_t r = 0; r < radix; ++r) transform(in + r * stride, stride * radix, out + r * part, part, roots);
  std::vector<Number> parts(static_cast<size_t>(radix));
  for (int64_t k = 0; k < part; ++k) {
    for (int64_t r = 0; r < radix; ++r) parts[r] = out[r * part + k];
    for (int64_t q = 0; q < radix; ++q) {
      Number sum = 0;
      for (int64_t r = 0; r < radix; ++r) sum += parts[r] * roots[r * (k + q * part) % n * step];
      out[k + q * part] = sum;
    }
  }
}

void transform_axis(std::vector<Number>& values, const Shape& shape, size_t axis, bool inverse) {
  const int64_t n = shape[axis];
  if (n == 0) return;
  std::vector<Number> roots(static_cast<size_t>(n)), line(roots.size()), out(roots.size());
  for (int64_t j = 0; j < n; ++j)
    roots[j] = std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
  const auto strides = row_major_strides(shape);
  const auto lines = other_axes(static_cast<int64_t>(shape.size()), {static_cast<int64_t>(axis)});
  walk<1>(pick(shape, lines), {pick(strides, lines)}, [&](const auto& at) {
    for (int64_t i = 0; i < n; ++i) line[i] = values[at[0] + i * strides[axis]];
    transform(line.data(), 1, out.data(), n, roots);
    for (int64_t i = 0; i < n; ++i)
      values[at[0] + i * strides[axis]] = inverse ? out[i] / static_cast<double>(n) : out[i];
  });
}

std::vector<Number> read(const Tensor& x) {
  std::vector<Number> values(static_cast<size_t>(x.size()));
  const auto fill = [&](auto* from, bool is_complex) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = is_complex ? Number(from[2 * i], from[2 * i + 1]) : Number(from[i], 0);
  };
  if (x.dtype() == DType::f32 || x.dtype() == DType::c64)
    fill(elements<float>(x), is_complex(x.dtype()));
  else
    fill(elements<double>(x), is_complex(x.dtype()));
  return values;
}

void write(const std::vector<Number>& values, Tensor& result) {
  const auto store = [&]<class T>(T* to, bool is_complex) {
    for (size_t i = 0; i < values.size(); ++i) {
      to[is_complex ? 2 * i : i] = static_cast<T>(values[i].real());
      if (is_complex) to[2 * i + 1] = static_cast<T>(values[i].imag());
    }
  };
  if (result.dtype() == DType::f32 || result.dtype() == DType::c64)
    store(mutable_elements<float>(result), is_complex(result.dtype()));
  else
    store(mutable_elements<double>(result), is_complex(result.dtype()));
}

// The first half of each line's n values, which are the transform of real ones: 0 and n / 2 are real too.
std::vector<Number> first_halves(const std::vector<Number>& values, int64_t n, int64_t half) {
  std::vector<Number> out;
  for (size_t line = 0; line < values.size(); line += static_cast<size_t>(n)) {
    for (int64_t i = 0; i < half; ++i) {
      const Number value = values[line + i];
      out.push_back(i == 0 || 2 * i == n ? value.real() : value);
    }
  }
  return out;
}

// The lines that conjugate symmetry makes of their first halves.
std::vector<Number> whole_lines(const std::vector<Number>& values, int64_t n, int64_t half) {
  std::vector<Number> out;
  for (size_t line = 0; line < values.size(); line += static_cast<size_t>(half)) {
    for (int64_t i = 0; i < n; ++i) {
      const Number value = i < half ? values[line + i] : std::conj(values[line + n - i]);
      out.push_back(i == 0 || 2 * i == n ? value.real() : value);
    }
  }
  return out;
}

void evaluate(EvaluateContext& ctx) {
  const auto& fft = ctx.as<FftAttributes>();
  const Tensor& x = ctx.operands[0];
  Tensor& result = ctx.make_result();
  std::vector<Number> values = read(x);
  Shape shape = x.shape();
  const size_t last = shape.size() - 1, first = shape.size() - fft.lengths.size();
  const bool inverse = fft.kind == FftKind::ifft || fft.kind == FftKind::irfft;
  const int64_t n = ctx.value(fft.lengths.back()), half = n / 2 + 1;
  if (n == 0) return;
  if (fft.kind == FftKind::irfft) {
    for (size_t axis = first; axis < last; ++axis) transform_axis(values, shape, axis, true);
    values = whole_lines(values, n, half);
    shape[last] = n;
    transform_axis(values, shape, last, true);
  } else if (fft.kind == FftKind::rfft) {
    transform_axis(values, shape, last, false);
    values = first_halves(values, n, half);
    shape[last] = half;
    for (size_t axis = first; axis < last; ++axis) transform_axis(values, shape, axis, false);
  } else {
    for (size_t axis = first; axis <= last; ++axis) transform_axis(values, shape, axis, inverse);
  }
  write(values, result);
}

// A gradient of a complex number z is d/d re(z) + i d/d im(z): forward and inverse transforms are each other's adjoints
// but for the scale; a half spectrum stands for its mirror image too, 0 and n / 2 apart.
std::vector<Value> vjp(VjpContext& ctx) {
  const auto& fft = ctx.op.as<FftAttributes>();
  Builder& build = ctx.build;
  const Value gradient = ctx.gradients[0];
  const DType part = build.dtype(build.real(gradient));
  const Value count = build.dim_value(product(fft.lengths), part);
  const auto scaled = [&](Value z, Value factor) {
    const auto times = [&](Value x) { return build.multiply(x, build.broadcast_to(factor, build.shape(x))); };
    return is_complex(build.dtype(z)) ? build.complex(times(build.real(z)), times(build.imag(z))) : times(z);
  };
  const Value one = build.scalar(part, 1), two = build.scalar(part, 2);
  // 1 at 0 and n / 2, otherwise 2, along the last axis of a half spectrum.
  const auto weights = [&](const Dims& shape) {
    const Dim n = fft.lengths.back();
    const Value position = build.iota(DType::i64, {shape.back()}, 0);
    const Value twice = build.multiply(position, build.like(position, 2));
    const Value alone = build.logical_or(
        build.compare(position, build.like(position, 0), CompareDirection::eq),
        build.compare(twice, build.broadcast_to(build.dim_value(n, DType::i64), {shape.back()}), CompareDirection::eq));
    return build.select(alone, build.broadcast_to(one, {shape.back()}), build.broadcast_to(two, {shape.back()}));
  };
  switch (fft.kind) {
    case FftKind::fft:
      return {scaled(build.fft(gradient, FftKind::ifft, fft.lengths), count)};
    case FftKind::ifft:
      return {scaled(build.fft(gradient, FftKind::fft, fft.lengths), build.divide(one, count))};
    case FftKind::rfft: {
      const Value mirrored = weights(build.shape(gradient));
      const Value halved = scaled(gradient, build.divide(build.like(mirrored, 1), mirrored));
      return {scaled(build.fft(halved, FftKind::irfft, fft.lengths), count)};
    }
    default: {
      const Value spectrum = build.fft(gradient, FftKind::rfft, fft.lengths);
      return {scaled(scaled(spectrum, weights(build.shape(spectrum))), build.divide(one, count))};
    }
  }
}

PrintedOp print(const PrintContext& ctx) {
  static constexpr const char* kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  const auto& fft = ctx.op.as<FftAttributes>();
  PrintedOp out;
  out.attributes = str("fft_type = #stablehlo<fft_type ", kNames[static_cast<size_t>(fft.kind)],
                       ">, fft_length = ", array_text(ctx.values(fft.lengths)));
  return out;
}

}  // namespace

const Primitive prim::fft{.name = "fft", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::fft(Value x, FftKind kind, Dims lengths) {
  auto attributes = std::make_shared<FftAttributes>();
  attributes->kind = kind;
  attributes->lengths = std::move(lengths);
  return emit1(prim::fft, {x}, std::move(attributes));
}

}  // namespace transmuter::ir
