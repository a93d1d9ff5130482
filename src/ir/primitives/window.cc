// reduce_window: StableHLO reduce_window of one operand with a named body; padding and the holes of base dilation
// count as the body's identity. Arithmetic as in reduce.
#include <algorithm>

#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/reduction.h"
#include "ir/primitives/walk.h"
#include "ir/primitives/windows.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 1);
  const auto& attributes = ctx.as<ReduceWindowAttributes>();
  const Type& x = ctx.operands[0];
  const size_t rank = x.shape.size();
  ctx.check(attributes.window.size() == rank && attributes.strides.size() == rank &&
                attributes.base_dilation.size() == rank && attributes.window_dilation.size() == rank &&
                attributes.pad_low.size() == rank && attributes.pad_high.size() == rank,
            "C4", "window, strides, dilations and pads need one entry for each of ", rank, " axes");
  ctx.check(kind_takes(attributes.kind, x.dtype), "C13", stablehlo_name(attributes.kind), " does not take ",
            name(x.dtype));
  Dims shape;
  for (size_t i = 0; i < rank; ++i) {
    ctx.check(attributes.strides[i] > 0, "C7", "stride must be > 0, got ", attributes.strides[i]);
    ctx.check(attributes.base_dilation[i] > 0, "C9", "base dilation must be > 0, got ", attributes.base_dilation[i]);
    ctx.check(attributes.window_dilation[i] > 0, "C11", "window dilation must be > 0, got ",
              attributes.window_dilation[i]);
    require(less(0, attributes.window[i]), "reduce_window: C5 window extents must be > 0");
    const Dim padded =
        dilated_extent(x.shape[i], attributes.base_dilation[i]) + attributes.pad_low[i] + attributes.pad_high[i];
    shape.push_back(window_count(padded, attributes.window[i], attributes.window_dilation[i], attributes.strides[i],
                                 "reduce_window: C15 the window is larger than the padded operand"));
  }
  return {{x.dtype, std::move(shape)}};
}

// Along one axis: for result position o and window position w, the element's offset (index * stride), or -1.
std::vector<std::vector<int64_t>> axis_offsets(int64_t results, int64_t window, int64_t extent, int64_t element_stride,
                                               int64_t stride, int64_t low, int64_t base, int64_t dilation) {
  std::vector<std::vector<int64_t>> offsets(static_cast<size_t>(results));
  for (int64_t o = 0; o < results; ++o) {
    // Only where the window meets the elements: it may reach far beyond them.
    const int64_t before = low - o * stride, behind = before + (extent - 1) * base;
    const int64_t first = before <= 0 ? 0 : (before - 1) / dilation + 1;
    const int64_t end = behind < 0 ? 0 : std::min(window, behind / dilation + 1);
    for (int64_t w = first; w < end; ++w) {
      const int64_t at = o * stride + w * dilation - low;
      if (at >= 0 && at % base == 0 && at / base < extent)
        offsets[static_cast<size_t>(o)].push_back(at / base * element_stride);
    }
  }
  return offsets;
}

void evaluate(EvaluateContext& ctx) {
  const auto& attributes = ctx.as<ReduceWindowAttributes>();
  const Tensor& x = ctx.operands[0];
  Tensor& result = ctx.make_result();
  const size_t rank = x.shape().size();
  const auto window = ctx.values(attributes.window), low = ctx.values(attributes.pad_low);
  const auto strides = row_major_strides(x.shape()), result_strides = row_major_strides(result.shape());
  std::vector<std::vector<std::vector<int64_t>>> offsets(rank);  // [axis][result position] -> inside the operand
  for (size_t i = 0; i < rank; ++i) {
    offsets[i] = axis_offsets(result.shape()[i], window[i], x.shape()[i], strides[i], attributes.strides[i], low[i],
                              attributes.base_dilation[i], attributes.window_dilation[i]);
  }
  dispatch_accumulator(x.dtype(), "reduce_window", [&]<class A>(TypeTag<A>) {
    const std::vector<A> values = elements_as<A>(x);
    std::vector<A> sums(static_cast<size_t>(result.size()));
    dispatch_kind(attributes.kind, [&]<ReduceKind kind>() {
      const auto gather = [&](const auto& self, size_t axis, int64_t result_offset, int64_t from, A sum) -> A {
        if (axis == rank) return combine<kind>(sum, values[static_cast<size_t>(from)]);
        const int64_t position = result_offset / result_strides[axis];
        for (const int64_t offset : offsets[axis][static_cast<size_t>(position)])
          sum = self(self, axis + 1, result_offset % result_strides[axis], from + offset, sum);
        return sum;
      };
      const A identity = identity_of<A>(attributes.kind, x.dtype());
      for (size_t o = 0; o < sums.size(); ++o) sums[o] = gather(gather, 0, static_cast<int64_t>(o), 0, identity);
    });
    store_elements(sums, result);
  });
}

