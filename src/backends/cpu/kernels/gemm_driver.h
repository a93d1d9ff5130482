// Inside the kernels: products with an operand that lies anywhere, which is how a convolution reads its padded input.
#pragma once

#include "backends/cpu/kernels/gemm.h"

namespace transmuter::cpu {

// B[k, j] is at b[rows[k] + j]. Column j = y * pitch + x stands for pixel (y, x): result column y * width + x if x <
// width, else it is dropped. Whole register tiles are read: tile columns - 1 floats past the last must exist.
struct IndexedB {
  const int64_t* rows;
  int64_t pitch, width;
};

// A[i, k] is at a[columns[k] + y * pitch + x], where i = y * width + x.
struct IndexedA {
  const int64_t* columns;
  int64_t pitch, width;
};

// As gemm.h; of the indexed operand the strides within a matrix are not used. g.n counts columns of B, dropped ones
// too.
size_t gemm_indexed_b_scratch_bytes(const GemmArgs& g, int threads);
void gemm_indexed_b(const GemmArgs& g, const IndexedB& b, void* scratch, ThreadPool& pool);
size_t gemm_indexed_a_scratch_bytes(const GemmArgs& g, int threads);
void gemm_indexed_a(const GemmArgs& g, const IndexedA& a, void* scratch, ThreadPool& pool);

}  // namespace transmuter::cpu
