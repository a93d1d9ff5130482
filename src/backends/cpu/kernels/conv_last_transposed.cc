// Convolutions of images with zeros between their elements, as a transposed convolution has them. Results at the same
// place modulo the distance of the elements read the same taps, and no zeros: they are convolutions of the image
// itself, one for each such place.
#include <algorithm>

#include "backends/cpu/kernels/conv_last_parts.h"

namespace transmuter::cpu {
namespace {

// Calls fn(convolution, taps) for each place, also where a small image has no results at it.
template <class Fn>
void for_each_place(const ConvLastArgs& c, const Fn& fn) {
  const Windows& w = c.windows;
  for (int64_t down = 0; down < c.spread[1]; ++down) {
    for (int64_t across = 0; across < c.spread[2]; ++across) {
      ConvLastArgs part = c;
      part.way = ConvLastWay::direct;
      part.spread[1] = part.spread[2] = 1;
      Taps taps{.first = {}, .step = {c.spread[1], c.spread[2]}, .across = w.kernel[2], .all = w.taps()};
      for (int axis = 1; axis < 3; ++axis) {
        const int64_t place = axis == 1 ? down : across, distance = c.spread[axis];
        // The first tap that meets an element, not a zero.
        const int64_t first = ((w.pad[axis] - place) % distance + distance) % distance;
        taps.first[axis - 1] = first;
        part.windows.kernel[axis] = ceil_div(w.kernel[axis] - first, distance);
        part.windows.pad[axis] = (w.pad[axis] - place - first) / distance;
        part.windows.out[axis] = ceil_div(std::max<int64_t>(0, w.out[axis] - place), distance);
      }
      part.y_pixel = c.spread[2] * c.out_channels;
      part.y_row = c.spread[1] * w.out[2] * c.out_channels;
      part.y_image = w.out_pixels() * c.out_channels;
      const int64_t at = (down * w.out[2] + across) * c.out_channels;
      if (part.y) part.y += at;
      if (part.epilogue.residual) part.epilogue.residual += at;
      fn(part, taps);
    }
  }
}

size_t rounded_packed_bytes(const ConvLastArgs& part) {
  return static_cast<size_t>(round_up(static_cast<int64_t>(direct_packed_bytes(part)), 64));
}

}  // namespace

bool transposed_takes(const ConvLastArgs& c) {
  const Windows& w = c.windows;
  for (int axis = 1; axis < 3; ++axis) {
    // Every place has taps.
    if (w.stride[axis] != 1 || w.dilation[axis] != 1 || w.kernel[axis] < c.spread[axis]) return false;
  }
  return c.spread[0] == 1 && !conv_last_copies(c);
}

size_t transposed_packed_bytes(const ConvLastArgs& c) {
  // Each tap belongs to one place, whatever the image's size.
  return direct_packed_bytes(c) + static_cast<size_t>(c.spread[1] * c.spread[2] * 64);
}

void transposed_pack(const ConvLastArgs& c, const float* filters, void* out, ThreadPool& pool) {
  auto* to = static_cast<std::byte*>(out);
  for_each_place(c, [&](const ConvLastArgs& part, const Taps& taps) {
    direct_pack(part, filters, taps, to, pool);
    to += rounded_packed_bytes(part);
  });
}

size_t transposed_scratch_bytes(const ConvLastArgs& c, int threads) {
  size_t most = 0;
  for_each_place(c, [&](const ConvLastArgs& part, const Taps&) {
    if (part.windows.out_pixels() > 0) most = std::max(most, direct_scratch_bytes(part, threads));
  });
  return most;
}

void conv_transposed(const ConvLastArgs& c, std::byte* scratch, ThreadPool& pool) {
  auto* filters = static_cast<const std::byte*>(c.packed_filters);
  for_each_place(c, [&](ConvLastArgs part, const Taps&) {
    part.packed_filters = filters;
    filters += rounded_packed_bytes(part);
    if (part.windows.out_pixels() > 0) conv_direct(part, scratch, pool);
  });
}

}  // namespace transmuter::cpu
