// The windows of convolutions and poolings, as their kernels take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/conv.h"

namespace transmuter::cpu {

// Those over images of the shape `in` that give `out`, both [images, channels, spatial...]. Of every
// list the last elements count, one for each spatial axis.
inline Windows windows_between(std::span<const int64_t> in, std::span<const int64_t> out,
                               std::span<const int64_t> kernel, std::span<const int64_t> stride,
                               std::span<const int64_t> dilation, std::span<const int64_t> low) {
  Windows w;
  for (size_t i = 1; i + 2 <= in.size(); ++i) {
    const size_t t = 3 - i;
    w.in[t] = in[in.size() - i];
    w.out[t] = out[out.size() - i];
    w.kernel[t] = kernel[kernel.size() - i];
    w.stride[t] = stride[stride.size() - i];
    w.dilation[t] = dilation[dilation.size() - i];
    w.pad[t] = low[low.size() - i];
  }
  return w;
}

}  // namespace transmuter::cpu
