#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "backends/cpu/kernels/conv_last_parts.h"
#include "backends/cpu/kernels/slots.h"

namespace transmuter::cpu {
namespace {

// Bytes of filters of a block, and of pixels, that one task goes over again and again: both in the second-level cache.
constexpr int64_t kFilterBytes = 320 * 1024, kPixelBytes = 192 * 1024;
// Sums of so few products leave filters in the first-level cache while pixels go by.
constexpr int64_t kShallow = 192;
// Images of fewer floats are in the second-level cache.
constexpr int64_t kNearFloats = 128 * 1024;
// Padded copies of so many floats are made at a time.
constexpr int64_t kCopyFloats = 1 << 20;

// Where the windows read from: the image, or its padded copy, of which the taps of a row are one run.
struct Source {
  const float* x;
  int64_t image, row, pixel;
  int64_t height, width;
  int64_t pad_top, pad_left;
  int64_t taps_across;  // of a row of the window
  int64_t run;          // channels, or all of a row

  explicit Source(const ConvLastArgs& c)
      : x(c.x),
        image(c.x_image),
        row(c.x_row),
        pixel(c.x_pixel),
        height(c.windows.in[1]),
        width(c.windows.in[2]),
        pad_top(c.windows.pad[1]),
        pad_left(c.windows.pad[2]),
        taps_across(c.windows.kernel[2]),
        run(c.in_channels / c.groups) {}

  static Source of_copy(const ConvLastArgs& c) {
    Source s(c);
    const Windows& w = c.windows;
    const auto reach = [&](int axis) {
      return (w.out[axis] - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1;
    };
    s.height = reach(1), s.width = reach(2);
    s.pixel = c.in_channels;
    s.row = s.width * s.pixel;
    s.image = s.height * s.row;
    s.pad_top = s.pad_left = 0;
    if (w.dilation[2] == 1) {
      s.taps_across = 1;
      s.run = w.kernel[2] * c.in_channels;
    }
    return s;
  }
};

// Rows of output pixels, and how they are cut into tiles.
struct Tiles {
  int64_t lines, width;  // a 1x1 convolution's image is one line
  int64_t per_line;      // 0: tiles run on from line to line
  int64_t count;

