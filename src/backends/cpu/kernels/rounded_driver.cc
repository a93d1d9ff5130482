// The loops around the tiles of rounded.h: first all of A is rounded, then tasks multiply panels of it.
#include <algorithm>

#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/rounded.h"
#include "backends/cpu/kernels/rounded_ops.h"
#include "backends/cpu/kernels/rounding.h"
#include "backends/cpu/kernels/slots.h"
#include "base/small_vector.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kParallelWork = 1024 * 1024;  // multiply-adds
constexpr int64_t kTaskColumns = 256, kTaskRows = 168;

// The places of one batch element.
struct Offsets {
  int64_t a = 0, c = 0, residual = 0, column_bias = 0, row_bias = 0;
};

Offsets offsets_of(const GemmArgs& g, int64_t index) {
  Offsets o;
  for (int i = g.batch_rank - 1; i >= 0; --i) {
    const int64_t at = index % g.batch[i];
    index /= g.batch[i];
    o.a += at * g.a_batch[i];
    o.c += at * g.c_batch[i];
    o.residual += at * g.residual_batch[i];
    o.column_bias += at * g.column_bias_batch[i];
    o.row_bias += at * g.row_bias_batch[i];
  }
  return o;
}

// A rounded for weights of one kind; several products may share it.
struct Rounded {
  FewBits bits;
  int64_t row_bytes, at;  // where it begins in the scratch
};

struct Plan {
  int64_t batches = 1, row_panels = 0, row_tasks = 0;
  SmallVector<Rounded, 4> rounded;
  SmallVector<size_t, 4> rounded_of;     // by product
  SmallVector<int64_t, 4> column_tasks;  // by product
  SmallVector<int64_t, 8> first;         // task of each product; then how many there are
  int64_t work = 0, rounded_bytes = 0, slot_bytes = 0;
  int slots = 1;
};

Plan make_plan(std::span<const GemmArgs> products, int threads) {
  const RoundedOps& ops = rounded_ops();
  const GemmArgs& g = products.front();
  Plan p;
  for (int i = 0; i < g.batch_rank; ++i) p.batches *= g.batch[i];
  p.row_panels = ceil_div(g.m, ops.tile_rows);
  p.row_tasks = ceil_div(g.m, kTaskRows);
  for (const GemmArgs& product : products) {
    size_t i = 0;
    const FewBits& bits = product.b_bits;
    while (i < p.rounded.size() && !(p.rounded[i].bits.bits == bits.bits && p.rounded[i].bits.block == bits.block &&
                                     p.rounded[i].bits.zeros == bits.zeros && p.rounded[i].bits.zero == bits.zero))
      ++i;
    if (i == p.rounded.size()) {
      const int64_t row_bytes = rounded_row_bytes(g.k, bits);
      p.rounded.push_back({bits, row_bytes, p.rounded_bytes});
      p.rounded_bytes += round_up(p.batches * g.m * row_bytes, kCacheLine);
    }
    p.rounded_of.push_back(i);
    p.work += product.m * product.n * product.k * p.batches;
  }
  int64_t columns = kTaskColumns / ops.tile_columns;
  const auto count = [&] {
    int64_t tasks = 0;
    for (const GemmArgs& product : products)
      tasks += p.batches * p.row_tasks * ceil_div(ceil_div(product.n, ops.tile_columns), columns);
    return tasks;
  };
  if (threads > 1 && p.work >= kParallelWork) {
    while (count() < int64_t{4} * threads && columns > 2) columns = (columns + 1) / 2;
    while (count() < threads && columns > 1) columns = (columns + 1) / 2;
    while (count() < threads && p.row_tasks < p.row_panels) ++p.row_tasks;
  }
  int64_t tasks = 0;
  for (const GemmArgs& product : products) {
    p.column_tasks.push_back(ceil_div(ceil_div(product.n, ops.tile_columns), columns));
    p.first.push_back(tasks);
    tasks += p.batches * p.row_tasks * p.column_tasks.back();
  }
  p.first.push_back(tasks);
  // A row gathered, or a tile.
  const int64_t row = g.a_column == 1 ? 0 : g.k;
  p.slot_bytes = round_up(std::max(row, ops.tile_rows * ops.tile_columns) * 4, kCacheLine);
  p.slots = static_cast<int>(std::min<int64_t>(slot_count(threads), std::max(tasks, p.batches * g.m)));
  return p;
}

class Task {
 public:
  Task(const GemmArgs& g, const Plan& p, const Rounded& rounded, const std::byte* a, float* tile)
      : g_(g), p_(p), rounded_(rounded), a_(a), tile_(tile), layout_(few_bits_layout(g.k, g.b_bits, nr_)) {}

