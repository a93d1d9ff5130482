// Matrix products in f32: C[m, n] = epilogue(A[m, k] B[k, n]), batched, every operand through strides (in elements).
//
// B is read in one of three ways: packed once by pack_b (weights), directly, or packed on the fly into the scratch; the
// caller only says whether it is packed. Weights packed as f16 or bf16 stay so and are widened on the way to the
// multipliers. Sums are f32 and run over k in an order that depends on the shape and the instruction set alone: any
// number of threads gives the same bits. C may not overlap A or B; about the residual see epilogue.h.
// Plain functions on memory the caller owns: nothing is allocated (but by pack_b), checked or thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "backends/cpu/kernels/epilogue.h"
#include "backends/cpu/kernels/few_bits.h"
#include "base/thread_pool.h"

namespace transmuter::cpu {

enum class Storage : uint8_t { f32, f16, bf16 };

// Bytes of one packed B, a multiple of 64. Depends on the instruction set in use (target.h).
size_t packed_b_bytes(int64_t k, int64_t n, Storage packed = Storage::f32);

// Told of bytes that will not be read again.
using Spent = std::function<void(const std::byte* bytes, size_t size)>;

// Packs B[k, n]. `packed` is f32 (widens) or the source's own storage. `out` is 64-byte aligned; B lies at any address.
// With `spent` a dense B is read piece by piece, so that it need not be in memory as a whole beside the packed one.
void pack_b(int64_t k, int64_t n, const void* b, Storage source, int64_t row_stride, int64_t column_stride,
            Storage packed, void* out, ThreadPool& pool, const Spent& spent = {});

struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_column = 1;
  const void* b = nullptr;  // packed: pack_b's output with b_storage = its `packed`
  Storage b_storage = Storage::f32;
  bool b_packed = false;
  FewBits b_bits = {};              // bits != 0: b is pack_few_bits's output, the same for all batches
  int64_t b_row = 0, b_column = 1;  // unused when packed
  float* c = nullptr;
  int64_t c_row = 0, c_column = 1;
  Epilogue epilogue = {};

  // Batch dimensions, outermost first. Strides in elements (of a packed B: in elements of its storage, that is
  // multiples of packed_b_bytes / size), 0 where an operand is shared. Biases: strides too.
  static constexpr int kMaxBatchRank = 4;
  int batch_rank = 0;
  int64_t batch[kMaxBatchRank] = {};
  int64_t a_batch[kMaxBatchRank] = {};
  int64_t b_batch[kMaxBatchRank] = {};
  int64_t c_batch[kMaxBatchRank] = {};
  int64_t residual_batch[kMaxBatchRank] = {};
  int64_t column_bias_batch[kMaxBatchRank] = {};
  int64_t row_bias_batch[kMaxBatchRank] = {};
};

// Bytes of scratch (64-byte aligned) that gemm needs with a pool of so many threads. Does not read the pointers.
size_t gemm_scratch_bytes(const GemmArgs& args, int threads);

void gemm(const GemmArgs& args, void* scratch, ThreadPool& pool);

// Several products that need nothing of each other, none of them empty, as one region of the pool. The same bits as one
// by one.
size_t gemm_group_scratch_bytes(std::span<const GemmArgs> products, int threads);
void gemm_group(std::span<const GemmArgs> products, void* scratch, ThreadPool& pool);

// The same, as plainly as it can be said; sums in double, B not packed. The reference of the tests.
void gemm_reference(const GemmArgs& args);

}  // namespace transmuter::cpu