  Tiles(int64_t lines_, int64_t width_, int64_t most, bool run_on) : lines(lines_), width(width_) {
    per_line = run_on && width * 2 < most && lines > 1 ? 0 : ceil_div(width, most);
    count = per_line ? lines * per_line : ceil_div(lines * width, most);
  }
  int64_t first(int64_t tile) const {
    if (!per_line) return even_cut(tile, count, lines * width);
    return tile / per_line * width + even_cut(tile % per_line, per_line, width);
  }
};

bool one_line(const ConvLastArgs& c) {
  const Windows& w = c.windows;
  if (c.y_pixel != 0) return false;
  for (int axis = 1; axis < 3; ++axis) {
    if (w.kernel[axis] != 1 || w.stride[axis] != 1 || w.pad[axis] != 0 || w.in[axis] != w.out[axis]) return false;
  }
  return c.x_row == c.x_pixel * w.in[2] && (c.images == 1 || c.x_image == c.x_row * w.in[1]);
}

struct Plan {
  Filters filters;
  Tiles tiles;
  int64_t rows_floats = 0;                  // of a tile's pixels when they are copied together: 0, they are not
  bool line = false;                        // all pixels are one line
  bool edgeless = false;                    // no window leaves its line
  int64_t task_tiles = 0, task_panels = 0;  // counts of tasks along each side, of one group
  int64_t tasks = 0;
  int64_t copy_images = 0;  // at a time
  // Scratch, in bytes.
  int64_t zeros_at = 0, bias_at = 0, copy_at = 0, slots_at = 0;
  int64_t steps_bytes = 0, slot_bytes = 0;
};

Plan make_plan(const ConvLastArgs& c, int threads) {
  const LastOps& ops = last_ops();
  const Windows& w = c.windows;
  const bool line = one_line(c);
  const int64_t lines = line ? 1 : c.images * w.out[1], width = line ? c.images * w.out[1] * w.out[2] : w.out[2];
  Plan p{.filters = Filters(c), .tiles = Tiles(lines, width, ops.tile_pixels, c.y_pixel == 0)};
  p.line = line;
  p.edgeless = line || (conv_last_copies(c) && p.tiles.per_line > 0);
  const Filters& f = p.filters;
  const bool copies = conv_last_copies(c);
  // Pixels whose distance is a large power of two would all lie in few sets of the first-level cache.
  const int64_t distance = w.stride[2] * (copies ? c.in_channels : c.x_pixel) * 4;
  const int64_t sets = distance % 64 ? 64 : 64 / std::gcd<int64_t>(distance / 64, 64);
  if (!copies && ops.tile_pixels / sets > 4) p.rows_floats = (f.block * f.taps / 16 | 1) * 16 + 32;

  const int64_t panel_bytes = f.block * f.taps * 2 * f.lanes * 4;
  int64_t panels = std::clamp<int64_t>(kFilterBytes / panel_bytes, 1, f.panels);
  p.task_panels = ceil_div(f.panels, panels);
  panels = ceil_div(f.panels, p.task_panels);
  const int64_t tile_bytes =
      ops.tile_pixels * (panels * 2 * f.lanes + w.stride[1] * w.stride[2] * f.in) * int64_t{sizeof(float)};
  int64_t tiles = std::clamp<int64_t>(kPixelBytes / tile_bytes, 4, p.tiles.count);
  const int64_t work = p.tiles.count * ops.tile_pixels * f.in * f.taps * c.out_channels;
  const auto count = [&] { return c.groups * p.task_panels * ceil_div(p.tiles.count, tiles); };
  if (threads > 1 && work >= kConvParallelWork) {
    const int64_t wanted = int64_t{4} * threads;
    while (count() < wanted && tiles > 2) tiles = (tiles + 1) / 2;
    while (count() < wanted && panels > 1) panels = (panels + 1) / 2, p.task_panels = ceil_div(f.panels, panels);
    while (count() < threads && tiles > 1) tiles = (tiles + 1) / 2;
  }
  p.task_tiles = ceil_div(p.tiles.count, tiles);
  p.tasks = c.groups * p.task_panels * p.task_tiles;

  p.bias_at = round_up(f.in * 4, 64);
  p.copy_at = p.bias_at + round_up(c.groups * f.padded_out * 4, 64);
  p.slots_at = p.copy_at;
  if (copies) {
    const int64_t image = Source::of_copy(c).image;
    p.copy_images = std::clamp<int64_t>(kCopyFloats / image, 1, c.images);
    p.slots_at += round_up(p.copy_images * image * 4, 64);
  }
  const int64_t segments = f.taps;
  p.steps_bytes = round_up(segments * 8, 64);
  p.slot_bytes = 2 * p.steps_bytes + round_up(segments * ops.tile_pixels * 8, 64) + p.rows_floats * ops.tile_pixels * 4;
  return p;
}

// One task: a range of tiles and of panels. Blocks of channels are its outer loop: y holds the unfinished sums.
class Task {
 public:
  Task(const ConvLastArgs& c, const Plan& p, const Source& source, const float* zeros, const float* bias,
       std::byte* slot)
      : c_(c), p_(p), f_(p.filters), s_(source), ops_(last_ops()), zeros_(zeros), bias_(bias) {
    wide_steps_ = reinterpret_cast<int64_t*>(slot);
    narrow_steps_ = reinterpret_cast<int64_t*>(slot + p.steps_bytes);
    pointers_ = reinterpret_cast<const float**>(slot + 2 * p.steps_bytes);
    rows_ = reinterpret_cast<float*>(slot + p.slot_bytes) - p.rows_floats * ops_.tile_pixels;
    in_tile_ = in_registers(c.epilogue);
    const bool dense = c.y_pixel == 0;
    y_pixel_ = dense ? c.out_channels : c.y_pixel;
    y_row_ = dense ? y_pixel_ * c.windows.out[2] : c.y_row;
    y_image_ = dense ? y_row_ * c.windows.out[1] : c.y_image;
    // Pixels of one line are fetched by the kernel, unless they are copied.
    far_ = source.height * source.row > kNearFloats && p.tiles.per_line && (!p.line || p.rows_floats);
  }

