// Sequences and optionals: lists of traced values, which never reach the program. Items of which only the run knows how
// many there are lie in one tensor (Stack). A sequence that a host value holds makes the node run eagerly.
#include <algorithm>
#include <optional>

#include "ir/composites/composites.h"
#include "onnx/tensor_proto.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/sequence.h"
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

bool has_stack(const Items& items) {
  return std::any_of(items.begin(), items.end(), [](const TracedPtr& item) { return item->stack != nullptr; });
}

// The items one by one. Where some lie in one tensor the host must take them apart.
const Items& plain_items(OpContext& op, size_t i) {
  const Items& items = sequence_items(op, i);
  if (has_stack(items)) throw GraphBreak{&op.node(), i};
  return items;
}

Dim item_count(OpContext& op, const Items& items) {
  Dim count = 0;
  for (const TracedPtr& item : items) {
    if (item->stack && item->stack->hidden) throw GraphBreak{&op.node(), 0};
    count = count + (item->stack ? item->stack->count : Dim(1));
  }
  return count;
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

// An item at a position that only the run knows (or among items that lie in one tensor): all of one type.
bool dynamic_at(OpContext& op, const Items& items) {
  require_index(op, 1);
  if (op.rank(1) > 1 || !provably_eq(product(op.shape(1)), 1)) return false;
  const std::optional<Value> all = stacked_items(op.build(), items, [&](Traced& item) { return op.value_of(item); });
  if (!all) return false;
  ir::Builder& b = op.build();
  const Dims& shape = b.shape(*all);
  const Value given = b.reshape(b.convert(op.input(1), DType::i64), {});
  const Value at = ir::checked_indices(b, given, {shape[0]}, true, "SequenceAt: position");
  Dims sizes = shape;
  sizes[0] = 1;
  std::vector<Value> starts(sizes.size(), b.integer(DType::i64, 0));
  starts[0] = at;
  op.output(0, b.squeeze(b.dynamic_slice(*all, std::move(starts), sizes), {0}));
  return true;
}

void sequence_at(OpContext& op) {
  const Items& items = sequence_items(op, 0);
  const Known& given = op.known(1);
  const bool is_fixed = op.constant(1) || (given.kind == Known::Kind::elements && given.fully_known() &&
                                           given.size() == 1 && given.elements[0].dim.is_constant());
  if ((has_stack(items) || !is_fixed) && dynamic_at(op, items)) return;
  const int64_t length = static_cast<int64_t>(plain_items(op, 0).size());
  op.output(0, items[position(op, 1, length, length)]);
}

void sequence_length(OpContext& op) {
  op.output(0, Known::scalar(DType::i64, Scalar(item_count(op, sequence_items(op, 0)))));
}

void sequence_insert(OpContext& op) {
  Items items = sequence_items(op, 0);
  op.check(op.has_input(1), "input 1 is missing");
  check_element(op, items, op.traced(0)->type.dtype, *op.traced(1));
  if (op.has_input(2)) plain_items(op, 0);
  const int64_t length = static_cast<int64_t>(items.size());
  const size_t at = op.has_input(2) ? position(op, 2, length, length + 1) : items.size();
  items.insert(items.begin() + static_cast<int64_t>(at), op.traced(1));
  output_sequence(op, std::move(items), op.traced(1)->type.dtype);
}

void sequence_erase(OpContext& op) {
  Items items = plain_items(op, 0);
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

// Parts of 1, as many as only the run knows, lie in one tensor.
bool split_into_ones(OpContext& op, int64_t axis, bool keep) {
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  if (extent.is_constant() || op.dtype(0) == DType::string) return false;
  if (op.has_input(1)) {
    require_index(op, 1);
    const Known& given = op.known(1);
    const bool scalar = given.kind == Known::Kind::elements && given.shape.empty();
    const bool splat = given.kind == Known::Kind::splat && given.shape.size() == 1;
    const Scalar* size = scalar ? &given.elements[0] : splat ? &given.value : nullptr;
    if (!size || !size->known() || !provably_eq(size->dim, 1)) return false;
    if (splat) require_eq(given.shape[0], extent, "SplitToSequence: sum of the lengths");
  }
  ir::Builder& b = op.build();
  std::vector<int64_t> order;
  for (int64_t i = 0; i < op.rank(0); ++i)
    if (i != axis) order.push_back(i);
  order.insert(order.begin(), axis);
  Value rows = b.transpose(op.input(0), std::move(order));
  if (keep) rows = b.expand_dims(rows, {axis + 1});
  auto item = std::make_shared<Traced>();
  item->type = b.type(rows);
  item->value = rows;
  Stack stack;
  stack.count = extent;
  item->stack = std::make_shared<const Stack>(stack);
  output_sequence(op, {std::move(item)}, op.dtype(0));
  return true;
}

void split_to_sequence(OpContext& op) {
  const int64_t axis = op.axis(op.attribute_int("axis", 0), op.rank(0));
  // Only where no split is given may the axis disappear.
  const bool keep = op.attribute_int("keepdims", 1) != 0 || op.has_input(1);
  if (split_into_ones(op, axis, keep)) return;
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

// What an item, or the items that lie in one tensor, are in the result of ConcatFromSequence.
Value concatenated_part(OpContext& op, const TracedPtr& item, int64_t axis, bool added) {
  ir::Builder& b = op.build();
  const Value value = op.value_of(*item);
  if (!item->stack) return added ? b.expand_dims(value, {axis}) : value;
  if (item->stack->axis >= 0) {
    if (added || axis != item->stack->axis) throw GraphBreak{&op.node(), 0};
    return value;
  }
  // [count, item...]: the count moves to the axis, and is multiplied into the one that is there.
  std::vector<int64_t> order;
  for (int64_t i = 1; i < b.rank(value); ++i) order.push_back(i);
  order.insert(order.begin() + axis, 0);
  const Value moved = b.transpose(value, std::move(order));
  if (added) return moved;
  Dims shape = b.shape(moved);
  const size_t at = static_cast<size_t>(axis);
  shape[at + 1] = shape[at] * shape[at + 1];
  shape.erase(shape.begin() + axis);
  return b.reshape(moved, std::move(shape));
}

void concat_from_sequence(OpContext& op) {
  const Items items = sequence_items(op, 0);
  const bool added = op.attribute_int("new_axis", 0) != 0;
  const int64_t given = op.attribute_int("axis");
  op.check(!items.empty(), "the sequence is empty");
  const auto rank_of = [](const TracedPtr& item) {
    return item->type.rank() - (item->stack && item->stack->axis < 0 ? 1 : 0);
  };
  const int64_t rank = rank_of(items[0]) + (added ? 1 : 0);
  const int64_t axis = op.axis(given, rank);
  std::vector<Value> parts;
  for (const TracedPtr& item : items) {
    if (item->stack && item->stack->hidden) throw GraphBreak{&op.node(), 0};
    op.check(rank_of(item) == rank_of(items[0]), "items differ in rank");
    parts.push_back(concatenated_part(op, item, axis, added));
  }
  op.output(0, op.build().concatenate(std::move(parts), axis));
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

std::optional<Value> stacked_items(ir::Builder& b, const Items& items,
                                   const std::function<Value(Traced&)>& in_program) {
  std::vector<Value> parts;
  for (const TracedPtr& item : items) {
    if (item->stack && (item->stack->hidden || item->stack->axis >= 0)) return {};
    Value part = in_program(*item);
    if (!item->stack) part = b.expand_dims(part, {0});
    if (!parts.empty()) {
      const ir::Type &first = b.type(parts[0]), &other = b.type(part);
      if (first.dtype != other.dtype || first.rank() != other.rank()) return {};
      for (size_t axis = 1; axis < first.shape.size(); ++axis)
        if (!provably_eq(first.shape[axis], other.shape[axis])) return {};
    }
    parts.push_back(part);
  }
  if (parts.empty()) return {};
  return b.concatenate(std::move(parts), 0);
}

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
