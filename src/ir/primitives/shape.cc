// Ops that move elements about by a fixed pattern.
#include <algorithm>

#include "base/dispatch.h"
#include "ir/builder.h"
#include "ir/primitives/evaluate_util.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/vjp.h"
#include "ir/print.h"

namespace transmuter::ir {

namespace {

// Fills the result: from(index) is the flat index of the operand's element that lands at `index`.
template <class Fn>
void fill_result(EvaluateContext& c, const Fn& from) {
  const Tensor& x = c.operands[0];
  Tensor& y = c.make_result();
  dispatch_width(x.dtype(), c.op.primitive->name, [&]<class T>(TypeTag<T>) {
    T* out = mutable_elements<T>(y);
    for_each_index(y.shape(), [&](const auto& index) { *out++ = elements<T>(x)[from(index)]; });
  });
}

std::vector<Type> infer_broadcast(const InferContext& c) {
  check_operand_count(c, 1);
  const Type& x = c.operands[0];
  const auto& a = c.as<BroadcastInDimAttributes>();
  c.check(static_cast<int64_t>(a.dimensions.size()) == x.rank(), "C2", "broadcast_dimensions ", a.dimensions,
          " must have one entry per operand axis");
  check_axes(c, a.dimensions, static_cast<int64_t>(a.shape.size()), "C3/C4", "broadcast_dimensions");
  for (size_t i = 0; i < x.shape.size(); ++i) {
    Dim from = x.shape[i], to = a.shape[static_cast<size_t>(a.dimensions[i])];
    if ((from.is_constant() && from.hint() == 1) || provably_eq(from, to)) continue;
    check_holds(c, max(equal(from, 1), equal(from, to)), "C5", "an operand extent must be 1 or the result's");
  }
  return {{x.dtype, a.shape}};
}

void evaluate_broadcast(EvaluateContext& c) {
  const std::vector<int64_t>& dimensions = c.as<BroadcastInDimAttributes>().dimensions;
  std::vector<int64_t> strides = row_major_strides(c.operands[0].shape());
  fill_result(c, [&](const std::vector<int64_t>& index) {
    int64_t flat = 0;
    for (size_t i = 0; i < dimensions.size(); ++i)
      if (c.operands[0].shape()[i] != 1) flat += index[static_cast<size_t>(dimensions[i])] * strides[i];
    return flat;
  });
}

PrintedOp print_broadcast(const PrintContext& c) {
  PrintedOp out;
  out.attributes = "broadcast_dimensions = " + array_text(c.op.as<BroadcastInDimAttributes>().dimensions);
  return out;
}

std::vector<Type> infer_reshape(const InferContext& c) {
  check_operand_count(c, 1);
  const Type& x = c.operands[0];
  const Dims& shape = c.as<ReshapeAttributes>().shape;
  check_same_extent(c, product(x.shape), product(shape), "C2", "the number of elements must stay");
  return {{x.dtype, shape}};
}

void evaluate_reshape(EvaluateContext& c) { c.results.push_back(c.operands[0].reshaped(c.result_shape())); }

std::vector<Type> infer_transpose(const InferContext& c) {
  check_operand_count(c, 1);
  const Type& x = c.operands[0];
  const std::vector<int64_t>& permutation = c.as<AxesAttributes>().axes;
  c.check(static_cast<int64_t>(permutation.size()) == x.rank(), "C2", "permutation ", permutation,
          " must name every axis");
  check_axes(c, permutation, x.rank(), "C2", "permutation");
  Type out{x.dtype, {}};
  for (int64_t axis : permutation) out.shape.push_back(x.shape[static_cast<size_t>(axis)]);
  return {std::move(out)};
}

void evaluate_transpose(EvaluateContext& c) {
  std::vector<int64_t> strides = row_major_strides(c.operands[0].shape()), by_result;
  for (int64_t axis : c.as<AxesAttributes>().axes) by_result.push_back(strides[static_cast<size_t>(axis)]);
  fill_result(c, [&](const auto& index) { return flat_index(index, by_result); });
}

PrintedOp print_transpose(const PrintContext& c) {
  PrintedOp out;
  out.attributes = "permutation = " + array_text(c.op.as<AxesAttributes>().axes);
  return out;
}

std::vector<Type> infer_concatenate(const InferContext& c) {
  c.check(!c.operands.empty(), "C3", "takes at least one operand");
  int64_t axis = c.as<AxisAttributes>().axis;
  Type out = c.operands[0];
  c.check(axis >= 0 && axis < out.rank(), "C4", "dimension ", axis, " must lie in [0, ", out.rank(), ")");
  for (const Type& x : c.operands.subspan(1)) {
    check_same_dtype(c, out, x, "C1");
    c.check(x.rank() == out.rank(), "C2", "operands must have equal ranks");
    for (size_t i = 0; i < out.shape.size(); ++i) {
      if (static_cast<int64_t>(i) == axis) {
        out.shape[i] = out.shape[i] + x.shape[i];
      } else {
        check_same_extent(c, out.shape[i], x.shape[i], "C2", "extents off the concatenated axis must agree");
        out.shape[i] = plainer(out.shape[i], x.shape[i]);
      }
    }
  }
  return {std::move(out)};
}

// Below the axis each operand is one run of elements.
void evaluate_concatenate(EvaluateContext& c) {
  const size_t axis = static_cast<size_t>(c.as<AxisAttributes>().axis);
  Tensor& y = c.make_result();
  const auto run_of = [&](const Tensor& x) {
    return element_count(Shape(x.shape().begin() + static_cast<ptrdiff_t>(axis), x.shape().end()));
  };
  const int64_t rows = element_count(Shape(y.shape().begin(), y.shape().begin() + static_cast<ptrdiff_t>(axis)));
  const int64_t stride = run_of(y);
  dispatch_width(y.dtype(), "concatenate", [&]<class T>(TypeTag<T>) {
    T* out = mutable_elements<T>(y);
    for (const Tensor& x : c.operands) {
      const int64_t run = run_of(x);
      for (int64_t row = 0; row < rows; ++row) std::copy_n(elements<T>(x) + row * run, run, out + row * stride);
      out += run;
    }
  });
}

PrintedOp print_concatenate(const PrintContext& c) {
  PrintedOp out;
  out.attributes = str("dimension = ", c.op.as<AxisAttributes>().axis, " : i64");
  return out;
}

std::vector<Type> infer_slice(const InferContext& c) {
  check_operand_count(c, 1);
  const Type& x = c.operands[0];
  const auto& a = c.as<SliceAttributes>();
  size_t rank = x.shape.size();
  c.check(a.start.size() == rank && a.limit.size() == rank && a.stride.size() == rank, "C2",
          "start, limit and stride need one entry per axis");
  Type out{x.dtype, {}};
  for (size_t i = 0; i < rank; ++i) {
    check_holds(c, less_equal(0, a.start[i]), "C3", "start must be >= 0");
    check_holds(c, less_equal(a.start[i], a.limit[i]), "C3", "start must be <= limit");
    check_holds(c, less_equal(a.limit[i], x.shape[i]), "C3", "limit must be <= the extent");
    check_holds(c, less(0, a.stride[i]), "C4", "stride must be > 0");
    out.shape.push_back(ceil_div(a.limit[i] - a.start[i], a.stride[i]));
  }
  return {std::move(out)};
}

void evaluate_slice(EvaluateContext& c) {
  const auto& a = c.as<SliceAttributes>();
  std::vector<int64_t> start = c.values(a.start), step = c.values(a.stride);
  std::vector<int64_t> strides = row_major_strides(c.operands[0].shape());
  fill_result(c, [&](const std::vector<int64_t>& index) {
    int64_t flat = 0;
    for (size_t i = 0; i < index.size(); ++i) flat += (start[i] + index[i] * step[i]) * strides[i];
    return flat;
  });
}

PrintedOp print_slice(const PrintContext& c) {
  const auto& a = c.op.as<SliceAttributes>();
  PrintedOp out;
  out.attributes =
      str("limit_indices = ", array_text(c.values(a.limit)), ", start_indices = ", array_text(c.values(a.start)),
          ", strides = ", array_text(c.values(a.stride)));
  return out;
}

std::vector<Type> infer_pad(const InferContext& c) {
  check_operand_count(c, 2);
  const Type& x = c.operands[0];
  const auto& a = c.as<PadAttributes>();
  size_t rank = x.shape.size();
  check_same_dtype(c, x, c.operands[1], "C1");
  check_scalar(c, c.operands[1], "I2", "the padding value");
  c.check(a.low.size() == rank && a.high.size() == rank && a.interior.size() == rank, "C2",
          "low, high and interior need one entry per axis");
  Type out{x.dtype, {}};
  for (size_t i = 0; i < rank; ++i) {
    check_holds(c, less_equal(0, a.interior[i]), "C3", "interior must be >= 0");
    out.shape.push_back(x.shape[i] + a.low[i] + a.high[i] + max(x.shape[i] - 1, 0) * a.interior[i]);
    check_holds(c, less_equal(0, out.shape[i]), "C4", "a result extent must be >= 0");
  }
  return {std::move(out)};
}

void evaluate_pad(EvaluateContext& c) {
  const auto& a = c.as<PadAttributes>();
  const Tensor &x = c.operands[0], &value = c.operands[1];
  std::vector<int64_t> low = c.values(a.low), interior = c.values(a.interior);
  Tensor& y = c.make_result();
  std::vector<int64_t> strides = row_major_strides(y.shape());
  dispatch_width(x.dtype(), "pad", [&]<class T>(TypeTag<T>) {
    T* out = mutable_elements<T>(y);
    std::fill_n(out, y.size(), *elements<T>(value));
    const T* in = elements<T>(x);
    for_each_index(x.shape(), [&](const auto& index) {
      int64_t flat = 0;
      bool inside = true;
      for (size_t i = 0; i < index.size(); ++i) {
        int64_t to = low[i] + index[i] * (interior[i] + 1);
        inside = inside && to >= 0 && to < y.shape()[i];
        flat += to * strides[i];
      }
      if (inside) out[flat] = *in;
      ++in;
    });
  });
}

PrintedOp print_pad(const PrintContext& c) {
  const auto& a = c.op.as<PadAttributes>();
  PrintedOp out;
  out.attributes =
      str("edge_padding_high = ", array_text(c.values(a.high)), ", edge_padding_low = ", array_text(c.values(a.low)),
          ", interior_padding = ", array_text(c.values(a.interior)));
  return out;
}

std::vector<Type> infer_reverse(const InferContext& c) {
  check_operand_count(c, 1);
  check_axes(c, c.as<AxesAttributes>().axes, c.operands[0].rank(), "C2/C3", "dimensions");
  return {c.operands[0]};
}

void evaluate_reverse(EvaluateContext& c) {
  const Shape& shape = c.operands[0].shape();
  std::vector<int64_t> strides = row_major_strides(shape);
  fill_result(c, [&](std::vector<int64_t> index) {
    for (int64_t axis : c.as<AxesAttributes>().axes) {
      size_t i = static_cast<size_t>(axis);
      index[i] = shape[i] - 1 - index[i];
    }
    return flat_index(index, strides);
  });
}

PrintedOp print_reverse(const PrintContext& c) {
  PrintedOp out;
  out.attributes = "dimensions = " + array_text(c.op.as<AxesAttributes>().axes);
  return out;
}

bool is_ascending(const std::vector<int64_t>& axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) return false;
  return true;
}

}  // namespace