  void run(int64_t index) {
    const int64_t tiles = index % p_.task_tiles, panels = index / p_.task_tiles % p_.task_panels;
    group_ = index / p_.task_tiles / p_.task_panels;
    first_panel_ = even_cut(panels, p_.task_panels, f_.panels);
    end_panel_ = even_cut(panels + 1, p_.task_panels, f_.panels);
    const int64_t begin = even_cut(tiles, p_.task_tiles, p_.tiles.count),
                  end = even_cut(tiles + 1, p_.task_tiles, p_.tiles.count);
    if (p_.edgeless && f_.blocks == 1 && f_.in * f_.taps <= kShallow) return run_lines(begin, end);
    ahead_panel_ = end_panel_ - 1;
    for (block_ = 0; block_ < f_.blocks; ++block_) {
      for (int64_t tile = begin; tile < end; ++tile) {
        first_ = p_.tiles.first(tile);
        pixels_ = p_.tiles.first(tile + 1) - first_;
        aim();
        if (far_ && tile + 1 < end) fetch(p_.tiles.first(tile + 1), p_.tiles.first(tile + 2));
        for (int64_t panel = first_panel_; panel < end_panel_; ++panel) run_panel(panel);
      }
    }
  }

 private:
  // Without edges every tile of a line is the one before, moved: all of them go through a panel in one call.
  void run_lines(int64_t begin, int64_t end) {
    ahead_panel_ = first_panel_;
    const int64_t width = p_.tiles.width, stop = p_.tiles.first(end);
    for (int64_t from = p_.tiles.first(begin); from < stop;) {
      const int64_t to = std::min(stop, (from / width + 1) * width), pixels = to - from;
      const int64_t count = ceil_div(pixels, ops_.tile_pixels), few = pixels / count, larger = pixels - count * few;
      run_equal(from, few + 1, larger);
      run_equal(from + larger * (few + 1), few, count - larger);
      from = to;
    }
  }

  void run_equal(int64_t first, int64_t pixels, int64_t count) {
    if (count == 0) return;
    first_ = first, pixels_ = pixels, repeat_ = count;
    aim();
    for (int64_t panel = first_panel_; panel < end_panel_; ++panel) run_panel(panel);
  }

