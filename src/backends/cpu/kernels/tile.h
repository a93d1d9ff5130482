// Fused elementwise clusters: a short program over tiles of float lanes that stay in the first-level cache, one vector
// loop an operation. Everything is computed in f32; loads widen and stores narrow. Masks are floats 0 and 1.
#pragma once

#include <cstdint>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter::cpu {

inline constexpr int kTileLanes = 256;
inline constexpr int kTileRegisters = 32;
inline constexpr int kTileMaxDims = 6;
inline constexpr int kTileMaxSteps = 120;  // inputs and outputs are fewer

// StableHLO's meaning where the name is StableHLO's: maximum, minimum and clamp propagate NaN, remainder truncates,
// sign keeps zeros and NaN.
enum class TileOp : uint8_t {
  load,      // dst <- inputs[a]
  store,     // outputs[b] <- register a
  constant,  // dst <- imm
  // one operand: a
  neg,
  abs,
  sign,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  exp,
  expm1,
  log,
  log1p,
  tanh,
  erf,
  logistic,
  sin,
  cos,
  floor,
  ceil,
  trunc,
  round_nearest_even,
  round_nearest_afz,
  is_finite,
  is_nan,
  logical_not,
  gelu,       // a (1 + erf(a / sqrt 2)) / 2
  gelu_tanh,  // the tanh form
  silu,       // a logistic(a)
  relu,       // max(a, 0)
  softplus,   // log(1 + exp(a)), no overflow
  add_imm,    // a + imm
  mul_imm,    // a * imm
  clamp_imm,  // max(min(a, imm2), imm)
  // two operands: a, b
  add,
  sub,
  mul,
  div,
  max,
  min,
  pow,
  remainder,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  logical_xor,
  // three operands: a, b, c
  fma,     // a b + c
  select,  // a != 0 ? b : c
  clamp,   // min(max(b, a), c): operand order of StableHLO (low, value, high)
};

struct TileStep {
  TileOp op;
  uint8_t dst = 0, a = 0, b = 0, c = 0;
  float imm = 0, imm2 = 0;
};

// Steps in order; a register may be written again once its value is dead. Stores come after all loads.
struct TileProgram {
  std::vector<TileStep> steps;
};

// Strides in elements, one for each dim of the iteration space; 0 broadcasts. Float kinds f16 bf16 f32 f64, integers of
// 8 to 64 bits, bool.
struct TileInput {
  const void* data;
  DType dtype;
  int64_t strides[kTileMaxDims];
};
// Row-major and dense over the iteration space. May be the memory of an input of the same element width that is read
// densely (in place); no other overlap. Float to integer truncates and saturates, NaN is 0; to bool: not equal 0.
struct TileOutput {
  void* data;
  DType dtype;
};

// Runs elements [begin, end) of the row-major iteration space dims[0..rank), rank <= kTileMaxDims. Fewer, larger dims
// are faster: collapse first. Allocates nothing; disjoint ranges may run on different threads.
void run_tile(const TileProgram& program, const int64_t* dims, int rank, const TileInput* inputs,
              const TileOutput* outputs, int64_t begin, int64_t end);

// The same computed in f64 or an integer dtype of 8 to 64 bits, by plain loops; inputs are converted to it when loaded.
// Integers wrap around; x / 0 is all ones, x remainder 0 is x; pow of integers truncates; logical_and, logical_or and
// logical_xor work on all bits, which for masks of 0 and 1 is the same. tile_takes tells which operations there are.
bool tile_takes(DType compute, TileOp op);
void run_tile_as(DType compute, const TileProgram& program, const int64_t* dims, int rank, const TileInput* inputs,
                 const TileOutput* outputs, int64_t begin, int64_t end);

}  // namespace transmuter::cpu
