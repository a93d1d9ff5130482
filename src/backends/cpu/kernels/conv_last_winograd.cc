// Winograd's F(2x2, 3x3): 2x2 pixels of a square window of three from 16 products instead of 36. The transforms add and
// subtract only, so sums are as accurate as the plain ones. A task transforms some tiles into 16 matrices, multiplies
// each by its transform of the filters, and transforms the sums back, all in the second-level cache.
#include <algorithm>

#include "backends/cpu/kernels/conv_last_parts.h"
#include "backends/cpu/kernels/slots.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kMatrices = 16;
// Fewer tiles read each transformed filter too seldom: there is more of them than of the plain ones.
constexpr int64_t kLeastTiles = 32;
constexpr int64_t kLeastChannels = 16;
// Bytes of filters that stay in the second-level cache beside a task's matrices, and of those then. Larger filters come
// from farther away for each task: many tiles share them.
constexpr int64_t kNearFilters = 320 * 1024, kNearTask = 320 * 1024, kFarTask = 1536 * 1024;

// The transformed filters as those of 16 groups of a 1x1 convolution.
Filters filters_of(const ConvLastArgs& c) {
  ConvLastArgs groups;
  groups.groups = kMatrices;
  groups.in_channels = kMatrices * c.in_channels;
  groups.out_channels = kMatrices * c.out_channels;
  return Filters(groups);
}

// Floats from one row of a matrix to the next: an odd number of cache lines.
int64_t row_floats(int64_t channels) { return (ceil_div(channels, 16) | 1) * 16; }

struct Plan {
  Filters filters;
  int64_t down, across, count;   // 2x2 pixels: of an image, of all
  int64_t chunks, panel_groups;  // of tasks
  int64_t most;                  // tiles of a task
  int64_t in_row, in_matrix, out_row, out_matrix;
  int64_t zeros_bytes, slot_bytes;

  Plan(const ConvLastArgs& c, int threads)
      : filters(filters_of(c)),
        down(ceil_div(c.windows.out[1], 2)),
        across(ceil_div(c.windows.out[2], 2)),
        count(c.images * down * across),
        in_row(row_floats(c.in_channels)),
        out_row(row_floats(filters.padded_out)) {
    const int64_t filter_bytes = kMatrices * filters.group_floats() * 4;
    const int64_t tile_bytes = kMatrices * (in_row + out_row) * 4;
    const int64_t bytes = filter_bytes <= kNearFilters ? kNearTask : kFarTask;
    chunks = ceil_div(count, std::max<int64_t>(bytes / tile_bytes, 14));
    panel_groups = 1;
    if (threads > 1 && count * kMatrices * c.in_channels * c.out_channels >= kConvParallelWork) {
      chunks = round_up(chunks, threads);
      while (chunks > threads && count / chunks < 8) chunks -= threads;
      // Few tiles a thread: their transforms are made again for some of the panels.
      if (count / chunks < 8) {
        chunks = std::max<int64_t>(1, count / 12);
        panel_groups = std::min(filters.panels, ceil_div(threads, chunks));
      }
    }
    most = ceil_div(count, chunks);
    in_matrix = (most * in_row / 16 | 1) * 16;
    out_matrix = (most * out_row / 16 | 1) * 16;
    zeros_bytes = round_up(std::max(c.in_channels, c.out_channels) * 4, 64);
    slot_bytes = kMatrices * (in_matrix + out_matrix) * 4 + zeros_bytes;
  }
};

class Task {
 public:
  Task(const ConvLastArgs& c, const Plan& p, const float* zeros, std::byte* slot)
      : c_(c), p_(p), f_(p.filters), ops_(last_ops()), zeros_(zeros) {
    in_ = reinterpret_cast<float*>(slot);
    out_ = in_ + kMatrices * p.in_matrix;
    unread_ = out_ + kMatrices * p.out_matrix;
  }

  void run(int64_t index) {
    const int64_t chunk = index / p_.panel_groups, group = index % p_.panel_groups;
    first_panel_ = even_cut(group, p_.panel_groups, f_.panels);
    end_panel_ = even_cut(group + 1, p_.panel_groups, f_.panels);
    first_ = even_cut(chunk, p_.chunks, p_.count);
    tiles_ = even_cut(chunk + 1, p_.chunks, p_.count) - first_;
    for (int64_t i = 0; i < tiles_; ++i) transform_in(i);
    for (int64_t matrix = 0; matrix < kMatrices; ++matrix) multiply(matrix);
    for (int64_t i = 0; i < tiles_; ++i) transform_out(i);
  }

