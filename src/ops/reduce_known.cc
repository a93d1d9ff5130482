#include "ops/reduce_known.h"

#include <algorithm>

#include "ops/known_math.h"
#include "ops/known_moves.h"

namespace transmuter::ops {
namespace {

using ir::ReduceKind;

bool is_reduced(const std::vector<int64_t>& axes, size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
}

Dims reduced_shape(const Dims& shape, const std::vector<int64_t>& axes, bool keep) {
  Dims out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!is_reduced(axes, i))
      out.push_back(shape[i]);
    else if (keep)
      out.emplace_back(1);
  }
  return out;
}

Scalar combine(ReduceKind kind, const Scalar& a, const Scalar& b, DType dtype) {
  if (!a.known() || !b.known()) return {};
  switch (kind) {
    case ReduceKind::add:
      return add_scalars(a, b, dtype);
    case ReduceKind::mul:
      return multiply_scalars(a, b, dtype);
    case ReduceKind::max:
      return maximum_scalars(a, b, dtype);
    default:
      return minimum_scalars(a, b, dtype);
  }
}

// Every result has at least one element.
bool surely_not_empty(const Dims& shape, const std::vector<int64_t>& axes) {
  return std::all_of(axes.begin(), axes.end(),
                     [&](int64_t axis) { return provably_le(1, shape[static_cast<size_t>(axis)]); });
}

Known reduce_elements(const Known& known, ReduceKind kind, const std::vector<int64_t>& axes, const Dims& shape) {
  const Shape source = *constant_shape(known.shape);
  std::vector<Scalar> results(static_cast<size_t>(element_count(*constant_shape(shape))));
  std::vector<bool> started(results.size(), false);
  for (size_t p = 0; p < known.elements.size(); ++p) {
    size_t rest = p, to = 0, scale = 1;
    for (size_t axis = source.size(); axis-- > 0;) {
      const size_t extent = static_cast<size_t>(source[axis]), index = rest % extent;
      rest /= extent;
      if (is_reduced(axes, axis)) continue;
      to += index * scale;
      scale *= extent;
    }
    results[to] = started[to] ? combine(kind, results[to], known.elements[p], known.dtype) : known.elements[p];
    started[to] = true;
  }
  const bool any = std::any_of(results.begin(), results.end(), [](const Scalar& s) { return s.known(); });
  return any ? Known::of(known.dtype, shape, std::move(results)) : Known();
}

}  // namespace

Known reduce_known(const Known& known, ReduceKind kind, const std::vector<int64_t>& axes, bool keep) {
  if (!known || !surely_not_empty(known.shape, axes)) return {};
  if (known.dtype == DType::boolean && (kind == ReduceKind::add || kind == ReduceKind::mul)) return {};
  const Dims shape = reduced_shape(known.shape, axes, keep);
  const bool extreme = kind == ReduceKind::max || kind == ReduceKind::min;
  switch (known.kind) {
    case Known::Kind::elements:
      return reduce_elements(known, kind, axes, shape);
    case Known::Kind::splat: {
      if (!known.value.known()) return {};
      if (extreme) return Known::splat(known.dtype, shape, known.value);
      if (kind != ReduceKind::add || known.value.kind != Scalar::Kind::integer) return {};
      Dim count = 1;
      for (int64_t axis : axes) count = count * known.shape[static_cast<size_t>(axis)];
      const Scalar sum = multiply_scalars(known.value, Scalar(count), known.dtype);
      return sum.known() ? Known::splat(known.dtype, shape, sum) : Known();
    }
    case Known::Kind::iota: {
      // Along its own axis a growing iota is greatest at the end; the other axes repeat it.
      if (!extreme || !is_reduced(axes, static_cast<size_t>(known.axis))) return {};
      const bool grows = provably_le(0, known.step), falls = provably_le(known.step, 0);
      if (!grows && !falls) return {};
      const Dim last = known.value.dim + known.step * (known.shape[static_cast<size_t>(known.axis)] - 1);
      const bool at_end = grows == (kind == ReduceKind::max);
      const Scalar value = at_end ? fit(last, known.dtype) : known.value;
      return value.known() ? Known::splat(known.dtype, shape, value) : Known();
    }
    default:
      return {};
  }
}

}  // namespace transmuter::ops
