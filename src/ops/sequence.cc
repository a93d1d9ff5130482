// Sequences of known length and optionals: lists of traced values, which never reach the program. A sequence that a
// host value holds makes the node run eagerly.
#include <algorithm>

#include "onnx/tensor_proto.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Value;
using Items = std::vector<TracedPtr>;

const Items& sequence_items(OpContext& op, size_t i) {
  op.check(op.has_input(i), "input ", i, " is missing");
  op.check(op.traced(i)->is_sequence, "input ", i, " is not a sequence");
  return op.traced(i)->items;
}

void output_sequence(OpContext& op, Items items, DType element) {
  auto traced = std::make_shared<Traced>();
  traced->is_sequence = true;
  traced->type.dtype = element;
  traced->items = std::move(items);
  op.output(0, std::move(traced));
}

// A position in [-length, limit), from the end where negative.
size_t position(OpContext& op, size_t i, int64_t length, int64_t limit) {
  require_index(op, i);
  const int64_t given = op.require_int(i);
  op.check(given >= -length && given < limit, "position ", given, " is out of range for ", length, " items");
  return static_cast<size_t>(given < 0 ? given + length : given);
}

void check_element(OpContext& op, const Items& items, DType element, const Traced& added) {
  const DType dtype = items.empty() ? element : items[0]->type.dtype;
  op.check(dtype == DType::invalid || dtype == added.type.dtype, "a sequence of ", name(dtype), " cannot hold ",
           name(added.type.dtype));
}

void sequence_construct(OpContext& op) {
  op.check(op.input_count() >= 1, "at least one input is needed");
  Items items;
  for (size_t i = 0; i < op.input_count(); ++i) {
    op.check(op.has_input(i), "input ", i, " is missing");
    check_element(op, items, DType::invalid, *op.traced(i));
    items.push_back(op.traced(i));
  }
  const DType element = items[0]->type.dtype;
  output_sequence(op, std::move(items), element);
}

void sequence_empty(OpContext& op) {
  const int64_t dtype = op.attribute_int("dtype", 1);
  output_sequence(op, {}, onnx::dtype_of_number(static_cast<int32_t>(dtype)));
}

void sequence_at(OpContext& op) {
  const Items& items = sequence_items(op, 0);
  const int64_t length = static_cast<int64_t>(items.size());
  op.output(0, items[position(op, 1, length, length)]);
}

void sequence_length(OpContext& op) {
  op.output(0, Known::scalar(DType::i64, Scalar(Dim(static_cast<int64_t>(sequence_items(op, 0).size())))));
}

void sequence_insert(OpContext& op) {
  Items items = sequence_items(op, 0);
  op.check(op.has_input(1), "input 1 is missing");
  check_element(op, items, op.traced(0)->type.dtype, *op.traced(1));
  const int64_t length = static_cast<int64_t>(items.size());
  const size_t at = op.has_input(2) ? position(op, 2, length, length + 1) : items.size();
  items.insert(items.begin() + static_cast<int64_t>(at), op.traced(1));
  output_sequence(op, std::move(items), op.traced(1)->type.dtype);
}

void sequence_erase(OpContext& op) {
  Items items = sequence_items(op, 0);
  op.check(!items.empty(), "the sequence is empty");
  const int64_t length = static_cast<int64_t>(items.size());
  const size_t at = op.has_input(1) ? position(op, 1, length, length) : items.size() - 1;
  items.erase(items.begin() + static_cast<int64_t>(at));
  output_sequence(op, std::move(items), op.traced(0)->type.dtype);
}

// Lengths of the parts: equal ones of the given size (the last maybe shorter), or as listed; parts of 1 without a
// split.
Dims part_lengths(OpContext& op, Dim extent) {
  if (!op.has_input(1))
    return Dims(static_cast<size_t>(specialize(extent, "SplitToSequence: number of parts")), Dim(1));
  require_index(op, 1);
  const Dims given = op.require_dims(1);
  if (op.rank(1) == 1) {
    Dim sum = 0;
    for (const Dim& length : given) {
      require(less_equal(0, length), "SplitToSequence: a length is negative");
      sum = sum + length;
    }
    require_eq(sum, extent, "SplitToSequence: sum of the lengths");
    return given;
  }
  op.check(given.size() == 1, "split must hold one number");
  require(less(0, given[0]), "SplitToSequence: the size of a part must be positive");
  const int64_t count = specialize(ceil_div(extent, given[0]), "SplitToSequence: number of parts");
  Dims lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(i + 1 < count ? given[0] : extent - given[0] * Dim(count - 1));
  return lengths;
}

