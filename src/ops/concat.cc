// Concat and Split.
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Value;

void concat(OpContext& op) {
  op.check(op.input_count() >= 1, "at least one input is needed");
  const int64_t given = op.version() < 4 ? op.attribute_int("axis", 1) : op.attribute_int("axis");
  const int64_t rank = op.rank(0);
  const int64_t axis = op.axis(given, rank);
  for (size_t i = 1; i < op.input_count(); ++i) {
    require_same_dtype(op, 0, i);
    op.check(op.rank(i) == rank, "input ", i, " has rank ", op.rank(i), ", input 0 has rank ", rank);
  }
  if (op.input_count() == 1) return op.output(0, op.traced(0));
  std::vector<Known> parts;
  std::vector<Dims> shapes;
  Dims shape = op.shape(0);
  Dim& joined = shape[static_cast<size_t>(axis)];
  joined = 0;
  bool any = false;
  for (size_t i = 0; i < op.input_count(); ++i) {
    parts.push_back(op.known(i));
    shapes.push_back(op.shape(i));
    any = any || parts.back();
    joined = joined + op.shape(i)[static_cast<size_t>(axis)];
    for (size_t k = 0; k < shape.size(); ++k)
      if (static_cast<int64_t>(k) != axis)
        require_eq(op.shape(i)[k], shape[k], str("Concat: extent of axis ", k, " of input ", i));
  }
  output_known_or(op, 0, any ? concat_known(parts, shapes, axis, shape) : Known(), [&] {
    std::vector<Value> values;
    for (size_t i = 0; i < op.input_count(); ++i)
      if (!provably_eq(shapes[i][static_cast<size_t>(axis)], 0)) values.push_back(op.input(i));
    return values.empty() ? op.input(0) : op.build().concatenate(std::move(values), axis);
  });
}

// The lengths of the parts along the axis.
Dims split_lengths(OpContext& op, Dim extent) {
  const size_t count = op.output_count();
  std::optional<Dims> given;
  if (op.version() < 13) {
    if (const auto lengths = op.attribute_ints_optional("split")) given = Dims(lengths->begin(), lengths->end());
  } else if (op.has_input(1)) {
    given = op.require_dims(1);
  }
  const bool numbered = op.version() >= 18 && op.has_attribute("num_outputs");
  if (given) {
    op.check(!numbered, "split and num_outputs exclude each other");
    op.check(given->size() == count, given->size(), " lengths for ", count, " outputs");
    Dim sum = 0;
    for (const Dim& length : *given) {
      if (length.is_constant()) op.check(length.hint() >= 0, "length ", length.hint(), " is negative");
      sum = sum + length;
    }
    require_eq(sum, extent, "Split: sum of the lengths");
    return *given;
  }
  const Dim parts = static_cast<int64_t>(count);
  if (!numbered) {
    require(equal(mod(extent, parts), 0), str("Split: extent ", to_string(extent), " does not divide by ", count));
    return Dims(count, floor_div(extent, parts));
  }
  const int64_t number = op.attribute_int("num_outputs");
  op.check(number == static_cast<int64_t>(count), "num_outputs is ", number, " but there are ", count, " outputs");
  // The last parts are shorter where the extent does not divide.
  const Dim chunk = ceil_div(extent, parts);
  if (provably_eq(chunk * parts, extent)) return Dims(count, chunk);
  Dims lengths;
  for (int64_t i = 0; i < number; ++i) lengths.push_back(min(chunk, max(extent - chunk * Dim(i), 0)));
  return lengths;
}

void split(OpContext& op) {
  const int64_t axis = op.axis(op.attribute_int("axis", 0), op.rank(0));
  const size_t at = static_cast<size_t>(axis);
  const Dims extents = op.shape(0);
  const Dims lengths = split_lengths(op, extents[at]);
  if (lengths.size() == 1) return op.output(0, op.traced(0));
  const size_t rank = extents.size();
  Dims start(rank, Dim(0)), limit = extents;
  const Dims stride(rank, Dim(1));
  for (size_t i = 0; i < lengths.size(); ++i) {
    limit[at] = i + 1 == lengths.size() ? extents[at] : start[at] + lengths[i];
    Dims shape = extents;
    shape[at] = lengths[i];
    if (op.wants_output(i))
      output_known_or(op, i, slice_known(op.known(0), start, limit, stride, shape),
                      [&] { return op.build().slice(op.input(0), start, limit, stride); });
    start[at] = limit[at];
  }
}

}  // namespace

void register_concat(Registry& r) {
  r.add("Concat", {1, 4, 11, 13}, concat);
  r.add("Split", {2, 11, 13, 18}, split);
}

}  // namespace transmuter::ops
