// What a product (gemm, conv, qgemm) does to each result while it is still in the first-level cache.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

enum class Activation : uint8_t {
  none,
  relu,
  leaky_relu,  // first = slope below zero
  clip,        // first = low, second = high
  sigmoid,
  tanh,
  silu,  // x sigmoid(first x); first = 1 is the usual one
  gelu_erf,
  gelu_tanh,
  hard_swish,
};

enum class Combine : uint8_t { add_before, add_after, multiply_after };

// result = activation(alpha * product + column_bias[n] + row_bias[m] + s * residual[m, n])       add_before
//          activation(alpha * product + column_bias[n] + row_bias[m]) + s * residual[m, n]       add_after
//          activation(alpha * product + column_bias[n] + row_bias[m]) * s * residual[m, n]       multiply_after
// with s = residual_scale. Null pointers leave their term out. Strides are in elements and may be 0 (broadcast).
// The residual may be the result's own memory if the strides are the same.
struct Epilogue {
  float alpha = 1;
  const float* column_bias = nullptr;
  const float* row_bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_row = 0, residual_column = 1;
  float residual_scale = 1;
  Combine combine = Combine::add_before;
  Activation activation = Activation::none;
  float first = 1, second = 0;  // the activation's parameters

  bool identity() const {
    return alpha == 1 && !column_bias && !row_bias && !residual && activation == Activation::none;
  }
};

// In double, one element; a null residual leaves its term out. For the references of the kernels.
double epilogue_reference(const Epilogue& e, double product, double column_bias, double row_bias,
                          const float* residual);

}  // namespace transmuter::cpu
