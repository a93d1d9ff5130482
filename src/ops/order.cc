// TopK, CumSum, CumProd.
#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

// NaN is the greatest; of equal elements the one before comes first. The result is sorted whether it must be or not.
void topk(OpContext& op) {
  require_numeric(op, 0);
  op.ignore_attributes({"sorted"});  // unsorted allows any order
  const bool largest = op.version() < 11 || op.attribute_int("largest", 1) != 0;
  const int64_t axis = op.axis(op.attribute_int("axis", -1), op.rank(0));
  const Dim k = op.version() < 10 ? Dim(op.attribute_int("k")) : op.require_dim(1);
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  require(less_equal(0, k), "TopK: k is negative");
  require(less_equal(k, extent), str("TopK: k exceeds the extent of axis ", axis));
  const auto [values, indices] = ir::topk(op.build(), op.input(0), axis, k, largest);
  op.output(0, values);
  op.output(1, indices);
}

template <ir::ReduceKind kind>
void cumulative(OpContext& op) {
  require_numeric(op, 0);
  const bool exclusive = op.attribute_int("exclusive", 0) != 0, reverse = op.attribute_int("reverse", 0) != 0;
  require_index(op, 1);
  const int64_t axis = op.axis(op.require_int(1), op.rank(0));
  op.output(0, ir::cumulative(op.build(), op.input(0), kind, axis, exclusive, reverse));
}

}  // namespace

void register_order(Registry& r) {
  r.add("TopK", {1, 10, 11, 24}, topk);
  r.add("CumSum", {11, 14}, cumulative<ir::ReduceKind::add>);
  r.add("CumProd", {26}, cumulative<ir::ReduceKind::mul>);
}

}  // namespace transmuter::ops
