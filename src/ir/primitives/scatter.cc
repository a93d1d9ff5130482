// scatter: StableHLO scatter of one operand with a named body. A window that does not lie inside the operand is dropped
// whole; index vectors are applied in order.
#include "ir/builder.h"
#include "ir/primitives/index_windows.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/reduction.h"

namespace transmuter::ir {
namespace {

using Kind = ScatterAttributes::Kind;

ReduceKind reduce_kind(Kind kind) {
  switch (kind) {
    case Kind::mul:
      return ReduceKind::mul;
    case Kind::min:
      return ReduceKind::min;
    case Kind::max:
      return ReduceKind::max;
    default:
      return ReduceKind::add;
  }
}

// The window extent along every operand axis.
template <class D>
std::vector<D> window_sizes(const IndexWindows& map, int64_t rank, const std::vector<D>& updates) {
  std::vector<D> sizes(static_cast<size_t>(rank), D(1));
  const auto axes = map.operand_window_dims(rank);
  for (size_t i = 0; i < axes.size(); ++i) sizes[axes[i]] = updates[map.window_dims[i]];
  return sizes;
}

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 3);
  const auto& scatter = ctx.as<ScatterAttributes>();
  const IndexWindows map(scatter);
  const Type &x = ctx.operands[0], &indices = ctx.operands[1], &updates = ctx.operands[2];
  map.check(ctx, x, indices);
  check_same_dtype(ctx, x, updates, "C6");
  ctx.check(scatter.kind == Kind::set || kind_takes(reduce_kind(scatter.kind), x.dtype), "C6",
            stablehlo_name(reduce_kind(scatter.kind)), " does not take ", name(x.dtype));
  const auto batch = map.indices_batch_dims(indices.rank());
  ctx.check(updates.rank() == static_cast<int64_t>(batch.size() + scatter.update_window_dims.size()), "C4",
            "updates have rank ", updates.rank());
  check_axes(ctx, scatter.update_window_dims, updates.rank(), "C8", "update window axes");
  const Dims update_batch = pick(updates.shape, other_axes(updates.rank(), scatter.update_window_dims));
  for (size_t i = 0; i < batch.size(); ++i)
    check_same_extent(ctx, update_batch[i], indices.shape[batch[i]], "C4", "extents of updates and indices");
  const Dims sizes = window_sizes(map, x.rank(), updates.shape);
  for (const int64_t axis : map.operand_window_dims(x.rank()))
    require(less_equal(sizes[axis], x.shape[axis]), "scatter: C4 an update is larger than the operand");
  return {x};
}

// fn(element of the operand, element of updates) for every pair, in order.
template <class Fn>
void for_each_pair(const EvaluateContext& ctx, const Fn& fn) {
  const IndexWindows map(ctx.as<ScatterAttributes>());
  const Tensor &x = ctx.operands[0], &updates = ctx.operands[2];
  if (updates.size() == 0) return;
  const auto strides = row_major_strides(x.shape()), update_strides = row_major_strides(updates.shape());
  const Shape sizes = window_sizes(map, x.rank(), updates.shape());
  const auto axes = map.operand_window_dims(x.rank());
  for_each_window(map, x.rank(), ctx.operands[1], updates.shape(), [&](const auto& starts, int64_t offset) {
    int64_t first = 0;
    for (size_t i = 0; i < starts.size(); ++i) {
      if (starts[i] < 0 || starts[i] > x.shape()[i] - sizes[i]) return;
      first += starts[i] * strides[i];
    }
    walk<2>(pick(sizes, axes), {pick(strides, axes), pick(update_strides, map.window_dims)},
            [&](const auto& at) { fn(at[0], at[1]); }, {first, offset});
  });
}

