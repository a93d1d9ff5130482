#include "backends/cpu/kernels/padded.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/conv_ops.h"

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
  const ConvOps& ops = conv_ops();
  const int64_t step_w = w.stride[2];
  // Element q of a row of a phase is input column first + q * step_w; those of [begin, end) exist.
  struct Span {
    int64_t first, begin, end;
  };
  const auto span_of = [&](int64_t pw) {
    const int64_t first = pw * w.dilation[2] % step_w - w.pad[2];
    if (first >= w.in[2]) return Span{};
    const int64_t begin = std::min(first >= 0 ? 0 : (step_w - 1 - first) / step_w, pitch_);
    return Span{first, begin, std::clamp((w.in[2] - first + step_w - 1) / step_w, begin, pitch_)};
  };
  constexpr int64_t kFew = 4;
  Span spans[kFew];
  for (int64_t pw = 0; pw < std::min(kFew, phases_[2]); ++pw) spans[pw] = span_of(pw);
  for (int64_t d = 0; d < depths_; ++d) {
    const int64_t in_d = d - w.pad[0];
    float* slice = out + d * slice_;
    if (in_d < 0 || in_d >= w.in[0]) {
      std::fill(slice, slice + slice_, fill);
      continue;
    }
    // Row by row of the image, so that it is read once; what is between the elements is filled.
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t stop = r + 1 == rows_ ? phase_ - r * pitch_ : pitch_;
      float* row = slice + r * pitch_;
      for (int64_t ph = 0; ph < phases_[1]; ++ph) {
        const int64_t in_h = r * w.stride[1] + (ph ? ph * w.dilation[1] % w.stride[1] : 0) - w.pad[1];
        const float* in = x + (in_d * w.in[1] + in_h) * w.in[2];
        for (int64_t pw = 0; pw < phases_[2]; ++pw, row += phase_) {
          const Span span = in_h < 0 || in_h >= w.in[1] ? Span{} : pw < kFew ? spans[pw] : span_of(pw);
          for (int64_t q = 0; q < span.begin; ++q) row[q] = fill;
          if (span.begin < span.end) {
            ops.copy(in + span.first + span.begin * step_w, step_w, span.end - span.begin, row + span.begin);
          }
          for (int64_t q = span.end; q < stop; ++q) row[q] = fill;
        }
      }
    }
  }
}

}  // namespace transmuter::cpu
