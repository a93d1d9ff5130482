#include "backends/cpu/kernels/conv.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cpu/kernels/conv_ops.h"
#include "backends/cpu/kernels/gemm_driver.h"
#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/padded.h"
#include "backends/cpu/kernels/rounding.h"
#include "backends/cpu/kernels/slots.h"

namespace transmuter::cpu {
namespace {

// Padded copies of so many floats are made at a time: they should stay in the cache until the product reads them.
constexpr int64_t kCopyFloats = 1 << 20;
// Elements that one body of a parallel loop over planes should at least touch.
constexpr int64_t kPlaneWork = 16 * 1024;

bool pointwise(const Windows& w) {
  for (int axis = 0; axis < 3; ++axis) {
    if (w.kernel[axis] != 1 || w.stride[axis] != 1 || w.pad[axis] != 0 || w.in[axis] != w.out[axis]) return false;
  }
  return true;
}

bool depthwise(const ConvArgs& c) { return c.in_channels == c.groups && c.groups > 1; }

// What every product of a convolution has in common.
GemmArgs product_of(const ConvArgs& c, int64_t images) {
  const int64_t in = c.in_channels / c.groups, out = c.out_channels / c.groups;
  GemmArgs g;
  g.m = out;
  g.k = in * c.windows.taps();
  g.a = c.filters;
  g.a_row = g.k;
  g.c = c.y;
  g.c_row = c.y_channel;
  g.epilogue = c.epilogue;
  g.batch_rank = 2;
  g.batch[0] = images, g.batch[1] = c.groups;
  g.a_batch[1] = out * g.k;
  g.row_bias_batch[1] = out;
  g.c_batch[0] = c.y_image, g.c_batch[1] = out * c.y_channel;
  g.residual_batch[0] = c.residual_image, g.residual_batch[1] = out * c.epilogue.residual_row;
  return g;
}

GemmArgs pointwise_product(const ConvArgs& c) {
  GemmArgs g = product_of(c, c.images);
  g.n = c.windows.in_pixels();
  g.b = c.x;
  g.b_row = c.x_channel;
  g.b_batch[0] = c.x_image, g.b_batch[1] = g.k * c.x_channel;
  return g;
}

// Rows = pixels, columns = filters: B is packed_filters, A the images, the result is stored transposed.
GemmArgs turned(const ConvArgs& c, const GemmArgs& g) {
  GemmArgs t = g;
  t.m = c.windows.out[1] * c.windows.out[2];
  t.n = g.m;
  t.b = c.packed_filters, t.b_packed = true;
  t.c_row = 1, t.c_column = g.c_row;
  std::swap(t.a_batch, t.b_batch);
  t.b_batch[1] = static_cast<int64_t>(packed_b_bytes(g.k, g.m)) / 4;
  t.epilogue.column_bias = g.epilogue.row_bias, t.epilogue.row_bias = nullptr;
  std::swap(t.column_bias_batch, t.row_bias_batch);
  t.epilogue.residual_row = 1, t.epilogue.residual_column = g.epilogue.residual_row;
  return t;
}

GemmArgs turned_pointwise(const ConvArgs& c) {
  const GemmArgs g = pointwise_product(c);
  GemmArgs t = turned(c, g);
  t.m = g.n;
  t.a = c.x;
  t.a_row = 1, t.a_column = c.x_channel;
  return t;
}

struct Padded {
  PaddedPlanes planes;
  int64_t images;  // copied at a time
  GemmArgs product;
  int64_t copy_at, product_at;  // in the scratch, in bytes; the table of rows comes first
};

Padded padded_product(const ConvArgs& c) {
  const PaddedPlanes planes(c.windows);
  const int64_t one = c.in_channels * planes.plane();
  const int64_t images = std::clamp<int64_t>(kCopyFloats / one, 1, c.images);
  GemmArgs g = product_of(c, images);
  g.n = planes.columns();
  g.batch_rank = 3;
  g.batch[2] = c.windows.out[0];
  g.b_batch[0] = one;
  g.b_batch[1] = c.in_channels / c.groups * planes.plane();
  g.b_batch[2] = planes.depth_step();
  g.c_batch[2] = g.residual_batch[2] = c.windows.out[1] * c.windows.out[2];
  const int64_t copy_at = round_up(g.k * 8, 64);
  const int64_t product_at = round_up(copy_at + (images * one + PaddedPlanes::kSlack) * 4, 64);
  return {planes, images, g, copy_at, product_at};
}

void conv_padded(const ConvArgs& c, std::byte* scratch, ThreadPool& pool) {
  const Padded p = padded_product(c);
  const int64_t plane = p.planes.plane();
  auto* rows = reinterpret_cast<int64_t*>(scratch);
  auto* copy = reinterpret_cast<float*>(scratch + p.copy_at);
  const int64_t taps = c.windows.taps();
  for (int64_t channel = 0; channel < c.in_channels / c.groups; ++channel) {
    p.planes.tap_offsets(channel * plane, rows + channel * taps);
  }
  GemmArgs g = p.product;
  g.b = copy;
  for (int64_t first = 0; first < c.images; first += p.images) {
    const int64_t images = std::min(p.images, c.images - first);
    const int64_t grain = std::max<int64_t>(1, kPlaneWork / plane);
    pool.parallel_for(images * c.in_channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = first + i / c.in_channels, channel = i % c.in_channels;
        p.planes.copy(c.x + image * c.x_image + channel * c.x_channel, 0, copy + i * plane);
      }
    });
    std::fill_n(copy + images * c.in_channels * plane, PaddedPlanes::kSlack, 0.0f);
    g.batch[0] = images;
    g.c = c.y + first * c.y_image;
    if (g.epilogue.residual) g.epilogue.residual = c.epilogue.residual + first * c.residual_image;
    if (c.packed_filters) {
      GemmArgs t = turned(c, g);
      t.a = copy;
      gemm_indexed_a(t, {rows, p.planes.pitch(), c.windows.out[2]}, scratch + p.product_at, pool);
    } else {
      gemm_indexed_b(g, {rows, p.planes.pitch(), c.windows.out[2]}, scratch + p.product_at, pool);
    }
  }
}

