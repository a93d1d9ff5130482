#include "ops/ml.h"

#include <numbers>

#include "ir/composites/composites.h"
#include "ops/attention_parts.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::ReduceKind;
using ir::Value;

namespace {

// sqrt(2) * the inverse error function of 2 x - 1, by Winitzki's approximation.
Value probit(Builder& b, Value x) {
  constexpr double kA = 0.147;
  const auto number = [&](double value) { return b.like(x, value); };
  const Value y = b.subtract(b.multiply(x, number(2)), number(1));
  const Value log = b.log(b.multiply(b.subtract(number(1), y), b.add(number(1), y)));
  const Value v = b.add(number(2 / (std::numbers::pi * kA)), b.multiply(log, number(0.5)));
  const Value inner = b.subtract(b.multiply(v, v), b.multiply(log, number(1 / kA)));
  const Value root = b.sqrt(b.subtract(b.sqrt(inner), v));
  return b.multiply(b.multiply(b.sign(y), root), number(std::numbers::sqrt2));
}

// As softmax among the scores that are not zero; zeros stay.
Value softmax_zero(Builder& b, Value x) {
  const Dims shape = b.shape(x);
  const Value greatest = b.broadcast_to(b.reduce_keep(x, ReduceKind::max, {1}), shape);
  const Value counts = b.compare(b.abs(x), b.like(x, 1e-7), CompareDirection::gt);
  const Value e = b.select(counts, b.exponential(b.subtract(x, greatest)), b.like(x, 0));
  const Value sum = b.reduce_keep(e, ReduceKind::add, {1});
  const Value safe = b.select(b.compare(sum, b.like(sum, 0), CompareDirection::gt), sum, b.like(sum, 1));
  return b.divide(e, b.broadcast_to(safe, shape));
}

}  // namespace

Value post_transform(OpContext& op, Value scores, const std::string& kind) {
  Builder& b = op.build();
  if (kind == "NONE") return scores;
  if (kind == "SOFTMAX") return ir::softmax(b, scores, 1);
  if (kind == "LOGISTIC") return b.logistic(scores);
  if (kind == "SOFTMAX_ZERO") return softmax_zero(b, scores);
  if (kind == "PROBIT") return probit(b, scores);
  op.invalid("post_transform ", kind, " is not one of the operator's");
}

Value features_of(OpContext& op) {
  Builder& b = op.build();
  require_numeric(op, 0);
  const Value x = b.convert(op.input(0), op.dtype(0) == DType::f64 ? DType::f64 : DType::f32);
  if (b.rank(x) == 1) return b.expand_dims(x, {0});
  op.check(b.rank(x) == 2, "the input must have rank 1 or 2, has ", b.rank(x));
  return x;
}

std::vector<double> numbers_attribute(OpContext& op, const char* floats, const char* tensor) {
  if (const std::optional<Tensor> given = op.attribute_tensor(tensor))
    return given->aligned().cast(DType::f64).to_vector<double>();
  const std::vector<float> values = op.attribute_floats(floats, {});
  return std::vector<double>(values.begin(), values.end());
}

int64_t label_count(OpContext& op, const char* integers, const char* names) {
  const auto numbers = op.attribute_ints_optional(integers);
  if (numbers && !numbers->empty()) return static_cast<int64_t>(numbers->size());
  return static_cast<int64_t>(op.attribute_strings(names, {}).size());
}

void output_labels(OpContext& op, Value positions, const char* integers, const char* names) {
  if (std::vector<std::string> texts = op.attribute_strings(names, {}); !texts.empty())
    return op.output_texts(0, positions, std::move(texts));
  const std::vector<int64_t> labels = op.attribute_ints(integers);
  Builder& b = op.build();
  const Value table = b.constant(Tensor(labels, {static_cast<int64_t>(labels.size())}));
  op.output(0, take_rows(b, table, positions));
}

void output_binary_labels(OpContext& op, Value score, double bound, const char* integers, const char* names) {
  Builder& b = op.build();
  const Value above = b.compare(score, b.like(score, bound), CompareDirection::gt);
  output_labels(op, b.convert(b.squeeze(above, {1}), DType::i64), integers, names);
}

}  // namespace transmuter::ops
