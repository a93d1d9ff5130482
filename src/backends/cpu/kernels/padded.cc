#include "backends/cpu/kernels/padded.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace transmuter::cpu {

PaddedPlanes::PaddedPlanes(const Windows& windows) : windows_(windows) {
  const Windows& w = windows_;
  // k * dilation % stride repeats after this many k.
  for (int axis = 1; axis < 3; ++axis) {
    phases_[axis] = std::min(w.kernel[axis], w.stride[axis] / std::gcd(w.dilation[axis], w.stride[axis]));
  }
  const auto reach = [&](int axis) { return (w.kernel[axis] - 1) * w.dilation[axis]; };
  rows_ = w.out[1] + reach(1) / w.stride[1];
  const int64_t row = w.out[2] + reach(2) / w.stride[2];
  pitch_ = row;
  if (w.stride[2] == 1 && w.pad[2] > 0 && w.in[2] >= w.out[2]) {
    // The padding after one row serves as that before the next.
    const int64_t pad_end = row - w.pad[2] - w.in[2];
    if (pad_end > 0) pitch_ = w.in[2] + std::max(w.pad[2], pad_end);
  }
  phase_ = rows_ * pitch_ + (row - pitch_);
  slice_ = phases_[1] * phases_[2] * phase_;
  depths_ = (w.out[0] - 1) * w.stride[0] + reach(0) + 1;
  plane_ = (depths_ * slice_ + 15) / 16 * 16;
  if (plane_ / 16 % 2 == 0) plane_ += 16;
}

int64_t PaddedPlanes::tap_offset(int64_t kd, int64_t kh, int64_t kw) const {
  const Windows& w = windows_;
  const int64_t phase = kh % phases_[1] * phases_[2] + kw % phases_[2];
  return kd * w.dilation[0] * slice_ + phase * phase_ + kh * w.dilation[1] / w.stride[1] * pitch_ +
         kw * w.dilation[2] / w.stride[2];
}

void PaddedPlanes::tap_offsets(int64_t base, int64_t* out) const {
  for (int64_t kd = 0; kd < windows_.kernel[0]; ++kd) {
    for (int64_t kh = 0; kh < windows_.kernel[1]; ++kh) {
      for (int64_t kw = 0; kw < windows_.kernel[2]; ++kw) *out++ = base + tap_offset(kd, kh, kw);
    }
  }
}

void PaddedPlanes::copy(const float* x, float fill, float* out) const {
  const Windows& w = windows_;
  const int64_t step_h = w.stride[1], step_w = w.stride[2];
  float* phase = out;
  for (int64_t d = 0; d < depths_; ++d) {
    const int64_t in_d = d - w.pad[0];
    for (int64_t p = 0; p < phases_[1] * phases_[2]; ++p, phase += phase_) {
      float* done = phase;
      if (in_d >= 0 && in_d < w.in[0]) {
        const int64_t first_h = p / phases_[2] * w.dilation[1] % step_h - w.pad[1];
        const int64_t first_w = p % phases_[2] * w.dilation[2] % step_w - w.pad[2];
        // Element q of a row is input column first_w + q * step_w; those of [begin, end) exist.
        const int64_t begin = std::clamp<int64_t>((step_w - 1 - first_w) / step_w, 0, pitch_);
        const int64_t end =
            first_w >= w.in[2] ? begin : std::clamp<int64_t>((w.in[2] - first_w + step_w - 1) / step_w, begin, pitch_);
        for (int64_t r = 0; r < rows_ && begin < end; ++r) {
          const int64_t in_h = first_h + r * step_h;
          if (in_h < 0 || in_h >= w.in[1]) continue;
          float* row = phase + r * pitch_;
          const float* in = x + (in_d * w.in[1] + in_h) * w.in[2] + (first_w + begin * step_w);
          std::fill(done, row + begin, fill);
          if (step_w == 1) {
            std::memcpy(row + begin, in, static_cast<size_t>(end - begin) * sizeof(float));
          } else {
            for (int64_t q = begin; q < end; ++q, in += step_w) row[q] = *in;
          }
          done = row + end;
        }
      }
      std::fill(done, phase + phase_, fill);
    }
  }
}

}  // namespace transmuter::cpu