void evaluate(EvaluateContext& ctx) {
  const auto& scatter = ctx.as<ScatterAttributes>();
  const Tensor &x = ctx.operands[0], &updates = ctx.operands[2];
  Tensor& result = ctx.make_result();
  if (scatter.kind == Kind::set) {
    dispatch_width(x.dtype(), "scatter", [&]<class T>(TypeTag<T>) {
      const T* from = elements<T>(updates);
      T* to = mutable_elements<T>(result);
      std::copy_n(elements<T>(x), x.size(), to);
      for_each_pair(ctx, [&](int64_t element, int64_t update) { to[element] = from[update]; });
    });
    return;
  }
  dispatch_accumulator(x.dtype(), "scatter", [&]<class A>(TypeTag<A>) {
    const std::vector<A> from = elements_as<A>(updates);
    std::vector<A> to = elements_as<A>(x);
    dispatch_kind(reduce_kind(scatter.kind), [&]<ReduceKind kind>() {
      for_each_pair(ctx,
                    [&](int64_t element, int64_t update) { to[element] = combine<kind>(to[element], from[update]); });
    });
    store_elements(to, result);
  });
}

// set and add. For set, equal indices are taken not to occur: each update receives the gradient of where it went.
std::vector<Value> vjp(VjpContext& ctx) {
  const auto& scatter = ctx.op.as<ScatterAttributes>();
  if (scatter.kind != Kind::set && scatter.kind != Kind::add)
    throw Error(ErrorCode::unsupported, "scatter has a gradient for set and add only");
  Builder& build = ctx.build;
  const Value indices = ctx.operands[1], updates = ctx.operands[2], gradient = ctx.gradients[0];
  const IndexWindows map(scatter);
  const Dims shape = build.shape(gradient), updates_shape = build.shape(updates);
  GatherAttributes gather;
  gather.offset_dims = scatter.update_window_dims;
  gather.collapsed_slice_dims = scatter.inserted_window_dims;
  gather.operand_batching_dims = scatter.input_batching_dims;
  gather.start_indices_batching_dims = scatter.scatter_indices_batching_dims;
  gather.start_index_map = scatter.scatter_dims_to_operand_dims;
  gather.index_vector_dim = scatter.index_vector_dim;
  gather.slice_sizes = window_sizes(map, static_cast<int64_t>(shape.size()), updates_shape);
  Value to_updates = build.gather(gradient, indices, gather);
  // Dropped windows have no gradient.
  const Value last = greatest_starts(build, map, shape, gather.slice_sizes, indices);
  Value inside = build.logical_and(build.compare(indices, build.like(indices, 0), CompareDirection::ge),
                                   build.compare(indices, last, CompareDirection::le));
  if (map.index_vector_dim < build.rank(indices))
    inside = build.reduce(inside, ReduceKind::logical_and, {map.index_vector_dim});
  inside = build.broadcast_in_dim(inside, updates_shape, other_axes(build.rank(updates), map.window_dims));
  to_updates = build.select(inside, to_updates, build.like(to_updates, 0));
  if (scatter.kind == Kind::add) return {gradient, {}, to_updates};
  return {build.scatter(gradient, indices, build.like(updates, 0), scatter), {}, to_updates};
}

PrintedOp print(const PrintContext& ctx) {
  const auto& scatter = ctx.op.as<ScatterAttributes>();
  const DType dtype = ctx.program.type(ctx.op.operands[0]).dtype;
  PrintedOp out;
  out.attributes =
      str("scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ", scatter.update_window_dims,
          ", inserted_window_dims = ", scatter.inserted_window_dims,
          ", input_batching_dims = ", scatter.input_batching_dims,
          ", scatter_indices_batching_dims = ", scatter.scatter_indices_batching_dims,
          ", scatter_dims_to_operand_dims = ", scatter.scatter_dims_to_operand_dims,
          ", index_vector_dim = ", scatter.index_vector_dim, ">, indices_are_sorted = false, unique_indices = false");
  if (scatter.kind == Kind::set) {
    const std::string type = ctx.type_text(Type{dtype, {}}), id = std::to_string(ctx.op.results[0].id);
    out.regions = str("({ ^bb0(%a_", id, ": ", type, ", %b_", id, ": ", type, "): \"stablehlo.return\"(%b_", id,
                      ") : (", type, ") -> () })");
  } else {
    out.regions = combine_region(ctx, stablehlo_name(reduce_kind(scatter.kind)), dtype);
  }
  return out;
}

}  // namespace

const Primitive prim::scatter{.name = "scatter", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::scatter(Value x, Value indices, Value updates, ScatterAttributes attributes) {
  return emit1(prim::scatter, {x, indices, updates}, std::make_shared<ScatterAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
