// dynamic_slice and dynamic_update_slice: StableHLO's, with one 0-d integer start an axis, clamped so that the window
// lies inside the operand.
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/walk.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

void check_starts(const InferContext& ctx, size_t first) {
  const Type& x = ctx.operands[0];
  ctx.check(ctx.operands.size() == first + x.shape.size(), "C2", "takes one start for each of ", x.rank(), " axes");
  for (size_t i = first; i < ctx.operands.size(); ++i) {
    check_scalar(ctx, ctx.operands[i], "C3", "a start");
    ctx.check(is_integer(ctx.operands[i].dtype), "C3", "a start must be an integer");
  }
}

void check_fits(const InferContext& ctx, const Dims& sizes, const char* constraint) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    require(less_equal(sizes[i], ctx.operands[0].shape[i]),
            str(ctx.primitive.name, ": ", constraint, " the window is larger than the operand"));
  }
}

std::vector<Type> infer_slice(const InferContext& ctx) {
  ctx.check(!ctx.operands.empty(), "C0", "takes an operand");
  const Dims& sizes = ctx.as<DynamicSliceAttributes>().sizes;
  check_starts(ctx, 1);
  ctx.check(sizes.size() == ctx.operands[0].shape.size(), "C2", "takes one size an axis");
  check_fits(ctx, sizes, "C4");
  return {{ctx.operands[0].dtype, sizes}};
}

std::vector<Type> infer_update(const InferContext& ctx) {
  ctx.check(ctx.operands.size() >= 2, "C0", "takes an operand and an update");
  const Type &x = ctx.operands[0], &update = ctx.operands[1];
  check_same_dtype(ctx, x, update, "C2");
  ctx.check(x.rank() == update.rank(), "C3", "operand and update must have equal ranks");
  check_starts(ctx, 2);
  check_fits(ctx, update.shape, "C6");
  return {x};
}

// The offset of the window's first element.
int64_t window_offset(const EvaluateContext& ctx, const Shape& shape, const Shape& sizes, size_t first) {
  const auto strides = row_major_strides(shape);
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t start = elements_as<int64_t>(ctx.operands[first + i])[0];
    offset += std::clamp<int64_t>(start, 0, shape[i] - sizes[i]) * strides[i];
  }
  return offset;
}

void evaluate_slice(EvaluateContext& ctx) {
  const Tensor& x = ctx.operands[0];
  Tensor& result = ctx.make_result();
  dispatch_width(x.dtype(), "dynamic_slice", [&]<class T>(TypeTag<T>) {
    const T* from = elements<T>(x) + window_offset(ctx, x.shape(), result.shape(), 1);
    T* to = mutable_elements<T>(result);
    walk<1>(result.shape(), {row_major_strides(x.shape())}, [&](const auto& at) { *to++ = from[at[0]]; });
  });
}

void evaluate_update(EvaluateContext& ctx) {
  const Tensor &x = ctx.operands[0], &update = ctx.operands[1];
  Tensor& result = ctx.make_result();
  dispatch_width(x.dtype(), "dynamic_update_slice", [&]<class T>(TypeTag<T>) {
    std::copy_n(elements<T>(x), x.size(), mutable_elements<T>(result));
    const T* from = elements<T>(update);
    T* to = mutable_elements<T>(result) + window_offset(ctx, x.shape(), update.shape(), 2);
    walk<1>(update.shape(), {row_major_strides(x.shape())}, [&](const auto& at) { to[at[0]] = *from++; });
  });
}

std::vector<Value> vjp_slice(VjpContext& ctx) {
  std::vector<Value> gradients(ctx.operands.size());
  const std::vector<Value> starts(ctx.operands.begin() + 1, ctx.operands.end());
  gradients[0] = ctx.build.dynamic_update_slice(ctx.build.like(ctx.operands[0], 0), ctx.gradients[0], starts);
  return gradients;
}

std::vector<Value> vjp_update(VjpContext& ctx) {
  Builder& build = ctx.build;
  std::vector<Value> gradients(ctx.operands.size());
  const std::vector<Value> starts(ctx.operands.begin() + 2, ctx.operands.end());
  gradients[0] = build.dynamic_update_slice(ctx.gradients[0], build.like(ctx.operands[1], 0), starts);
  gradients[1] = build.dynamic_slice(ctx.gradients[0], starts, build.shape(ctx.operands[1]));
  return gradients;
}

PrintedOp print_slice(const PrintContext& ctx) {
  PrintedOp out;
  out.attributes = "slice_sizes = " + array_text(ctx.values(ctx.op.as<DynamicSliceAttributes>().sizes));
  return out;
}

}  // namespace

const Primitive prim::dynamic_slice{
    .name = "dynamic_slice", .infer = infer_slice, .evaluate = evaluate_slice, .vjp = vjp_slice, .print = print_slice};
const Primitive prim::dynamic_update_slice{
    .name = "dynamic_update_slice", .infer = infer_update, .evaluate = evaluate_update, .vjp = vjp_update};

Value Builder::dynamic_slice(Value x, std::vector<Value> starts, Dims sizes) {
  starts.insert(starts.begin(), x);
  return emit1(prim::dynamic_slice, std::move(starts), std::make_shared<DynamicSliceAttributes>(std::move(sizes)));
}

Value Builder::dynamic_update_slice(Value x, Value update, std::vector<Value> starts) {
  starts.insert(starts.begin(), {x, update});
  return emit1(prim::dynamic_update_slice, std::move(starts));
}

}  // namespace transmuter::ir
