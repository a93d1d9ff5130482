// What one instruction set contributes to a product with rounded activations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/few_bits.h"

namespace transmuter::cpu {

inline constexpr int64_t kMaxRoundedRows = 14;

// A panel of rounded rows has its blocks one after the other, each with a scale (f32) a row, a term (i32) a row, which
// is the sum of the row's elements, times -zero where all weights share it; then cells of four elements, those of all
// rows side by side. The elements of a cell are those that lie at the same place of the bytes of a word of weights.
inline int64_t rounded_row_bytes(int64_t k, const FewBits& bits) {
  return (k + bits.block - 1) / bits.block * (bits.block + 8);
}

struct RoundedOps {
  int64_t tile_rows;     // 0: there are no kernels
  int64_t tile_columns;  // as GemmOps has it
  bool eight_bits;       // whether there are tiles for weights of eight bits
  // Row `row` of a panel of `rows`; a is contiguous.
  void (*round_row)(const float* a, int64_t k, const FewBits& bits, int64_t row, int64_t rows, std::byte* panel);
  // out[rows, tile_columns] = the product.
  using Tile = void (*)(const std::byte* a, const std::byte* b, const FewBits& bits, const FewBitsLayout& layout,
                        int64_t k, float* out, int64_t out_row);
  const Tile* tiles[3];  // by bits: 2, 4, 8; [rows - 1]
};

const RoundedOps& rounded_ops();

}  // namespace transmuter::cpu
