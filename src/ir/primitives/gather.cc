// gather: StableHLO gather. Starts are clamped so that every window lies inside the operand. A window of extent 1 along
// an axis of extent 0 is legal as long as there is no index.
#include "ir/builder.h"
#include "ir/primitives/index_windows.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 2);
  const auto& gather = ctx.as<GatherAttributes>();
  const IndexWindows map(gather);
  const Type &x = ctx.operands[0], &indices = ctx.operands[1];
  map.check(ctx, x, indices);
  ctx.check(gather.slice_sizes.size() == x.shape.size(), "C20", "takes one slice size an axis");
  for (const int64_t axis : joined(gather.collapsed_slice_dims, gather.operand_batching_dims))
    ctx.check(provably_eq(gather.slice_sizes[axis], 1), "C9", "slice sizes of dropped axes must be 1");
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (provably_eq(gather.slice_sizes[i], 1)) continue;
    require(less_equal(gather.slice_sizes[i], x.shape[i]), "gather: C21 a slice is larger than the operand");
  }
  const auto batch = map.indices_batch_dims(indices.rank());
  const int64_t rank = static_cast<int64_t>(batch.size() + gather.offset_dims.size());
  check_axes(ctx, gather.offset_dims, rank, "C5", "offset axes");
  const auto batch_axes = other_axes(rank, gather.offset_dims), window_axes = map.operand_window_dims(x.rank());
  Dims shape(static_cast<size_t>(rank));
  for (size_t i = 0; i < batch.size(); ++i) shape[batch_axes[i]] = indices.shape[batch[i]];
  for (size_t i = 0; i < window_axes.size(); ++i) shape[gather.offset_dims[i]] = gather.slice_sizes[window_axes[i]];
  return {{x.dtype, std::move(shape)}};
}

void evaluate(EvaluateContext& ctx) {
  const auto& gather = ctx.as<GatherAttributes>();
  const IndexWindows map(gather);
  const Tensor &x = ctx.operands[0], &indices = ctx.operands[1];
  Tensor& result = ctx.make_result();
  if (result.size() == 0) return;
  if (x.size() == 0) throw Error(ErrorCode::invalid_input, "gather: an index into an empty operand");
  const auto strides = row_major_strides(x.shape()), result_strides = row_major_strides(result.shape());
  const auto window_axes = map.operand_window_dims(x.rank());
  const Shape sizes = ctx.values(gather.slice_sizes);
  dispatch_width(x.dtype(), "gather", [&]<class T>(TypeTag<T>) {
    const T* from = elements<T>(x);
    T* to = mutable_elements<T>(result);
    for_each_window(map, x.rank(), indices, result.shape(), [&](const auto& starts, int64_t offset) {
      int64_t first = 0;
      for (size_t i = 0; i < starts.size(); ++i)
        first += std::clamp<int64_t>(starts[i], 0, x.shape()[i] - sizes[i]) * strides[i];
      walk<2>(pick(sizes, window_axes), {pick(strides, window_axes), pick(result_strides, gather.offset_dims)},
              [&](const auto& at) { to[at[1]] = from[at[0]]; }, {first, offset});
    });
  });
}

std::vector<Value> vjp(VjpContext& ctx) {
  const auto& gather = ctx.op.as<GatherAttributes>();
  Builder& build = ctx.build;
  const Value x = ctx.operands[0], indices = ctx.operands[1];
  const Value last = greatest_starts(build, IndexWindows(gather), build.shape(x), gather.slice_sizes, indices);
  const Value clamped = build.clamp(build.like(indices, 0), indices, last);
  ScatterAttributes scatter;
  scatter.kind = ScatterAttributes::Kind::add;
  scatter.update_window_dims = gather.offset_dims;
  scatter.inserted_window_dims = gather.collapsed_slice_dims;
  scatter.input_batching_dims = gather.operand_batching_dims;
  scatter.scatter_indices_batching_dims = gather.start_indices_batching_dims;
  scatter.scatter_dims_to_operand_dims = gather.start_index_map;
  scatter.index_vector_dim = gather.index_vector_dim;
  return {build.scatter(build.like(x, 0), clamped, ctx.gradients[0], scatter), {}};
}

PrintedOp print(const PrintContext& ctx) {
  const auto& gather = ctx.op.as<GatherAttributes>();
  PrintedOp out;
  out.attributes = str(gather_text(gather), ", slice_sizes = ", array_text(ctx.values(gather.slice_sizes)),
                       ", indices_are_sorted = false");
  return out;
}

}  // namespace

std::string gather_text(const GatherAttributes& gather) {
  return str("dimension_numbers = #stablehlo.gather<offset_dims = ", gather.offset_dims,
             ", collapsed_slice_dims = ", gather.collapsed_slice_dims,
             ", operand_batching_dims = ", gather.operand_batching_dims,
             ", start_indices_batching_dims = ", gather.start_indices_batching_dims,
             ", start_index_map = ", gather.start_index_map, ", index_vector_dim = ", gather.index_vector_dim, ">");
}

const Primitive prim::gather{.name = "gather", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::gather(Value x, Value indices, GatherAttributes attributes) {
  return emit1(prim::gather, {x, indices}, std::make_shared<GatherAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
