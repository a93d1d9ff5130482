#include "backends/cpu/kernels/patches.h"

#include <algorithm>
#include <cstring>

namespace transmuter::cpu {
namespace {

// What the windows reach along one axis.
int64_t reach(const Windows& w, int axis) {
  return (w.out[axis] - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1;
}

}  // namespace

void byte_patch(const BytePatches& p, const uint8_t* x, int64_t index, uint8_t* out) {
  const Windows& w = p.windows;
  const int64_t row_bytes = w.in[2] * p.channels;
  const int64_t ox = index % w.out[2], oy = index / w.out[2] % w.out[1], image = index / w.out[2] / w.out[1];
  const uint8_t* const from = x + image * w.in[1] * row_bytes;
  const int64_t in_row = p.rows_run() ? 1 : w.kernel[2], taps = p.rows_run() ? w.kernel[2] : 1;
  for (int64_t s = 0; s < p.runs(); ++s, out += p.filled_run()) {
    const int64_t y = oy * w.stride[1] + s / in_row * w.dilation[1] - w.pad[1];
    const int64_t left = ox * w.stride[2] + s % in_row * w.dilation[2] - w.pad[2];
    const uint8_t* const row = y < 0 || y >= w.in[1] ? nullptr : from + y * row_bytes;
    if (row && left >= 0 && left + taps <= w.in[2]) {
      std::memcpy(out, row + left * p.channels, static_cast<size_t>(p.run()));
    } else {
      for (int64_t t = 0; t < taps; ++t) {
        const bool inside = row && left + t >= 0 && left + t < w.in[2];
        uint8_t* const tap = out + t * p.channels;
        if (inside) {
          std::memcpy(tap, row + (left + t) * p.channels, static_cast<size_t>(p.channels));
        } else {
          std::memset(tap, p.outside, static_cast<size_t>(p.channels));
        }
      }
    }
    std::memset(out + p.run(), 0, static_cast<size_t>(p.filled_run() - p.run()));
  }
}

int64_t PatchPlaces::window(const BytePatches& p, int64_t index) const {
  const Windows& w = p.windows;
  const int64_t ox = index % w.out[2], oy = index / w.out[2] % w.out[1], image = index / w.out[2] / w.out[1];
  return first + image * image_bytes + oy * w.stride[1] * row_bytes + ox * w.stride[2] * p.channels;
}

int64_t PatchPlaces::run(const BytePatches& p, int64_t index) const {
  const Windows& w = p.windows;
  const int64_t in_row = p.rows_run() ? 1 : w.kernel[2];
  return index / in_row * w.dilation[1] * row_bytes + index % in_row * w.dilation[2] * p.channels;
}

bool lies_in_images(const BytePatches& p) {
  const Windows& w = p.windows;
  for (const int axis : {1, 2})
    if (w.pad[axis] > 0 || reach(w, axis) - w.pad[axis] > w.in[axis]) return false;
  return p.run() == p.filled_run();
}

PatchPlaces places_in_images(const BytePatches& p) {
  const Windows& w = p.windows;
  const int64_t row_bytes = w.in[2] * p.channels;
  return {.image_bytes = w.in[1] * row_bytes,
          .row_bytes = row_bytes,
          .first = -w.pad[1] * row_bytes - w.pad[2] * p.channels};
}

PatchPlaces places_in_frame(const BytePatches& p) {
  PatchPlaces places;
  places.rows = reach(p.windows, 1);
  places.pixels = reach(p.windows, 2);
  places.row_bytes = places.pixels * p.channels;
  places.image_bytes = places.rows * places.row_bytes;
  return places;
}

int64_t frame_bytes(const BytePatches& p) {
  return p.images * places_in_frame(p).image_bytes + p.filled_run() - p.run();
}

void frame_row(const BytePatches& p, const PatchPlaces& frame, const uint8_t* x, int64_t index, uint8_t flip,
               uint8_t* copy) {
  const Windows& w = p.windows;
  const int64_t image = index / frame.rows, y = index % frame.rows - w.pad[1];
  uint8_t* const to = copy + image * frame.image_bytes + index % frame.rows * frame.row_bytes;
  const auto outside = static_cast<uint8_t>(p.outside ^ flip);
  // Pixels before, inside and behind the image.
  const bool in_image = y >= 0 && y < w.in[1];
  const int64_t begin = std::clamp<int64_t>(w.pad[2], 0, frame.pixels);
  const int64_t end = in_image ? std::clamp<int64_t>(w.pad[2] + w.in[2], begin, frame.pixels) : begin;
  std::memset(to, outside, static_cast<size_t>(begin * p.channels));
  const int64_t count = (end - begin) * p.channels;
  if (count > 0) {
    const uint8_t* const from = x + ((image * w.in[1] + y) * w.in[2] + begin - w.pad[2]) * p.channels;
    uint8_t* const inside = to + begin * p.channels;
    if (flip == 0) {
      std::memcpy(inside, from, static_cast<size_t>(count));
    } else {
      for (int64_t i = 0; i < count; ++i) inside[i] = from[i] ^ flip;
    }
  }
  std::memset(to + end * p.channels, outside, static_cast<size_t>((frame.pixels - end) * p.channels));
}

}  // namespace transmuter::cpu
