// Linear quantization of f32, by element.
#pragma once

#include <cstdint>

#include "transmuter/tensor.h"

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

// x is dense [outer, channels, inner] with one scale (and zero point) a channel; channels == 1 for a single one.
struct ChannelShape {
  int64_t outer = 1, channels = 1, inner = 1;
};

// saturate(round_half_even(x / scale) + zero_point); NaN gives the dtype's lowest value. dtype u8 i8 u16 i16 i32 (i32
// saturates too); zero points have the same dtype, null means 0.
void quantize_linear(const float* x, DType dtype, void* out, const float* scales, const void* zero_points,
                     const ChannelShape& shape, ThreadPool* pool);

// (x - zero_point) * scale, the difference in i32.
void dequantize_linear(DType dtype, const void* x, float* out, const float* scales, const void* zero_points,
                       const ChannelShape& shape, ThreadPool* pool);

// Bytes of one scale and zero point each: out = quantize(relu?(dequantize(a) + dequantize(b))). Scales are far from
// where a sum or a quotient would not be finite.
struct AddBytes {
  struct Operand {
    float scale = 1;
    int32_t zero = 0;
    bool is_signed = false;
  };
  Operand a, b, out;
  bool relu = false;
};
void add_bytes(const AddBytes& add, const void* a, const void* b, void* out, int64_t count, ThreadPool* pool);

// The least and the greatest of some numbers and 0.
struct ValueRange {
  float low = 0, high = 0;
  bool has_nan = false;
};

// Scale and zero point that ONNX DynamicQuantizeLinear gives `count` elements in u8, or in i8: the range is made to
// hold 0; a range of nothing but 0 has scale 1. Of a NaN among them the scale is NaN and the zero point 0. Any number
// of threads finds the same.
struct QuantizeRange {
  float scale;
  int32_t zero_point;
};
// Bytes of scratch for it.
int64_t dynamic_range_scratch(int64_t count);
QuantizeRange dynamic_range(const float* x, int64_t count, bool is_signed, void* scratch, ThreadPool* pool);

}  // namespace transmuter::cpu
