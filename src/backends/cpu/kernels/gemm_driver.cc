// The loops around the register tile: which part of the result a task computes, how k is blocked, what is packed when.
#include "backends/cpu/kernels/gemm_driver.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/rounding.h"
#include "backends/cpu/kernels/slots.h"
#include "base/small_vector.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kCacheLine = 64;
// Fewer multiply-adds than this (some 5 µs) do not pay for waking threads.
constexpr int64_t kParallelWork = 256 * 1024;
// Columns of B that one task goes through per block of k: kBlockK of them stay in the second-level cache.
constexpr int64_t kTaskColumns = 256;
// With so few columns A is read as it lies, in longer blocks than where it is packed.
constexpr int64_t kFewColumns = 64, kInPlaceBlockK = 512;
// Rows of unfinished sums that a task keeps when k needs several blocks.
constexpr int64_t kGroupRows = 144;

int64_t storage_size(Storage storage) { return storage == Storage::f32 ? 4 : 2; }

// Whether a panel read in place through its row stride stays in an 8-way second-level cache of 512 KB: a stride by a
// large power of two maps all rows to few sets.
bool spread(int64_t row_stride, int64_t k, int64_t columns) {
  constexpr int64_t kSets = 1024, kWays = 8;
  const int64_t lines = std::max<int64_t>(1, row_stride * 4 / kCacheLine);
  return k * columns * 4 / kCacheLine <= kSets / std::gcd(lines, kSets) * kWays;
}

enum class BSource {
  packed,            // f32 panels: read in place
  packed_half,       // half panels, few rows: widened in the tile
  widened,           // half panels, many rows: one task widens its columns into its scratch
  direct,            // read in place through its row stride; the last, partial panel is packed
  row,               // one row of A: read in place, row after row
  dots,              // few rows of A and a transposed B: its columns are read in place
  packed_here,       // one task packs its columns into its scratch
  indexed,           // read in place through a table of rows
  few_bits,          // panels of few bits, few rows: widened in the tile
  widened_few_bits,  // the same, many rows: one task widens its columns into its scratch
};

// Whether rows of A so far apart stay in an 8-way first-level cache of 32 KB while the tile goes along them.
bool rows_spread(int64_t a_row, int64_t rows) {
  constexpr int64_t kSets = 64, kWays = 8;
  return rows <= kSets / std::gcd(std::max<int64_t>(1, a_row * 4 / kCacheLine), kSets) * kWays;
}

struct Plan {
  int64_t row_panels, column_panels;
  int64_t block_k, blocks;
  int64_t task_rows, task_columns;  // counts of tasks along each side, not sizes
  int64_t most_columns;             // of one task, whole panels
  int64_t batches, tasks;
  BSource source;
  bool a_in_place;
  int64_t dot_columns;  // the last few columns, as dot products
  // Scratch of one task, in floats.
  int64_t a_floats, b_floats, tile_floats;
  int64_t slot_bytes() const { return (a_floats + b_floats + tile_floats) * 4; }
};

