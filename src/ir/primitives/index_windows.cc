#include "ir/primitives/index_windows.h"

#include "ir/primitives/infer.h"

namespace transmuter::ir {

void IndexWindows::check(const InferContext& ctx, const Type& operand, const Type& indices) const {
  const int64_t rank = operand.rank();
  ctx.check(is_integer(indices.dtype) && !is_packed(indices.dtype), "C0", "indices must be integers");
  ctx.check(rank == static_cast<int64_t>(window_dims.size() + dropped_dims.size() + operand_batching_dims.size()), "C1",
            "window, dropped and batching axes must be as many as the operand's ", rank);
  ctx.check(index_vector_dim >= 0 && index_vector_dim <= indices.rank(), "C2", "index_vector_dim ", index_vector_dim,
            " must lie in [0, ", indices.rank(), "]");
  const Dim components = index_vector_dim < indices.rank() ? indices.shape[static_cast<size_t>(index_vector_dim)] : 1;
  check_same_extent(ctx, components, static_cast<int64_t>(index_map.size()), "C3", "index components and index map");
  ctx.check(std::is_sorted(window_dims.begin(), window_dims.end()), "C4", "window axes must ascend");
  check_axes(ctx, joined(dropped_dims, operand_batching_dims), rank, "C6", "dropped and batching axes");
  check_axes(ctx, indices_batching_dims, indices.rank(), "C13", "index batching axes");
  ctx.check(!contains(indices_batching_dims, index_vector_dim), "C15", "index batching axes must not hold ",
            index_vector_dim);
  ctx.check(operand_batching_dims.size() == indices_batching_dims.size(), "C16",
            "as many batching axes of the operand as of the indices");
  const Dims batch = pick(operand.shape, operand_batching_dims);
  const Dims indices_batch = pick(indices.shape, indices_batching_dims);
  for (size_t i = 0; i < batch.size(); ++i)
    check_same_extent(ctx, batch[i], indices_batch[i], "C17", "batching extents");
  check_axes(ctx, joined(index_map, operand_batching_dims), rank, "C18", "index map and batching axes");
}

Value greatest_starts(Builder& build, const IndexWindows& map, const Dims& operand, const Dims& window, Value indices) {
  const DType dtype = build.dtype(indices);
  const Dims shape = build.shape(indices);
  std::vector<Value> bounds;
  for (const int64_t axis : map.index_map) {
    const Value bound = build.dim_value(operand[axis] - window[axis], dtype);
    bounds.push_back(build.reshape(bound, {1}));
  }
  if (bounds.empty()) return indices;
  if (map.index_vector_dim == static_cast<int64_t>(shape.size()))
    return build.broadcast_in_dim(build.reshape(bounds[0], {}), shape, {});
  return build.broadcast_in_dim(build.concatenate(bounds, 0), shape, {map.index_vector_dim});
}

}  // namespace transmuter::ir
