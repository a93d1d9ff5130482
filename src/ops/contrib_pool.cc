// com.microsoft NhwcMaxPool and MaxpoolWithMask.
#include <limits>

#include "ops/conv.h"
#include "ops/pool.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::ReduceKind;
using ir::Value;

void nhwc_max_pool(OpContext& op) {
  require_numeric(op, 0);
  op.check(op.rank(0) >= 3, "the input must have a spatial axis, has rank ", op.rank(0));
  Builder& b = op.build();
  const Value x = channels_second(b, op.input(0));
  const Value y = pool_windows(b, x, ReduceKind::max, read_pool(op, b.shape(x)));
  op.output(0, channels_last(b, y));
}

// The greatest of the elements whose mask is not 0; the mask may have fewer images and channels, which repeat.
void masked_max_pool(OpContext& op) {
  op.ignore_attributes({"storage_order"});  // of positions, which are no output here
  require_float(op, 0);
  Builder& b = op.build();
  const Value x = op.input(0), mask = op.input(1);
  const Value counts = b.compare(mask, b.like(mask, 0), ir::CompareDirection::ne);
  const Value masked = b.select(b.broadcast_to(counts, b.shape(x)), x, b.like(x, std::numeric_limits<float>::lowest()));
  op.output(0, pool_windows(b, masked, ReduceKind::max, read_pool(op, b.shape(x))));
}

}  // namespace

void register_contrib_pool(Registry& r) {
  r.add("NhwcMaxPool", {1}, nhwc_max_pool, kMicrosoft);
  r.add("MaxpoolWithMask", {1}, masked_max_pool, kMicrosoft);
}

}  // namespace transmuter::ops