Plan make_plan(const GemmOps& ops, const GemmArgs& g, int threads, bool indexed_a, bool indexed_b) {
  Plan p;
  // Even panels: 16 rows are 8 + 8, not 14 + 2. Depends on m alone, so that no partition changes a row's sum.
  p.row_panels = ceil_div(g.m, ops.tile_rows);
  p.column_panels = ceil_div(g.n, ops.tile_columns);
  const bool plain = !indexed_a && !indexed_b && !g.b_bits.bits && g.b_storage == Storage::f32;
  // Where few columns follow, copying A costs about as much as the product.
  p.a_in_place =
      plain && g.m > 1 && g.n <= kFewColumns && g.a_column == 1 && rows_spread(g.a_row, std::min(g.m, ops.tile_rows));
  const int64_t longest = p.a_in_place ? kInPlaceBlockK : kBlockK;
  p.blocks = g.m == 1 ? 1 : std::max<int64_t>(1, ceil_div(g.k, longest));
  p.block_k = p.blocks == 1 ? g.k : std::min(longest, round_up(ceil_div(g.k, p.blocks), 16));
  if (p.blocks > 1) p.blocks = ceil_div(g.k, p.block_k);
  p.dot_columns = 0;

  if (indexed_b) {
    p.source = BSource::indexed;
  } else if (g.b_bits.bits) {
    p.source = g.m <= ops.few_bits_rows ? BSource::few_bits : BSource::widened_few_bits;
  } else if (g.b_packed) {
    p.source = g.b_storage == Storage::f32 ? BSource::packed
               : p.row_panels <= 2         ? BSource::packed_half
                                           : BSource::widened;
  } else {
    const bool contiguous = g.b_storage == Storage::f32 && g.b_column == 1;
    const bool direct = contiguous && (p.row_panels <= 2 || spread(g.b_row, p.block_k, ops.tile_columns));
    p.source = direct ? BSource::direct : BSource::packed_here;
    if (plain && g.m == 1 && contiguous) {
      p.source = BSource::row;
    } else if (plain && g.m <= kDotRows && g.b_row == 1 && g.n > 1 && (g.m == 1 || g.a_column == 1)) {
      p.source = BSource::dots;
      p.blocks = 1;
      p.block_k = g.k;
    } else if (plain) {
      const int64_t last = g.n - (p.column_panels - 1) * ops.tile_columns;
      for (const int64_t whole : {int64_t{0}, ops.lanes}) {
        if (last > whole && last - whole <= ops.lanes / 4) p.dot_columns = last - whole;
      }
    }
  }

  p.batches = 1;
  for (int i = 0; i < g.batch_rank; ++i) p.batches *= g.batch[i];
  int64_t columns = std::max<int64_t>(1, kTaskColumns / ops.tile_columns);
  if (p.source == BSource::packed_here && g.k > 1024) columns = std::max<int64_t>(1, columns / 2);
  const bool own_b =
      p.source == BSource::packed_here || p.source == BSource::widened || p.source == BSource::widened_few_bits;
  int64_t rows = own_b ? p.row_panels : std::min(p.row_panels, std::max<int64_t>(1, kGroupRows / ops.tile_rows));
  const auto count = [&] { return p.batches * ceil_div(p.row_panels, rows) * ceil_div(p.column_panels, columns); };
  if (threads > 1 && g.m * g.n * g.k * p.batches >= kParallelWork) {
    const int64_t wanted = int64_t{4} * threads;
    while (count() < wanted && columns > 2) columns = (columns + 1) / 2;
    while (count() < wanted && rows > (own_b ? 8 : 2)) rows = (rows + 1) / 2;
    while (count() < threads && columns > 1) columns = (columns + 1) / 2;
    while (count() < threads && rows > 1) rows = (rows + 1) / 2;
  }
  p.task_rows = ceil_div(p.row_panels, rows);
  p.task_columns = ceil_div(p.column_panels, columns);
  p.tasks = p.batches * p.task_rows * p.task_columns;
  p.most_columns = ceil_div(p.column_panels, p.task_columns) * ops.tile_columns;

  const int64_t line = kCacheLine / 4;
  const bool one_row = g.m == 1 && !indexed_a, a_stays = p.a_in_place || p.source == BSource::dots;
  p.a_floats = g.a_column == 1 && (one_row || a_stays) ? 0
               : one_row                               ? round_up(g.k, line)
                                                       : ops.tile_rows * kPanelStride;
  p.b_floats = 0;
  if (own_b) p.b_floats = round_up(p.most_columns * g.k, line);
  if (p.source == BSource::direct && g.n % ops.tile_columns != 0) p.b_floats = round_up(ops.tile_columns * g.k, line);
  p.b_floats += p.dot_columns * round_up(g.k, line);
  const int64_t group = std::min(g.m, kGroupRows + ops.tile_rows);
  const bool by_rows = p.source == BSource::row || p.source == BSource::dots;
  p.tile_floats = p.blocks > 1 ? group * p.most_columns
                  : by_rows    ? g.m * p.most_columns
                               : ops.tile_rows * ops.tile_columns;
  p.tile_floats = round_up(p.tile_floats, line);
  return p;
}