  // Finds the pixels of the tile and its taps.
  void aim() {
    const Windows& w = c_.windows;
    int64_t at[kMaxTilePixels], top[kMaxTilePixels], left[kMaxTilePixels];
    int64_t x = first_ % p_.tiles.width, line = first_ / p_.tiles.width;
    int64_t y = line % w.out[1], image = line / w.out[1];  // both 0 in one line
    y_at_ = image * y_image_ + y * y_row_ + x * y_pixel_;
    const int64_t first_channel = group_ * f_.in + block_ * f_.block;
    for (int64_t r = 0; r < pixels_; ++r) {
      top[r] = y * w.stride[1] - s_.pad_top, left[r] = x * w.stride[2] - s_.pad_left;
      at[r] = image * s_.image + top[r] * s_.row + left[r] * s_.pixel + first_channel;
      if (++x == p_.tiles.width) {
        x = 0;
        if (++y == w.out[1]) y = 0, ++image;
      }
    }
    const int64_t endless = std::numeric_limits<int64_t>::max();
    const int64_t height = p_.line ? endless : s_.height, width = p_.line ? endless : s_.width;
    length_ = s_.taps_across == c_.windows.kernel[2] ? f_.block_in(block_) : s_.run;
    segments_ = 0;
    ahead_ = 0;
    if (p_.line) ahead_ = pixels_ * s_.pixel;
    const int64_t bottom = (w.kernel[1] - 1) * w.dilation[1], right = (s_.taps_across - 1) * w.dilation[2];
    bool inner = true, between_sides = true;
    for (int64_t r = 0; r < pixels_; ++r) {
      between_sides = between_sides && left[r] >= 0 && left[r] + right < width;
      inner = inner && top[r] >= 0 && top[r] + bottom < height;
    }
    inner = inner && between_sides;
    int64_t taps_across = s_.taps_across;
    // All channels of neighbouring taps are one run.
    if (between_sides && f_.blocks == 1 && s_.pixel == f_.in && w.dilation[2] == 1) {
      length_ *= taps_across;
      taps_across = 1;
    }
    int64_t tap = 0;
    const float** pointer = pointers_;
    for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
      for (int64_t kw = 0; kw < taps_across; ++kw, ++tap) {
        const int64_t down = kh * w.dilation[1], across = kw * w.dilation[2];
        const float* from = s_.x + down * s_.row + across * s_.pixel;
        bool any = inner;
        if (inner) {
          for (int64_t r = 0; r < pixels_; ++r) pointer[r] = from + at[r];
        } else {
          for (int64_t r = 0; r < pixels_; ++r) {
            const bool inside = static_cast<uint64_t>(top[r] + down) < static_cast<uint64_t>(height) &&
                                static_cast<uint64_t>(left[r] + across) < static_cast<uint64_t>(width);
            pointer[r] = inside ? from + at[r] : zeros_;
            any = any || inside;
          }
        }
        if (!any) continue;
        narrow_steps_[segments_] = tap * length_ * f_.lanes;
        wide_steps_[segments_] = 2 * narrow_steps_[segments_];
        ++segments_;
        pointer += pixels_;
      }
    }
    if (p_.rows_floats) gather_rows(tap);
  }

  // What the windows of pixels [from, to) of one line read, from far away: in time for the next tile. The processor
  // would not see so many short runs coming.
  void fetch(int64_t from, int64_t to) const {
    const Windows& w = c_.windows;
    const int64_t line = from / p_.tiles.width, x = from % p_.tiles.width;
    const float* image = s_.x + line / w.out[1] * s_.image + group_ * f_.in + block_ * f_.block;
    const int64_t channels = std::min(f_.block_in(block_), s_.pixel);
    const int64_t left = x * w.stride[2] - s_.pad_left;
    const int64_t right = left + (to - from - 1) * w.stride[2] + (s_.taps_across - 1) * w.dilation[2] + 1;
    const int64_t begin = std::max<int64_t>(left, 0), end = p_.line ? right : std::min(right, s_.width);
    for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
      const int64_t y = line % w.out[1] * w.stride[1] - s_.pad_top + kh * w.dilation[1];
      if (y < 0 || y >= s_.height) continue;
      for (int64_t column = begin; column < end; ++column) {
        const float* pixel = image + y * s_.row + column * s_.pixel;
        for (int64_t i = 0; i < channels; i += 16) __builtin_prefetch(pixel + i, 0, 2);
      }
    }
  }

  // Copies the tile's pixels to rows that share no sets.
  void gather_rows(int64_t taps) {
    const float** pointer = pointers_;
    for (int64_t s = 0; s < segments_; ++s) {
      for (int64_t r = 0; r < pixels_; ++r, ++pointer) {
        float* to = rows_ + r * p_.rows_floats + s * length_;
        std::memcpy(to, *pointer, static_cast<size_t>(length_) * sizeof(float));
        *pointer = to;
      }
    }
    if (segments_ < taps) return;
    length_ *= segments_;
    segments_ = 1;
  }