namespace prim {

constinit const Primitive broadcast_in_dim = {.name = "broadcast_in_dim",
                                              .infer = infer_broadcast,
                                              .evaluate = evaluate_broadcast,
                                              .vjp = vjp::broadcast_in_dim,
                                              .print = print_broadcast};
constinit const Primitive reshape = {
    .name = "reshape", .infer = infer_reshape, .evaluate = evaluate_reshape, .vjp = vjp::reshape};
constinit const Primitive transpose = {.name = "transpose",
                                       .infer = infer_transpose,
                                       .evaluate = evaluate_transpose,
                                       .vjp = vjp::transpose,
                                       .print = print_transpose};
constinit const Primitive concatenate = {.name = "concatenate",
                                         .infer = infer_concatenate,
                                         .evaluate = evaluate_concatenate,
                                         .vjp = vjp::concatenate,
                                         .print = print_concatenate};
constinit const Primitive slice = {
    .name = "slice", .infer = infer_slice, .evaluate = evaluate_slice, .vjp = vjp::slice, .print = print_slice};
constinit const Primitive pad = {
    .name = "pad", .infer = infer_pad, .evaluate = evaluate_pad, .vjp = vjp::pad, .print = print_pad};
constinit const Primitive reverse = {.name = "reverse",
                                     .infer = infer_reverse,
                                     .evaluate = evaluate_reverse,
                                     .vjp = vjp::reverse,
                                     .print = print_reverse};

}  // namespace prim

