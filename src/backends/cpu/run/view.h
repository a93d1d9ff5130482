// View: strided elements in a buffer of a bound plan. Transposes, broadcasts, slices and most reshapes are views and
// cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/small_vector.h"
#include "transmuter/tensor.h"

namespace transmuter::cpu {

using Extents = SmallVector<int64_t, 6>;

Extents extents_of(const Shape& shape);
Shape shape_of(const Extents& extents);
int64_t product(const Extents& extents);

// Where elements lie: all that a launch keeps of a view whose strides are in its arguments already.
struct Place {
  int32_t buffer = -1;
  DType dtype = DType::invalid;
  int64_t offset = 0;  // bytes
};

struct View : Place {
  Extents shape;
  Extents strides;  // elements

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t dim(int64_t axis) const { return shape[static_cast<size_t>(axis)]; }
  int64_t stride(int64_t axis) const { return strides[static_cast<size_t>(axis)]; }
  int64_t size() const { return product(shape); }
  bool is_dense() const;  // row-major without gaps
};

using AxisOrder = SmallVector<int64_t, 6>;

// Axes by their strides, outermost first; empty where that is their own order, or where elements repeat or run
// backward.
AxisOrder axis_order(const View& view);
AxisOrder channels_last_order(int64_t rank);  // 0, 2, 3, ..., 1

View dense_view(int32_t buffer, DType dtype, const Extents& shape);
// Fills strides so that axis order[0] is outermost; order empty: row-major.
void set_strides(View& view, const AxisOrder& order);

View transposed(const View& view, std::span<const int64_t> permutation);
View in_order(const View& view, const AxisOrder& order);  // transposed; order empty: as it is
View broadcast(const View& view, const Extents& shape, std::span<const int64_t> dimensions);  // extents of 1 repeat
View sliced(const View& view, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
            const std::vector<int64_t>& stride);
View reversed(const View& view, std::span<const int64_t> axes);
// False where no strides express it: the elements must be copied first.
bool reshaped(const View& view, const Extents& shape, View& out);

}  // namespace transmuter::cpu
