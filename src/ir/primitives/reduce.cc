// reduce: StableHLO reduce of one operand with a named body, from the body's identity. The axes disappear. Floats are
// accumulated in double, integers wrap around; NaN wins in min and max.
#include <algorithm>

#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/reduction.h"
#include "ir/primitives/walk.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  const auto& reduce = ctx.as<ReduceAttributes>();
  check_operand_count(ctx, 1);
  const Type& x = ctx.operands[0];
  check_axes(ctx, reduce.axes, x.rank(), "C4", "axes");
  ctx.check(kind_takes(reduce.kind, x.dtype), "C6", stablehlo_name(reduce.kind), " does not take ", name(x.dtype));
  return {{x.dtype, pick(x.shape, other_axes(x.rank(), reduce.axes))}};
}

// Sums along one axis of 32 bits, which wrap in whatever order: what fixed weights of eight bits need most.
void add_along(const Tensor& x, size_t axis, Tensor& result) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < x.shape().size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : x.shape()[i];
  const int64_t count = x.shape()[axis];
  const auto* from = reinterpret_cast<const uint32_t*>(elements<int32_t>(x));
  auto* sums = reinterpret_cast<uint32_t*>(mutable_elements<int32_t>(result));
  std::fill(sums, sums + result.size(), 0U);
  for (int64_t o = 0; o < outer; ++o, sums += inner) {
    for (int64_t i = 0; i < count; ++i, from += inner) {
      for (int64_t j = 0; j < inner; ++j) sums[j] += from[j];
    }
  }
}

void evaluate(EvaluateContext& ctx) {
  const auto& reduce = ctx.as<ReduceAttributes>();
  const Tensor& x = ctx.operands[0];
  Tensor& result = ctx.make_result();
  if (x.dtype() == DType::i32 && reduce.kind == ReduceKind::add && reduce.axes.size() == 1)
    return add_along(x, static_cast<size_t>(reduce.axes[0]), result);
  // The operand is read in order; a reduced axis has stride 0 in the result.
  const auto kept = other_axes(x.rank(), reduce.axes);
  const auto result_strides = row_major_strides(result.shape());
  std::vector<int64_t> strides(x.shape().size(), 0);
  for (size_t i = 0; i < kept.size(); ++i) strides[static_cast<size_t>(kept[i])] = result_strides[i];
  dispatch_accumulator(x.dtype(), "reduce", [&]<class A>(TypeTag<A>) {
    const std::vector<A> values = elements_as<A>(x);
    std::vector<A> sums(static_cast<size_t>(result.size()), identity_of<A>(reduce.kind, x.dtype()));
    const A* from = values.data();
    dispatch_kind(reduce.kind, [&]<ReduceKind kind>() {
      walk<1>(x.shape(), {strides}, [&](const auto& at) {
        A& sum = sums[static_cast<size_t>(at[0])];
        sum = combine<kind>(sum, *from++);
      });
    });
    store_elements(sums, result);
  });
}

std::vector<Value> vjp(VjpContext& ctx) {
  const auto& reduce = ctx.op.as<ReduceAttributes>();
  Builder& build = ctx.build;
  const Value x = ctx.operands[0];
  if (!is_float(build.dtype(x))) return {{}};
  const Dims shape = build.shape(x);
  const auto kept = other_axes(build.rank(x), reduce.axes);
  const auto spread = [&](Value reduced) { return build.broadcast_in_dim(reduced, shape, kept); };
  const Value gradient = ctx.gradients[0];
  switch (reduce.kind) {
    case ReduceKind::add:
      return {spread(gradient)};
    case ReduceKind::min:
    case ReduceKind::max: {  // shared evenly among equal elements
      const Value chosen =
          build.convert(build.compare(x, spread(ctx.results[0]), CompareDirection::eq), build.dtype(x));
      const Value share = build.divide(gradient, build.reduce(chosen, ReduceKind::add, reduce.axes));
      return {
          build.select(build.compare(chosen, build.like(x, 0), CompareDirection::ne), spread(share), build.like(x, 0))};
    }
    default: {  // mul: the product of the others, which one zero does not spoil
      const Value zero = build.like(x, 0), one = build.like(x, 1);
      const Value is_zero = build.compare(x, zero, CompareDirection::eq);
      const Value zeros = spread(build.reduce(build.convert(is_zero, build.dtype(x)), ReduceKind::add, reduce.axes));
      const Value safe = build.select(is_zero, one, x);
      const Value product = spread(build.reduce(safe, ReduceKind::mul, reduce.axes));
      const Value mine = build.select(is_zero, one, zero);
      const Value lonely = build.compare(zeros, mine, CompareDirection::eq);
      return {build.multiply(spread(gradient), build.select(lonely, build.divide(product, safe), zero))};
    }
  }
}

PrintedOp print(const PrintContext& ctx) {
  const auto& reduce = ctx.op.as<ReduceAttributes>();
  const DType dtype = ctx.program.type(ctx.op.operands[0]).dtype;
  PrintedOp out;
  out.attributes = "dimensions = " + array_text(reduce.axes);
  out.regions = combine_region(ctx, stablehlo_name(reduce.kind), dtype);
  add_identity_operand(ctx, reduce.kind, dtype, out);
  return out;
}

}  // namespace

const Primitive prim::reduce{.name = "reduce", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::reduce(Value x, ReduceKind kind, std::vector<int64_t> axes) {
  if (axes.empty()) return x;
  return emit1(prim::reduce, {x}, std::make_shared<ReduceAttributes>(kind, std::move(axes)));
}

}  // namespace transmuter::ir
