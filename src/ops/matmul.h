// Matrix products as NumPy's matmul has them, for the operators that hold one (MatMul, FusedMatMul, MatMulInteger ...).
#pragma once

#include "ops/context.h"

namespace transmuter::ops {

// a [..., m, k] x b [..., k, n] -> [..., m, n]; batch extents broadcast; a vector loses its axis. Only extents that
// both operands have become batch axes of the product: one that the other lacks (or has as 1) is a free axis, so
// nothing is repeated in memory. `result` is the dtype of the product.
ir::Value matmul(ir::Builder& build, ir::Value a, ir::Value b, DType result);

// The last two axes exchanged; a vector stays.
ir::Value swap_last_axes(ir::Builder& build, ir::Value x);

// Gemm's product of the node's inputs 0, 1 and 2; reads alpha, beta, transA, transB.
ir::Value gemm(OpContext& op);

}  // namespace transmuter::ops
