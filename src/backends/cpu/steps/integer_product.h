// Products of eight-bit integers: steps for those that a program has, and for products of dequantized values, which
// are the same in integers up to the rounding of f32 (sum (x - zx) sx (w - 0) sw = sx sw (sum x w - zx sum w)).
#pragma once

#include <optional>
#include <vector>

#include "backends/cpu/plan/planner.h"

namespace transmuter::cpu {

inline bool eight_bits(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

// The elements of a constant that is repeated along all axes but one, or of a single one; axis -1 then.
std::optional<std::vector<double>> fixed_numbers(const Planner& planner, ir::Value v, int64_t& axis);

// A value (x - zero) * scale in f32, zero and scale constants: one of each, or one for each place along `axis`.
struct Dequantized {
  ir::Value x;  // of eight bits
  std::vector<double> zero, scale;
  int64_t axis = -1;  // of the scales; -1: there is one
};
std::optional<Dequantized> match_dequantized(const Planner& planner, ir::Value v);

// A product of the two in integers: x with one scale, the fixed weight `w` with zeros of 0 and scales along `channels`.
struct QuantizedProduct {
  ir::Value x;
  int32_t x_zero;
  ir::Value w;
  std::vector<float> scales;  // of the channels: x's times w's
};
std::optional<QuantizedProduct> match_quantized_product(const Planner& planner, const ir::Op& product, int64_t channels,
                                                        int64_t channel_count, int64_t depth);

// Convolutions of bytes that are left: sums in int32. As plan_quantized_convolution().
bool plan_integer_convolution(Planner& planner, const ir::Op& op);  // steps/integer_sums_step.cc

// Sums of bytes times such scales, and their quotients by one, are finite.
bool moderate(double scale);

// What makes bytes of a float: QuantizeLinear with one scale, moderate and positive, and zero point.
struct Requantized {
  ir::Value result;
  const ir::Op* last;
  float scale;
  int32_t zero;
};
// Follows the only users of `v`; absorbs what it takes.
std::optional<Requantized> match_requantized(Planner& planner, ir::Value v);

// What follows the quotient by the scale in QuantizeLinear to eight bits: rounding, a zero point perhaps, the bounds.
struct ByteTail {
  ir::Value zero;                    // f32, of the quotient's shape; none: 0
  std::vector<const ir::Op*> taken;  // to be absorbed, the last one gives the bytes
};
std::optional<ByteTail> match_byte_tail(const Planner& planner, const ir::Op& quotient);

// `user`, whose step reads `keep` instead, does not read `v` any more; what nobody else reads has nothing to do.
void absorb_unread(Planner& planner, ir::Value v, const ir::Op& user, ir::Value keep);

}  // namespace transmuter::cpu
