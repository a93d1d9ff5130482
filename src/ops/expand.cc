// Expand, Tile, ConstantOfShape, EyeLike, Range, Trilu: tensors from few elements.
#include "onnx/tensor_proto.h"
#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

void check_extents(OpContext& op, const Dims& extents) {
  for (const Dim& extent : extents) {
    if (extent.is_constant()) op.check(extent.hint() >= 0, "extent ", extent.hint(), " is negative");
    require(less_equal(0, extent), str(op.node().op_type, ": an extent is negative"));
  }
}

// Broadcasting goes both ways: an extent of 1 in the shape keeps the input's.
void expand(OpContext& op) {
  const Dims target = op.require_dims(1);
  check_extents(op, target);
  const Dims shape = ir::broadcast_shapes(op.shape(0), target, "Expand");
  if (provably_equal(shape, op.shape(0))) return op.output(0, op.traced(0));
  output_known_or(op, 0, broadcast_known(op.known(0), shape),
                  [&] { return op.build().broadcast_to(op.input(0), shape); });
}

Value tile_value(Builder& b, Value x, const Dims& repeats) {
  // [a, b] becomes [ra, a, rb, b] and then [ra * a, rb * b]; an extent of 1 needs no axis of its own.
  const Dims extents = b.shape(x);
  Dims wide, shape;
  std::vector<int64_t> dimensions;
  for (size_t i = 0; i < extents.size(); ++i) {
    const bool once = provably_eq(repeats[i], 1), single = provably_eq(extents[i], 1);
    if (!once) wide.push_back(repeats[i]);
    if (once || !single) {
      wide.push_back(extents[i]);
      dimensions.push_back(static_cast<int64_t>(wide.size()) - 1);
    } else {
      dimensions.push_back(static_cast<int64_t>(wide.size()) - 1);
    }
    shape.push_back(extents[i] * repeats[i]);
  }
  return b.reshape(b.broadcast_in_dim(x, wide, dimensions), shape);
}

void tile(OpContext& op) {
  const Dims repeats = op.require_dims(1);
  check_extents(op, repeats);
  op.check(static_cast<int64_t>(repeats.size()) == op.rank(0), repeats.size(), " repeats for rank ", op.rank(0));
  Dims shape = op.shape(0);
  bool changes = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    changes = changes || !provably_eq(repeats[i], 1);
    shape[i] = shape[i] * repeats[i];
  }
  if (!changes) return op.output(0, op.traced(0));
  Known known;
  if (const Known& x = op.known(0)) {
    if (const std::optional<Scalar> value = single_value(x)) {
      if (value->known()) known = Known::splat(x.dtype, shape, *value);
    } else if (x.kind == Known::Kind::elements && small_constant_shape(shape)) {
      known = x;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const std::vector<Known> copies(static_cast<size_t>(repeats[axis].hint()), known);
        const std::vector<Dims> shapes(copies.size(), known.shape);
        Dims joined = known.shape;
        joined[axis] = shape[axis];
        known = copies.empty() ? Known::of(x.dtype, joined, {})
                               : concat_known(copies, shapes, static_cast<int64_t>(axis), joined);
        if (!known) break;
      }
    }
  }
  output_known_or(op, 0, std::move(known), [&] { return tile_value(op.build(), op.input(0), repeats); });
}

void constant_of_shape(OpContext& op) {
  Tensor value = op.attribute_tensor("value").value_or(Tensor::zeros(DType::f32, {1}));
  op.check(value.size() == 1, "value must have one element, has ", value.size());
  if (value.dtype() == DType::string) op.unsupported("strings");
  op.check(op.rank(0) == 1, "the shape must be 1-D, has rank ", op.rank(0));
  const Dims shape = op.require_dims(0);
  check_extents(op, shape);
  if (const Known known = Known::from(value); known.fully_known())
    return op.output(0, Known::splat(value.dtype(), shape, known.elements[0]));
  op.output(0, op.build().broadcast_in_dim(op.build().constant(value.reshaped({})), shape, {}));
}

// A bool [rows, columns, ...] mask over the last two axes: row + offset against column.
Value compare_row_column(Builder& b, const Dims& shape, Value offset, CompareDirection direction) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  const Dims plane(shape.end() - 2, shape.end());
  const Value row = b.iota(DType::i64, plane, 0), column = b.iota(DType::i64, plane, 1);
  const Value shifted = b.add(row, b.broadcast_in_dim(offset, plane, {}));
  return b.broadcast_in_dim(b.compare(column, shifted, direction), shape, {rank - 2, rank - 1});
}

