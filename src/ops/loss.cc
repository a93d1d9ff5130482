// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
#include "ir/composites/composites.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

std::vector<int64_t> all_axes(int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

// -w[target] * x[target] for x [n, c, ...] and target [n, ...] (inputs 1 and 2: target and weight [c]), then none, the
// sum, or the sum over the sum of weights. A target of ignore_index counts for nothing, whatever it is.
Value loss_of(OpContext& op, Value x) {
  const std::string reduction = op.attribute_string("reduction", "mean");
  op.check(reduction == "none" || reduction == "sum" || reduction == "mean", "reduction ", reduction,
           " is not one of the operator's");
  const bool ignores = op.has_attribute("ignore_index");
  const int64_t ignored = op.attribute_int("ignore_index", 0);
  Builder& b = op.build();
  require_index(op, 1);
  const Value target = b.convert(op.input(1), DType::i64);
  const Dims shape = b.shape(x), places = b.shape(target);
  op.check(shape.size() >= 2 && places.size() + 1 == shape.size(),
           "the target must have one axis fewer than the input");
  std::vector<int64_t> without_classes{0};
  for (int64_t i = 2; i < b.rank(x); ++i) without_classes.push_back(i);
  const Value hit =
      b.compare(b.iota(DType::i64, shape, 1), b.broadcast_in_dim(target, shape, without_classes), CompareDirection::eq);
  const auto at_target = [&](Value v) { return b.reduce(b.select(hit, v, b.like(v, 0)), ir::ReduceKind::add, {1}); };
  Value weight = op.has_input(2) ? at_target(b.broadcast_in_dim(b.convert(op.input(2), b.dtype(x)), shape, {1}))
                                 : b.splat(b.dtype(x), 1, places);
  if (ignores) {
    const Value skip = b.broadcast_in_dim(b.integer(DType::i64, ignored), places, {});
    weight = b.select(b.compare(target, skip, CompareDirection::eq), b.like(weight, 0), weight);
  }
  const Value loss = b.multiply(b.negate(at_target(x)), weight);
  if (reduction == "none") return loss;
  const auto total = [&](Value v) {
    return b.rank(v) == 0 ? v : b.reduce(v, ir::ReduceKind::add, all_axes(b.rank(v)));
  };
  return reduction == "sum" ? total(loss) : b.divide(total(loss), total(weight));
}

Value widened(Builder& b, Value x) { return is_half(b.dtype(x)) ? b.convert(x, DType::f32) : x; }

void negative_log_likelihood(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  op.output(0, b.convert(loss_of(op, widened(b, op.input(0))), op.dtype(0)));
}

// Outputs: the loss of log_softmax over the classes, and that.
void softmax_cross_entropy(OpContext& op) {
  require_float(op, 0);
  Builder& b = op.build();
  const Value log = ir::log_softmax(b, widened(b, op.input(0)), op.axis(1, op.rank(0)));
  op.output(0, b.convert(loss_of(op, log), op.dtype(0)));
  if (op.wants_output(1)) op.output(1, b.convert(log, op.dtype(0)));
}

}  // namespace

void register_loss(Registry& r) {
  r.add("NegativeLogLikelihoodLoss", {12, 13, 22}, negative_log_likelihood);
  r.add("SoftmaxCrossEntropyLoss", {12, 13}, softmax_cross_entropy);
}

}  // namespace transmuter::ops
