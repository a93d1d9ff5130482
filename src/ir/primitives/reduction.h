// What a ReduceKind means: identity, combination, text. Shared by reduce, reduce_window and
// scatter.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "ir/primitive.h"
#include "ir/primitives/attributes.h"

namespace transmuter::ir {

// Numbers and bool for add, mul, min, max (bool: or, and, and, or); integers and bool for and, or.
bool kind_takes(ReduceKind kind, DType dtype);

// The identity as a value of the accumulator type of `dtype` (dispatch_accumulator).
double identity_double(ReduceKind kind);
int64_t identity_integer(ReduceKind kind, DType dtype);  // u64's largest value as its bits
template <class A>
A identity_of(ReduceKind kind, DType dtype) {
  if constexpr (std::is_same_v<A, double>)
    return identity_double(kind);
  else
    return static_cast<A>(identity_integer(kind, dtype));
}

// Integers wrap around; NaN wins in min and max.
template <ReduceKind kind, class A>
A combine(A a, A b) {
  if constexpr (kind == ReduceKind::max) {
    return a >= b || a != a ? a : b;
  } else if constexpr (kind == ReduceKind::min) {
    return a <= b || a != a ? a : b;
  } else if constexpr (std::is_integral_v<A>) {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    if constexpr (kind == ReduceKind::add) return static_cast<A>(x + y);
    if constexpr (kind == ReduceKind::mul) return static_cast<A>(x * y);
    return static_cast<A>(kind == ReduceKind::logical_and ? x & y : x | y);
  } else {
    return kind == ReduceKind::add ? a + b : a * b;
  }
}

// fn.template operator()<kind>()
template <class Fn>
decltype(auto) dispatch_kind(ReduceKind kind, const Fn& fn) {
  switch (kind) {
    case ReduceKind::add:
      return fn.template operator()<ReduceKind::add>();
    case ReduceKind::mul:
      return fn.template operator()<ReduceKind::mul>();
    case ReduceKind::min:
      return fn.template operator()<ReduceKind::min>();
    case ReduceKind::max:
      return fn.template operator()<ReduceKind::max>();
    case ReduceKind::logical_and:
      return fn.template operator()<ReduceKind::logical_and>();
    default:
      return fn.template operator()<ReduceKind::logical_or>();
  }
}

const char* stablehlo_name(ReduceKind kind);
// "({ ^bb0(...): ... })": applies op_name to two 0-d arguments. Names carry the op's first result id.
std::string combine_region(const PrintContext& ctx, const char* op_name, DType dtype);
// The identity as a further operand, with the constant op that defines it.
void add_identity_operand(const PrintContext& ctx, ReduceKind kind, DType dtype, PrintedOp& out);

}  // namespace transmuter::ir
