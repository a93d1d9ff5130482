// Products with weights of a few bits (few_bits.h) whose activations are rounded to eight bits on the way, each block
// of a row symmetrically with a scale of its own: q = round(a * 127 / max|a|). The sums within a block are integers and
// exact, so the result depends neither on the threads nor on the instruction set's width, only on the rounding. A block
// that holds a NaN gives NaN, one that holds an infinity gives NaN or an infinity.
#pragma once

#include <cstddef>
#include <span>

#include "backends/cpu/kernels/gemm.h"

namespace transmuter::cpu {

// Whether the instruction set in use (target.h) has a kernel for such weights.
bool rounded_gemm_takes(const FewBits& bits);

// As gemm_group of gemm.h. All products read the same A (m, k, strides and batch too).
size_t rounded_gemm_scratch_bytes(std::span<const GemmArgs> products, int threads);
void rounded_gemm(std::span<const GemmArgs> products, void* scratch, ThreadPool& pool);

}  // namespace transmuter::cpu
