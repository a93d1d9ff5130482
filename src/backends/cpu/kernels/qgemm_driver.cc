// Packing and the loops around the 8-bit register tile.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/kernels/qgemm_ops.h"
#include "backends/cpu/kernels/qgemm_rows.h"
#include "backends/cpu/kernels/quantize.h"
#include "backends/cpu/kernels/rounding.h"
#include "backends/cpu/kernels/slots.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kParallelWork = 512 * 1024;  // multiply-adds
constexpr int64_t kTaskColumns = 256;
constexpr int64_t kTaskRows = 168;
constexpr int64_t kTile = kMaxQTileRows * kMaxQTileColumns;

// Packed B: one cache line with the variant's number, the column sums, the panels.
struct PackedB {
  const QVariant* variant;
  const int32_t* sums;
  const int8_t* panels;
};

int64_t padded_columns(int64_t n) { return round_up(n, qgemm_ops().tile_columns); }
int64_t panels_at(int64_t n) { return kCacheLine + round_up(padded_columns(n) * 4, kCacheLine); }

PackedB unpack(const void* packed, int64_t n) {
  int32_t which;
  std::memcpy(&which, packed, sizeof(which));
  const auto* bytes = static_cast<const std::byte*>(packed);
  return {qgemm_ops().variants[which], reinterpret_cast<const int32_t*>(bytes + kCacheLine),
          reinterpret_cast<const int8_t*>(bytes + panels_at(n))};
}

// Independent of which variant a B was packed for, so that the scratch can be sized without B.
struct Plan {
  int64_t batches;
  RowsFrom from;
  int64_t row_bytes;  // of one stored row of A, the larger variant's
  int64_t a_bytes, rows_bytes, slot_bytes;
  int64_t total(int threads) const { return a_bytes + rows_bytes + slot_count(threads) * slot_bytes; }
};

Plan make_plan(const QgemmArgs& g) {
  const QgemmOps& ops = qgemm_ops();
  Plan p;
  p.batches = 1;
  for (int i = 0; i < g.batch_rank; ++i) p.batches *= g.batch[i];
  p.from = rows_from(g, *ops.variants[0]);
  p.row_bytes = 0;
  for (const QVariant* v : ops.variants) p.row_bytes = std::max(p.row_bytes, ceil_div(g.k, v->group) * v->cell_bytes);
  const int64_t a_bytes = p.from == RowsFrom::cells   ? p.batches * g.m * p.row_bytes
                          : p.from == RowsFrom::frame ? frame_bytes(*g.patches)
                                                      : 0;
  p.a_bytes = round_up(a_bytes, kCacheLine);
  // The sums of rows; where they lie.
  p.rows_bytes = round_up((p.batches * g.m + (p.from == RowsFrom::cells ? 0 : g.m + run_count(g))) * 4, kCacheLine);
  // A tile of sums, one scaled, one finished, one of bytes; then what columns and rows have.
  p.slot_bytes = round_up(kTile * 13 + kMaxQTileColumns * 12 + kMaxQTileRows * 20, kCacheLine);
  if (g.patches) p.slot_bytes = std::max(p.slot_bytes, round_up(g.k, kCacheLine));
  return p;
}

struct Offsets {
  int64_t a = 0, b = 0, c = 0, residual = 0;
};

Offsets offsets_of(const QgemmArgs& g, int64_t index) {
  Offsets o;
  for (int i = g.batch_rank - 1; i >= 0; --i) {
    const int64_t at = index % g.batch[i];
    index /= g.batch[i];
    o.a += at * g.a_batch[i];
    o.b += at * g.b_batch[i];
    o.c += at * g.c_batch[i];
    o.residual += at * g.residual_batch[i];
  }
  return o;
}

int32_t pick(const int32_t* values, bool many, int64_t i) { return values ? values[many ? i : 0] : 0; }
float pick(const float* values, bool many, int64_t i) { return values ? values[many ? i : 0] : 1.0f; }

