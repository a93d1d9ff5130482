#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/conv.h"

namespace transmuter::cpu {
namespace {

// Calls fn(tap, pixel of the input or -1, position[3]) for every tap of an output pixel.
template <class Fn>
void for_each_tap(const Windows& w, int64_t z, int64_t y, int64_t x, const Fn& fn) {
  const int64_t out[3] = {z, y, x};
  int64_t tap = 0;
  for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
    for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
      for (int64_t kw = 0; kw < w.kernel[2]; ++kw, ++tap) {
        const int64_t k[3] = {kd, kh, kw};
        int64_t at[3], pixel = 0;
        bool inside = true;
        for (int axis = 0; axis < 3; ++axis) {
          at[axis] = out[axis] * w.stride[axis] - w.pad[axis] + k[axis] * w.dilation[axis];
          inside = inside && at[axis] >= 0 && at[axis] < w.in[axis];
          pixel = pixel * w.in[axis] + at[axis];
        }
        fn(tap, inside ? pixel : -1, at);
      }
    }
  }
}

template <class Fn>
void for_each_pixel(const Windows& w, const Fn& fn) {
  int64_t pixel = 0;
  for (int64_t z = 0; z < w.out[0]; ++z) {
    for (int64_t y = 0; y < w.out[1]; ++y) {
      for (int64_t x = 0; x < w.out[2]; ++x) fn(pixel++, z, y, x);
    }
  }
}

}  // namespace

void conv_reference(const ConvArgs& c) {
  const Windows& w = c.windows;
  const int64_t in = c.in_channels / c.groups, out = c.out_channels / c.groups;
  for (int64_t image = 0; image < c.images; ++image) {
    for (int64_t channel = 0; channel < c.out_channels; ++channel) {
      const float* x = c.x + image * c.x_image + channel / out * in * c.x_channel;
      for_each_pixel(w, [&](int64_t pixel, int64_t z, int64_t row, int64_t column) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i) {
          for_each_tap(w, z, row, column, [&](int64_t tap, int64_t from, const int64_t*) {
            if (from >= 0) sum += c.filters[(channel * in + i) * w.taps() + tap] * double{x[i * c.x_channel + from]};
          });
        }
        const Epilogue& e = c.epilogue;
        const float* residual =
            e.residual ? e.residual + image * c.residual_image + channel * e.residual_row + pixel : nullptr;
        c.y[image * c.y_image + channel * c.y_channel + pixel] =
            static_cast<float>(epilogue_reference(e, sum, 0, e.row_bias ? e.row_bias[channel] : 0, residual));
      });
    }
  }
}

void pool_reference(const PoolArgs& p) {
  const Windows& w = p.windows;
  for (int64_t plane = 0; plane < p.planes; ++plane) {
    const float* x = p.x + plane * w.in_pixels();
    for_each_pixel(w, [&](int64_t pixel, int64_t z, int64_t row, int64_t column) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for_each_tap(w, z, row, column, [&](int64_t, int64_t from, const int64_t*) {
        if (from >= 0) most = std::max<double>(most, x[from]), sum += x[from];
      });
      p.y[plane * w.out_pixels() + pixel] = static_cast<float>(p.maximum ? most : sum);
    });
  }
}

}  // namespace transmuter::cpu
