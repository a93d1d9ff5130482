// Helpers for the tests of kernels: run on every instruction set of this machine, compare with plain doubles.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels/target.h"

namespace transmuter::cpu {

// Calls fn once per instruction set that this machine has, the plain one included.
template <class Fn>
void on_all_targets(const Fn& fn) {
  for (const std::string& name : available_targets()) {
    SCOPED_TRACE(name);
    set_target(name);
    fn();
  }
  set_target("");
}

// The same for vector kernels, which have no path of their own for AVX3_DL.
template <class Fn>
void on_every_target(const Fn& fn) {
  on_all_targets([&] {
    if (current_target() != "AVX3_DL") fn();
  });
}

// Memory as the kernels' packed operands and scratch want it. It is full of large floats: what is read without being
// written shows.
struct AlignedBytes {
  explicit AlignedBytes(size_t n) : data(static_cast<std::byte*>(::operator new (n + 1, std::align_val_t{64}))) {
    std::memset(data, 0x7f, n);
  }
  ~AlignedBytes() { ::operator delete (data, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  std::byte* data;
};

// Distance in floats between a result and the exact value; equal infinities and two NaNs are 0 apart.
inline double ulps(float got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) == std::isnan(want) ? 0 : 1e30;
  const float nearest = static_cast<float>(want);
  if (std::isinf(got) || std::isinf(nearest)) {
    if (got == nearest) return 0;
    // Off by one at the edge of the range is one ulp.
    return std::fabs(got) >= 3.4028234e38f && std::fabs(nearest) >= 3.4028234e38f && got * nearest > 0 ? 1 : 1e30;
  }
  int exponent;
  std::frexp(nearest, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - want) / ulp;
}

class Random {
 public:
  explicit Random(uint32_t seed = 1) : engine_(seed) {}
  float uniform(float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(engine_); }
  int64_t integer(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  // Any float: all exponents, both signs, now and then NaN or infinity.
  float any() {
    const auto bits = static_cast<uint32_t>(engine_());
    float f;
    memcpy(&f, &bits, 4);
    return f;
  }
  std::vector<float> floats(size_t n, float lo = -1, float hi = 1) {
    std::vector<float> v(n);
    for (float& f : v) f = uniform(lo, hi);
    return v;
  }

 private:
  std::mt19937 engine_;
};

inline std::vector<float> random_floats(int64_t n, uint32_t seed) {
  return Random(seed).floats(static_cast<size_t>(n));
}

}  // namespace transmuter::cpu
