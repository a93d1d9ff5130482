#include "ir/composites/resize_taps.h"

#include <algorithm>
#include <cmath>

namespace transmuter::ir {
namespace {

using Coordinates = ResizeAttributes::Coordinates;
using Mode = ResizeAttributes::Mode;
using Nearest = ResizeAttributes::Nearest;

float coordinate(Coordinates kind, int64_t position, int64_t in, int64_t out, float scale, float roi_start,
                 float roi_end) {
  const float o = static_cast<float>(position), n = static_cast<float>(in), m = static_cast<float>(out);
  switch (kind) {
    case Coordinates::half_pixel:
      return (o + 0.5f) / scale - 0.5f;
    case Coordinates::half_pixel_symmetric: {
      const float adjustment = m / (scale * n);
      return n / 2 * (1 - adjustment) + (o + 0.5f) / scale - 0.5f;
    }
    case Coordinates::pytorch_half_pixel:
      return out > 1 ? (o + 0.5f) / scale - 0.5f : 0;
    case Coordinates::align_corners:
      return out > 1 ? o * (n - 1) / (m - 1) : 0;
    case Coordinates::asymmetric:
      return o / scale;
    case Coordinates::tf_half_pixel_for_nn:
      return (o + 0.5f) / scale;
    default:
      return out > 1 ? roi_start * (n - 1) + o * (roi_end - roi_start) * (n - 1) / (m - 1)
                     : 0.5f * (roi_start + roi_end) * (n - 1);
  }
}

int64_t nearest_index(Nearest kind, float x, float scale) {
  const float below = std::floor(x);
  const int64_t low = static_cast<int64_t>(below);
  switch (kind) {
    case Nearest::round_prefer_floor:
      return x - below > 0.5f ? low + 1 : low;
    case Nearest::round_prefer_ceil:
      return x - below >= 0.5f ? low + 1 : low;
    case Nearest::floor:
      return low;
    case Nearest::ceil:
      return static_cast<int64_t>(std::ceil(x));
    default:
      return static_cast<int64_t>(scale < 1 ? std::ceil(x) : x);
  }
}

double filter(const ResizeAttributes& resize, double distance) {
  const double x = std::abs(distance), a = resize.cubic_a;
  if (resize.mode == Mode::linear) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace

TapRange tap_range(const ResizeAttributes& resize, double scale) {
  if (resize.mode == Mode::nearest) return {};
  const double radius = resize.mode == Mode::linear ? 1 : 2;
  const double shrink = resize.antialias ? std::min(scale, 1.0) : 1;
  const int64_t first = static_cast<int64_t>(std::floor(-radius / shrink)) + 1;
  return {first, 2 - 2 * first};
}

ResizeTaps resize_taps(const ResizeAttributes& resize, int64_t in, int64_t out, float scale, float roi_start,
                       float roi_end) {
  const TapRange range = tap_range(resize, scale);
  const double shrink = resize.antialias ? std::min(static_cast<double>(scale), 1.0) : 1;
  ResizeTaps table;
  table.taps = range.count;
  for (int64_t o = 0; o < out; ++o) {
    const float x = coordinate(resize.coordinates, o, in, out, scale, roi_start, roi_end);
    if (resize.coordinates == Coordinates::tf_crop_and_resize)
      table.outside.push_back(x < 0 || x > static_cast<float>(in - 1));
    if (resize.mode == Mode::nearest) {
      table.index.push_back(std::clamp<int64_t>(nearest_index(resize.nearest, x, scale), 0, in - 1));
      table.weight.push_back(1);
      continue;
    }
    std::vector<double> weights;
    double sum = 0;
    for (int64_t t = 0; t < range.count; ++t) {
      const int64_t at = static_cast<int64_t>(std::floor(x)) + range.first + t;
      const bool dropped = resize.exclude_outside && (at < 0 || at >= in);
      weights.push_back(dropped ? 0 : filter(resize, (static_cast<double>(at) - x) * shrink));
      sum += weights.back();
      table.index.push_back(std::clamp<int64_t>(at, 0, in - 1));
    }
    for (const double weight : weights) table.weight.push_back(static_cast<float>(weight / sum));
  }
  return table;
}

bool is_left_alone(const ResizeAttributes& resize, int64_t in, int64_t out, double scale) {
  return in == out && scale == 1 && resize.coordinates != Coordinates::tf_crop_and_resize;
}

}  // namespace transmuter::ir
