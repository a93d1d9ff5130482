// Where the greatest elements of windows are (MaxPool's second output), and MaxUnpool, which puts elements back there.
#include "ir/composites/composites.h"
#include "ops/pool.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

namespace {

// Each element's own position in a tensor of that shape, flat.
Value flat_positions(Builder& b, const Dims& shape, bool column_major) {
  const size_t rank = shape.size();
  Dims strides(rank, Dim(1));
  if (column_major) {
    for (size_t i = 3; i < rank; ++i) strides[i] = strides[i - 1] * shape[i - 1];
    strides[1] = product(spatial_extents(shape));
    strides[0] = strides[1] * shape[1];
  } else {
    for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  }
  Value sum;
  for (size_t i = 0; i < rank; ++i) {
    const Value along = b.iota(DType::i64, {shape[i]}, 0);
    const Value scaled = b.multiply(along, b.broadcast_to(b.dim_value(strides[i], DType::i64), {shape[i]}));
    const Value wide = b.broadcast_in_dim(scaled, shape, {static_cast<int64_t>(i)});
    sum = sum ? b.add(sum, wide) : wide;
  }
  return sum;
}

}  // namespace

// One slice of the padded input for each place in the window, compared in order; -1 marks padding.
Value greatest_positions(Builder& b, Value x, const PoolWindows& w, bool column_major) {
  const size_t rank = static_cast<size_t>(b.rank(x));
  Dims low(rank, Dim(0)), high(rank, Dim(0)), limit = b.shape(x), stride(rank, Dim(1));
  Shape kernel(rank, 1);
  for (size_t i = 0; i < w.size(); ++i) {
    low[i + 2] = w.low[i];
    limit[i + 2] = (w.out[i] - 1) * Dim(w.strides[i]) + 1;
    high[i + 2] = limit[i + 2] - 1 + w.reach(i) - w.input[i] - w.low[i];
    stride[i + 2] = w.strides[i];
    kernel[i + 2] = w.kernel[i].hint();
  }
  const Dims interior(rank, Dim(0));
  const Value padded = b.pad(x, b.scalar(b.dtype(x), 0), low, high, interior);
  const Value positions = flat_positions(b, b.shape(x), column_major);
  const Value marked = b.pad(positions, b.integer(DType::i64, -1), low, high, interior);
  Value best, at;
  const int64_t places = element_count(kernel);
  for (int64_t place = 0; place < places; ++place) {
    Dims from(rank, Dim(0)), to = limit;
    int64_t rest = place;
    for (size_t i = rank; i-- > 0;) {
      if (i >= 2) from[i] = rest % kernel[i] * w.dilations[i - 2];
      to[i] = limit[i] + from[i];
      rest /= kernel[i];
    }
    const Value here = b.slice(padded, from, to, stride), where = b.slice(marked, from, to, stride);
    if (!best) {
      best = here;
      at = where;
      continue;
    }
    const Value zero = b.like(at, 0);
    const Value inside = b.compare(where, zero, CompareDirection::ge);
    const Value none = b.compare(at, zero, CompareDirection::lt);
    const Value greater = b.compare(here, best, CompareDirection::gt);
    const Value take = b.logical_and(inside, b.logical_or(none, greater));
    best = b.select(take, here, best);
    at = b.select(take, where, at);
  }
  return at;
}

namespace {

// The positions count in the shape that undoes the pool exactly; a larger output_shape is filled with zeros after it.
void max_unpool(OpContext& op) {
  require_float(op, 0);
  require_index(op, 1);
  op.check(op.rank(0) >= 3, "the input must have a spatial axis, has rank ", op.rank(0));
  const std::vector<int64_t> kernel = op.attribute_ints("kernel_shape");
  Builder& b = op.build();
  const Value x = op.input(0);
  const Dims input = spatial_extents(b.shape(x));
  const size_t n = input.size();
  op.check(kernel.size() == n, "kernel_shape has ", kernel.size(), " entries for ", n, " spatial axes");
  for (const int64_t extent : kernel) op.check(extent > 0, "kernel_shape must be positive, holds ", extent);
  const std::vector<int64_t> strides = axis_attribute(op, "strides", n, 1, 1);
  const std::vector<int64_t> pads = axis_attribute(op, "pads", 2 * n, 0, 0);
  Dims shape = b.shape(x);
  for (size_t i = 0; i < n; ++i) shape[i + 2] = (input[i] - 1) * Dim(strides[i]) + kernel[i] - pads[i] - pads[n + i];
  const Dims flat{product(b.shape(x)), 1};
  ir::ScatterAttributes scatter;
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  const Value zeros = b.splat(b.dtype(x), 0, {product(shape)});
  const Value at = ir::checked_indices(b, op.input(1), {product(shape)}, false, "MaxUnpool: position");
  const Value put = b.scatter(zeros, b.reshape(at, flat), b.reshape(x, {flat[0]}), std::move(scatter));
  Value y = b.reshape(put, shape);
  if (op.has_input(2)) {
    const Dims wanted = op.require_dims(2);
    op.check(wanted.size() == shape.size(), "output_shape has ", wanted.size(), " entries for rank ", shape.size());
    Dims high;
    for (size_t i = 0; i < shape.size(); ++i) high.push_back(wanted[i] - shape[i]);
    const Dims none(shape.size(), Dim(0));
    y = b.pad(y, b.scalar(b.dtype(x), 0), none, high, none);
  }
  op.output(0, y);
}

}  // namespace

void register_pool_positions(Registry& r) { r.add("MaxUnpool", {9, 11, 22}, max_unpool); }

}  // namespace transmuter::ops