 private:
  struct Place {
    int64_t image, y, x;  // of the first output pixel
  };
  Place place(int64_t i) const {
    const int64_t tile = first_ + i;
    return {tile / (p_.down * p_.across), tile / p_.across % p_.down * 2, tile % p_.across * 2};
  }

  void transform_in(int64_t i) {
    const Windows& w = c_.windows;
    const Place at = place(i);
    const float* image = c_.x + at.image * c_.x_image;
    const float* pixels[16];
    for (int64_t j = 0; j < 16; ++j) {
      const int64_t y = at.y - w.pad[1] + j / 4, x = at.x - w.pad[2] + j % 4;
      const bool inside = y >= 0 && y < w.in[1] && x >= 0 && x < w.in[2];
      pixels[j] = inside ? image + y * c_.x_row + x * c_.x_pixel : zeros_;
    }
    ops_.winograd_in(pixels, c_.in_channels, in_ + i * p_.in_row, p_.in_matrix);
  }

  void multiply(int64_t matrix) {
    const float* rows[kMaxTilePixels];
    const int64_t parts = ceil_div(tiles_, ops_.tile_pixels), start = 0;
    for (int64_t block = 0; block < f_.blocks; ++block) {
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t first = even_cut(part, parts, tiles_), count = even_cut(part + 1, parts, tiles_) - first;
        for (int64_t r = 0; r < count; ++r)
          rows[r] = in_ + matrix * p_.in_matrix + (first + r) * p_.in_row + block * f_.block;
        for (int64_t panel = first_panel_; panel < end_panel_; ++panel) {
          const bool wide = f_.vectors(panel) == 2;
          const LastTile t{.rows = rows,
                           .steps = &start,
                           .segments = 1,
                           .length = f_.block_in(block),
                           .b = static_cast<const float*>(c_.packed_filters) + f_.at(matrix, block, panel),
                           .y = out_ + matrix * p_.out_matrix + first * p_.out_row + panel * 2 * f_.lanes,
                           .y_pixel = p_.out_row,
                           .bias = nullptr,
                           .residual = nullptr,
                           .columns = f_.vectors(panel) * f_.lanes,
                           .repeat = 1,
                           .rows_step = 0,
                           .ahead = 0,
                           .accumulate = block > 0,
                           .clamp = false,
                           .low = 0,
                           .high = 0};
          (wide ? ops_.tiles : ops_.narrow_tiles)[count - 1](t);
        }
      }
    }
  }

  void transform_out(int64_t i) {
    const Windows& w = c_.windows;
    const Epilogue& e = c_.epilogue;
    const Place at = place(i);
    const bool in_tile = in_registers(e);
    const Bounds bounds = bounds_of(e);
    const int64_t channel = first_panel_ * 2 * f_.lanes;
    const int64_t channels = std::min(f_.out, end_panel_ * 2 * f_.lanes) - channel;
    WinogradOut t{.in = out_ + i * p_.out_row + channel,
                  .matrix = p_.out_matrix,
                  .channels = channels,
                  .bias = in_tile && e.column_bias ? e.column_bias + channel : nullptr,
                  .residual = {},
                  .y = {},
                  .clamp = in_tile && e.activation != Activation::none,
                  .low = bounds.low,
                  .high = bounds.high};
    const int64_t across = std::min<int64_t>(2, w.out[2] - at.x), down = std::min<int64_t>(2, w.out[1] - at.y);
    const int64_t origin = ((at.image * w.out[1] + at.y) * w.out[2] + at.x) * c_.out_channels + channel;
    for (int64_t j = 0; j < 4; ++j) {
      const bool inside = j / 2 < down && j % 2 < across;
      const int64_t pixel = origin + (j / 2 * w.out[2] + j % 2) * c_.out_channels;
      t.y[j] = inside ? c_.y + pixel : unread_;
      if (in_tile && e.residual) t.residual[j] = inside ? e.residual + pixel : zeros_;
    }
    // The next tile's pixels: stores to memory that is far away would wait.
    for (int64_t row = 0; row < down; ++row) {
      const float* next = c_.y + origin + (row * w.out[2] + 2) * c_.out_channels;
      for (int64_t pixel = 0; pixel < 2 && at.x + 2 + pixel < w.out[2]; ++pixel) {
        for (int64_t k = 0; k < channels; k += 16) __builtin_prefetch(next + pixel * c_.out_channels + k, 1, 3);
      }
    }
    ops_.winograd_out(t);
    if (in_tile) return;
    for (int64_t row = 0; row < down; ++row) {
      const int64_t pixel = origin + row * w.out[2] * c_.out_channels;
      finish_pixels(e, c_.y + pixel, across, c_.out_channels, channel, channels,
                    e.residual ? e.residual + pixel : nullptr);
    }
  }

  const ConvLastArgs& c_;
  const Plan& p_;
  const Filters& f_;
  const LastOps& ops_;
  const float* zeros_;
  float* in_;
  float* out_;
  float* unread_;  // pixels outside the image
  int64_t first_panel_ = 0, end_panel_ = 0, first_ = 0, tiles_ = 0;
};

}  // namespace

