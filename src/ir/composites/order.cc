// topk, argmax, argmin.
#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer_topk(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& topk = ctx.as<TopkAttributes>();
  const Type& x = ctx.operands[0];
  check_axes(ctx, {topk.axis}, x.rank(), "C1", "axis");
  ctx.check(x.dtype == DType::boolean || is_integer(x.dtype) || is_float(x.dtype), "C2", "no order among ",
            name(x.dtype));
  require(less_equal(0, topk.k), "topk: C3 k must be >= 0");
  require(less_equal(topk.k, x.shape[topk.axis]), "topk: C3 k is greater than the extent");
  Dims shape = x.shape;
  shape[topk.axis] = topk.k;
  return {{x.dtype, shape}, {DType::i64, shape}};
}

std::vector<Value> decompose_topk(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& topk = static_cast<const TopkAttributes&>(*attributes);
  SortAttributes sort;
  sort.axis = topk.axis;
  sort.descending = topk.largest;
  const Value position = build.iota(DType::i64, build.shape(operands[0]), topk.axis);
  std::vector<Value> results;
  for (const Value sorted : build.sort({operands[0], position}, sort))
    results.push_back(build.slice_axis(sorted, topk.axis, 0, topk.k));
  return results;
}

std::vector<Type> infer_arg_extreme(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& arg = ctx.as<ArgExtremeAttributes>();
  const Type& x = ctx.operands[0];
  check_axes(ctx, {arg.axis}, x.rank(), "C1", "axis");
  ctx.check(x.dtype == DType::boolean || is_integer(x.dtype) || computes(x.dtype), "C2", "no order among ",
            name(x.dtype));
  return {{DType::i64, pick(x.shape, other_axes(x.rank(), {arg.axis}))}};
}

std::vector<Value> decompose_arg_extreme(Builder& build, std::span<const Value> operands,
                                         const Attributes* attributes) {
  const auto& arg = static_cast<const ArgExtremeAttributes&>(*attributes);
  const Value x = operands[0];
  const Value extreme = build.reduce_keep(x, arg.greatest ? ReduceKind::max : ReduceKind::min, {arg.axis});
  const Value spread = build.broadcast_to(extreme, build.shape(x));
  Value here = build.compare(x, spread, CompareDirection::eq);
  if (is_float(build.dtype(x))) {
    // NaN is the extreme as soon as there is one.
    here = build.logical_or(here, build.compare(x, x, CompareDirection::ne));
  }
  const Value position = build.iota(DType::i64, build.shape(x), arg.axis);
  const Value outside = build.broadcast_to(
      arg.last ? build.integer(DType::i64, -1) : build.dim_value(build.shape(x)[arg.axis], DType::i64), build.shape(x));
  const Value candidates = build.select(here, position, outside);
  return {build.reduce(candidates, arg.last ? ReduceKind::max : ReduceKind::min, {arg.axis})};
}

Value arg_extreme(Builder& build, Value x, int64_t axis, bool greatest, bool last) {
  auto arg = std::make_shared<ArgExtremeAttributes>();
  arg->axis = axis;
  arg->greatest = greatest;
  arg->last = last;
  return build.emit1(composite::arg_extreme, {x}, std::move(arg));
}

}  // namespace

const Primitive composite::topk{.name = "topk", .infer = infer_topk, .decompose = decompose_topk};
const Primitive composite::arg_extreme{
    .name = "arg_extreme", .infer = infer_arg_extreme, .decompose = decompose_arg_extreme};

std::pair<Value, Value> topk(Builder& build, Value x, int64_t axis, Dim k, bool largest) {
  auto topk = std::make_shared<TopkAttributes>();
  topk->axis = axis;
  topk->k = k;
  topk->largest = largest;
  const auto results = build.emit(composite::topk, {x}, std::move(topk));
  return {results[0], results[1]};
}

Value argmax(Builder& build, Value x, int64_t axis, bool last) { return arg_extreme(build, x, axis, true, last); }
Value argmin(Builder& build, Value x, int64_t axis, bool last) { return arg_extreme(build, x, axis, false, last); }

}  // namespace transmuter::ir