// Scratch of loops over planes: the taps' offsets, then per slot a padded plane and the sums of one output depth.
struct PlaneScratch {
  int64_t offsets, plane, sums;
  explicit PlaneScratch(const Windows& w, const PaddedPlanes& planes)
      : offsets(round_up(w.taps() * 8, 64)),
        plane(round_up((std::max(planes.plane(), w.in[2]) + PaddedPlanes::kSlack) * 4, 64)),
        sums(round_up((planes.columns() + PaddedPlanes::kSlack) * 4, 64)) {}
  int64_t slot() const { return plane + sums; }
};

// Whether the loop over whole planes in place takes these windows.
bool in_place(const Windows& w) {
  return conv_ops().depthwise && w.in[0] == 1 && w.out[0] == 1 && w.kernel[0] == 1 && w.pad[0] == 0 &&
         w.kernel[1] == w.kernel[2] && (w.kernel[1] == 3 || w.kernel[1] == 5) && w.stride[1] == w.stride[2] &&
         w.stride[1] <= 2 && w.dilation[1] == 1 && w.dilation[2] == 1;
}

// One channel of one image: sums `from` (rows `pitch` apart) to its place, with the epilogue.
void finish_channel(const ConvArgs& c, int64_t image, int64_t channel, int64_t z, const float* from, int64_t pitch) {
  const Windows& w = c.windows;
  const int64_t slice = w.out[1] * w.out[2];
  // Without gaps the rows of an image are one long row.
  const bool dense = pitch == w.out[2];
  Epilogue e = c.epilogue;
  const int64_t residual_at = image * c.residual_image + channel * e.residual_row + z * slice;
  e.residual_row = w.out[2];
  gemm_ops().finish({.tile = from,
                     .tile_stride = pitch,
                     .rows = dense ? 1 : w.out[1],
                     .columns = dense ? slice : w.out[2],
                     .c = c.y + image * c.y_image + channel * c.y_channel + z * slice,
                     .c_row = w.out[2],
                     .c_column = 1,
                     .epilogue = &e,
                     .column_bias = nullptr,
                     .row_bias = e.row_bias ? e.row_bias + channel : nullptr,
                     .row_bias_step = 0,
                     .residual = e.residual ? e.residual + residual_at : nullptr});
}

