// Where the rows of A lie that an 8-bit product reads.
#pragma once

#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/kernels/qgemm_ops.h"

namespace transmuter::cpu {

enum class RowsFrom : uint8_t {
  cells,  // stored for the tile, panel after panel
  frame,  // windows of images that are copied with their padding
  place,  // where they are given
};

// Rows are summed while they are stored; only zero points of B ask for the sums.
inline bool needs_row_sums(const QgemmArgs& g) { return !g.b_signed || g.b_zero; }

RowsFrom rows_from(const QgemmArgs& g, const QVariant& variant);

// Rows of a frame or in place: row i starts at base + rows[i], its runs are `runs` from there.
struct QRowPlaces {
  const uint8_t* base;
  const int32_t *rows, *runs;
  int64_t run_count, groups;
};

int64_t run_count(const QgemmArgs& g);

// Fills the frame and the places; `frame` has room for frame_bytes, `rows` for m, `runs` for run_count.
QRowPlaces place_rows(const QgemmArgs& g, RowsFrom from, const QVariant& variant, uint8_t* frame, int32_t* rows,
                      int32_t* runs, ThreadPool& pool);

}  // namespace transmuter::cpu