// add: every operand element receives the gradients of the windows that hold it: again a window sum.
Value spread_sum(VjpContext& ctx, const ReduceWindowAttributes& forward) {
  Builder& build = ctx.build;
  const Dims in = build.shape(ctx.operands[0]), out = build.shape(ctx.gradients[0]);
  ReduceWindowAttributes back;
  back.window = forward.window;
  back.strides = forward.base_dilation;
  back.base_dilation = forward.strides;
  back.window_dilation = forward.window_dilation;
  for (size_t i = 0; i < in.size(); ++i) {
    back.pad_low.push_back((forward.window[i] - 1) * forward.window_dilation[i] - forward.pad_low[i]);
    back.pad_high.push_back(dilated_extent(in[i], forward.base_dilation[i]) -
                            dilated_extent(out[i], forward.strides[i]) + forward.pad_low[i]);
  }
  return build.reduce_window(ctx.gradients[0], back);
}

// min, max: the first window position that holds the result takes the gradient. One slice of the padded operand per
// window position is compared with the result, and the chosen gradients are put back where the slice came from.
Value route_to_first(VjpContext& ctx, const ReduceWindowAttributes& forward) {
  Builder& build = ctx.build;
  const Value x = ctx.operands[0], gradient = ctx.gradients[0];
  const DType dtype = build.dtype(x);
  const size_t rank = forward.window.size();
  const Dims out = build.shape(gradient);
  Dims interior;
  Shape window;
  for (size_t i = 0; i < rank; ++i) {
    if (!forward.window[i].is_constant())
      throw Error(ErrorCode::unsupported, "reduce_window min and max with a symbolic window has no gradient");
    window.push_back(forward.window[i].hint());
    interior.push_back(forward.base_dilation[i] - 1);
  }
  const Value identity = build.scalar(dtype, identity_double(forward.kind)), zero = build.scalar(dtype, 0);
  const Value padded = build.pad(x, identity, forward.pad_low, forward.pad_high, interior);
  const Dims room = build.shape(padded);
  Value total = build.splat(dtype, 0, room), found;
  walk<1>(window, {row_major_strides(window)}, [&](const auto& position) {
    int64_t rest = position[0];
    Dims start(rank), limit(rank), stride(rank), after(rank), between(rank);
    for (size_t i = rank; i-- > 0;) {
      start[i] = rest % window[i] * forward.window_dilation[i];
      rest /= window[i];
      limit[i] = start[i] + (out[i] - 1) * forward.strides[i] + 1;
      stride[i] = forward.strides[i];
      after[i] = room[i] - limit[i];
      between[i] = forward.strides[i] - 1;
    }
    const Value here = build.compare(build.slice(padded, start, limit, stride), ctx.results[0], CompareDirection::eq);
    const Value first = found ? build.logical_and(here, build.logical_not(found)) : here;
    found = found ? build.logical_or(found, here) : here;
    const Value chosen = build.select(first, gradient, build.like(gradient, 0));
    total = build.add(total, build.pad(chosen, zero, start, after, between));
  });
  // Negative pads cropped the operand: what was cut off has no gradient.
  Dims low(rank), high(rank), stride(rank);
  for (size_t i = 0; i < rank; ++i) {
    low[i] = -forward.pad_low[i];
    high[i] = -forward.pad_high[i];
    stride[i] = forward.base_dilation[i];
  }
  const Value whole = build.pad(total, zero, low, high, Dims(rank));
  return build.slice(whole, Dims(rank), build.shape(whole), stride);
}

std::vector<Value> vjp(VjpContext& ctx) {
  const auto& attributes = ctx.op.as<ReduceWindowAttributes>();
  if (!is_float(ctx.build.dtype(ctx.operands[0]))) return {{}};
  switch (attributes.kind) {
    case ReduceKind::add:
      return {spread_sum(ctx, attributes)};
    case ReduceKind::min:
    case ReduceKind::max:
      return {route_to_first(ctx, attributes)};
    default:
      throw Error(ErrorCode::unsupported, "reduce_window of a product has no gradient");
  }
}

PrintedOp print(const PrintContext& ctx) {
  const auto& attributes = ctx.op.as<ReduceWindowAttributes>();
  const DType dtype = ctx.program.type(ctx.op.operands[0]).dtype;
  PrintedOp out;
  out.attributes = str("window_dimensions = ", array_text(ctx.values(attributes.window)),
                       ", window_strides = ", array_text(attributes.strides),
                       ", base_dilations = ", array_text(attributes.base_dilation),
                       ", window_dilations = ", array_text(attributes.window_dilation),
                       ", padding = ", padding_text(ctx.values(attributes.pad_low), ctx.values(attributes.pad_high)));
  out.regions = combine_region(ctx, stablehlo_name(attributes.kind), dtype);
  add_identity_operand(ctx, attributes.kind, dtype, out);
  return out;
}

}  // namespace

const Primitive prim::reduce_window{
    .name = "reduce_window", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::reduce_window(Value x, ReduceWindowAttributes attributes) {
  return emit1(prim::reduce_window, {x}, std::make_shared<ReduceWindowAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