// One batch element's pointers.
struct Operands {
  const float* a;
  const std::byte* b;
  float* c;
  const float* residual;
  const float* column_bias;
  const float* row_bias;
};

template <class T>
T* moved(T* pointer, int64_t elements) {
  return pointer ? pointer + elements : pointer;
}

Operands operands_of(const GemmArgs& g, int64_t index) {
  int64_t a = 0, b = 0, c = 0, residual = 0, column_bias = 0, row_bias = 0;
  for (int i = g.batch_rank - 1; i >= 0; --i) {
    const int64_t at = index % g.batch[i];
    index /= g.batch[i];
    a += at * g.a_batch[i];
    b += at * g.b_batch[i];
    c += at * g.c_batch[i];
    residual += at * g.residual_batch[i];
    column_bias += at * g.column_bias_batch[i];
    row_bias += at * g.row_bias_batch[i];
  }
  return {g.a + a,
          static_cast<const std::byte*>(g.b) + (g.b_bits.bits ? 0 : b * storage_size(g.b_storage)),
          g.c + c,
          moved(g.epilogue.residual, residual),
          moved(g.epilogue.column_bias, column_bias),
          moved(g.epilogue.row_bias, row_bias)};
}

class Task {
 public:
  Task(const GemmOps& ops, const GemmArgs& g, const Plan& p, const IndexedA* indexed_a, const IndexedB* indexed_b,
       std::byte* scratch)
      : ops_(ops), g_(g), p_(p), indexed_a_(indexed_a), indexed_b_(indexed_b), nr_(ops.tile_columns) {
    in_place_ = g.epilogue.identity() && g.c_column == 1 && (!indexed_b || indexed_b->pitch == indexed_b->width);
    a_pack_ = reinterpret_cast<float*>(scratch);
    if (g.b_bits.bits) layout_ = few_bits_layout(g.k, g.b_bits, nr_);
    b_pack_ = a_pack_ + p.a_floats;
    tile_ = b_pack_ + p.b_floats;
    dots_row_ = round_up(g.k, kCacheLine / 4);
    dots_ = tile_ - p.dot_columns * dots_row_;
  }

  void run(int64_t index) {
    const int64_t row_task = index % p_.task_rows;
    const int64_t column_task = index / p_.task_rows % p_.task_columns;
    o_ = operands_of(g_, index / (p_.task_rows * p_.task_columns));
    first_column_ = even_cut(column_task, p_.task_columns, p_.column_panels);
    end_column_ = even_cut(column_task + 1, p_.task_columns, p_.column_panels);
    const int64_t first_row = even_cut(row_task, p_.task_rows, p_.row_panels);
    const int64_t end_row = even_cut(row_task + 1, p_.task_rows, p_.row_panels);
    if (p_.source == BSource::row || p_.source == BSource::dots) return whole_rows();
    prepare_b();
    if (p_.blocks == 1) {
      for (int64_t panel = first_row; panel < end_row; ++panel) row_panel(panel, 0, nullptr);
      return;
    }
    // Groups of row panels, so that their unfinished sums fit the scratch while k goes by.
    for (int64_t begin = first_row; begin < end_row;) {
      int64_t end = begin + 1;
      while (end < end_row && row_of(end + 1) - row_of(begin) <= kGroupRows) ++end;
      for (int64_t block = 0; block < p_.blocks; ++block) {
        for (int64_t panel = begin; panel < end; ++panel) {
          row_panel(panel, block, tile_ + (row_of(panel) - row_of(begin)) * p_.most_columns);
        }
      }
      begin = end;
    }
  }

