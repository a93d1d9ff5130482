// cumulative: running sums and products. The decomposition is a window as long as the axis.
#include "ir/composites/common.h"
#include "ir/primitives/reduction.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& cumulative = ctx.as<CumulativeAttributes>();
  const Type& x = ctx.operands[0];
  check_axes(ctx, {cumulative.axis}, x.rank(), "C1", "axis");
  ctx.check(cumulative.kind == ReduceKind::add || cumulative.kind == ReduceKind::mul, "C2", "adds or multiplies");
  ctx.check(kind_takes(cumulative.kind, x.dtype), "C3", "does not take ", name(x.dtype));
  return {x};
}

template <ReduceKind kind, class A>
void run_lines(const std::vector<A>& values, std::vector<A>& out, const Shape& shape,
               const CumulativeAttributes& cumulative) {
  const auto strides = row_major_strides(shape);
  const int64_t extent = shape[cumulative.axis];
  const int64_t stride = cumulative.reverse ? -strides[cumulative.axis] : strides[cumulative.axis];
  const auto lines = other_axes(static_cast<int64_t>(shape.size()), {cumulative.axis});
  walk<1>(pick(shape, lines), {pick(strides, lines)}, [&](const auto& line) {
    int64_t at = line[0] + (cumulative.reverse ? (1 - extent) * stride : 0);
    A sum = kind == ReduceKind::add ? A{0} : A{1};
    for (int64_t i = 0; i < extent; ++i, at += stride) {
      if (cumulative.exclusive) out[at] = sum;
      sum = combine<kind>(sum, values[at]);
      if (!cumulative.exclusive) out[at] = sum;
    }
  });
}

void evaluate(EvaluateContext& ctx) {
  const auto& cumulative = ctx.as<CumulativeAttributes>();
  const Tensor& x = ctx.operands[0];
  Tensor& result = ctx.make_result();
  dispatch_accumulator(x.dtype(), "cumulative", [&]<class A>(TypeTag<A>) {
    const std::vector<A> values = elements_as<A>(x);
    std::vector<A> out(values.size());
    if (cumulative.kind == ReduceKind::add)
      run_lines<ReduceKind::add>(values, out, x.shape(), cumulative);
    else
      run_lines<ReduceKind::mul>(values, out, x.shape(), cumulative);
    store_elements(out, result);
  });
}

std::vector<Value> decompose(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& cumulative = static_cast<const CumulativeAttributes&>(*attributes);
  const Value x = operands[0];
  const size_t rank = build.shape(x).size(), axis = static_cast<size_t>(cumulative.axis);
  const Dim extent = build.shape(x)[axis];
  if (provably_eq(extent, 0)) return {x};
  ReduceWindowAttributes window;
  window.kind = cumulative.kind;
  window.strides.assign(rank, 1);
  window.base_dilation.assign(rank, 1);
  window.window_dilation.assign(rank, 1);
  window.window.assign(rank, 1);
  window.pad_low.assign(rank, 0);
  window.pad_high.assign(rank, 0);
  window.window[axis] = extent;
  auto& before = cumulative.reverse ? window.pad_high : window.pad_low;
  auto& after = cumulative.reverse ? window.pad_low : window.pad_high;
  before[axis] = cumulative.exclusive ? extent : extent - 1;
  after[axis] = cumulative.exclusive ? -1 : 0;
  return {build.reduce_window(x, window)};
}

}  // namespace

const Primitive composite::cumulative{
    .name = "cumulative", .infer = infer, .evaluate = evaluate, .decompose = decompose};

Value cumulative(Builder& build, Value x, ReduceKind kind, int64_t axis, bool exclusive, bool reverse) {
  auto attributes = std::make_shared<CumulativeAttributes>();
  attributes->kind = kind;
  attributes->axis = axis;
  attributes->exclusive = exclusive;
  attributes->reverse = reverse;
  return build.emit1(composite::cumulative, {x}, std::move(attributes));
}

}  // namespace transmuter::ir
