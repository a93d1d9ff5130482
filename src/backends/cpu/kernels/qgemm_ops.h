// What one instruction set contributes to an 8-bit product.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

inline constexpr int64_t kMaxQTileColumns = 32;
inline constexpr int64_t kMaxQTileRows = 14;

// Elements of B are stored signed (unsigned ones less 128), `group` consecutive k of one column together:
// panel[k / group][tile_columns][group]. Those of A in cells of `group` k: panel[k / group][rows][cell_bytes].
// Rows of A as they lie elsewhere: runs of groups of 4 bytes.
struct QRows {
  const uint8_t* const* rows;  // the first byte of each
  const int32_t* runs;         // what to add for each run
  int64_t run_count, groups;   // groups: in a run
};

struct QVariant {
  int64_t tile_rows, group, cell_bytes;
  bool a_signed;  // whether A is stored as signed values (unsigned ones less 128) or unsigned ones (signed plus 128)
  bool any_b;     // right for every B; else only where no stored element is -128
  // out[rows, tile_columns] = the sums over all groups.
  using Tile = void (*)(const void* a, const void* b, int64_t groups, int32_t* out);
  const Tile* tiles;  // [rows - 1]
  using RowTile = void (*)(const QRows& a, const void* b, int32_t* out);
  const RowTile* row_tiles;  // [rows - 1]; null: there are none
  // One row of the stored form: `flip` is xored into every byte. Returns the sum of the stored values.
  int32_t (*pack_a_row)(const uint8_t* a, int64_t column_stride, int64_t k, uint8_t flip, int64_t rows, uint8_t* out);
};

struct QTileEnd {
  int32_t* tile;  // rows x tile_columns, corrected in place
  int64_t rows;
  const int32_t* column_sums;  // tile_columns
  const int32_t* a_zero;       // rows, of stored values; null: `shift` holds all that is subtracted from a column
  const int32_t* row_terms;    // rows: sum of stored values - k * a_zero
  const int32_t* b_zero;       // tile_columns, of stored values
  const int32_t* shift;        // tile_columns
  const float* row_scale;      // null: the sums are the result
  const float* column_scale;
  float* scaled;  // rows x tile_columns
};

// The same, as bytes at once, where zero points are shared: `shift` holds all that is subtracted from a column. What is
// multiplied, divided and added is finite, and far from where the result would not be.
struct QByteEnd {
  const int32_t* tile;  // rows x tile_columns
  int64_t rows, columns;
  const int32_t* shift;
  const float* scales;  // tile_columns
  const float* bias;    // tile_columns
  bool relu;
  float scale;  // of the bytes
  int32_t zero;
  bool is_signed;
  void* out;
  int64_t out_row;
};

struct QgemmOps {
  int64_t tile_columns;
  const QVariant* variants[2];  // the faster one first; the second is right for any B
  // Whole panels of groups of 4: `groups` times four rows of tile_columns bytes, `row_stride` apart, with `flip` xored
  // into every byte; adds what they then are, signed, to `sums`. Null: the plain loop does as well.
  void (*pack_b_groups)(const uint8_t* from, int64_t row_stride, uint8_t flip, int64_t groups, int8_t* out,
                        int32_t* sums);
  void (*finish)(const QTileEnd& end);
  void (*finish_bytes)(const QByteEnd& end);
};

const QgemmOps& qgemm_ops();

}  // namespace transmuter::cpu
