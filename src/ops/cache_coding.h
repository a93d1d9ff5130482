// Quantized caches of keys and values, the channels last: codes of eight or four bits, by a scale without a zero point.
#pragma once

#include "ir/builder.h"

namespace transmuter::ops {

enum class CacheCodes : uint8_t {
  none,  // floats
  i8,
  f8e4m3fn,
  i4,          // two neighbouring channels in a byte, the first in the low half (so the two below)
  i4_above_8,  // each 8 more than its value
  f4e2m1,
};

struct CacheCoding {
  CacheCodes codes = CacheCodes::none;
  DType dtype = DType::invalid;  // what decode() gives
  ir::Value scale;               // f32, broadcasts to the values

  // Values [..., d] -> codes, the nearest ones: [..., d], or u8 [..., ceil(d / 2)] where two lie in a byte.
  ir::Value encode(ir::Builder& build, ir::Value values) const;
  // codes -> the values [..., d].
  ir::Value decode(ir::Builder& build, ir::Value codes, Dim d) const;

 private:
  bool paired() const { return codes >= CacheCodes::i4; }
};

}  // namespace transmuter::ops
