// What two-operand operators share: NumPy broadcasting, the broadcast attributes of opsets before 7, iotas.
#pragma once

#include <utility>

#include "ops/known_moves.h"
#include "ops/support.h"

namespace transmuter::ops {

// Both inputs with one shape. Before opset 7 input 1 broadcasts only if `broadcast` is set, aligned at `axis`.
std::pair<ir::Value, ir::Value> broadcast_operands(OpContext& op);
// The same for what is known of them: false when the shapes of opsets before 7 keep it from being said.
bool known_operands_align(OpContext& op);

// zip_known, and besides: iota (+ - *) a single integer, and comparisons of an iota with one integer that intervals
// settle for all elements.
enum class IotaRule : uint8_t { none, add, subtract, multiply, compare };
Known zip_operands(OpContext& op, DType dtype, ScalarFn2 fn, IotaRule rule);

}  // namespace transmuter::ops
