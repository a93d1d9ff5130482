// Compares an output with what was expected.
#pragma once

#include <string>

#include "transmuter/transmuter.h"

namespace transmuter::cli {

struct Tolerance {
  double atol = 1e-7;
  double rtol = 1e-3;
  double bf16_rtol = 1.0 / 64;  // ONNX's runner: two units in the last place; 0 where the case says its own rtol
  int64_t int_atol = 0;
  double rel_l2 = -1;       // >= 0: floats by relative L2 alone
  int64_t flat_stride = 1;  // the expected tensor holds every k-th element of the flattened output
  enum class Mode : uint8_t { close, shape_only, random } mode = Mode::close;
  // Where given, raised to the worst distance between floats in units in the last place of what was expected, beyond
  // atol.
  double* worst_ulps = nullptr;
  double* worst_share = nullptr;  // likewise: of what the tolerance allows, so 1 is just in time
};

// "" when they agree; else one line with the worst element: expected, got, where. `mask` (bool or null): compare where
// true.
std::string compare(const Value& expected, const Value& got, const Tolerance& tolerance, const Tensor* mask = nullptr);

// "" when both are the same to the bit; else what differs.
std::string compare_bits(const Value& a, const Value& b);

}  // namespace transmuter::cli
