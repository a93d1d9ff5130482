// What one instruction set contributes to depthwise convolution and pooling.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

// Windows of kernel x kernel (3 or 5), stride 1 or 2 both ways, no dilation.
struct DepthwisePlane {
  const float* in;
  int64_t in_height, in_width, pad_top, pad_left;
  const float* weights;
  int64_t kernel, stride;
  const float* zeros;  // in_width of them
  float* out;          // dense
  int64_t out_height, out_width;
  float bias, low, high;  // out = min(max(sum + bias, low), high), NaN passing
};

struct ConvOps {
  // out[j] = sum over t of weights[t] * in[offsets[t] + j], j < n rounded up to whole vectors.
  void (*weighted_taps)(const float* in, const int64_t* offsets, const float* weights, int64_t taps, int64_t n,
                        float* out);
  // A whole plane, read in place with masks at its edges; null where loads have none.
  void (*depthwise)(const DepthwisePlane& plane);
  void (*sum_taps)(const float* in, const int64_t* offsets, int64_t taps, int64_t n, float* out);
  void (*max_taps)(const float* in, const int64_t* offsets, int64_t taps, int64_t n, float* out);
  // out[q] = in[q * stride], q < n
  void (*copy)(const float* in, int64_t stride, int64_t n, float* out);
  float (*sum)(const float* in, int64_t n);
  float (*maximum)(const float* in, int64_t n);  // n > 0
};

const ConvOps& conv_ops();

}  // namespace transmuter::cpu