  void run_panel(int64_t panel) {
    const bool wide = f_.vectors(panel) == 2, last = block_ + 1 == f_.blocks;
    const int64_t channel = group_ * f_.out + panel * 2 * f_.lanes;
    const int64_t at = y_at_ + channel;
    const Epilogue& e = c_.epilogue;
    const Bounds bounds = bounds_of(e);
    LastTile t{.rows = pointers_,
               .steps = wide ? wide_steps_ : narrow_steps_,
               .segments = segments_,
               .length = length_,
               .b = static_cast<const float*>(c_.packed_filters) + f_.at(group_, block_, panel),
               .y = c_.y + at,
               .y_pixel = y_pixel_,
               .bias = nullptr,
               .residual = nullptr,
               .columns = f_.columns(panel),
               .repeat = repeat_,
               .rows_step = pixels_ * c_.windows.stride[2] * s_.pixel,
               .ahead = panel == ahead_panel_ ? ahead_ : 0,
               .accumulate = block_ > 0,
               .clamp = in_tile_ && last && e.activation != Activation::none,
               .low = bounds.low,
               .high = bounds.high};
    if (in_tile_) {
      if (bias_) t.bias = bias_ + group_ * f_.padded_out + panel * 2 * f_.lanes;
      if (e.residual && last) t.residual = e.residual + at;
    }
    (wide ? ops_.tiles : ops_.narrow_tiles)[pixels_ - 1](t);
    if (in_tile_ || !last) return;
    finish_pixels(e, t.y, repeat_ * pixels_, y_pixel_, channel, t.columns, e.residual ? e.residual + at : nullptr);
  }

  const ConvLastArgs& c_;
  const Plan& p_;
  const Filters& f_;
  const Source& s_;
  const LastOps& ops_;
  const float* zeros_;
  const float* bias_;
  int64_t* wide_steps_;
  int64_t* narrow_steps_;
  const float** pointers_;
  float* rows_;
  bool in_tile_, far_;
  int64_t group_ = 0, block_ = 0, first_panel_ = 0, end_panel_ = 0;
  int64_t first_ = 0, pixels_ = 0, repeat_ = 1, segments_ = 0, length_ = 0;
  int64_t ahead_ = 0, ahead_panel_ = 0;
  int64_t y_pixel_, y_row_, y_image_, y_at_ = 0;
};

// One row of an image's copy, its padding included.
void copy_row(const ConvLastArgs& c, const Source& to, const float* image, int64_t row, float* out) {
  const Windows& w = c.windows;
  const int64_t y = row - w.pad[1];
  if (y < 0 || y >= w.in[1]) {
    std::fill_n(out, to.row, 0.0f);
    return;
  }
  const int64_t begin = std::clamp<int64_t>(w.pad[2], 0, to.width);
  const int64_t end = std::clamp<int64_t>(w.in[2] + w.pad[2], begin, to.width);
  std::fill_n(out, begin * to.pixel, 0.0f);
  std::fill_n(out + end * to.pixel, (to.width - end) * to.pixel, 0.0f);
  const float* in = image + y * c.x_row + (begin - w.pad[2]) * c.x_pixel;
  out += begin * to.pixel;
  if (c.x_channel == 1 && c.x_pixel == to.pixel) {
    std::copy_n(in, (end - begin) * to.pixel, out);
  } else if (to.pixel == 3 && c.x_pixel == 1) {
    last_ops().interleave3(in, c.x_channel, end - begin, out);
  } else {
    for (int64_t x = begin; x < end; ++x, in += c.x_pixel) {
      for (int64_t channel = 0; channel < to.pixel; ++channel) *out++ = in[channel * c.x_channel];
    }
  }
}

}  // namespace

