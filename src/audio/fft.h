// The discrete Fourier transform of real frames, in double, of any length (by its prime factors).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace transmuter::audio {

struct Complex {
  double re = 0, im = 0;
};

class RealFft {
 public:
  explicit RealFft(int64_t length);
  size_t bins() const { return length_ / 2 + 1; }
  // Two frames of `length` values at a time: one transform of a complex frame does for both. `a` and `b` get bins()
  // numbers each. Not for several threads at once.
  void operator()(const double* first, const double* second, Complex* a, Complex* b);

 private:
  void transform(const Complex* in, size_t stride, Complex* out, size_t n);

  size_t length_;
  std::vector<Complex> roots_;  // exp(-2 pi i j / length)
  std::vector<Complex> in_, out_, parts_;
};

}  // namespace transmuter::audio
