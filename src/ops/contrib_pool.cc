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

// As ONNX Runtime's kernel has it: in each row of a window a masked element (0) ends the row, but for the image's very
// first element. The mask may have fewer images and channels, which repeat.
void masked_max_pool(OpContext& op) {
  op.ignore_attributes({"storage_order"});  // of positions, which are no output here
  require_float(op, 0);
  op.check(op.rank(0) == 4, "the input must have rank 4, has ", op.rank(0));
  Builder& b = op.build();
  const Value x = op.input(0);
  const Dims shape = b.shape(x);
  const PoolWindows w = read_pool(op, shape);
  const auto at_start = [&](int64_t axis) {
    const Value place = b.iota(DType::i64, shape, axis);
    return b.compare(place, b.like(place, 0), ir::CompareDirection::eq);
  };
  const Value mask = b.broadcast_to(op.input(1), shape);
  const Value counts =
      b.logical_or(b.compare(mask, b.like(mask, 0), ir::CompareDirection::ne), b.logical_and(at_start(2), at_start(3)));
  Dims low(4, Dim(0)), high(4, Dim(0)), limit = shape, stride(4, Dim(1));
  for (size_t i = 0; i < 2; ++i) {
    low[i + 2] = w.low[i];
    limit[i + 2] = (w.out[i] - 1) * Dim(w.strides[i]) + 1;
    high[i + 2] = limit[i + 2] - 1 + w.reach(i) - w.input[i] - w.low[i];
    stride[i + 2] = w.strides[i];
  }
  const Dims none(4, Dim(0));
  const Value lowest = b.scalar(b.dtype(x), std::numeric_limits<float>::lowest());
  const Value yes = b.scalar(DType::boolean, 1);
  const Value elements = b.pad(x, lowest, low, high, none), open = b.pad(counts, yes, low, high, none);
  Value best;
  for (int64_t row = 0; row < w.kernel[0].hint(); ++row) {
    Value alive;
    for (int64_t column = 0; column < w.kernel[1].hint(); ++column) {
      const Dims from{0, 0, row * w.dilations[0], column * w.dilations[1]};
      const Dims to{limit[0], limit[1], limit[2] + from[2], limit[3] + from[3]};
      const Value here = b.slice(open, from, to, stride);
      alive = alive ? b.logical_and(alive, here) : here;
      const Value value = b.slice(elements, from, to, stride);
      const Value taken = b.select(alive, value, b.broadcast_to(lowest, b.shape(value)));
      best = best ? b.maximum(best, taken) : taken;
    }
  }
  op.output(0, best);
}

}  // namespace

void register_contrib_pool(Registry& r) {
  r.add("NhwcMaxPool", {1}, nhwc_max_pool, kMicrosoft);
  r.add("MaxpoolWithMask", {1}, masked_max_pool, kMicrosoft);
}

}  // namespace transmuter::ops