// What one body of the parallel loop works with.
class Task {
 public:
  // `a`: cells, or null: rows at `places`.
  Task(const QgemmArgs& g, const uint8_t* a, const QRowPlaces& places, const int32_t* row_sums, std::byte* slot)
      : g_(g), ops_(qgemm_ops()), nr_(ops_.tile_columns), a_(a), places_(places), row_sums_(row_sums) {
    // Each starts a cache line.
    tile_ = reinterpret_cast<int32_t*>(slot);
    scaled_ = reinterpret_cast<float*>(tile_ + kTile);
    finished_ = scaled_ + kTile;
    bias_ = finished_;  // one of the two is used
    b_zero_ = reinterpret_cast<int32_t*>(finished_ + kTile);
    column_scale_ = reinterpret_cast<float*>(b_zero_ + kMaxQTileColumns);
    shift_ = reinterpret_cast<int32_t*>(column_scale_ + kMaxQTileColumns);
    rows_ = reinterpret_cast<const uint8_t**>(shift_ + kMaxQTileColumns);
    a_zero_ = reinterpret_cast<int32_t*>(rows_ + kMaxQTileRows);
    row_terms_ = a_zero_ + kMaxQTileRows;
    row_scale_ = reinterpret_cast<float*>(row_terms_ + kMaxQTileRows);
    bytes_ = reinterpret_cast<uint8_t*>(row_scale_ + kMaxQTileRows);
  }

  // Panels [row_begin, row_end) of rows, `row_panels` in all, times panels [begin, end) of columns.
  void run(const PackedB& b, const Offsets& o, int64_t row_panels, int64_t row_begin, int64_t row_end, int64_t begin,
           int64_t end) {
    const QVariant& v = *b.variant;
    const int64_t groups = ceil_div(g_.k, v.group);
    const int32_t a_shift = v.a_signed == g_.a_signed ? 0 : v.a_signed ? -128 : 128;
    // Where neither rows nor B have zero points of their own, a number for each column says all that is subtracted.
    const bool columns_alone = !g_.a_zero_per_row && !needs_row_sums(g_);
    for (int64_t j = begin; j < end; ++j) {
      const int64_t column = j * nr_, columns = std::min(nr_, g_.n - column);
      const int32_t zero = pick(g_.a_zero, false, 0) + a_shift;
      for (int64_t i = 0; i < columns; ++i) {
        b_zero_[i] = pick(g_.b_zero, g_.b_zero_per_column, column + i) - (g_.b_signed ? 0 : 128);
        column_scale_[i] = pick(g_.b_scale, g_.b_scale_per_column, column + i);
        // Unsigned: sums may wrap, as the result itself does.
        auto shift = static_cast<uint32_t>(pick(g_.column_shift, true, column + i));
        if (columns_alone) shift += static_cast<uint32_t>(zero) * static_cast<uint32_t>(b.sums[column + i]);
        shift_[i] = static_cast<int32_t>(shift);
      }
      for (int64_t i = columns; i < nr_; ++i) b_zero_[i] = 0, column_scale_[i] = 0, shift_[i] = 0;
      const bool at_once = columns_alone && bytes_at_once() && prepare_bytes(column, columns);
      for (int64_t panel = row_begin; panel < row_end; ++panel) {
        const int64_t row = even_cut(panel, row_panels, g_.m), rows = even_cut(panel + 1, row_panels, g_.m) - row;
        const int8_t* const cells = b.panels + j * nr_ * groups * v.group;
        if (a_) {
          v.tiles[rows - 1](a_ + row * groups * v.cell_bytes, cells, groups, tile_);
        } else {
          for (int64_t r = 0; r < rows; ++r) rows_[r] = places_.base + places_.rows[row + r];
          v.row_tiles[rows - 1]({rows_, places_.runs, places_.run_count, places_.groups}, cells, tile_);
        }
        if (at_once) {
          finish_at_once(o.c + row * g_.c_row + column, rows, columns);
          continue;
        }
        for (int64_t r = 0; r < rows; ++r) {
          row_scale_[r] = pick(g_.a_scale, g_.a_scale_per_row, row + r);
          if (columns_alone) continue;
          a_zero_[r] = pick(g_.a_zero, g_.a_zero_per_row, row + r) + a_shift;
          row_terms_[r] = static_cast<int32_t>(static_cast<uint32_t>(row_sums_[row + r]) -
                                               static_cast<uint32_t>(g_.k) * static_cast<uint32_t>(a_zero_[r]));
        }
        ops_.finish({tile_, rows, b.sums + column, columns_alone ? nullptr : a_zero_, row_terms_, b_zero_, shift_,
                     g_.sums ? nullptr : row_scale_, column_scale_, scaled_});
        store(o, row, rows, column, columns);
      }
    }
  }

