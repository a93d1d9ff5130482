// ONNX Resize: per axis a table of which elements make each result element and with what weights, built when sizes are
// known; then one weighted pass an axis (interpolation is separable).
#pragma once

#include <cstdint>
#include <vector>

namespace transmuter {
class ThreadPool;
}

namespace transmuter::cpu {

enum class ResizeMode : uint8_t { nearest, linear, cubic };
enum class ResizeCoordinates : uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize
};
enum class ResizeNearest : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil, simple };  // simple: opset 10

struct ResizeAxis {
  int64_t in = 0, out = 0;
  float scale = 1;  // out / in as the model says it; coordinates are computed in f32
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  ResizeNearest nearest = ResizeNearest::round_prefer_floor;
  float cubic_a = -0.75f;
  bool exclude_outside = false, antialias = false;
  float roi_start = 0, roi_end = 1;  // tf_crop_and_resize
};

// Result element m is the sum over t of weight[t * out + m] * operand[index[t * out + m]]. Indices are valid;
// outside[m] says that m lies outside the operand (tf_crop_and_resize; empty when none does). With nearest there is one
// tap of weight 1, so index serves gather_rows as i32 for any dtype.
struct ResizeTable {
  int64_t in = 0, out = 0, taps = 0;
  std::vector<int32_t> index;
  std::vector<float> weight;
  std::vector<uint8_t> outside;
};
ResizeTable resize_table(const ResizeAxis& axis);

// One axis of a dense [outer, table.in, inner] block.
void resize_axis(const float* in, float* out, int64_t outer, int64_t inner, const ResizeTable& table,
                 float extrapolation, ThreadPool* pool);

// All axes: tables[k] is null for an axis that stays. in has `dims`; rank <= 8.
void resize(const float* in, float* out, int rank, const int64_t* dims, const ResizeTable* const* tables,
            float extrapolation, ThreadPool* pool);

}  // namespace transmuter::cpu