 private:
  int64_t row_of(int64_t panel) const { return even_cut(panel, p_.row_panels, g_.m); }

  // All rows of A, few, with the task's columns of a B that lies as it is.
  void whole_rows() {
    const int64_t column = first_column_ * nr_, columns = std::min(g_.n, end_column_ * nr_) - column;
    const float* a = o_.a;
    if (p_.a_floats) {
      ops_.pack_a(1, g_.k, a, g_.a_row, g_.a_column, a_pack_);
      a = a_pack_;
    }
    const float* b = reinterpret_cast<const float*>(o_.b) + column * g_.b_column;
    float* out = in_place_ ? o_.c + column : tile_;
    const int64_t out_row = in_place_ ? g_.c_row : p_.most_columns;
    if (p_.source == BSource::row) {
      ops_.row_product(a, b, g_.b_row, g_.k, columns, out);
    } else {
      ops_.dots({.x = a,
                 .x_row = g_.a_row,
                 .x_rows = g_.m,
                 .y = b,
                 .y_row = g_.b_column,
                 .y_rows = columns,
                 .k = g_.k,
                 .out = out,
                 .out_x = out_row,
                 .out_y = 1,
                 .accumulate = false});
    }
    if (in_place_) return;
    for (int64_t j = 0; j < columns; j += nr_) {
      finish(tile_ + j, out_row, 0, g_.m, column + j, std::min(nr_, columns - j));
    }
  }

  // The columns of a panel that a tile computes.
  int64_t tile_columns_of(int64_t panel) const {
    const int64_t columns = std::min(nr_, g_.n - panel * nr_);
    return panel + 1 == p_.column_panels ? columns - p_.dot_columns : columns;
  }

  void pack_last(float* out) const {
    const int64_t panel = p_.column_panels - 1;
    if (tile_columns_of(panel) > 0) pack_panel(panel, out);
    const float* b = reinterpret_cast<const float*>(o_.b) + (g_.n - p_.dot_columns) * g_.b_column;
    for (int64_t j = 0; j < p_.dot_columns; ++j) {
      for (int64_t p = 0; p < g_.k; ++p) dots_[j * dots_row_ + p] = b[p * g_.b_row + j * g_.b_column];
    }
  }

  void prepare_b() {
    switch (p_.source) {
      case BSource::row:
      case BSource::dots:
      case BSource::packed:
      case BSource::packed_half:
      case BSource::indexed:
      case BSource::few_bits:
        return;
      case BSource::widened_few_bits:
        for (int64_t j = first_column_; j < end_column_; ++j) {
          ops_.widen_few_bits(g_.k, o_.b + j * layout_.panel_bytes, g_.b_bits, layout_,
                              b_pack_ + (j - first_column_) * nr_ * g_.k);
        }
        return;
      case BSource::widened: {
        const auto* panels = reinterpret_cast<const uint16_t*>(o_.b) + first_column_ * nr_ * g_.k;
        ops_.widen((end_column_ - first_column_) * nr_ * g_.k, panels, g_.b_storage, b_pack_);
        return;
      }
      case BSource::direct:
        if (end_column_ == p_.column_panels && g_.n % nr_ != 0) pack_last(b_pack_);
        return;
      case BSource::packed_here:
        for (int64_t j = first_column_; j < end_column_; ++j) {
          float* const out = b_pack_ + (j - first_column_) * nr_ * g_.k;
          j + 1 == p_.column_panels ? pack_last(out) : pack_panel(j, out);
        }
        return;
    }
  }

