// NonZero, Compress, Unique, NonMaxSuppression: the number of results depends on the data, unless what is known of it
// settles that.
#include "ir/composites/composites.h"
#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// Is the element nonzero, as far as that is settled without a guard?
std::optional<bool> settled_truth(const Scalar& s) {
  if (!s.known()) return std::nullopt;
  const Scalar truth = cast_scalar(s, DType::boolean);
  return truth.known() ? settled(truth.dim) : std::nullopt;
}

std::optional<std::vector<bool>> settled_truths(const Known& known) {
  const auto list = listed(known);
  if (!list) return std::nullopt;
  std::vector<bool> truths;
  for (const Scalar& s : *list) {
    const std::optional<bool> truth = settled_truth(s);
    if (!truth) return std::nullopt;
    truths.push_back(*truth);
  }
  return truths;
}

// All indices of a shape, [rank, count].
void output_all_indices(OpContext& op, const Dims& shape) {
  const Dim count = product(shape);
  if (shape.size() == 1) return op.output(0, Known::iota(DType::i64, {1, count}, 1, 0, 1));
  Builder& b = op.build();
  std::vector<Value> rows;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    rows.push_back(b.reshape(b.iota(DType::i64, shape, static_cast<int64_t>(axis)), {1, count}));
  op.output(0, b.concatenate(std::move(rows), 0));
}

void nonzero(OpContext& op) {
  const Dims shape = op.shape(0);
  const int64_t rank = op.rank(0);
  const Known& known = op.known(0);
  if (const auto truths = settled_truths(known)) {
    const Shape extents = *constant_shape(shape);
    std::vector<std::vector<Scalar>> rows(static_cast<size_t>(rank));
    int64_t count = 0;
    for (size_t i = 0; i < truths->size(); ++i) {
      if (!(*truths)[i]) continue;
      ++count;
      int64_t rest = static_cast<int64_t>(i);
      for (size_t axis = extents.size(); axis-- > 0; rest /= extents[axis])
        rows[axis].emplace_back(Dim(rest % extents[axis]));
    }
    std::vector<Scalar> elements;
    for (const auto& row : rows) elements.insert(elements.end(), row.begin(), row.end());
    return op.output(0, Known::of(DType::i64, {rank, count}, std::move(elements)));
  }
  if (known.kind == Known::Kind::splat) {
    const std::optional<bool> truth = settled_truth(known.value);
    if (truth && *truth) return output_all_indices(op, shape);
    if (truth) return op.output(0, Known::of(DType::i64, {rank, 0}, {}));
  }
  op.output(0, ir::nonzero(op.build(), op.input(0)));
}

void compress(OpContext& op) {
  require_bool(op, 1);
  op.check(op.rank(1) == 1, "the condition must be 1-D, has rank ", op.rank(1));
  const bool flat = !op.has_attribute("axis");
  const int64_t axis = flat ? -1 : op.axis(op.attribute_int("axis"), op.rank(0));
  Builder& b = op.build();
  const Dim extent = flat ? product(op.shape(0)) : op.shape(0)[static_cast<size_t>(axis)];
  require(less_equal(op.shape(1)[0], extent), "Compress: the condition is longer than the axis");
  if (const auto truths = settled_truths(op.known(1))) {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < truths->size(); ++i)
      if ((*truths)[i]) positions.push_back(static_cast<int64_t>(i));
    const Shape shape{static_cast<int64_t>(positions.size())};
    const Value x = flat ? b.reshape(op.input(0), {extent}) : op.input(0);
    return op.output(0, take(b, x, flat ? 0 : axis, b.constant(Tensor(positions, shape))));
  }
  op.output(0, ir::compress(b, op.input(0), op.input(1), axis));
}

void unique(OpContext& op) {
  const bool sorted = op.attribute_int("sorted", 1) != 0;
  const int64_t axis = op.has_attribute("axis") ? op.axis(op.attribute_int("axis"), op.rank(0)) : -1;
  const std::vector<Value> results = ir::unique(op.build(), op.input(0), axis, sorted);
  for (size_t i = 0; i < results.size(); ++i)
    if (op.wants_output(i)) op.output(i, results[i]);
}

// com.microsoft's: values in the order in which they come first, where each element's value is, counts.
void unique_in_order(OpContext& op) {
  op.check(op.rank(0) == 1, "the input must have rank 1, has ", op.rank(0));
  const std::vector<Value> results = ir::unique(op.build(), op.input(0), -1, false);
  op.output(0, results[0]);
  if (op.wants_output(1)) op.output(1, results[2]);
  if (op.wants_output(2)) op.output(2, results[3]);
}

// Without max_output_boxes_per_class (or with 0) nothing is chosen.
void non_max_suppression(OpContext& op) {
  const bool center = op.attribute_int("center_point_box", 0) != 0;
  op.check(op.dtype(0) == DType::f32 && op.dtype(1) == DType::f32, "boxes and scores must be float32");
  Builder& b = op.build();
  const auto number = [&](size_t i) { return b.reshape(op.input(i), {}); };
  const Value most = op.has_input(2) ? b.convert(number(2), DType::i64) : b.integer(DType::i64, 0);
  const Value overlap = op.has_input(3) ? number(3) : b.scalar(DType::f32, 0);
  const Value least = op.has_input(4) ? number(4) : Value();
  op.output(0, ir::nms(b, op.input(0), op.input(1), most, overlap, least, center));
}

}  // namespace

void register_data_dependent(Registry& r) {
  r.add("NonZero", {9, 13}, nonzero);
  r.add("Compress", {9, 11, 28}, compress);
  r.add("Unique", {11, 28}, unique);
  r.add("Unique", {1}, unique_in_order, kMicrosoft);
  r.add("NonMaxSuppression", {10, 11}, non_max_suppression);
}

}  // namespace transmuter::ops
