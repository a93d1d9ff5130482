// Min, Max, Sum, Mean of one or more inputs that broadcast together. NaN wins in Min and Max.
#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;
using Combine = Value (Builder::*)(Value, Value);

void check_inputs(OpContext& op) {
  op.check(op.input_count() >= 1, "at least one input is needed");
  require_numeric(op, 0);
  for (size_t i = 1; i < op.input_count(); ++i) require_same_dtype(op, 0, i);
}

Value combine_all(OpContext& op, Combine combine) {
  Value result = op.input(0);
  for (size_t i = 1; i < op.input_count(); ++i) {
    const auto [a, b] = op.build().numpy_broadcast(result, op.input(i));
    result = (op.build().*combine)(a, b);
  }
  return result;
}

template <Combine combine, ScalarFn2 rule>
void variadic(OpContext& op) {
  check_inputs(op);
  if (op.input_count() == 1) return op.output(0, op.traced(0));
  Known known = op.known(0);
  for (size_t i = 1; i < op.input_count() && known; ++i) known = zip_known(known, op.known(i), op.dtype(0), rule);
  output_known_or(op, 0, std::move(known), [&] { return combine_all(op, combine); });
}

void mean(OpContext& op) {
  check_inputs(op);
  require_float(op, 0);
  if (op.input_count() == 1) return op.output(0, op.traced(0));
  const Value sum = combine_all(op, &Builder::add);
  op.output(0, op.build().divide(sum, op.build().like(sum, static_cast<double>(op.input_count()))));
}

}  // namespace

void register_variadic(Registry& r) {
  r.add("Min", {6, 8, 12, 13}, variadic<&Builder::minimum, minimum_scalars>);
  r.add("Max", {6, 8, 12, 13}, variadic<&Builder::maximum, maximum_scalars>);
  r.add("Sum", {6, 8, 13}, variadic<&Builder::add, add_scalars>);
  r.add("Mean", {6, 8, 13}, mean);
}

}  // namespace transmuter::ops
