#include "ops/windows.h"

namespace transmuter::ops {

std::vector<int64_t> axis_attribute(OpContext& op, const char* name, size_t n, int64_t least, int64_t otherwise) {
  std::vector<int64_t> values = op.attribute_ints_optional(name).value_or(std::vector<int64_t>{});
  if (values.empty()) values.assign(n, otherwise);
  op.check(values.size() == n, "attribute ", name, " must have ", n, " entries, has ", values.size());
  for (int64_t value : values) op.check(value >= least, "attribute ", name, " has ", value, ", below ", least);
  return values;
}

Windows read_windows(OpContext& op, const Dims& input, Dims kernel) {
  const size_t n = input.size();
  Windows w;
  w.kernel = std::move(kernel);
  op.check(w.kernel.size() == n, "the kernel has ", w.kernel.size(), " spatial axes, the input ", n);
  w.strides = axis_attribute(op, "strides", n, 1, 1);
  w.dilations = axis_attribute(op, "dilations", n, 1, 1);
  const std::vector<int64_t> pads = axis_attribute(op, "pads", 2 * n, 0, 0);
  const std::string mode = op.attribute_string("auto_pad", "NOTSET");
  w.valid = mode == "VALID";
  w.same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  op.check(w.same || w.valid || mode == "NOTSET" || mode.empty(), "auto_pad ", mode, " is not one of the operator's");
  for (size_t i = 0; i < n; ++i) {
    if (w.valid) {
      w.low.emplace_back(0);
      w.high.emplace_back(0);
    } else if (w.same) {
      const Dim out = ceil_div(input[i], w.strides[i]);
      const Dim total = max((out - 1) * Dim(w.strides[i]) + w.reach(i) - input[i], 0);
      const Dim half = floor_div(total, 2);
      w.low.push_back(mode == "SAME_UPPER" ? half : total - half);
      w.high.push_back(mode == "SAME_UPPER" ? total - half : half);
    } else {
      w.low.emplace_back(pads[i]);
      w.high.emplace_back(pads[n + i]);
    }
  }
  return w;
}

}  // namespace transmuter::ops
