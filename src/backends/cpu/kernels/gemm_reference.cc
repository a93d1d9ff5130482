#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/kernels/gemm.h"

namespace transmuter::cpu {
namespace {

double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

double element_of(const void* data, Storage storage, int64_t index) {
  if (storage == Storage::f32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return storage == Storage::f16 ? half_to_double(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
}

double activate(const Epilogue& e, double x) {
  switch (e.activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::leaky_relu:
      return x < 0 ? x * e.first : x;
    case Activation::clip:
      return x < e.first ? e.first : x > e.second ? e.second : x;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::silu:
      return x / (1 + std::exp(-x * e.first));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case Activation::hard_swish:
      return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
  }
  return x;
}

}  // namespace

double epilogue_reference(const Epilogue& e, double product, double column_bias, double row_bias,
                          const float* residual) {
  const double other = residual ? static_cast<double>(e.residual_scale) * *residual : 0;
  double x = e.alpha * product + column_bias + row_bias;
  if (residual && e.combine == Combine::add_before) x += other;
  x = activate(e, x);
  if (residual && e.combine == Combine::add_after) x += other;
  if (residual && e.combine == Combine::multiply_after) x *= other;
  return x;
}

void gemm_reference(const GemmArgs& g) {
  int64_t batches = 1;
  for (int i = 0; i < g.batch_rank; ++i) batches *= g.batch[i];
  for (int64_t index = 0; index < batches; ++index) {
    int64_t a = 0, b = 0, c = 0, residual = 0, column_bias = 0, row_bias = 0;
    for (int64_t i = g.batch_rank - 1, left = index; i >= 0; left /= g.batch[i], --i) {
      const int64_t at = left % g.batch[i];
      a += at * g.a_batch[i];
      b += at * g.b_batch[i];
      c += at * g.c_batch[i];
      residual += at * g.residual_batch[i];
      column_bias += at * g.column_bias_batch[i];
      row_bias += at * g.row_bias_batch[i];
    }
    const Epilogue& e = g.epilogue;
    for (int64_t m = 0; m < g.m; ++m) {
      for (int64_t n = 0; n < g.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          sum += g.a[a + m * g.a_row + k * g.a_column] * element_of(g.b, g.b_storage, b + k * g.b_row + n * g.b_column);
        }
        const float* other = e.residual ? e.residual + residual + m * e.residual_row + n * e.residual_column : nullptr;
        g.c[c + m * g.c_row + n * g.c_column] =
            static_cast<float>(epilogue_reference(e, sum, e.column_bias ? e.column_bias[column_bias + n] : 0,
                                                  e.row_bias ? e.row_bias[row_bias + m] : 0, other));
      }
    }
  }
}

}  // namespace transmuter::cpu