  void pack_panel(int64_t panel, float* out) const {
    const int64_t columns = std::min(nr_, g_.n - panel * nr_);
    if (g_.b_storage == Storage::f32) {
      const float* b = reinterpret_cast<const float*>(o_.b) + panel * nr_ * g_.b_column;
      ops_.pack_b(g_.k, columns, b, g_.b_row, g_.b_column, out);
      return;
    }
    // Halves are packed a stretch of k at a time, then widened.
    const auto* b = reinterpret_cast<const uint16_t*>(o_.b) + panel * nr_ * g_.b_column;
    constexpr int64_t kRun = 64;
    uint16_t halves[kRun * kMaxTileColumns];
    for (int64_t k = 0; k < g_.k; k += kRun) {
      const int64_t run = std::min(kRun, g_.k - k);
      ops_.pack_b_half(run, columns, b + k * g_.b_row, g_.b_row, g_.b_column, halves);
      ops_.widen(run * nr_, halves, g_.b_storage, out + k * nr_);
    }
  }

  // B's panel at row k0 and the distance of its rows.
  const void* panel_of_b(int64_t panel, int64_t k0, int64_t* row) const {
    *row = nr_;
    switch (p_.source) {
      case BSource::packed:
        return reinterpret_cast<const float*>(o_.b) + (panel * g_.k + k0) * nr_;
      case BSource::packed_half:
        return reinterpret_cast<const uint16_t*>(o_.b) + (panel * g_.k + k0) * nr_;
      case BSource::direct:
        if ((panel + 1) * nr_ > g_.n) return b_pack_ + k0 * nr_;
        *row = g_.b_row;
        return reinterpret_cast<const float*>(o_.b) + k0 * g_.b_row + panel * nr_;
      case BSource::indexed:
        return reinterpret_cast<const float*>(o_.b) + panel * nr_;
      case BSource::few_bits:
        return o_.b + panel * layout_.panel_bytes;
      case BSource::row:
      case BSource::dots:
      case BSource::widened:
      case BSource::widened_few_bits:
      case BSource::packed_here:
        break;
    }
    return b_pack_ + ((panel - first_column_) * g_.k + k0) * nr_;
  }

  const GemmOps::Tile* tiles(int64_t columns) const {
    if (p_.source == BSource::packed_half) return g_.b_storage == Storage::f16 ? ops_.f16_tiles : ops_.bf16_tiles;
    return columns <= ops_.lanes ? ops_.narrow_tiles : ops_.tiles;
  }

  const GemmOps::FewBitsTile* few_bits_tiles() const {
    return ops_.few_bits_tiles[g_.b_bits.table ? 3 : g_.b_bits.bits == 2 ? 0 : g_.b_bits.bits == 4 ? 1 : 2];
  }

  void pack_pixels(int64_t row, int64_t rows, int64_t k0, int64_t k) const {
    for (int64_t r = 0; r < rows;) {
      const int64_t y = (row + r) / indexed_a_->width, x = (row + r) % indexed_a_->width;
      const int64_t run = std::min(rows - r, indexed_a_->width - x);
      ops_.pack_a_run(run, k, o_.a + y * indexed_a_->pitch + x, indexed_a_->columns + k0, a_pack_ + r * kPanelStride);
      r += run;
    }
  }