void eye_like(OpContext& op) {
  const int64_t k = op.attribute_int("k", 0);
  const DType dtype =
      op.has_attribute("dtype") ? onnx::dtype_of_number(static_cast<int32_t>(op.attribute_int("dtype"))) : op.dtype(0);
  op.check(op.rank(0) == 2, "the input must have rank 2, has ", op.rank(0));
  Builder& b = op.build();
  op.output(0, b.convert(compare_row_column(b, op.shape(0), b.integer(DType::i64, k), CompareDirection::eq), dtype));
}

void trilu(OpContext& op) {
  const bool upper = op.attribute_int("upper", 1) != 0;
  op.check(op.rank(0) >= 2, "the input must have rank 2 at least, has ", op.rank(0));
  Builder& b = op.build();
  Value offset = b.integer(DType::i64, 0);
  if (op.has_input(1)) offset = b.convert(b.reshape(op.input(1), {}), DType::i64);
  const Value x = op.input(0);
  const Value keep = compare_row_column(b, op.shape(0), offset, upper ? CompareDirection::ge : CompareDirection::le);
  op.output(0, b.select(keep, x, b.like(x, 0)));
}

void integer_range(OpContext& op, DType dtype) {
  const Dim start = op.require_dim(0), limit = op.require_dim(1), delta = op.has_input(2) ? op.require_dim(2) : Dim(1);
  op.check(!provably_eq(delta, 0), "delta is 0");
  const bool up = decide_lt(0, delta, "Range: sign of delta");
  const Dim count = up ? ceil_div(limit - start, delta) : ceil_div(start - limit, -delta);
  op.output(0, Known::iota(dtype, {max(count, 0)}, 0, start, delta));
}

void float_range(OpContext& op, DType dtype) {
  const DType stash =
      is_half(dtype) && (op.version() < 27 || op.attribute_int("stash_type", 1) == 1) ? DType::f32 : dtype;
  if (op.version() >= 27) op.ignore_attributes({"stash_type"});  // changes nothing for f32 and f64
  const auto one = [&](size_t i) {
    const std::vector<Real> values = op.require_reals(i);
    op.check(values.size() == 1, "input ", i, " must hold one number, has ", values.size());
    return values[0];
  };
  const Real start = one(0), limit = one(1), delta = op.has_input(2) ? one(2) : Real(1.0);
  op.check(!delta.is_constant() || delta.hint() != 0, "delta is 0");
  const RealDType wide = RealDType::f64;  // the count is that of exact arithmetic
  const Real span = real_binary(RealOp::sub, limit, start, wide);
  const Real steps = real_unary(RealOp::ceil, real_binary(RealOp::div, span, delta, wide), wide);
  const Dim count = max(dim_from(steps), 0);
  Builder& b = op.build();
  const Dims shape{count};
  const Value step = b.broadcast_in_dim(b.real_value(delta, stash), shape, {});
  const Value first = b.broadcast_in_dim(b.real_value(start, stash), shape, {});
  op.output(0, b.convert(b.add(first, b.multiply(b.iota(stash, shape, 0), step)), dtype));
}

void range(OpContext& op) {
  require_numeric(op, 0);
  require_same_dtype(op, 0, 1);
  // com.microsoft's may leave the step out.
  if (op.has_input(2) || op.node().domain != kMicrosoft) require_same_dtype(op, 0, 2);
  const DType dtype = op.dtype(0);
  if (is_float(dtype)) return float_range(op, dtype);
  if (op.version() >= 27) op.ignore_attributes({"stash_type"});  // for half floats only
  integer_range(op, dtype);
}

}  // namespace

void register_expand(Registry& r) {
  r.add("Expand", {8, 13}, expand);
  r.add("Tile", {6, 13}, tile);
  r.add("ConstantOfShape", {9, 20, 21, 23, 24, 25}, constant_of_shape);
  r.add("EyeLike", {9, 22}, eye_like);
  r.add("Trilu", {14}, trilu);
  r.add("Trilu", {1}, trilu, kMicrosoft);
  r.add("Range", {11, 27}, range);
  r.add("Range", {1}, range, kMicrosoft);
}

}  // namespace transmuter::ops
