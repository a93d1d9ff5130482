// The discrete Fourier transform of complex numbers, in double, by kissfft: any length, best a product of 2, 3 and 5.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>

namespace transmuter {

class Fft {
 public:
  // length: 1 or more. The inverse is not divided by it.
  explicit Fft(int64_t length, bool inverse = false);
  ~Fft();

  // Both hold `length` numbers and don't overlap. Not for several threads at once.
  void operator()(const std::complex<double>* in, std::complex<double>* out) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace transmuter
