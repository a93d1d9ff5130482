// B packed once: panels of as many columns as the register tile has, one after the other, each [k][columns].
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/gemm_ops.h"
#include "backends/cpu/kernels/rounding.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kCacheLine = 64;
// Of B, between two calls of `spent`.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

int64_t storage_size(Storage storage) { return storage == Storage::f32 ? 4 : 2; }

// B, or rows and columns of it; `out` is where the packed element of its first row and column goes.
struct Part {
  int64_t k, n;
  const std::byte* b;
  int64_t row_stride, column_stride;
  std::byte* out;
};

// One panel's elements at an aligned address: those of a mapped file lie anywhere.
struct AlignedPanel {
  std::vector<uint32_t> memory;
  const std::byte* elements = nullptr;
  int64_t row_stride = 0, column_stride = 0;

  void read(const Part& part, int64_t first_column, int64_t columns, size_t width) {
    const std::byte* from = part.b + static_cast<size_t>(first_column * part.column_stride) * width;
    elements = from;
    row_stride = part.row_stride;
    column_stride = part.column_stride;
    if (reinterpret_cast<uintptr_t>(from) % width == 0) return;
    memory.resize(static_cast<size_t>(part.k * columns) * width / sizeof(uint32_t) + 1);
    auto* to = reinterpret_cast<std::byte*>(memory.data());
    elements = to;
    const bool by_rows = column_stride == 1;
    const int64_t lines = by_rows ? part.k : columns, length = by_rows ? columns : part.k;
    const int64_t lines_apart = by_rows ? row_stride : column_stride, apart = by_rows ? 1 : row_stride;
    for (int64_t line = 0; line < lines; ++line, to += static_cast<size_t>(length) * width) {
      const std::byte* source = from + static_cast<size_t>(line * lines_apart) * width;
      if (apart == 1) {
        std::memcpy(to, source, static_cast<size_t>(length) * width);
        continue;
      }
      for (int64_t i = 0; i < length; ++i)
        std::memcpy(to + static_cast<size_t>(i) * width, source + static_cast<size_t>(i * apart) * width, width);
    }
    row_stride = by_rows ? columns : 1;
    column_stride = by_rows ? 1 : part.k;
  }
};

// `k` rows lie between two panels.
void pack_part(const Part& part, int64_t k, Storage source, Storage packed, ThreadPool& pool) {
  const GemmOps& ops = gemm_ops();
  const int64_t nr = ops.tile_columns;
  pool.parallel_for(ceil_div(part.n, nr), 4, [&](int64_t begin, int64_t end) {
    AlignedPanel in;
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t columns = std::min(nr, part.n - panel * nr);
      std::byte* to = part.out + panel * nr * k * storage_size(packed);
      in.read(part, panel * nr, columns, static_cast<size_t>(storage_size(source)));
      if (source == Storage::f32) {
        ops.pack_b(part.k, columns, reinterpret_cast<const float*>(in.elements), in.row_stride, in.column_stride,
                   reinterpret_cast<float*>(to));
        continue;
      }
      const auto* halves = reinterpret_cast<const uint16_t*>(in.elements);
      if (packed == source) {
        ops.pack_b_half(part.k, columns, halves, in.row_stride, in.column_stride, reinterpret_cast<uint16_t*>(to));
        continue;
      }
      constexpr int64_t kRun = 64;
      uint16_t run_of_halves[kRun * kMaxTileColumns];
      for (int64_t at = 0; at < part.k; at += kRun) {
        const int64_t run = std::min(kRun, part.k - at);
        ops.pack_b_half(run, columns, halves + at * in.row_stride, in.row_stride, in.column_stride, run_of_halves);
        ops.widen(run * nr, run_of_halves, source, reinterpret_cast<float*>(to) + at * nr);
      }
    }
  });
}

}  // namespace

size_t packed_b_bytes(int64_t k, int64_t n, Storage packed) {
  const int64_t nr = gemm_ops().tile_columns;
  return static_cast<size_t>(round_up(ceil_div(n, nr) * nr * k * storage_size(packed), kCacheLine));
}

void pack_b(int64_t k, int64_t n, const void* b, Storage source, int64_t row_stride, int64_t column_stride,
            Storage packed, void* out, ThreadPool& pool, const Spent& spent) {
  const Part whole{.k = k,
                   .n = n,
                   .b = static_cast<const std::byte*>(b),
                   .row_stride = row_stride,
                   .column_stride = column_stride,
                   .out = static_cast<std::byte*>(out)};
  const bool by_rows = column_stride == 1 && row_stride == n, by_columns = row_stride == 1 && column_stride == k;
  if (!spent || (!by_rows && !by_columns)) return pack_part(whole, k, source, packed, pool);
  const int64_t nr = gemm_ops().tile_columns, width = storage_size(source);
  const int64_t lines = by_rows ? k : n, line_bytes = (by_rows ? n : k) * width;
  const int64_t step = by_rows ? std::max<int64_t>(1, kPieceBytes / line_bytes)
                               : round_up(std::max<int64_t>(1, kPieceBytes / line_bytes), nr);
  for (int64_t first = 0; first < lines; first += step) {
    Part part = whole;
    const int64_t taken = std::min(step, lines - first);
    (by_rows ? part.k : part.n) = taken;
    part.b += first * line_bytes;
    part.out += first * (by_rows ? nr : k) * storage_size(packed);
    pack_part(part, k, source, packed, pool);
    spent(part.b, static_cast<size_t>(taken * line_bytes));
  }
}

}  // namespace transmuter::cpu
