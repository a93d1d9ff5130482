#include "ir/primitives/windows.h"

#include "base/strings.h"

namespace transmuter::ir {

Dim dilated_extent(Dim extent, int64_t dilation) {
  if (dilation == 1) return extent;
  const Dim dilated = (extent - 1) * dilation + 1;
  return provably_le(1, extent) ? dilated : max(dilated, 0);
}

Dim window_count(Dim padded, Dim window, int64_t window_dilation, int64_t stride, const std::string& what) {
  const Dim room = padded - dilated_extent(window, window_dilation);
  if (room.hint() < 0) return max(floor_div(room, stride) + 1, 0);
  require(less_equal(0, room), what);
  return floor_div(room, stride) + 1;
}

std::string padding_text(const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  if (low.empty()) return "dense<> : tensor<0x2xi64>";
  std::string pairs;
  for (size_t i = 0; i < low.size(); ++i) pairs += str(i ? ", [" : "[", low[i], ", ", high[i], "]");
  return str("dense<[", pairs, "]> : tensor<", low.size(), "x2xi64>");
}

}  // namespace transmuter::ir
