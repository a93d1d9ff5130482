// What one instruction set contributes to depthwise convolution and pooling.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

struct ConvOps {
  // out[j] = sum over t of weights[t] * in[offsets[t] + j], j < n rounded up to whole vectors.
  void (*weighted_taps)(const float* in, const int64_t* offsets, const float* weights, int64_t taps, int64_t n,
                        float* out);
  void (*sum_taps)(const float* in, const int64_t* offsets, int64_t taps, int64_t n, float* out);
  void (*max_taps)(const float* in, const int64_t* offsets, int64_t taps, int64_t n, float* out);
  // out[j] = in[j] / (rows * columns[j]), j < n
  void (*divide_counts)(const float* in, float rows, const float* columns, int64_t n, float* out);
  float (*sum)(const float* in, int64_t n);
  float (*maximum)(const float* in, int64_t n);  // n > 0
};

const ConvOps& conv_ops();

}  // namespace transmuter::cpu