 private:
  // With no more than a bias and relu behind it.
  bool bytes_at_once() const {
    const Epilogue& e = g_.epilogue;
    return g_.bytes && !g_.a_scale_per_row && e.alpha == 1.0f && !e.row_bias && !e.residual &&
           (e.activation == Activation::none || e.activation == Activation::relu) && g_.bytes_scale > 0 &&
           moderate(g_.bytes_scale) && moderate(1.0f / g_.bytes_scale);
  }

  // So that sums of products and quotients by them are floats.
  static bool moderate(float x) { return std::fabs(x) < 1e12f; }

  bool prepare_bytes(int64_t column, int64_t columns) {
    const float scale = pick(g_.a_scale, false, 0);
    bool all = true;
    for (int64_t i = 0; i < nr_; ++i) {
      column_scale_[i] *= scale;
      bias_[i] = g_.epilogue.column_bias && i < columns ? g_.epilogue.column_bias[column + i] : 0.0f;
      all = all && moderate(column_scale_[i]) && moderate(bias_[i]);
    }
    if (!all)
      for (int64_t i = 0; i < columns; ++i) column_scale_[i] = pick(g_.b_scale, g_.b_scale_per_column, column + i);
    return all;
  }

  void finish_at_once(int64_t at, int64_t rows, int64_t columns) const {
    ops_.finish_bytes({.tile = tile_,
                       .rows = rows,
                       .columns = columns,
                       .shift = shift_,
                       .scales = column_scale_,
                       .bias = bias_,
                       .relu = g_.epilogue.activation == Activation::relu,
                       .scale = g_.bytes_scale,
                       .zero = g_.bytes_zero,
                       .is_signed = g_.bytes_signed,
                       .out = static_cast<uint8_t*>(g_.bytes) + at,
                       .out_row = g_.c_row});
  }

  void store(const Offsets& o, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const int64_t at = o.c + row * g_.c_row + column * g_.c_column;
    if (g_.sums) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < columns; ++j) g_.sums[at + r * g_.c_row + j * g_.c_column] = tile_[r * nr_ + j];
      }
      return;
    }
    const Epilogue& e = g_.epilogue;
    float* const c = g_.bytes ? finished_ : g_.c + at;
    const int64_t c_row = g_.bytes ? nr_ : g_.c_row, c_column = g_.bytes ? 1 : g_.c_column;
    const int64_t gemm_columns = gemm_ops().tile_columns;
    // The f32 tile may be narrower than this one.
    for (int64_t j = 0; j < columns; j += gemm_columns) {
      const int64_t part = std::min(gemm_columns, columns - j);
      for (int64_t r = 0; r < rows; r += gemm_ops().tile_rows) {
        const int64_t residual = o.residual + (row + r) * e.residual_row + (column + j) * e.residual_column;
        gemm_ops().finish({.tile = scaled_ + r * nr_ + j,
                           .tile_stride = nr_,
                           .rows = std::min(gemm_ops().tile_rows, rows - r),
                           .columns = part,
                           .c = c + r * c_row + j * c_column,
                           .c_row = c_row,
                           .c_column = c_column,
                           .epilogue = &e,
                           .column_bias = e.column_bias ? e.column_bias + column + j : nullptr,
                           .row_bias = e.row_bias ? e.row_bias + row + r : nullptr,
                           .row_bias_step = 1,
                           .residual = e.residual ? e.residual + residual : nullptr});
      }
    }
    if (g_.bytes) store_bytes(at, rows, columns);
  }

  void store_bytes(int64_t at, int64_t rows, int64_t columns) const {
    const auto zero = static_cast<uint8_t>(g_.bytes_zero);
    quantize_linear(finished_, g_.bytes_signed ? DType::i8 : DType::u8, bytes_, &g_.bytes_scale, &zero,
                    {1, 1, rows * nr_}, nullptr);
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(static_cast<uint8_t*>(g_.bytes) + at + r * g_.c_row, bytes_ + r * nr_, static_cast<size_t>(columns));
    }
  }

  const QgemmArgs& g_;
  const QgemmOps& ops_;
  const int64_t nr_;
  const uint8_t* a_;
  const QRowPlaces& places_;
  const int32_t* row_sums_;
  const uint8_t** rows_;
  int32_t *tile_, *a_zero_, *row_terms_, *b_zero_, *shift_;
  float *scaled_, *row_scale_, *column_scale_, *finished_, *bias_;
  uint8_t* bytes_;
};

}  // namespace

size_t packed_qb_bytes(int64_t k, int64_t n) {
  return static_cast<size_t>(panels_at(n) + round_up(padded_columns(n) * round_up(k, 4), kCacheLine));
}

