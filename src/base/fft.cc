#include "base/fft.h"

#include <kissfft/kissfft.hh>

namespace transmuter {

struct Fft::Plan : kissfft<double> {
  using kissfft::kissfft;
};

Fft::Fft(int64_t length, bool inverse) : plan_(std::make_unique<Plan>(static_cast<size_t>(length), inverse)) {}
Fft::~Fft() = default;

void Fft::operator()(const std::complex<double>* in, std::complex<double>* out) const { plan_->transform(in, out); }

}  // namespace transmuter
