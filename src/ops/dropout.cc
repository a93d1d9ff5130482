// Dropout. In inference the input as it is and a mask of ones; in training mode (opset 12 on) each element is dropped
// with the probability `ratio` and the others are scaled by 1 / (1 - ratio).
#include "ops/random.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

void output_unchanged(OpContext& op) {
  op.output(0, op.traced(0));
  // Before opset 10 the mask had the data's dtype.
  const DType dtype = op.version() < 10 ? op.dtype(0) : DType::boolean;
  if (op.wants_output(1)) op.output(1, op.build().splat(dtype, 1, op.shape(0)));
}

void dropout(OpContext& op) {
  if (op.version() < 12) {
    op.ignore_attributes({"ratio", "is_test", "consumed_inputs"});  // of training, which these graphs left
    return output_unchanged(op);
  }
  const Stream stream =
      op.has_attribute("seed") ? stream_of(op, static_cast<uint64_t>(op.attribute_int("seed"))) : stream_of(op, {});
  if (!op.has_input(2) || op.require_int(2) == 0) return output_unchanged(op);
  require_float(op, 0);
  Builder& b = op.build();
  const Dims shape = op.shape(0);
  const Value ratio = op.has_input(1) ? b.convert(b.reshape(op.input(1), {}), DType::f32) : b.scalar(DType::f32, 0.5);
  const Value wide = b.broadcast_in_dim(ratio, shape, {});
  const Value kept = b.compare(uniform_draws(op, shape, stream), wide, CompareDirection::ge);
  op.output(0, in_single(b, op.input(0), [&](Value x) {
              const Value rest = b.convert(b.subtract(b.like(wide, 1), wide), b.dtype(x));
              return b.select(kept, b.divide(x, rest), b.like(x, 0));
            }));
  if (op.wants_output(1)) op.output(1, kept);
}

}  // namespace

void register_dropout(Registry& r) { r.add("Dropout", {1, 6, 7, 10, 12, 13, 22}, dropout); }

}  // namespace transmuter::ops