void pack_qb(int64_t k, int64_t n, const void* b, bool is_signed, int64_t row_stride, int64_t column_stride, void* out,
             ThreadPool& pool) {
  const QgemmOps& ops = qgemm_ops();
  const auto* from = static_cast<const uint8_t*>(b);
  const uint8_t flip = is_signed ? 0 : 0x80;
  const int64_t nr = ops.tile_columns, panels = padded_columns(n) / nr;
  std::atomic<bool> lowest{false};
  if (!ops.variants[0]->any_b) {
    pool.parallel_for(panels, 4, [&](int64_t begin, int64_t end) {
      bool found = false;
      for (int64_t j = begin * nr; j < std::min(n, end * nr); ++j) {
        for (int64_t p = 0; p < k; ++p) found = found || (from[p * row_stride + j * column_stride] ^ flip) == 0x80;
      }
      if (found) lowest = true;
    });
  }
  const int32_t which = lowest ? 1 : 0;
  const int64_t group = ops.variants[which]->group, groups = ceil_div(k, group);
  auto* bytes = static_cast<std::byte*>(out);
  std::memcpy(bytes, &which, sizeof(which));
  auto* sums = reinterpret_cast<int32_t*>(bytes + kCacheLine);
  auto* to = reinterpret_cast<int8_t*>(bytes + panels_at(n));
  pool.parallel_for(panels, 4, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * nr, columns = std::min(nr, n - first);
      int8_t* const cells = to + first * groups * group;
      std::memset(cells, 0, static_cast<size_t>(nr * groups * group));
      uint32_t sum[kMaxQTileColumns] = {};
      int64_t p = 0;
      if (group == 4 && column_stride == 1 && columns == nr && ops.pack_b_groups) {
        ops.pack_b_groups(from + first, row_stride, flip, k / 4, cells, reinterpret_cast<int32_t*>(sum));
        p = k / 4 * 4;
      }
      for (; group == 4 && p + 4 <= k; p += 4) {
        const uint8_t* const rows = from + p * row_stride + first * column_stride;
        int8_t* const out = cells + p * nr;
        for (int64_t j = 0; j < columns; ++j) {
          const uint8_t* const column = rows + j * column_stride;
          int8_t four[4];
          for (int i = 0; i < 4; ++i) {
            four[i] = static_cast<int8_t>(column[i * row_stride] ^ flip);
            sum[j] += static_cast<uint32_t>(int32_t{four[i]});
          }
          std::memcpy(out + 4 * j, four, 4);
        }
      }
      for (; p < k; ++p) {
        const uint8_t* const row = from + p * row_stride + first * column_stride;
        int8_t* const out = cells + p / group * nr * group + p % group;
        for (int64_t j = 0; j < columns; ++j) {
          const auto value = static_cast<int8_t>(row[j * column_stride] ^ flip);
          out[j * group] = value;
          sum[j] += static_cast<uint32_t>(int32_t{value});
        }
      }
      for (int64_t j = 0; j < nr; ++j) sums[first + j] = static_cast<int32_t>(sum[j]);
    }
  });
}

std::vector<int32_t> packed_qb_sums(const void* packed, int64_t k, int64_t n, bool is_signed) {
  const int32_t* const stored = unpack(packed, n).sums;
  std::vector<int32_t> sums(stored, stored + n);
  const auto more = is_signed ? 0U : 128U * static_cast<uint32_t>(k);
  for (int32_t& sum : sums) sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + more);
  return sums;
}

size_t qgemm_scratch_bytes(const QgemmArgs& args, int threads) {
  return static_cast<size_t>(make_plan(args).total(threads));
}