void conv_direct(const ConvLastArgs& args, std::byte* scratch, ThreadPool& pool) {
  const Plan whole = make_plan(args, pool.threads());
  auto* zeros = reinterpret_cast<float*>(scratch + whole.zeros_at);
  auto* bias = reinterpret_cast<float*>(scratch + whole.bias_at);
  auto* copy = reinterpret_cast<float*>(scratch + whole.copy_at);
  const Filters& f = whole.filters;
  std::fill_n(zeros, f.in, 0.0f);
  if (args.epilogue.column_bias) {
    for (int64_t g = 0; g < args.groups; ++g) {
      float* end = std::copy_n(args.epilogue.column_bias + g * f.out, f.out, bias + g * f.padded_out);
      std::fill_n(end, f.padded_out - f.out, 0.0f);
    }
  }
  const auto run = [&](const ConvLastArgs& c, const Plan& p, const Source& source) {
    Slots slots(scratch + p.slots_at, static_cast<size_t>(p.slot_bytes), slot_count(pool.threads()));
    pool.parallel_for(p.tasks, 1, [&](int64_t begin, int64_t end) {
      const Slots::Lease lease(slots);
      Task task(c, p, source, zeros, c.epilogue.column_bias ? bias : nullptr, lease.memory());
      for (int64_t i = begin; i < end; ++i) task.run(i);
    });
  };
  if (!whole.copy_images) return run(args, whole, Source(args));
  Source source = Source::of_copy(args);
  source.x = copy;
  const int64_t out = args.windows.out_pixels() * args.out_channels;
  for (int64_t first = 0; first < args.images; first += whole.copy_images) {
    ConvLastArgs c = args;
    c.images = std::min(whole.copy_images, args.images - first);
    c.y += first * out;
    if (c.epilogue.residual) c.epilogue.residual += first * out;
    const int64_t grain = std::max<int64_t>(1, 16384 / source.row);
    pool.parallel_for(c.images * source.height, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        copy_row(args, source, args.x + (first + i / source.height) * args.x_image, i % source.height,
                 copy + i * source.row);
      }
    });
    Plan p = make_plan(c, pool.threads());
    p.slots_at = whole.slots_at;
    run(c, p, source);
  }
}

size_t direct_packed_bytes(const ConvLastArgs& c) {
  return static_cast<size_t>(c.groups * Filters(c).group_floats() * 4);
}

void direct_pack(const ConvLastArgs& c, const float* filters, const Taps& from_taps, void* out, ThreadPool& pool) {
  auto* packed = static_cast<float*>(out);
  const Filters f(c);
  const Windows& w = c.windows;
  pool.parallel_for(c.groups * f.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / f.panels, panel = i % f.panels;
      const int64_t width = f.vectors(panel) * f.lanes, columns = f.columns(panel), filter = f.in * from_taps.all;
      const float* from = filters + (group * f.out + panel * 2 * f.lanes) * filter;
      for (int64_t b = 0; b < f.blocks; ++b) {
        const int64_t channels = f.block_in(b);
        for (int64_t channel = 0; channel < channels; ++channel) {
          float* row = packed + f.at(group, b, panel) + channel * width;
          const float* one = from + (b * f.block + channel) * from_taps.all;
          for (int64_t h = 0; h < w.kernel[1]; ++h) {
            for (int64_t across = 0; across < w.kernel[2]; ++across, row += channels * width) {
              const float* in = one + from_taps.at(h, across);
              for (int64_t j = 0; j < columns; ++j) row[j] = in[j * filter];
              for (int64_t j = columns; j < width; ++j) row[j] = 0;
            }
          }
        }
      }
    }
  });
}

size_t direct_scratch_bytes(const ConvLastArgs& c, int threads) {
  const Plan p = make_plan(c, threads);
  return static_cast<size_t>(p.slots_at + slot_count(threads) * p.slot_bytes);
}

}  // namespace transmuter::cpu