  // All columns of the task for one panel of rows and one block of k. `sums` holds the panel's unfinished sums.
  void row_panel(int64_t panel, int64_t block, float* sums) {
    const int64_t row = row_of(panel), rows = row_of(panel + 1) - row;
    const int64_t k0 = block * p_.block_k, k = std::min(p_.block_k, g_.k - k0);
    const float* a = o_.a + row * g_.a_row + k0 * g_.a_column;
    if (indexed_a_) {
      pack_pixels(row, rows, k0, k);
      a = a_pack_;
    } else if (p_.a_floats) {
      ops_.pack_a(rows, k, a, g_.a_row, g_.a_column, a_pack_);
      a = a_pack_;
    }
    const int64_t a_row = p_.a_in_place ? g_.a_row : kPanelStride;
    const bool last = block + 1 == p_.blocks;
    for (int64_t j = first_column_; j < end_column_; ++j) {
      const int64_t column = j * nr_, columns = std::min(nr_, g_.n - column);
      const int64_t by_tile = tile_columns_of(j);
      const bool in_place = !sums && in_place_ && (columns == nr_ || by_tile < columns || whole_vectors(columns));
      float* out = in_place ? o_.c + row * g_.c_row + column : sums ? sums + (j - first_column_) * nr_ : tile_;
      const int64_t out_row = in_place ? g_.c_row : sums ? p_.most_columns : nr_;
      int64_t b_row;
      const void* b = panel_of_b(j, k0, &b_row);
      if (indexed_b_) {
        const auto* table = columns <= ops_.lanes ? ops_.narrow_indexed_tiles : ops_.indexed_tiles;
        table[rows - 1](a, static_cast<const float*>(b), indexed_b_->rows + k0, k, out, out_row, block > 0);
      } else if (p_.source == BSource::few_bits) {
        few_bits_tiles()[rows - 1](a, static_cast<const std::byte*>(b), g_.b_bits, layout_, k0, k, out, out_row,
                                   block > 0);
      } else if (p_.a_in_place) {
        const auto* table = by_tile <= ops_.lanes ? ops_.narrow_tiles_in_place : ops_.tiles_in_place;
        if (by_tile) table[rows - 1](a, a_row, static_cast<const float*>(b), b_row, k, out, out_row, block > 0);
      } else if (by_tile) {
        tiles(by_tile)[rows - 1](a, b, b_row, k, out, out_row, block > 0);
      }
      if (by_tile < columns) {
        ops_.dots({.x = dots_ + k0,
                   .x_row = dots_row_,
                   .x_rows = p_.dot_columns,
                   .y = a,
                   .y_row = a_row,
                   .y_rows = rows,
                   .k = k,
                   .out = out + by_tile,
                   .out_x = 1,
                   .out_y = out_row,
                   .accumulate = block > 0});
      }
      if (!last || in_place) continue;
      if (indexed_b_) {
        finish_pixels(out, out_row, row, rows, column, columns);
      } else {
        finish(out, out_row, row, rows, column, columns);
      }
    }
  }

  // A narrow tile writes one vector: the result's own row has room for it.
  bool whole_vectors(int64_t columns) const {
    return columns == ops_.lanes && p_.source != BSource::packed_half && p_.source != BSource::few_bits;
  }

  void finish(const float* tile, int64_t tile_stride, int64_t row, int64_t rows, int64_t column,
              int64_t columns) const {
    const Epilogue& e = g_.epilogue;
    ops_.finish({.tile = tile,
                 .tile_stride = tile_stride,
                 .rows = rows,
                 .columns = columns,
                 .c = o_.c + row * g_.c_row + column * g_.c_column,
                 .c_row = g_.c_row,
                 .c_column = g_.c_column,
                 .epilogue = &e,
                 .column_bias = moved(o_.column_bias, column),
                 .row_bias = moved(o_.row_bias, row),
                 .row_bias_step = 1,
                 .residual = moved(o_.residual, row * e.residual_row + column * e.residual_column)});
  }

  // Drops the columns between the rows of an image.
  void finish_pixels(const float* tile, int64_t tile_stride, int64_t row, int64_t rows, int64_t column,
                     int64_t columns) const {
    for (int64_t j = column, end = column + columns; j < end;) {
      const int64_t y = j / indexed_b_->pitch, x = j % indexed_b_->pitch;
      if (x < indexed_b_->width) {
        const int64_t run = indexed_b_->pitch == indexed_b_->width ? end - j : std::min(end - j, indexed_b_->width - x);
        finish(tile + (j - column), tile_stride, row, rows, y * indexed_b_->width + x, run);
        j += run;
      } else {
        j += indexed_b_->pitch - x;
      }
    }
  }