void qgemm(const QgemmArgs& g, void* scratch, ThreadPool& pool) {
  if (g.m <= 0 || g.n <= 0) return;
  const Plan plan = make_plan(g);
  if (plan.batches <= 0) return;
  auto* stored = static_cast<uint8_t*>(scratch);
  auto* row_sums = reinterpret_cast<int32_t*>(stored + plan.a_bytes);
  const bool small = g.m * g.n * g.k * plan.batches < kParallelWork;

  Slots slots(reinterpret_cast<std::byte*>(row_sums) + plan.rows_bytes, static_cast<size_t>(plan.slot_bytes),
              slot_count(pool.threads()));
  const auto panels_of = [&](const QVariant& v) { return ceil_div(g.m, v.tile_rows); };
  const QVariant& first_variant = *qgemm_ops().variants[0];
  QRowPlaces places{};
  if (plan.from != RowsFrom::cells) {
    int32_t* const rows = row_sums + plan.batches * g.m;
    places = place_rows(g, plan.from, first_variant, stored, rows, rows + g.m, pool);
  }
  // First all of A in its stored form, panel after panel, each batch element at a distance that any variant fits.
  const auto row_grain = std::max<int64_t>(1, 64 * 1024 / std::max<int64_t>(1, g.k));
  const int64_t rows_of_all = plan.from == RowsFrom::cells ? plan.batches * g.m : 0;
  pool.parallel_for(rows_of_all, small ? rows_of_all : row_grain, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = i / g.m, row = i % g.m;
      const Offsets o = offsets_of(g, index);
      const QVariant& v = *unpack(static_cast<const std::byte*>(g.packed_b) + o.b, g.n).variant;
      const uint8_t* from = static_cast<const uint8_t*>(g.a) + o.a + row * g.a_row;
      if (g.patches) {
        auto* const patch = reinterpret_cast<uint8_t*>(lease.memory());
        byte_patch(*g.patches, static_cast<const uint8_t*>(g.a), row, patch);
        from = patch;
      }
      const uint8_t flip = v.a_signed == g.a_signed ? 0 : 0x80;
      const int64_t panels = panels_of(v), groups = ceil_div(g.k, v.group);
      int64_t panel = row * panels / g.m;
      while (even_cut(panel + 1, panels, g.m) <= row) ++panel;
      const int64_t first = even_cut(panel, panels, g.m), rows = even_cut(panel + 1, panels, g.m) - first;
      uint8_t* out =
          stored + index * g.m * plan.row_bytes + first * groups * v.cell_bytes + (row - first) * v.cell_bytes;
      row_sums[i] = v.pack_a_row(from, g.a_column, g.k, flip, rows, out);
    }
  });

  const int64_t nr = qgemm_ops().tile_columns, column_panels = padded_columns(g.n) / nr;
  int64_t columns = std::max<int64_t>(1, kTaskColumns / nr), rows = kTaskRows;
  const auto row_tasks = [&] { return ceil_div(g.m, rows); };
  const auto count = [&] { return plan.batches * row_tasks() * ceil_div(column_panels, columns); };
  if (pool.threads() > 1 && !small) {
    while (count() < 4 * pool.threads() && columns > 2) columns = (columns + 1) / 2;
    while (count() < pool.threads() && (columns > 1 || rows > 8)) {
      columns = (columns + 1) / 2;
      rows = (rows + 1) / 2;
    }
  }
  const int64_t column_tasks = ceil_div(column_panels, columns), tasks = count();
  pool.parallel_for(tasks, small ? tasks : 1, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = i / (row_tasks() * column_tasks);
      const int64_t column_task = i / row_tasks() % column_tasks, row_task = i % row_tasks();
      const Offsets o = offsets_of(g, index);
      const PackedB b = unpack(static_cast<const std::byte*>(g.packed_b) + o.b, g.n);
      const int64_t panels = panels_of(*b.variant);
      const uint8_t* const cells = plan.from == RowsFrom::cells ? stored + index * g.m * plan.row_bytes : nullptr;
      Task task(g, cells, places, row_sums + index * g.m, lease.memory());
      task.run(b, o, panels, even_cut(row_task, row_tasks(), panels), even_cut(row_task + 1, row_tasks(), panels),
               even_cut(column_task, column_tasks, column_panels),
               even_cut(column_task + 1, column_tasks, column_panels));
    }
  });
}

void qgemm_reference(const QgemmArgs& g, const void* b, int64_t b_row, int64_t b_column, int32_t* out) {
  const auto value = [](const void* data, bool is_signed, int64_t i) {
    return is_signed ? int64_t{static_cast<const int8_t*>(data)[i]} : int64_t{static_cast<const uint8_t*>(data)[i]};
  };
  for (int64_t m = 0; m < g.m; ++m) {
    for (int64_t n = 0; n < g.n; ++n) {
      const int64_t za = pick(g.a_zero, g.a_zero_per_row, m), zb = pick(g.b_zero, g.b_zero_per_column, n);
      int64_t sum = 0;
      for (int64_t k = 0; k < g.k; ++k) {
        sum += (value(g.a, g.a_signed, m * g.a_row + k * g.a_column) - za) *
               (value(b, g.b_signed, k * b_row + n * b_column) - zb);
      }
      out[m * g.n + n] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(sum)));
    }
  }
}

}  // namespace transmuter::cpu
