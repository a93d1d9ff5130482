#include "ops/binary.h"

#include "ops/known_math.h"

namespace transmuter::ops {
namespace {

using ir::Value;

// What an element of the iota is, whatever the index: fn of both ends decides all between for an order relation.
Known compare_iota(const Known& iota, const Scalar& other, bool iota_first, const Dims& shape, ScalarFn2 fn) {
  const Scalar last =
      add_scalars(iota.value, Scalar(iota.step * (iota.shape[static_cast<size_t>(iota.axis)] - 1)), iota.dtype);
  if (!last.known() || !iota.value.known()) return {};
  if (fn == &equal_scalars) {
    // Equal nowhere: the other value lies outside the span.
    const Dim low = min(iota.value.dim, last.dim), high = max(iota.value.dim, last.dim);
    const bool outside = provably_lt(other.dim, low) || provably_lt(high, other.dim);
    return outside ? Known::splat(DType::boolean, shape, Scalar(Dim(0))) : Known();
  }
  const Scalar a = iota_first ? fn(iota.value, other, iota.dtype) : fn(other, iota.value, iota.dtype);
  const Scalar b = iota_first ? fn(last, other, iota.dtype) : fn(other, last, iota.dtype);
  const std::optional<bool> first = settled(a.dim), end = settled(b.dim);
  if (!first || !end || *first != *end) return {};
  return Known::splat(DType::boolean, shape, Scalar(Dim(static_cast<int64_t>(*first))));
}

}  // namespace

bool known_operands_align(OpContext& op) {
  return op.version() >= 7 || provably_equal(op.shape(0), op.shape(1)) || op.rank(1) == 0;
}

std::pair<Value, Value> broadcast_operands(OpContext& op) {
  ir::Builder& b = op.build();
  const Value x = op.input(0);
  Value y = op.input(1);
  if (op.version() < 7) {
    op.ignore_attributes({"consumed_inputs"});  // a hint to runtimes of that time
    const bool broadcast = op.attribute_int("broadcast", 0) != 0;
    const int64_t rank = b.rank(x), other = b.rank(y);
    const int64_t axis = op.has_attribute("axis") ? op.axis(op.attribute_int("axis"), rank) : rank - other;
    if (broadcast && other > 0) {
      op.check(axis >= 0 && axis + other <= rank, "axis ", axis, " leaves no room for rank ", other);
      Dims shape = b.shape(y);
      shape.resize(static_cast<size_t>(rank - axis), Dim(1));
      y = b.reshape(y, shape);
    }
    if (!broadcast) op.check(rank == other, "ranks ", rank, " and ", other, " differ and broadcast is not set");
  }
  return b.numpy_broadcast(x, y);
}

Known zip_operands(OpContext& op, DType dtype, ScalarFn2 fn, IotaRule rule) {
  if (!known_operands_align(op)) return {};
  const Known& a = op.known(0);
  const Known& b = op.known(1);
  if (!a || !b) return {};
  const bool a_iota = a.kind == Known::Kind::iota, b_iota = b.kind == Known::Kind::iota;
  if (!a_iota && !b_iota) return zip_known(a, b, dtype, fn);
  if (rule == IotaRule::none || (a_iota && b_iota)) return {};
  const Known& iota = a_iota ? a : b;
  const std::optional<Scalar> other = single_value(a_iota ? b : a);
  if (!other || other->kind != Scalar::Kind::integer || !iota.value.known()) return {};
  const Dims shape = ir::broadcast_shapes(a.shape, b.shape, op.node().op_type);
  if (rule == IotaRule::compare) return compare_iota(iota, *other, a_iota, shape, fn);
  if (dtype != DType::i64 && dtype != DType::i32) return {};
  const Known wide = broadcast_known(iota, shape);
  if (wide.kind != Known::Kind::iota) return {};
  const Scalar start = a_iota ? fn(wide.value, *other, dtype) : fn(*other, wide.value, dtype);
  if (!start.known()) return {};
  Dim step = wide.step;
  if (rule == IotaRule::multiply) step = step * other->dim;
  if (rule == IotaRule::subtract && b_iota) step = -step;
  return Known::iota(dtype, wide.shape, wide.axis, start.dim, step);
}

}  // namespace transmuter::ops
