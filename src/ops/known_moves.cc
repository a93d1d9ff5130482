#include "ops/known_moves.h"

#include <algorithm>

#include "ops/known_math.h"

namespace transmuter::ops {
namespace {

bool any_known(const std::vector<Scalar>& elements) {
  return std::any_of(elements.begin(), elements.end(), [](const Scalar& s) { return s.known(); });
}

Known elements_known(DType dtype, const Shape& shape, std::vector<Scalar> elements) {
  if (!elements.empty() && !any_known(elements)) return {};
  return Known::of(dtype, Dims(shape.begin(), shape.end()), std::move(elements));
}

// Row-major strides; 0 where the extent is 1 and another is wanted is up to the caller.
std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Positions base + sum of index * stride over all indices of `shape`, in row-major order.
std::vector<int64_t> walk(const Shape& shape, const std::vector<int64_t>& strides, int64_t base) {
  std::vector<int64_t> positions{base};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<int64_t> next;
    next.reserve(positions.size() * static_cast<size_t>(shape[axis]));
    for (int64_t p : positions)
      for (int64_t i = 0; i < shape[axis]; ++i) next.push_back(p + i * strides[axis]);
    positions = std::move(next);
  }
  return positions;
}

bool is_one(Dim dim) { return dim.is_constant() && dim.hint() == 1; }

}  // namespace

std::optional<Shape> constant_shape(const Dims& dims) {
  Shape shape;
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) return std::nullopt;
    shape.push_back(dim.hint());
  }
  return shape;
}

bool small_constant_shape(const Dims& dims) {
  int64_t count = 1;
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) return false;
    if (dim.hint() != 0 && count > kKnownLimit / dim.hint()) return false;
    count *= dim.hint();
  }
  return true;
}

bool provably_equal(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!provably_eq(a[i], b[i])) return false;
  return true;
}

Known pick_known(const Known& known, const Shape& shape, const std::vector<int64_t>& positions) {
  std::vector<Scalar> elements;
  elements.reserve(positions.size());
  for (int64_t p : positions) elements.push_back(known.elements[static_cast<size_t>(p)]);
  return elements_known(known.dtype, shape, std::move(elements));
}

std::optional<Scalar> single_value(const Known& known) {
  if (known.kind == Known::Kind::splat) return known.value;
  if (known.kind == Known::Kind::elements && known.elements.size() == 1) return known.elements[0];
  return std::nullopt;
}

std::optional<std::vector<Scalar>> listed(const Known& known) {
  if (known.kind == Known::Kind::elements) return known.elements;
  if (known.kind == Known::Kind::none || !small_constant_shape(known.shape)) return std::nullopt;
  const Shape shape = *constant_shape(known.shape);
  std::vector<Scalar> values(static_cast<size_t>(element_count(shape)), known.value);
  if (known.kind == Known::Kind::iota) {
    std::vector<int64_t> strides(shape.size(), 0);
    strides[static_cast<size_t>(known.axis)] = 1;
    const std::vector<int64_t> steps = walk(shape, strides, 0);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = add_scalars(known.value, Scalar(known.step * Dim(steps[i])), known.dtype);
  }
  return values;
}

Known reshape_known(const Known& known, const Dims& shape) {
  switch (known.kind) {
    case Known::Kind::none:
      return {};
    case Known::Kind::splat:
      return Known::splat(known.dtype, shape, known.value);
    case Known::Kind::elements: {
      if (!small_constant_shape(shape)) return {};
      if (element_count(*constant_shape(shape)) != known.size()) return {};
      Known out = known;
      out.shape = shape;
      return out;
    }
    case Known::Kind::iota: {
      // Extents of 1 around the axis come and go; the axis itself must stay.
      size_t others = 0;
      for (size_t i = 0; i < known.shape.size(); ++i)
        others += static_cast<int64_t>(i) != known.axis && !is_one(known.shape[i]);
      if (others != 0) return {};
      int64_t axis = -1;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (is_one(shape[i])) continue;
        if (axis >= 0) return {};
        axis = static_cast<int64_t>(i);
      }
      if (axis < 0 || !provably_eq(shape[static_cast<size_t>(axis)], known.shape[static_cast<size_t>(known.axis)]))
        return {};
      return Known::iota(known.dtype, shape, axis, known.value.dim, known.step);
    }
  }
  return {};
}

Known broadcast_known(const Known& known, const Dims& shape) {
  if (known.kind == Known::Kind::none) return {};
  if (provably_equal(known.shape, shape)) return known;
  if (const std::optional<Scalar> value = single_value(known))
    return value->known() ? Known::splat(known.dtype, shape, *value) : Known();
  const size_t skip = shape.size() - known.shape.size();
  if (known.kind == Known::Kind::iota) {
    const size_t axis = static_cast<size_t>(known.axis);
    if (!provably_eq(known.shape[axis], shape[axis + skip])) return {};
    return Known::iota(known.dtype, shape, static_cast<int64_t>(axis + skip), known.value.dim, known.step);
  }
  if (!small_constant_shape(shape)) return {};
  const Shape target = *constant_shape(shape), source = *constant_shape(known.shape);
  std::vector<int64_t> strides(target.size(), 0);
  const std::vector<int64_t> own = strides_of(source);
  for (size_t i = 0; i < source.size(); ++i)
    if (source[i] != 1) strides[i + skip] = own[i];
  return pick_known(known, target, walk(target, strides, 0));
}