void split_to_sequence(OpContext& op) {
  const int64_t axis = op.axis(op.attribute_int("axis", 0), op.rank(0));
  // Only where no split is given may the axis disappear.
  const bool keep = op.attribute_int("keepdims", 1) != 0 || op.has_input(1);
  const size_t at = static_cast<size_t>(axis);
  const Dims extents = op.shape(0);
  Dims start(extents.size(), Dim(0)), limit = extents;
  const Dims stride(extents.size(), Dim(1));
  Items items;
  for (const Dim& length : part_lengths(op, extents[at])) {
    limit[at] = start[at] + length;
    Dims shape = extents;
    shape[at] = length;
    Known known = slice_known(op.known(0), start, limit, stride, shape);
    if (!keep) {
      shape.erase(shape.begin() + axis);
      known = reshape_known(known, shape);
    }
    auto item = std::make_shared<Traced>();
    item->type = {op.dtype(0), shape};
    if (!known.fully_known())
      item->value = op.build().reshape(op.build().slice(op.input(0), start, limit, stride), shape);
    item->known = std::move(known);
    items.push_back(std::move(item));
    start[at] = limit[at];
  }
  output_sequence(op, std::move(items), op.dtype(0));
}

void concat_from_sequence(OpContext& op) {
  const Items items = sequence_items(op, 0);
  const bool added = op.attribute_int("new_axis", 0) != 0;
  const int64_t given = op.attribute_int("axis");
  op.check(!items.empty(), "the sequence is empty");
  const int64_t rank = items[0]->type.rank() + (added ? 1 : 0);
  const int64_t axis = op.axis(given, rank);
  ir::Builder& b = op.build();
  std::vector<Value> parts;
  for (const TracedPtr& item : items) {
    op.check(item->type.rank() == items[0]->type.rank(), "items differ in rank");
    Value part = op.value_of(*item);
    parts.push_back(added ? b.expand_dims(part, {axis}) : part);
  }
  op.output(0, b.concatenate(std::move(parts), axis));
}

void optional(OpContext& op) {
  op.ignore_attributes({"type"});  // what an absent value would have been
  auto traced = std::make_shared<Traced>();
  traced->is_optional = true;
  if (op.has_input(0)) {
    traced->type.dtype = op.traced(0)->type.dtype;
    traced->items = {op.traced(0)};
  }
  op.output(0, std::move(traced));
}

void optional_has_element(OpContext& op) {
  const bool has = op.has_input(0) && (!op.traced(0)->is_optional || !op.traced(0)->items.empty());
  op.output(0, Known::scalar(DType::boolean, Scalar(Dim(static_cast<int64_t>(has)))));
}

void optional_get_element(OpContext& op) {
  op.check(op.has_input(0), "the input is missing");
  const TracedPtr& input = op.traced(0);
  if (!input->is_optional) return op.output(0, input);
  if (input->items.empty()) throw Error(ErrorCode::invalid_input, "OptionalGetElement: the optional is empty");
  op.output(0, input->items[0]);
}

}  // namespace

void register_sequence(Registry& r) {
  r.add("SequenceConstruct", {11}, sequence_construct);
  r.add("SequenceEmpty", {11}, sequence_empty);
  r.add("SequenceAt", {11}, sequence_at);
  r.add("SequenceLength", {11}, sequence_length);
  r.add("SequenceInsert", {11}, sequence_insert);
  r.add("SequenceErase", {11}, sequence_erase);
  r.add("SplitToSequence", {11, 24}, split_to_sequence);
  r.add("ConcatFromSequence", {11}, concat_from_sequence);
  r.add("Optional", {15, 28}, optional);
  r.add("OptionalHasElement", {15, 18, 28}, optional_has_element);
  r.add("OptionalGetElement", {15, 18, 28}, optional_get_element);
}

}  // namespace transmuter::ops
