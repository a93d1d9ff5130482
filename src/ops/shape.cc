// Shape, Size, Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Identity: what a tensor's extents are, and the same
// elements under others.
#include <algorithm>

#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Value;

void shape(OpContext& op) {
  const Dims& extents = op.shape(0);
  const int64_t rank = op.rank(0);
  int64_t start = op.version() >= 15 ? op.attribute_int("start", 0) : 0;
  int64_t end = op.version() >= 15 ? op.attribute_int("end", rank) : rank;
  // Out of range is clamped, not refused.
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, start, rank);
  op.output(0, Known::vector(DType::i64, Dims(extents.begin() + start, extents.begin() + end)));
}

void size(OpContext& op) { op.output(0, Known::scalar(DType::i64, Scalar(product(op.shape(0))))); }

// The input's elements under another shape of as many elements.
void output_reshaped(OpContext& op, const Dims& shape) {
  if (provably_equal(op.shape(0), shape)) return op.output(0, op.traced(0));
  output_known_or(op, 0, reshape_known(op.known(0), shape), [&] { return op.build().reshape(op.input(0), shape); });
}

// Is this extent of a target shape one of the signs 0 and -1? A guard where a value that is read decides; a count is
// never taken for a sign.
bool is_sign(Dim dim, int64_t sign) {
  if (dim.is_constant()) return dim.hint() == sign;
  if (provably_le(0, dim)) return false;
  return decide_eq(dim, sign, "Reshape: target extent");
}

void reshape(OpContext& op) {
  Dims target;
  if (op.version() < 5) {
    for (int64_t extent : op.attribute_ints("shape")) target.emplace_back(extent);
    op.ignore_attributes({"consumed_inputs"});
  } else {
    op.check(op.rank(1) == 1, "the shape must be 1-D, has rank ", op.rank(1));
    target = op.require_dims(1);
  }
  const bool allow_zero = op.version() >= 14 && op.attribute_int("allowzero", 0) != 0;
  const Dims& extents = op.shape(0);
  int64_t inferred = -1;
  std::vector<bool> copied(extents.size(), false);
  Dim rest = 1;  // the product of the given extents, without those copied from the input at their own place
  bool zero = false;
  for (size_t i = 0; i < target.size(); ++i) {
    if (is_sign(target[i], -1)) {
      op.check(inferred < 0, "only one extent may be -1");
      inferred = static_cast<int64_t>(i);
    } else if (is_sign(target[i], 0) && !allow_zero) {
      op.check(i < extents.size(), "extent ", i, " is to be copied from an input of rank ", extents.size());
      target[i] = extents[i];
      copied[i] = true;
    } else {
      if (target[i].is_constant()) op.check(target[i].hint() >= 0, "extent ", target[i].hint(), " is negative");
      zero = zero || provably_eq(target[i], 0);
      // The same extent at the same place cancels as a copied one does.
      if (i < extents.size() && provably_eq(target[i], extents[i]) && !zero)
        copied[i] = true;
      else
        rest = rest * target[i];
    }
  }
  Dim total = 1;
  for (size_t i = 0; i < extents.size(); ++i)
    if (!copied[i]) total = total * extents[i];
  if (inferred >= 0) {
    op.check(!(allow_zero && zero), "-1 beside 0 with allowzero is ambiguous");
    op.check(!provably_eq(rest, 0), "-1 beside an extent of 0 is ambiguous");
    require(equal(mod(total, rest), 0), str("Reshape: ", to_string(extents), " does not divide into the given shape"));
    target[static_cast<size_t>(inferred)] = floor_div(total, rest);
  } else {
    require_eq(total, rest, str("Reshape: numbers of elements of ", to_string(extents), " and ", to_string(target)));
  }
  output_reshaped(op, target);
}

void flatten(OpContext& op) {
  const int64_t rank = op.rank(0);
  const int64_t given = op.attribute_int("axis", 1);
  op.check(given >= -rank && given <= rank, "axis ", given, " is out of range for rank ", rank);
  const int64_t axis = given < 0 ? given + rank : given;
  const Dims& extents = op.shape(0);
  output_reshaped(op, {product(Dims(extents.begin(), extents.begin() + axis)),
                       product(Dims(extents.begin() + axis, extents.end()))});
}

// Axes were an attribute before opset 13, then an input.
std::optional<std::vector<int64_t>> read_axes(OpContext& op) {
  if (op.version() < 13) return op.attribute_ints_optional("axes");
  if (!op.has_input(1)) return std::nullopt;
  return op.require_ints(1);
}

void squeeze(OpContext& op) {
  const Dims& extents = op.shape(0);
  const std::optional<std::vector<int64_t>> given = read_axes(op);
  std::vector<bool> dropped(extents.size(), false);
  if (given) {
    for (int64_t axis : *given) {
      const size_t at = static_cast<size_t>(op.axis(axis, op.rank(0)));
      require_eq(extents[at], 1, str("Squeeze: extent of axis ", at));
      dropped[at] = true;
    }
  } else {
    for (size_t i = 0; i < extents.size(); ++i) dropped[i] = decide_eq(extents[i], 1, "Squeeze: extents of 1");
  }
  Dims kept;
  for (size_t i = 0; i < extents.size(); ++i)
    if (!dropped[i]) kept.push_back(extents[i]);
  output_reshaped(op, kept);
}

void unsqueeze(OpContext& op) {
  const std::optional<std::vector<int64_t>> given = read_axes(op);
  op.check(given.has_value(), "axes are required");
  const int64_t rank = op.rank(0) + static_cast<int64_t>(given->size());
  std::vector<bool> inserted(static_cast<size_t>(rank), false);
  for (int64_t axis : normalised_axes(op, *given, rank)) inserted[static_cast<size_t>(axis)] = true;
  Dims shape;
  size_t from = 0;
  for (bool is_new : inserted) shape.push_back(is_new ? Dim(1) : op.shape(0)[from++]);
  output_reshaped(op, shape);
}

void transpose(OpContext& op) {
  const int64_t rank = op.rank(0);
  std::vector<int64_t> permutation;
  if (const auto given = op.attribute_ints_optional("perm"); given && !(given->empty() && rank > 0)) {
    permutation = normalised_axes(op, *given, rank);
    op.check(static_cast<int64_t>(permutation.size()) == rank, "perm has ", permutation.size(), " axes for rank ",
             rank);
  } else {
    for (int64_t axis = rank; axis-- > 0;) permutation.push_back(axis);
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return op.output(0, op.traced(0));
  output_known_or(op, 0, transpose_known(op.known(0), permutation),
                  [&] { return op.build().transpose(op.input(0), permutation); });
}

void identity(OpContext& op) {
  op.check(op.has_input(0), "the input is missing");
  op.output(0, op.traced(0));
}

}  // namespace

void register_shape(Registry& r) {
  r.add("Shape", {1, 13, 15, 19, 21, 23, 24, 25}, shape);
  r.add("Size", {1, 13, 19, 21, 23, 24, 25}, size);
  r.add("Reshape", {1, 5, 13, 14, 19, 21, 23, 24, 25}, reshape);
  r.add("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, flatten);
  r.add("Squeeze", {1, 11, 13, 21, 23, 24, 25}, squeeze);
  r.add("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, unsqueeze);
  r.add("Transpose", {1, 13, 21, 23, 24, 25}, transpose);
  r.add("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, identity);
}

}  // namespace transmuter::ops