  const GemmOps& ops_;
  const GemmArgs& g_;
  const Plan& p_;
  const IndexedA* indexed_a_;
  const IndexedB* indexed_b_;
  const int64_t nr_;
  bool in_place_;  // the sums are the result
  float *a_pack_, *b_pack_, *tile_, *dots_;
  int64_t dots_row_;
  FewBitsLayout layout_ = {};
  Operands o_ = {};
  int64_t first_column_ = 0, end_column_ = 0;
};

// Products that run as one region: their tasks are numbered through.
struct Region {
  SmallVector<Plan, 4> plans;
  SmallVector<int64_t, 8> first;  // task of each product; then how many there are
  int64_t work = 0, slot_bytes = 0;
  int slots = 0;

  Region(const GemmOps& ops, std::span<const GemmArgs> products, int threads, bool indexed_a, bool indexed_b) {
    int64_t tasks = 0;
    for (const GemmArgs& g : products) {
      plans.push_back(make_plan(ops, g, threads, indexed_a, indexed_b));
      const Plan& plan = plans.back();
      first.push_back(tasks);
      tasks += plan.tasks;
      work += g.m * g.n * g.k * plan.batches;
      slot_bytes = std::max(slot_bytes, plan.slot_bytes());
    }
    first.push_back(tasks);
    slots = static_cast<int>(std::min<int64_t>(slot_count(threads), std::max<int64_t>(1, tasks)));
  }
};

size_t scratch_bytes(std::span<const GemmArgs> products, int threads, bool indexed_a, bool indexed_b) {
  const Region region(gemm_ops(), products, threads, indexed_a, indexed_b);
  return static_cast<size_t>(region.slots * region.slot_bytes);
}

void run(std::span<const GemmArgs> products, const IndexedA* a, const IndexedB* b, void* scratch, ThreadPool& pool) {
  const GemmOps& ops = gemm_ops();
  const Region region(ops, products, pool.threads(), a, b);
  Slots slots(scratch, static_cast<size_t>(region.slot_bytes), region.slots);
  const int64_t tasks = region.first.back();
  pool.parallel_for(tasks, region.work < kParallelWork ? tasks : 1, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    for (size_t i = 0; i < products.size(); ++i) {
      const int64_t from = std::max(begin, region.first[i]), to = std::min(end, region.first[i + 1]);
      if (from >= to) continue;
      Task task(ops, products[i], region.plans[i], a, b, lease.memory());
      for (int64_t index = from; index < to; ++index) task.run(index - region.first[i]);
    }
  });
}

void run(const GemmArgs& g, const IndexedA* a, const IndexedB* b, void* scratch, ThreadPool& pool) {
  if (g.m > 0 && g.n > 0) run({&g, 1}, a, b, scratch, pool);
}

}  // namespace

size_t gemm_scratch_bytes(const GemmArgs& args, int threads) {
  return scratch_bytes({&args, 1}, threads, false, false);
}
void gemm(const GemmArgs& args, void* scratch, ThreadPool& pool) { run(args, nullptr, nullptr, scratch, pool); }

size_t gemm_group_scratch_bytes(std::span<const GemmArgs> products, int threads) {
  return scratch_bytes(products, threads, false, false);
}
void gemm_group(std::span<const GemmArgs> products, void* scratch, ThreadPool& pool) {
  run(products, nullptr, nullptr, scratch, pool);
}

size_t gemm_indexed_b_scratch_bytes(const GemmArgs& g, int threads) {
  return scratch_bytes({&g, 1}, threads, false, true);
}
void gemm_indexed_b(const GemmArgs& g, const IndexedB& b, void* scratch, ThreadPool& pool) {
  run(g, nullptr, &b, scratch, pool);
}

size_t gemm_indexed_a_scratch_bytes(const GemmArgs& g, int threads) {
  return scratch_bytes({&g, 1}, threads, true, false);
}
void gemm_indexed_a(const GemmArgs& g, const IndexedA& a, void* scratch, ThreadPool& pool) {
  run(g, &a, nullptr, scratch, pool);
}

}  // namespace transmuter::cpu
