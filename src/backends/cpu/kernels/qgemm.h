// Matrix products of 8-bit integers, exact: sum over k of (A[m, k] - a_zero) (B[k, n] - b_zero) in 32 bits, as int32 or
// scaled to f32 with an epilogue. No instruction that saturates pair sums is used where it could. Elements of either
// operand are signed or unsigned. B is packed once. The result does not depend on threads or instruction set.
// Plain functions on memory the caller owns: nothing is allocated, checked or thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/epilogue.h"
#include "backends/cpu/kernels/patches.h"
#include "base/thread_pool.h"

namespace transmuter::cpu {

// Bytes of one packed B[k, n], a multiple of 64. Depends on the instruction set in use (target.h).
size_t packed_qb_bytes(int64_t k, int64_t n);
// `out` is 64-byte aligned. Strides in elements.
void pack_qb(int64_t k, int64_t n, const void* b, bool is_signed, int64_t row_stride, int64_t column_stride, void* out,
             ThreadPool& pool);

// The sums of B's columns, n of them, as B was given.
std::vector<int32_t> packed_qb_sums(const void* packed, int64_t k, int64_t n, bool is_signed);

struct QgemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  bool a_signed = false;
  int64_t a_row = 0, a_column = 1;
  const BytePatches* patches = nullptr;  // the rows of A are windows of the images at `a` (k: their depth), no batches
  const void* packed_b = nullptr;
  bool b_signed = true;  // as given to pack_qb

  // Zero points: null means 0; `_per_row`, `_per_column`: m or n of them, else one.
  const int32_t* a_zero = nullptr;
  bool a_zero_per_row = false;
  const int32_t* b_zero = nullptr;
  bool b_zero_per_column = false;

  const int32_t* column_shift = nullptr;  // n: subtracted from the sums of each column

  // One of the three results is set.
  int32_t* sums = nullptr;
  float* c = nullptr;     // epilogue(a_scale * b_scale * sum)
  void* bytes = nullptr;  // saturate(round_half_even(what c would be / bytes_scale) + bytes_zero), NaN the least value
  bool bytes_signed = false;
  float bytes_scale = 1;
  int32_t bytes_zero = 0;
  int64_t c_row = 0, c_column = 1;  // of each of them; bytes: columns run on
  const float* a_scale = nullptr;   // null means 1
  bool a_scale_per_row = false;
  const float* b_scale = nullptr;
  bool b_scale_per_column = false;
  Epilogue epilogue = {};

  // Batches, outermost first; strides in elements, of B in bytes of packed memory. Zero points, scales and biases are
  // shared.
  static constexpr int kMaxBatchRank = 4;
  int batch_rank = 0;
  int64_t batch[kMaxBatchRank] = {};
  int64_t a_batch[kMaxBatchRank] = {};
  int64_t b_batch[kMaxBatchRank] = {};
  int64_t c_batch[kMaxBatchRank] = {};
  int64_t residual_batch[kMaxBatchRank] = {};
};

// Bytes of scratch (64-byte aligned) for a pool of so many threads. Of the pointers it reads `patches`, and whether
// `b_zero` is null.
size_t qgemm_scratch_bytes(const QgemmArgs& args, int threads);
void qgemm(const QgemmArgs& args, void* scratch, ThreadPool& pool);

// The sums of one matrix as plainly as it can be said, B not packed: out[m, n] dense.
void qgemm_reference(const QgemmArgs& args, const void* b, int64_t b_row, int64_t b_column, int32_t* out);

}  // namespace transmuter::cpu