Value Builder::broadcast_in_dim(Value x, Dims to, std::vector<int64_t> dimensions) {
  if (is_ascending(dimensions) && provably_same(shape(x), to)) return x;
  return emit1(prim::broadcast_in_dim, {x},
               std::make_shared<BroadcastInDimAttributes>(std::move(to), std::move(dimensions)));
}
Value Builder::reshape(Value x, Dims to) {
  if (provably_same(shape(x), to)) return x;
  return emit1(prim::reshape, {x}, std::make_shared<ReshapeAttributes>(std::move(to)));
}
Value Builder::transpose(Value x, std::vector<int64_t> permutation) {
  if (is_ascending(permutation) && static_cast<int64_t>(permutation.size()) == rank(x)) return x;
  return emit1(prim::transpose, {x}, std::make_shared<AxesAttributes>(std::move(permutation)));
}
Value Builder::concatenate(std::vector<Value> xs, int64_t axis) {
  if (xs.size() == 1) return xs[0];
  return emit1(prim::concatenate, std::move(xs), std::make_shared<AxisAttributes>(axis));
}
Value Builder::slice(Value x, Dims start, Dims limit, Dims stride) {
  return emit1(prim::slice, {x},
               std::make_shared<SliceAttributes>(std::move(start), std::move(limit), std::move(stride)));
}
Value Builder::slice_axis(Value x, int64_t axis, Dim start, Dim limit, Dim stride) {
  if (axis < 0 || axis >= rank(x))
    throw Error(ErrorCode::invalid_model, str("slice: axis ", axis, " of ", to_string(type(x))));
  Dims from(shape(x).size(), 0), to = shape(x), by(shape(x).size(), 1);
  size_t i = static_cast<size_t>(axis);
  from[i] = start;
  to[i] = limit;
  by[i] = stride;
  return slice(x, std::move(from), std::move(to), std::move(by));
}
Value Builder::pad(Value x, Value value, Dims low, Dims high, Dims interior) {
  return emit1(prim::pad, {x, value},
               std::make_shared<PadAttributes>(std::move(low), std::move(high), std::move(interior)));
}
Value Builder::reverse(Value x, std::vector<int64_t> axes) {
  return emit1(prim::reverse, {x}, std::make_shared<AxesAttributes>(std::move(axes)));
}

}  // namespace transmuter::ir