void depthwise_in_place(const ConvArgs& c, int64_t image, int64_t channel, const float* zeros, float* sums) {
  const Windows& w = c.windows;
  const Epilogue& e = c.epilogue;
  const float infinity = std::numeric_limits<float>::infinity();
  DepthwisePlane plane{.in = c.x + image * c.x_image + channel / (c.out_channels / c.groups) * c.x_channel,
                       .in_height = w.in[1],
                       .in_width = w.in[2],
                       .pad_top = w.pad[1],
                       .pad_left = w.pad[2],
                       .weights = c.filters + channel * w.taps(),
                       .kernel = w.kernel[1],
                       .stride = w.stride[1],
                       .zeros = zeros,
                       .out = c.y + image * c.y_image + channel * c.y_channel,
                       .out_height = w.out[1],
                       .out_width = w.out[2],
                       .bias = 0,
                       .low = -infinity,
                       .high = infinity};
  const bool relu = e.activation == Activation::relu, clip = e.activation == Activation::clip;
  if (e.alpha == 1 && !e.residual && (relu || clip || e.activation == Activation::none)) {
    if (e.row_bias) plane.bias = e.row_bias[channel];
    if (relu) plane.low = 0;
    if (clip) plane.low = e.first, plane.high = e.second;
    conv_ops().depthwise(plane);
    return;
  }
  plane.out = sums;
  conv_ops().depthwise(plane);
  finish_channel(c, image, channel, 0, sums, w.out[2]);
}

void conv_depthwise(const ConvArgs& c, std::byte* scratch, ThreadPool& pool) {
  const Windows& w = c.windows;
  const PaddedPlanes planes(w);
  const PlaneScratch sizes(w, planes);
  const ConvOps& ops = conv_ops();
  auto* offsets = reinterpret_cast<int64_t*>(scratch);
  planes.tap_offsets(0, offsets);
  Slots slots(scratch + sizes.offsets, static_cast<size_t>(sizes.slot()), slot_count(pool.threads()));
  const int64_t multiple = c.out_channels / c.groups;
  const bool whole = in_place(w);
  const int64_t grain = std::max<int64_t>(1, kPlaneWork / planes.plane());
  pool.parallel_for(c.images * c.groups, grain, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    auto* plane = reinterpret_cast<float*>(lease.memory());
    auto* sums = reinterpret_cast<float*>(lease.memory() + sizes.plane);
    // A row of zeros is all that a whole plane needs of the padded one's place.
    if (whole) {
      std::fill_n(plane, w.in[2], 0.0f);
    } else {
      std::fill_n(plane + planes.plane(), PaddedPlanes::kSlack, 0.0f);
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / c.groups, group = i % c.groups;
      if (!whole) planes.copy(c.x + image * c.x_image + group * c.x_channel, 0, plane);
      for (int64_t channel = group * multiple; channel < (group + 1) * multiple; ++channel) {
        if (whole) {
          depthwise_in_place(c, image, channel, plane, sums);
          continue;
        }
        for (int64_t z = 0; z < w.out[0]; ++z) {
          ops.weighted_taps(plane + z * planes.depth_step(), offsets, c.filters + channel * w.taps(), w.taps(),
                            planes.columns(), sums);
          finish_channel(c, image, channel, z, sums, planes.pitch());
        }
      }
    }
  });
}

}  // namespace

size_t conv_packed_bytes(const ConvArgs& c) {
  if (depthwise(c)) return 0;
  const GemmOps& ops = gemm_ops();
  const int64_t nr = ops.tile_columns, filters = c.out_channels / c.groups;
  const int64_t pixels = c.windows.out[1] * c.windows.out[2];
  const int64_t columns = pointwise(c.windows) ? c.windows.in_pixels() : PaddedPlanes(c.windows).columns();
  if (filters < nr || pixels == 0) return 0;
  // What part of the lanes does work, either way.
  const int64_t rest = columns % nr;
  const int64_t computed = columns - rest + (rest == 0 ? 0 : rest <= ops.lanes ? ops.lanes : nr);
  const double plain = static_cast<double>(pixels) / static_cast<double>(computed);
  const double turned_lanes = static_cast<double>(filters) / static_cast<double>(round_up(filters, nr));
  if (turned_lanes < 1.08 * plain) return 0;
  return packed_b_bytes(c.in_channels / c.groups * c.windows.taps(), filters) * static_cast<size_t>(c.groups);
}

