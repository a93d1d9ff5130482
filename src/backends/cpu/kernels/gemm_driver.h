// Inside the kernels: the product with a B whose rows lie anywhere, which is how a convolution reads its padded input.
#pragma once

#include "backends/cpu/kernels/gemm.h"

namespace transmuter::cpu {

// B[k, j] is at b[rows[k] + j]. Column j = y * pitch + x stands for pixel (y, x): result column y * width + x if x < width,
// else it is dropped. Whole register tiles are read: tile columns - 1 floats past the last must exist.
struct IndexedB {
  const int64_t* rows;
  int64_t pitch, width;
};

// As gemm.h, with g.n counting columns of B (dropped ones too); b_packed, b_row and b_column are unused.
size_t gemm_indexed_scratch_bytes(const GemmArgs& g, int threads);
void gemm_indexed(const GemmArgs& g, const IndexedB& b, void* scratch, ThreadPool& pool);

}  // namespace transmuter::cpu
