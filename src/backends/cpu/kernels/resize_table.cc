#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/resize.h"

namespace transmuter::cpu {
namespace {

float original_coordinate(const ResizeAxis& a, int64_t m) {
  const float x = static_cast<float>(m), in = static_cast<float>(a.in), out = static_cast<float>(a.out);
  switch (a.coordinates) {
    case ResizeCoordinates::half_pixel:
      return (x + 0.5f) / a.scale - 0.5f;
    case ResizeCoordinates::half_pixel_symmetric: {
      const float adjustment = out / (a.scale * in);
      return in / 2 * (1 - adjustment) + (x + 0.5f) / a.scale - 0.5f;
    }
    case ResizeCoordinates::pytorch_half_pixel:
      return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0.0f;
    case ResizeCoordinates::align_corners:
      return a.out > 1 ? x * (in - 1) / (out - 1) : 0.0f;
    case ResizeCoordinates::asymmetric:
      return x / a.scale;
    case ResizeCoordinates::tf_half_pixel_for_nn:
      return (x + 0.5f) / a.scale;
    default:  // tf_crop_and_resize
      return a.out > 1 ? a.roi_start * (in - 1) + x * (a.roi_end - a.roi_start) * (in - 1) / (out - 1)
                       : 0.5f * (a.roi_start + a.roi_end) * (in - 1);
  }
}

float nearest_of(const ResizeAxis& a, float x) {
  switch (a.nearest) {
    case ResizeNearest::round_prefer_floor:
      return x == std::trunc(x) + 0.5f ? std::floor(x) : std::round(x);  // x - 0.5f would round
    case ResizeNearest::round_prefer_ceil:
      return std::round(x);
    case ResizeNearest::floor:
      return std::floor(x);
    case ResizeNearest::ceil:
      return std::ceil(x);
    default:  // simple: up when it shrinks
      return a.scale < 1 ? std::ceil(x) : std::trunc(x);
  }
}

// The interpolating function at distance t, in units of (possibly widened) input elements.
float filter(const ResizeAxis& a, float t) {
  t = std::fabs(t);
  if (a.mode == ResizeMode::linear) return std::max(0.0f, 1 - t);
  const float c = a.cubic_a;
  if (t <= 1) return ((c + 2) * t - (c + 3)) * t * t + 1;
  return t < 2 ? ((c * t - 5 * c) * t + 8 * c) * t - 4 * c : 0.0f;
}

}  // namespace

ResizeTable resize_table(const ResizeAxis& a) {
  ResizeTable table;
  table.in = a.in;
  table.out = a.out;
  const bool shrinks = a.antialias && a.scale < 1;
  const float width = shrinks ? a.scale : 1.0f;
  const float reach = (a.mode == ResizeMode::cubic ? 2.0f : 1.0f) / width;
  table.taps = a.mode == ResizeMode::nearest ? 1
               : shrinks                     ? 2 * static_cast<int64_t>(std::ceil(reach)) + 1
               : a.mode == ResizeMode::cubic ? 4
                                             : 2;
  const size_t count = static_cast<size_t>(table.taps * a.out);
  table.index.assign(count, 0);
  table.weight.assign(count, 0.0f);
  const float last = static_cast<float>(a.in - 1);
  bool any_outside = false;
  std::vector<uint8_t> outside(static_cast<size_t>(a.out));
  for (int64_t m = 0; m < a.out; ++m) {
    float x = original_coordinate(a, m);
    if (a.coordinates == ResizeCoordinates::tf_crop_and_resize && !(x >= 0 && x <= last)) {
      outside[static_cast<size_t>(m)] = 1;
      any_outside = true;
    }
    const auto put = [&](int64_t t, float position, float weight) {
      const size_t at = static_cast<size_t>(t * a.out + m);
      table.index[at] = static_cast<int32_t>(std::min(std::max(position, 0.0f), last));
      table.weight[at] = weight;
    };
    if (a.mode == ResizeMode::nearest) {
      put(0, nearest_of(a, x), 1.0f);
      continue;
    }
    // Linear without a wider filter: the coordinate is brought inside first.
    if (a.mode == ResizeMode::linear && !shrinks && !a.exclude_outside) x = std::min(std::max(x, 0.0f), last);
    const int64_t before = table.taps / 2 - 1;
    const float first = std::floor(x) - (shrinks ? std::ceil(reach) - 1 : static_cast<float>(before));
    float total = 0;
    std::vector<float> weights(static_cast<size_t>(table.taps));
    for (int64_t t = 0; t < table.taps; ++t) {
      const float position = first + static_cast<float>(t);
      float w = filter(a, (position - x) * width);
      if (a.exclude_outside && (position < 0 || position > last)) w = 0;
      weights[static_cast<size_t>(t)] = w;
      total += w;
    }
    const bool scales = (a.exclude_outside || shrinks) && total != 0;
    for (int64_t t = 0; t < table.taps; ++t) {
      const float w = weights[static_cast<size_t>(t)];
      put(t, first + static_cast<float>(t), scales ? w / total : w);
    }
  }
  if (any_outside) table.outside = std::move(outside);
  return table;
}

}  // namespace transmuter::cpu