void conv_pack(const ConvArgs& c, void* out, ThreadPool& pool) {
  const int64_t filters = c.out_channels / c.groups, k = c.in_channels / c.groups * c.windows.taps();
  const size_t group = packed_b_bytes(k, filters);
  for (int64_t g = 0; g < c.groups; ++g) {
    pack_b(k, filters, c.filters + g * filters * k, Storage::f32, 1, k, Storage::f32,
           static_cast<std::byte*>(out) + static_cast<size_t>(g) * group, pool);
  }
}

size_t conv_scratch_bytes(const ConvArgs& c, int threads) {
  if (pointwise(c.windows)) {
    return gemm_scratch_bytes(c.packed_filters ? turned_pointwise(c) : pointwise_product(c), threads);
  }
  if (depthwise(c)) {
    const PlaneScratch sizes(c.windows, PaddedPlanes(c.windows));
    return static_cast<size_t>(sizes.offsets + slot_count(threads) * sizes.slot());
  }
  const Padded p = padded_product(c);
  return static_cast<size_t>(p.product_at) + (c.packed_filters
                                                  ? gemm_indexed_a_scratch_bytes(turned(c, p.product), threads)
                                                  : gemm_indexed_b_scratch_bytes(p.product, threads));
}

void conv(const ConvArgs& c, void* scratch, ThreadPool& pool) {
  if (c.images * c.out_channels * c.windows.out_pixels() <= 0) return;
  if (pointwise(c.windows)) return gemm(c.packed_filters ? turned_pointwise(c) : pointwise_product(c), scratch, pool);
  if (depthwise(c)) return conv_depthwise(c, static_cast<std::byte*>(scratch), pool);
  conv_padded(c, static_cast<std::byte*>(scratch), pool);
}

size_t pool_scratch_bytes(const PoolArgs& p, int threads) {
  const PlaneScratch sizes(p.windows, PaddedPlanes(p.windows));
  return static_cast<size_t>(sizes.offsets + slot_count(threads) * sizes.slot());
}

void pool_windows(const PoolArgs& p, void* scratch, ThreadPool& pool) {
  const Windows& w = p.windows;
  if (p.planes * w.out_pixels() <= 0) return;
  const PaddedPlanes planes(w);
  const PlaneScratch sizes(w, planes);
  const ConvOps& ops = conv_ops();
  auto* offsets = static_cast<int64_t*>(scratch);
  planes.tap_offsets(0, offsets);
  const bool maximum = p.maximum;
  Slots slots(static_cast<std::byte*>(scratch) + sizes.offsets, static_cast<size_t>(sizes.slot()),
              slot_count(pool.threads()));
  const float fill = maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
  const int64_t slice = w.out[1] * w.out[2];
  pool.parallel_for(p.planes, std::max<int64_t>(1, kPlaneWork / planes.plane()), [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    auto* plane = reinterpret_cast<float*>(lease.memory());
    auto* result = reinterpret_cast<float*>(lease.memory() + sizes.plane);
    std::fill_n(plane + planes.plane(), PaddedPlanes::kSlack, fill);
    for (int64_t i = begin; i < end; ++i) {
      planes.copy(p.x + i * w.in_pixels(), fill, plane);
      for (int64_t z = 0; z < w.out[0]; ++z) {
        const float* from = plane + z * planes.depth_step();
        (maximum ? ops.max_taps : ops.sum_taps)(from, offsets, w.taps(), planes.columns(), result);
        for (int64_t y = 0; y < w.out[1]; ++y) {
          std::copy_n(result + y * planes.pitch(), w.out[2], p.y + (i * w.out[0] + z) * slice + y * w.out[2]);
        }
      }
    }
  });
}

void pool_global(int64_t planes, int64_t n, bool maximum, const float* x, float* y, ThreadPool& pool) {
  const ConvOps& ops = conv_ops();
  pool.parallel_for(planes, std::max<int64_t>(1, kPlaneWork / std::max<int64_t>(1, n)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const float* plane = x + i * n;
                        y[i] = maximum ? ops.maximum(plane, n) : ops.sum(plane, n) / static_cast<float>(n);
                      }
                    });
}

}  // namespace transmuter::cpu
