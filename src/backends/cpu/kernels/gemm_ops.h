// What one instruction set contributes to a product: the register tile and its helpers. The loops around it, which need
// no vectors, are in gemm_driver.cc (and conv.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/epilogue.h"
#include "backends/cpu/kernels/gemm.h"

namespace transmuter::cpu {

// A block of k is at most kBlockK long; a packed A panel holds each row's block at a distance of kPanelStride floats
// (an odd number of cache lines, so that rows spread over the sets).
inline constexpr int64_t kBlockK = 384;
inline constexpr int64_t kPanelStride = kBlockK + 16;
inline constexpr int64_t kMaxTileRows = 14;
inline constexpr int64_t kMaxTileColumns = 32;
inline constexpr int64_t kDotRows = 4;

// Adds epilogue terms to a tile and stores it. With c_column or residual_column other than 1 the sizes are at most
// those of a register tile, else anything.
struct TileEnd {
  const float* tile;  // rows x tile_stride
  int64_t tile_stride;
  int64_t rows, columns;
  float* c;
  int64_t c_row, c_column;
  const Epilogue* epilogue;  // the pointers inside are not used, these are:
  const float* column_bias;
  const float* row_bias;
  int64_t row_bias_step;
  const float* residual;
};

struct GemmOps {
  int64_t tile_rows;     // the most rows of a register tile
  int64_t tile_columns;  // columns of a packed B panel
  int64_t lanes;

  // out[rows, columns] = (accumulate ? out : 0) + A B over k <= kBlockK (any k when rows is 1). A as packed by pack_a.
  // Always tile_columns (narrow: lanes) columns are read of each row of B and written.
  using Tile = void (*)(const float* a, const void* b, int64_t b_row, int64_t k, float* out, int64_t out_row,
                        bool accumulate);
  const Tile* tiles;         // [rows - 1]
  const Tile* narrow_tiles;  // [rows - 1], one vector wide
  // The same with A as it lies, its rows a_row floats apart.
  using TileInPlace = void (*)(const float* a, int64_t a_row, const float* b, int64_t b_row, int64_t k, float* out,
                               int64_t out_row, bool accumulate);
  const TileInPlace* tiles_in_place;
  const TileInPlace* narrow_tiles_in_place;
  const Tile* f16_tiles;
  const Tile* bf16_tiles;
  // The same, row p of B being at b + b_rows[p].
  using IndexedTile = void (*)(const float* a, const float* b, const int64_t* b_rows, int64_t k, float* out,
                               int64_t out_row, bool accumulate);
  const IndexedTile* indexed_tiles;
  const IndexedTile* narrow_indexed_tiles;
  // The same for rows [k0, k0 + k) of a panel of few_bits.h; k0 lies at a word's start.
  using FewBitsTile = void (*)(const float* a, const std::byte* panel, const FewBits& bits, const FewBitsLayout& layout,
                               int64_t k0, int64_t k, float* out, int64_t out_row, bool accumulate);
  const FewBitsTile* few_bits_tiles[4];  // by bits: 2, 4, 8, 4 with a table; [rows - 1]
  int64_t few_bits_rows;                 // the most rows of such a tile; beyond, widening pays

  // out[columns] = a[k] B.
  void (*row_product)(const float* a, const float* b, int64_t b_row, int64_t k, int64_t columns, float* out);
  // out[r, j] = (accumulate ? out : 0) + x[r] . y[j], k long each; at most kDotRows rows of x.
  struct Dots {
    const float* x;
    int64_t x_row, x_rows;
    const float* y;
    int64_t y_row, y_rows;
    int64_t k;
    float* out;
    int64_t out_x, out_y;
    bool accumulate;
  };
  void (*dots)(const Dots& dots);

  void (*pack_a)(int64_t rows, int64_t k, const float* a, int64_t row_stride, int64_t column_stride, float* out);
  // Rows of a packed panel from neighbouring places: row r is a[columns[0 .. k) + r].
  void (*pack_a_run)(int64_t rows, int64_t k, const float* a, const int64_t* columns, float* out);
  // One panel: out[k, tile_columns], zeros past `columns`.
  void (*pack_b)(int64_t k, int64_t columns, const float* b, int64_t row_stride, int64_t column_stride, float* out);
  void (*pack_b_half)(int64_t k, int64_t columns, const uint16_t* b, int64_t row_stride, int64_t column_stride,
                      uint16_t* out);
  void (*widen)(int64_t n, const uint16_t* in, Storage storage, float* out);
  // A panel of few_bits.h as f32, [k, tile_columns].
  void (*widen_few_bits)(int64_t k, const std::byte* panel, const FewBits& bits, const FewBitsLayout& layout,
                         float* out);
  void (*finish)(const TileEnd& end);
};

const GemmOps& gemm_ops();

}  // namespace transmuter::cpu