Known transpose_known(const Known& known, const std::vector<int64_t>& permutation) {
  if (known.kind == Known::Kind::none) return {};
  Dims shape;
  for (int64_t axis : permutation) shape.push_back(known.shape[static_cast<size_t>(axis)]);
  if (known.kind == Known::Kind::splat) return Known::splat(known.dtype, shape, known.value);
  if (known.kind == Known::Kind::iota) {
    const auto at = std::find(permutation.begin(), permutation.end(), known.axis);
    return Known::iota(known.dtype, shape, at - permutation.begin(), known.value.dim, known.step);
  }
  const std::vector<int64_t> own = strides_of(*constant_shape(known.shape));
  std::vector<int64_t> strides;
  for (int64_t axis : permutation) strides.push_back(own[static_cast<size_t>(axis)]);
  const Shape target = *constant_shape(shape);
  return pick_known(known, target, walk(target, strides, 0));
}

Known slice_known(const Known& known, const Dims& start, const Dims& limit, const Dims& stride, const Dims& shape) {
  switch (known.kind) {
    case Known::Kind::none:
      return {};
    case Known::Kind::splat:
      return Known::splat(known.dtype, shape, known.value);
    case Known::Kind::iota: {
      const size_t axis = static_cast<size_t>(known.axis);
      const Scalar first = add_scalars(known.value, Scalar(known.step * start[axis]), known.dtype);
      if (!first.known()) return {};
      return Known::iota(known.dtype, shape, known.axis, first.dim, known.step * stride[axis]);
    }
    case Known::Kind::elements:
      break;
  }
  const std::optional<Shape> target = constant_shape(shape);
  const std::optional<Shape> first = constant_shape(start);
  const std::optional<Shape> steps = constant_shape(stride);
  if (!target || !first || !steps || !constant_shape(limit)) return {};
  std::vector<int64_t> strides = strides_of(*constant_shape(known.shape));
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    base += (*first)[i] * strides[i];
    strides[i] *= (*steps)[i];
  }
  return pick_known(known, *target, walk(*target, strides, base));
}

Known reverse_known(const Known& known, int64_t axis) {
  const size_t at = static_cast<size_t>(axis);
  if (known.kind == Known::Kind::iota && known.axis == axis) {
    const Scalar last = add_scalars(known.value, Scalar(known.step * (known.shape[at] - 1)), known.dtype);
    if (!last.known()) return {};
    return Known::iota(known.dtype, known.shape, axis, last.dim, -known.step);
  }
  if (known.kind != Known::Kind::elements) return known;
  const Shape shape = *constant_shape(known.shape);
  std::vector<int64_t> strides = strides_of(shape);
  const int64_t base = shape[at] == 0 ? 0 : (shape[at] - 1) * strides[at];
  strides[at] = -strides[at];
  return pick_known(known, shape, walk(shape, strides, base));
}

Known concat_known(const std::vector<Known>& parts, const std::vector<Dims>& shapes, int64_t axis, const Dims& shape) {
  DType dtype = DType::invalid;
  for (const Known& part : parts)
    if (part) dtype = part.dtype;
  if (dtype == DType::invalid) return {};
  if (!small_constant_shape(shape)) {
    // Splats of one value join to a splat; a part that is provably empty does not count.
    std::optional<Scalar> value;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (provably_eq(shapes[i][static_cast<size_t>(axis)], 0)) continue;
      const std::optional<Scalar> own = single_value(parts[i]);
      if (!own || !own->known() || (value && !same_scalar(*value, *own))) return {};
      value = own;
    }
    return value ? Known::splat(dtype, shape, *value) : Known();
  }
  const size_t at = static_cast<size_t>(axis);
  const Shape target = *constant_shape(shape);
  std::vector<std::vector<Scalar>> lists;
  std::vector<int64_t> runs;  // elements of each part between steps of the axes before
  int64_t outer = 1;
  for (size_t i = 0; i < at; ++i) outer *= target[i];
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<Shape> own = constant_shape(shapes[i]);
    if (!own) return {};
    const int64_t count = element_count(*own);
    std::optional<std::vector<Scalar>> list = listed(parts[i]);
    if (!list) list.emplace(static_cast<size_t>(count));
    lists.push_back(std::move(*list));
    runs.push_back(outer == 0 ? 0 : count / outer);
  }
  std::vector<Scalar> elements;
  for (int64_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < lists.size(); ++i)
      elements.insert(elements.end(), lists[i].begin() + o * runs[i], lists[i].begin() + (o + 1) * runs[i]);
  return elements_known(dtype, target, std::move(elements));
}

}  // namespace transmuter::ops
