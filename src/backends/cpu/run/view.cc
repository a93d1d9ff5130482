#include "backends/cpu/run/view.h"

#include <algorithm>

namespace transmuter::cpu {

Extents extents_of(const Shape& shape) {
  Extents extents;
  extents.assign(shape.data(), shape.size());
  return extents;
}

Shape shape_of(const Extents& extents) { return Shape(extents.begin(), extents.end()); }

int64_t product(const Extents& extents) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  return n;
}

bool View::is_dense() const {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

void set_strides(View& view, const AxisOrder& order) {
  const size_t rank = view.shape.size();
  view.strides.assign(view.shape.data(), rank);
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    const size_t axis = order.empty() ? i : static_cast<size_t>(order[i]);
    view.strides[axis] = stride;
    if (__builtin_mul_overflow(stride, view.shape[axis], &stride)) {
      element_count(shape_of(view.shape));  // throws, unless there are no elements at all
      stride = 0;
    }
  }
}

AxisOrder axis_order(const View& view) {
  AxisOrder order, long_axes;
  for (int64_t i = 0; i < view.rank(); ++i) {
    if (view.dim(i) == 1) {
      order.push_back(i);
      continue;
    }
    if (view.stride(i) <= 0) return {};
    long_axes.push_back(i);
  }
  std::stable_sort(long_axes.begin(), long_axes.end(),
                   [&](int64_t a, int64_t b) { return view.stride(a) > view.stride(b); });
  if (std::is_sorted(long_axes.begin(), long_axes.end())) return {};
  for (int64_t axis : long_axes) order.push_back(axis);
  return order;
}

AxisOrder channels_last_order(int64_t rank) {
  AxisOrder order;
  order.push_back(0);
  for (int64_t i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return order;
}

View dense_view(int32_t buffer, DType dtype, const Extents& shape) {
  View view;
  view.buffer = buffer;
  view.dtype = dtype;
  view.shape = shape;
  set_strides(view, {});
  return view;
}

View transposed(const View& view, std::span<const int64_t> permutation) {
  View out = view;
  for (size_t i = 0; i < permutation.size(); ++i) {
    out.shape[i] = view.dim(permutation[i]);
    out.strides[i] = view.stride(permutation[i]);
  }
  return out;
}

View in_order(const View& view, const AxisOrder& order) { return order.empty() ? view : transposed(view, order); }

View broadcast(const View& view, const Extents& shape, std::span<const int64_t> dimensions) {
  View out = view;
  out.shape = shape;
  out.strides.clear();
  for (size_t i = 0; i < shape.size(); ++i) out.strides.push_back(0);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const size_t axis = static_cast<size_t>(dimensions[i]);
    if (view.shape[i] != 1 || shape[axis] == 1) out.strides[axis] = view.strides[i];
  }
  return out;
}

View sliced(const View& view, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
            const std::vector<int64_t>& stride) {
  View out = view;
  int64_t offset = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    out.shape[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
    out.strides[i] = view.strides[i] * stride[i];
    offset += start[i] * view.strides[i];
  }
  if (out.size() > 0) out.offset += offset * (bit_width(view.dtype) / 8);
  return out;
}

View reversed(const View& view, std::span<const int64_t> axes) {
  View out = view;
  if (view.size() == 0) return out;
  for (int64_t axis : axes) {
    const size_t a = static_cast<size_t>(axis);
    out.offset += (view.shape[a] - 1) * view.strides[a] * (bit_width(view.dtype) / 8);
    out.strides[a] = -view.strides[a];
  }
  return out;
}

bool reshaped(const View& view, const Extents& shape, View& out) {
  out = view;
  out.shape = shape;
  if (view.size() == 0 || view.is_dense()) {
    set_strides(out, {});
    return true;
  }
  out.strides.assign(shape.data(), shape.size());
  // Old axes (without extents of 1) and new axes are matched in groups of equal size; within a group the old axes must
  // be one run.
  Extents old_shape, old_strides;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    old_shape.push_back(view.shape[i]);
    old_strides.push_back(view.strides[i]);
  }
  size_t from = 0, to = 0;
  while (from < old_shape.size()) {
    size_t from_end = from + 1, to_end = to + 1;
    int64_t old_size = old_shape[from], new_size = to < shape.size() ? shape[to] : 1;
    if (to >= shape.size()) return false;
    while (old_size != new_size) {
      if (new_size < old_size) {
        if (to_end >= shape.size()) return false;
        new_size *= shape[to_end++];
      } else {
        if (from_end >= old_shape.size()) return false;
        old_size *= old_shape[from_end++];
      }
    }
    for (size_t i = from; i + 1 < from_end; ++i) {
      if (old_strides[i] != old_shape[i + 1] * old_strides[i + 1]) return false;
    }
    int64_t stride = old_strides[from_end - 1];
    for (size_t i = to_end; i-- > to;) {
      out.strides[i] = stride;
      stride *= shape[i];
    }
    from = from_end;
    to = to_end;
  }
  for (; to < shape.size(); ++to) out.strides[to] = 1;  // extents of 1
  return true;
}

}  // namespace transmuter::cpu
