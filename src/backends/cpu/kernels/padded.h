// Padded copies of image planes in which every window, whatever its stride, is a fixed set of offsets from its pixel:
// tap (kd, kh, kw) of output pixel (z, y, x) is at plane[tap_offset(kd, kh, kw) + z * depth_step + y * pitch + x].
// A stride s splits an axis into s interleaved phases, of which only those that some tap reads are stored.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv.h"

namespace transmuter::cpu {

class PaddedPlanes {
 public:
  explicit PaddedPlanes(const Windows& windows);

  int64_t pitch() const { return pitch_; }
  int64_t depth_step() const { return windows_.stride[0] * slice_; }
  // Floats from one plane to the next: an odd number of cache lines.
  int64_t plane() const { return plane_; }
  // Columns of one output depth as a product counts them: the rows of the image with the gaps between.
  int64_t columns() const { return (windows_.out[1] - 1) * pitch_ + windows_.out[2]; }
  int64_t tap_offset(int64_t kd, int64_t kh, int64_t kw) const;
  // Fills taps() offsets, in the order of a filter's elements, each plus `base`.
  void tap_offsets(int64_t base, int64_t* out) const;

  // Floats that may be read past the last plane.
  static constexpr int64_t kSlack = 64;

  // Lays out one plane, with `fill` wherever the image has nothing.
  void copy(const float* x, float fill, float* out) const;

 private:
  const Windows windows_;
  int64_t phases_[3] = {1, 1, 1};  // stored along each axis; phase p holds the elements p * dilation % stride apart
  int64_t rows_;                   // of a phase
  int64_t pitch_;                  // from one row of a phase to the next
  int64_t phase_;                  // floats of a phase
  int64_t slice_;                  // floats of all phases of one depth
  int64_t depths_;
  int64_t plane_;
};

}  // namespace transmuter::cpu
