#include "backends/cpu/kernels/qgemm_rows.h"

#include <climits>

#include "backends/cpu/kernels/rounding.h"

namespace transmuter::cpu {
namespace {

constexpr int64_t kGroup = 4;
constexpr int64_t kFrameBytes = 16 * 1024;  // a task's
// Cells are read faster than rows that lie far apart; worth storing where more than so many columns read them.
constexpr int64_t kNearRow = 512, kFewColumns = 64, kFewRows = 14;

}  // namespace

RowsFrom rows_from(const QgemmArgs& g, const QVariant& variant) {
  if (!variant.row_tiles || needs_row_sums(g) || g.batch_rank != 0) return RowsFrom::cells;
  const bool as_they_are = g.a_signed == variant.a_signed;
  if (g.patches) {
    const BytePatches& p = *g.patches;
    if (as_they_are && lies_in_images(p) && p.images * places_in_images(p).image_bytes <= INT32_MAX)
      return RowsFrom::place;
    return frame_bytes(p) <= INT32_MAX ? RowsFrom::frame : RowsFrom::cells;
  }
  const bool readable =
      as_they_are && g.a_column == 1 && g.k % kGroup == 0 && g.a_row >= 0 && g.m * g.a_row <= INT32_MAX;
  const bool worth_it = g.a_row <= kNearRow || g.n <= kFewColumns || g.m <= kFewRows;
  return readable && worth_it ? RowsFrom::place : RowsFrom::cells;
}

int64_t run_count(const QgemmArgs& g) { return g.patches ? g.patches->runs() : 1; }

QRowPlaces place_rows(const QgemmArgs& g, RowsFrom from, const QVariant& variant, uint8_t* frame, int32_t* rows,
                      int32_t* runs, ThreadPool& pool) {
  const auto* const a = static_cast<const uint8_t*>(g.a);
  if (!g.patches) {
    for (int64_t i = 0; i < g.m; ++i) rows[i] = static_cast<int32_t>(i * g.a_row);
    runs[0] = 0;
    return {a, rows, runs, 1, g.k / kGroup};
  }
  const BytePatches& p = *g.patches;
  const bool framed = from == RowsFrom::frame;
  const PatchPlaces places = framed ? places_in_frame(p) : places_in_images(p);
  if (framed) {
    const uint8_t flip = variant.a_signed == g.a_signed ? 0 : 0x80;
    const int64_t grain = std::max<int64_t>(1, kFrameBytes / std::max<int64_t>(1, places.row_bytes));
    pool.parallel_for(p.images * places.rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) frame_row(p, places, a, i, flip, frame);
    });
  }
  for (int64_t i = 0; i < g.m; ++i) rows[i] = static_cast<int32_t>(places.window(p, i));
  for (int64_t i = 0; i < p.runs(); ++i) runs[i] = static_cast<int32_t>(places.run(p, i));
  return {framed ? frame : a, rows, runs, p.runs(), p.filled_run() / kGroup};
}

}  // namespace transmuter::cpu