bool winograd_takes(const ConvLastArgs& c) {
  const Windows& w = c.windows;
  for (int axis = 1; axis < 3; ++axis) {
    if (w.kernel[axis] != 3 || w.stride[axis] != 1 || w.dilation[axis] != 1) return false;
  }
  if (c.groups != 1 || c.in_channels < kLeastChannels || c.out_channels < kLeastChannels) return false;
  const int64_t tiles = c.images * ceil_div(w.out[1], 2) * ceil_div(w.out[2], 2);
  // Tiles of which much lies outside the image, as in one line, save nothing.
  return tiles >= kLeastTiles && 3 * c.images * w.out_pixels() >= 8 * tiles;
}

size_t winograd_packed_bytes(const ConvLastArgs& c) {
  return static_cast<size_t>(kMatrices * filters_of(c).group_floats() * 4);
}

void winograd_pack(const ConvLastArgs& c, const float* filters, void* out, ThreadPool& pool) {
  auto* packed = static_cast<float*>(out);
  const Filters f = filters_of(c);
  pool.parallel_for(f.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t width = f.vectors(panel) * f.lanes, columns = f.columns(panel);
      for (int64_t channel = 0; channel < f.in; ++channel) {
        const int64_t block = channel / f.block;
        float* to[kMatrices];
        for (int64_t m = 0; m < kMatrices; ++m) to[m] = packed + f.at(m, block, panel) + channel % f.block * width;
        for (int64_t j = 0; j < width; ++j) {
          if (j >= columns) {
            for (float* row : to) row[j] = 0;
            continue;
          }
          const float* g = filters + ((panel * 2 * f.lanes + j) * f.in + channel) * 9;
          // Down the columns, then along the rows: the first, half the sum, half the sum with the middle negative, the
          // last.
          float rows[4][3];
          for (int k = 0; k < 3; ++k) {
            const float ends = g[k] + g[6 + k];
            rows[0][k] = g[k], rows[3][k] = g[6 + k];
            rows[1][k] = (ends + g[3 + k]) * 0.5f, rows[2][k] = (ends - g[3 + k]) * 0.5f;
          }
          for (int r = 0; r < 4; ++r) {
            const float ends = rows[r][0] + rows[r][2];
            to[4 * r][j] = rows[r][0], to[4 * r + 3][j] = rows[r][2];
            to[4 * r + 1][j] = (ends + rows[r][1]) * 0.5f, to[4 * r + 2][j] = (ends - rows[r][1]) * 0.5f;
          }
        }
      }
    }
  });
}

size_t winograd_scratch_bytes(const ConvLastArgs& c, int threads) {
  const Plan p(c, threads);
  return static_cast<size_t>(p.zeros_bytes + slot_count(threads) * p.slot_bytes);
}

void conv_winograd(const ConvLastArgs& c, std::byte* scratch, ThreadPool& pool) {
  const Plan p(c, pool.threads());
  auto* zeros = reinterpret_cast<float*>(scratch);
  std::fill_n(zeros, p.zeros_bytes / 4, 0.0f);
  Slots slots(scratch + p.zeros_bytes, static_cast<size_t>(p.slot_bytes), slot_count(pool.threads()));
  pool.parallel_for(p.chunks * p.panel_groups, 1, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    Task task(c, p, zeros, lease.memory());
    for (int64_t i = begin; i < end; ++i) task.run(i);
  });
}

}  // namespace transmuter::cpu
