// Complex numbers as ONNX has them: pairs of real and imaginary parts along a last axis of 2.
#pragma once

#include <utility>

#include "base/strings.h"
#include "ops/context.h"

namespace transmuter::ops {

// The parts of [..., 2], which `what` is asked for where the last axis is none of 2.
inline std::pair<ir::Value, ir::Value> complex_parts(ir::Builder& b, ir::Value x, const char* what) {
  const int64_t last = b.rank(x) - 1;
  if (last < 0) throw Error(ErrorCode::invalid_model, str(what, ", but the value is 0-d"));
  require_eq(b.shape(x).back(), 2, what);
  return {b.squeeze(b.slice_axis(x, last, 0, 1), {last}), b.squeeze(b.slice_axis(x, last, 1, 2), {last})};
}

inline ir::Value paired(ir::Builder& b, ir::Value re, ir::Value im) {
  const int64_t last = b.rank(re);
  return b.concatenate({b.expand_dims(re, {last}), b.expand_dims(im, {last})}, last);
}

inline ir::Value paired(ir::Builder& b, ir::Value complex) { return paired(b, b.real(complex), b.imag(complex)); }

}  // namespace transmuter::ops
