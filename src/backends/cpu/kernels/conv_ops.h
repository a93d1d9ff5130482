// What one instruction set contributes to depthwise convolution and pooling.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

struct ConvOps {
  // out[j] = sum over t of weights[t] * in[offsets[t] + j], j < n rounded up to whole vectors.
  void (*weighted_taps)(const float* in, const int64_t* offsets, const float* weights, int64_t taps, int64_t n,
                        float* out);
  // A kernel x kernel window (3 or 5), stride and dilation 1: out[y * out_pitch + x] = the sum over the window at
  // in + y * pitch + x, for x < n rounded up to whole vectors.
  void (*weighted_window)(const float* in, int64_t pitch, const float* weights, int64_t kernel, int64_t rows, int64_t n,
                          float* out, int64_t out_pitch);
  int64_t lanes;
  void (*sum_taps)(const float* in, const int64_t* offsets, int64_t taps, int64_t n, float* out);
  void (*max_taps)(const float* in, const int64_t* offsets, int64_t taps, int64_t n, float* out);
  // out[j] = in[j] / (rows * columns[j]), j < n
  void (*divide_counts)(const float* in, float rows, const float* columns, int64_t n, float* out);
  // out[q] = in[q * stride], q < n
  void (*copy)(const float* in, int64_t stride, int64_t n, float* out);
  float (*sum)(const float* in, int64_t n);
  float (*maximum)(const float* in, int64_t n);  // n > 0
};

const ConvOps& conv_ops();

}  // namespace transmuter::cpu