  void run(int64_t index, int64_t column_tasks) {
    const int64_t row_task = index % p_.row_tasks, column_task = index / p_.row_tasks % column_tasks;
    const int64_t batch = index / p_.row_tasks / column_tasks;
    const Offsets o = offsets_of(g_, batch);
    const int64_t panels = ceil_div(g_.n, nr_);
    const int64_t end = even_cut(column_task + 1, column_tasks, panels);
    const int64_t first_row = even_cut(row_task, p_.row_tasks, p_.row_panels);
    const int64_t end_row = even_cut(row_task + 1, p_.row_tasks, p_.row_panels);
    const auto* tiles = ops_.tiles[g_.b_bits.bits == 2 ? 0 : g_.b_bits.bits == 4 ? 1 : 2];
    const bool in_place = g_.epilogue.identity() && g_.c_column == 1;
    for (int64_t j = even_cut(column_task, column_tasks, panels); j < end; ++j) {
      const int64_t column = j * nr_, columns = std::min(nr_, g_.n - column);
      const std::byte* b = static_cast<const std::byte*>(g_.b) + j * layout_.panel_bytes;
      for (int64_t panel = first_row; panel < end_row; ++panel) {
        const int64_t row = even_cut(panel, p_.row_panels, g_.m), rows = even_cut(panel + 1, p_.row_panels, g_.m) - row;
        const std::byte* a = a_ + (batch * g_.m + row) * rounded_.row_bytes;
        float* c = g_.c + o.c + row * g_.c_row + column * g_.c_column;
        if (in_place && columns == nr_) {
          tiles[rows - 1](a, b, g_.b_bits, layout_, g_.k, c, g_.c_row);
          continue;
        }
        tiles[rows - 1](a, b, g_.b_bits, layout_, g_.k, tile_, nr_);
        finish(o, row, rows, column, columns);
      }
    }
  }

 private:
  // The register tile of gemm_ops may have fewer rows than this one.
  void finish(const Offsets& o, int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    const GemmOps& gemm = gemm_ops();
    const Epilogue& e = g_.epilogue;
    for (int64_t r = 0; r < rows; r += gemm.tile_rows) {
      const int64_t residual = o.residual + (row + r) * e.residual_row + column * e.residual_column;
      gemm.finish({.tile = tile_ + r * nr_,
                   .tile_stride = nr_,
                   .rows = std::min(gemm.tile_rows, rows - r),
                   .columns = columns,
                   .c = g_.c + o.c + (row + r) * g_.c_row + column * g_.c_column,
                   .c_row = g_.c_row,
                   .c_column = g_.c_column,
                   .epilogue = &e,
                   .column_bias = e.column_bias ? e.column_bias + o.column_bias + column : nullptr,
                   .row_bias = e.row_bias ? e.row_bias + o.row_bias + row + r : nullptr,
                   .row_bias_step = 1,
                   .residual = e.residual ? e.residual + residual : nullptr});
    }
  }

  const RoundedOps& ops_ = rounded_ops();
  const int64_t nr_ = ops_.tile_columns;
  const GemmArgs& g_;
  const Plan& p_;
  const Rounded& rounded_;
  const std::byte* a_;
  float* tile_;
  FewBitsLayout layout_;
};

}  // namespace

bool rounded_gemm_takes(const FewBits& bits) {
  const RoundedOps& ops = rounded_ops();
  return ops.tile_rows > 0 && ops.tile_columns == gemm_ops().tile_columns && (bits.bits != 8 || ops.eight_bits);
}

size_t rounded_gemm_scratch_bytes(std::span<const GemmArgs> products, int threads) {
  const Plan plan = make_plan(products, threads);
  return static_cast<size_t>(plan.rounded_bytes + plan.slots * plan.slot_bytes);
}

void rounded_gemm(std::span<const GemmArgs> products, void* scratch, ThreadPool& pool) {
  const Plan plan = make_plan(products, pool.threads());
  const GemmArgs& g = products.front();
  auto* const memory = static_cast<std::byte*>(scratch);
  Slots slots(memory + plan.rounded_bytes, static_cast<size_t>(plan.slot_bytes), plan.slots);
  const bool small = plan.work < kParallelWork;

  const int64_t rows_of_all = plan.batches * g.m,
                row_grain = std::max<int64_t>(1, 32 * 1024 / std::max<int64_t>(1, g.k));
  pool.parallel_for(rows_of_all, small ? rows_of_all : row_grain, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % g.m;
      const float* a = g.a + offsets_of(g, i / g.m).a + row * g.a_row;
      if (g.a_column != 1) {
        auto* gathered = reinterpret_cast<float*>(lease.memory());
        for (int64_t p = 0; p < g.k; ++p) gathered[p] = a[p * g.a_column];
        a = gathered;
      }
      int64_t panel = row * plan.row_panels / g.m;
      while (even_cut(panel + 1, plan.row_panels, g.m) <= row) ++panel;
      const int64_t first = even_cut(panel, plan.row_panels, g.m),
                    rows = even_cut(panel + 1, plan.row_panels, g.m) - first;
      for (const Rounded& rounded : plan.rounded) {
        std::byte* const to = memory + rounded.at + (i - row + first) * rounded.row_bytes;
        rounded_ops().round_row(a, g.k, rounded.bits, row - first, rows, to);
      }
    }
  });

  const int64_t tasks = plan.first.back();
  pool.parallel_for(tasks, small ? tasks : 1, [&](int64_t begin, int64_t end) {
    const Slots::Lease lease(slots);
    for (size_t i = 0; i < products.size(); ++i) {
      const int64_t from = std::max(begin, plan.first[i]), to = std::min(end, plan.first[i + 1]);
      if (from >= to) continue;
      const Rounded& rounded = plan.rounded[plan.rounded_of[i]];
      Task task(products[i], plan, rounded, memory + rounded.at, reinterpret_cast<float*>(lease.memory()));
      for (int64_t index = from; index < to; ++index) task.run(index - plan.first[i], plan.column_tasks[i]);
    }
  });
}

}  // namespace transmuter::cpu
