// The dimension numbers of gather and scatter in common words: "windowed" is gather's result and scatter's updates.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/primitives/walk.h"

namespace transmuter::ir {

struct IndexWindows {
  const std::vector<int64_t>& window_dims;   // axes of windowed
  const std::vector<int64_t>& dropped_dims;  // operand axes of window extent 1 that windowed lacks
  const std::vector<int64_t>& operand_batching_dims;
  const std::vector<int64_t>& indices_batching_dims;
  const std::vector<int64_t>& index_map;  // the operand axis of each index component
  int64_t index_vector_dim;

  explicit IndexWindows(const GatherAttributes& a)
      : window_dims(a.offset_dims),
        dropped_dims(a.collapsed_slice_dims),
        operand_batching_dims(a.operand_batching_dims),
        indices_batching_dims(a.start_indices_batching_dims),
        index_map(a.start_index_map),
        index_vector_dim(a.index_vector_dim) {}
  explicit IndexWindows(const ScatterAttributes& a)
      : window_dims(a.update_window_dims),
        dropped_dims(a.inserted_window_dims),
        operand_batching_dims(a.input_batching_dims),
        indices_batching_dims(a.scatter_indices_batching_dims),
        index_map(a.scatter_dims_to_operand_dims),
        index_vector_dim(a.index_vector_dim) {}

  // The operand axes that windows run along, in the order of window_dims.
  std::vector<int64_t> operand_window_dims(int64_t rank) const {
    return other_axes(rank, dropped_dims, operand_batching_dims);
  }
  std::vector<int64_t> indices_batch_dims(int64_t rank) const { return other_axes(rank, {index_vector_dim}); }
  // Everything that both ops demand alike.
  void check(const InferContext& ctx, const Type& operand, const Type& indices) const;
};

// Calls fn(starts, offset) for each index vector in order: one start an operand axis (0 where it has none, batching
// axes included), as they are in `indices`, and the offset of its window's first element in windowed.
template <class Fn>
void for_each_window(const IndexWindows& map, int64_t operand_rank, const Tensor& indices, const Shape& windowed,
                     const Fn& fn) {
  const std::vector<int64_t> values = elements_as<int64_t>(indices);
  const auto batch = map.indices_batch_dims(indices.rank());
  const auto indices_strides = row_major_strides(indices.shape());
  const auto windowed_batch = other_axes(static_cast<int64_t>(windowed.size()), map.window_dims);
  const bool scalar = map.index_vector_dim == indices.rank();
  const int64_t step = scalar ? 0 : indices_strides[static_cast<size_t>(map.index_vector_dim)];
  const Shape shape = pick(indices.shape(), batch);
  const auto counting = row_major_strides(shape);
  walk<3>(shape, {pick(indices_strides, batch), pick(row_major_strides(windowed), windowed_batch), counting},
          [&](const auto& at) {
            std::vector<int64_t> starts(static_cast<size_t>(operand_rank), 0);
            for (size_t i = 0; i < map.index_map.size(); ++i)
              starts[map.index_map[i]] = values[at[0] + static_cast<int64_t>(i) * step];
            for (size_t i = 0; i < map.operand_batching_dims.size(); ++i) {
              const auto where = std::find(batch.begin(), batch.end(), map.indices_batching_dims[i]) - batch.begin();
              starts[map.operand_batching_dims[i]] = at[2] / counting[where] % shape[where];
            }
            fn(starts, at[1]);
          });
}

// For gradients. The greatest start of each index component (operand extent less window extent), broadcast to the
// indices' shape.
Value greatest_starts(Builder& build, const IndexWindows& map, const Dims& operand, const Dims& window, Value indices);

}  // namespace transmuter::ir
