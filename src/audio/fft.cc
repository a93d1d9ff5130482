#include "audio/fft.h"

#include <cmath>
#include <numbers>

namespace transmuter::audio {
namespace {

// std::complex's product looks for infinities, at four times the price.
Complex times(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

}  // namespace

RealFft::RealFft(int64_t length)
    : length_(static_cast<size_t>(length)), roots_(length_), in_(length_), out_(length_), parts_(length_) {
  for (size_t j = 0; j < length_; ++j) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(length_);
    roots_[j] = {std::cos(angle), std::sin(angle)};
  }
}

// n values that lie `stride` apart in `in`; `out` is dense. length_ / n = stride.
void RealFft::transform(const Complex* in, size_t stride, Complex* out, size_t n) {
  if (n == 1) {
    *out = *in;
    return;
  }
  size_t radix = n % 4 == 0 ? 4 : 2;
  while (n % radix != 0) radix = radix * radix > n ? n : radix + 1;
  const size_t part = n / radix;
  for (size_t r = 0; r < radix; ++r) transform(in + r * stride, stride * radix, out + r * part, part);
  for (size_t k = 0; k < part; ++k) {
    for (size_t r = 0; r < radix; ++r) parts_[r] = times(out[r * part + k], roots_[r * k * stride]);
    if (radix == 4) {
      const Complex even{parts_[0].re + parts_[2].re, parts_[0].im + parts_[2].im};
      const Complex far{parts_[0].re - parts_[2].re, parts_[0].im - parts_[2].im};
      const Complex odd{parts_[1].re + parts_[3].re, parts_[1].im + parts_[3].im};
      const Complex turned{parts_[1].im - parts_[3].im, parts_[3].re - parts_[1].re};  // -i (p1 - p3)
      out[k] = {even.re + odd.re, even.im + odd.im};
      out[k + part] = {far.re + turned.re, far.im + turned.im};
      out[k + 2 * part] = {even.re - odd.re, even.im - odd.im};
      out[k + 3 * part] = {far.re - turned.re, far.im - turned.im};
      continue;
    }
    for (size_t q = 0; q < radix; ++q) {
      Complex sum = parts_[0];
      for (size_t r = 1; r < radix; ++r) {
        const Complex term = times(parts_[r], roots_[r * q * part * stride % length_]);
        sum.re += term.re;
        sum.im += term.im;
      }
      out[k + q * part] = sum;
    }
  }
}

void RealFft::operator()(const double* first, const double* second, Complex* a, Complex* b) {
  for (size_t i = 0; i < length_; ++i) in_[i] = {first[i], second[i]};
  transform(in_.data(), 1, out_.data(), length_);
  // The transform of a real frame is its own mirror, conjugated: that parts the two.
  for (size_t k = 0; k < bins(); ++k) {
    const Complex& x = out_[k];
    const Complex& mirror = out_[(length_ - k) % length_];
    a[k] = {(x.re + mirror.re) / 2, (x.im - mirror.im) / 2};
    b[k] = {(x.im + mirror.im) / 2, (mirror.re - x.re) / 2};
  }
}

}  // namespace transmuter::audio
