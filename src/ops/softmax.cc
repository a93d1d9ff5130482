// Softmax, LogSoftmax, Hardmax. Before opset 13 the input is a matrix, split before `axis` (default 1); from 13 on one
// axis (default -1).
#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

template <class Fn>
void along_axis(OpContext& op, Fn fn) {
  require_float(op, 0);
  Builder& b = op.build();
  const int64_t rank = op.rank(0);
  const Value x = op.input(0);
  if (op.version() >= 13) return op.output(0, fn(b, x, op.axis(op.attribute_int("axis", -1), rank)));
  const int64_t given = op.attribute_int("axis", 1);
  const int64_t axis = given == rank ? rank : op.axis(given, rank);
  if (axis == rank - 1) return op.output(0, fn(b, x, axis));
  const Dims& shape = b.shape(x);
  const Dims rows(shape.begin(), shape.begin() + axis), columns(shape.begin() + axis, shape.end());
  const Value matrix = b.reshape(x, {product(rows), product(columns)});
  op.output(0, b.reshape(fn(b, matrix, 1), shape));
}

void softmax(OpContext& op) {
  along_axis(op, [](Builder& b, Value x, int64_t axis) { return ir::softmax(b, x, axis); });
}

void log_softmax(OpContext& op) {
  along_axis(op, [](Builder& b, Value x, int64_t axis) { return ir::log_softmax(b, x, axis); });
}

// 1 at the first greatest element, 0 elsewhere.
void hardmax(OpContext& op) {
  along_axis(op, [](Builder& b, Value x, int64_t axis) {
    const Dims& shape = b.shape(x);
    const Value best = b.expand_dims(ir::argmax(b, x, axis), {axis});
    const Value hit = b.compare(b.iota(DType::i64, shape, axis), b.broadcast_to(best, shape), ir::CompareDirection::eq);
    return b.convert(hit, b.dtype(x));
  });
}

}  // namespace

void register_softmax(Registry& r) {
  r.add("Softmax", {1, 11, 13}, softmax);
  r.add("LogSoftmax", {1, 11, 13}, log_softmax);
  r.add("Hardmax", {1, 11, 13}, hardmax);
}

}  // namespace transmuter::ops
