// Conv and ConvTranspose, any number of spatial axes.
#include "ops/conv.h"

#include "ir/composites/composites.h"
#include "ops/known_moves.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "ops/windows.h"

namespace transmuter::ops {

using ir::Builder;
using ir::Value;

namespace {

// The kernel's spatial extents; kernel_shape, where given, must agree.
Dims kernel_extents(OpContext& op, const Dims& kernel) {
  const Dims extents = spatial_extents(kernel);
  if (const auto given = op.attribute_ints_optional("kernel_shape"); given && !given->empty()) {
    op.check(given->size() == extents.size(), "kernel_shape has ", given->size(), " entries for ", extents.size(),
             " spatial axes");
    for (size_t i = 0; i < extents.size(); ++i)
      require_eq(extents[i], (*given)[i], str(op.node().op_type, ": kernel_shape and the weight's extent"));
  }
  return extents;
}

void check_ranks(OpContext& op, const Dims& x, const Dims& kernel) {
  op.check(x.size() >= 2, "the input must have rank 2 or more, has ", x.size());
  op.check(x.size() == kernel.size(), "the input has rank ", x.size(), ", the weight ", kernel.size());
}

Value pad_spatial(Builder& b, Value x, Value padding, const Windows& w) {
  Dims low(2, Dim(0)), high(2, Dim(0));
  low.insert(low.end(), w.low.begin(), w.low.end());
  high.insert(high.end(), w.high.begin(), w.high.end());
  const Dims none(low.size(), Dim(0));
  if (provably_equal(low, none) && provably_equal(high, none)) return x;
  return b.pad(x, padding, low, high, none);
}

int64_t group_count(OpContext& op) {
  const int64_t groups = op.attribute_int("group", 1);
  op.check(groups >= 1, "group must be positive, is ", groups);
  return groups;
}

}  // namespace

Value convolve(OpContext& op, Value x, Value kernel, DType result, Value padding) {
  Builder& b = op.build();
  check_ranks(op, b.shape(x), b.shape(kernel));
  const Windows w = read_windows(op, spatial_extents(b.shape(x)), kernel_extents(op, b.shape(kernel)));
  ir::ConvolutionAttributes conv;
  conv.strides = w.strides;
  conv.rhs_dilation = w.dilations;
  conv.lhs_dilation.assign(w.size(), 1);
  conv.pad_low = w.low;
  conv.pad_high = w.high;
  if (padding) {
    x = pad_spatial(b, x, padding, w);
    conv.pad_low.assign(w.size(), Dim(0));
    conv.pad_high = conv.pad_low;
  }
  conv.feature_groups = group_count(op);
  conv.dtype = result;
  return b.convolution(x, kernel, std::move(conv));
}

Value add_channels(Builder& b, Value x, Value bias) {
  if (b.rank(bias) != 1) throw Error(ErrorCode::invalid_model, str("the bias must have rank 1, has ", b.rank(bias)));
  return b.add(x, b.broadcast_in_dim(bias, b.shape(x), {1}));
}

Value conv(OpContext& op, bool channels_at_end) {
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& b = op.build();
  Value y = convolve(op, channels_at_end ? channels_second(b, op.input(0)) : op.input(0), op.input(1), op.dtype(0));
  if (op.has_input(2)) y = add_channels(b, y, op.input(2));
  return channels_at_end ? channels_last(b, y) : y;
}

Value channels_second(Builder& b, Value x) {
  std::vector<int64_t> order{0, b.rank(x) - 1};
  for (int64_t i = 1; i < b.rank(x) - 1; ++i) order.push_back(i);
  return b.transpose(x, order);
}

Value channels_last(Builder& b, Value x) {
  std::vector<int64_t> order{0};
  for (int64_t i = 2; i < b.rank(x); ++i) order.push_back(i);
  order.push_back(1);
  return b.transpose(x, order);
}

namespace {

void conv_node(OpContext& op) { op.output(0, conv(op)); }

// With output_shape (or SAME_*, which asks for input * stride) the pads are what remains; the odd one is cut at the
// start, with SAME_UPPER at the end. Where a short kernel reaches less far than that, nothing is cut (pads are never
// negative) and the rest are zeros at the end, as frameworks and, of output_shape, ONNX Runtime have it; of SAME_* ONNX
// Runtime stops where the kernel ends, against the attribute's text.
void conv_transpose(OpContext& op) {
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  Builder& b = op.build();
  const Value x = op.input(0), kernel = op.input(1);
  check_ranks(op, b.shape(x), b.shape(kernel));
  const Dims input = spatial_extents(b.shape(x)), extents = kernel_extents(op, b.shape(kernel));
  const size_t n = input.size();
  ir::ConvTransposeAttributes attributes;
  attributes.strides = axis_attribute(op, "strides", n, 1, 1);
  attributes.dilations = axis_attribute(op, "dilations", n, 1, 1);
  attributes.groups = group_count(op);
  const std::vector<int64_t> more = axis_attribute(op, "output_padding", n, 0, 0);
  // com.microsoft's has them as an input.
  Dims pads;
  if (op.node().domain == kMicrosoft && op.has_input(2)) {
    pads = op.require_dims(2);
    op.check(pads.size() == 2 * n, "Pads must have ", 2 * n, " entries, has ", pads.size());
  } else {
    const std::vector<int64_t> given = axis_attribute(op, "pads", 2 * n, 0, 0);
    pads.assign(given.begin(), given.end());
  }
  const std::string mode = op.attribute_string("auto_pad", "NOTSET");
  const bool upper = mode == "SAME_UPPER", same = upper || mode == "SAME_LOWER";
  op.check(same || mode == "VALID" || mode == "NOTSET", "auto_pad ", mode, " is not one of the operator's");
  std::vector<int64_t> shape = op.attribute_ints_optional("output_shape").value_or(std::vector<int64_t>{});
  if (shape.size() == n + 2) shape.erase(shape.begin(), shape.begin() + 2);  // some writers give the whole shape
  op.check(shape.empty() || shape.size() == n, "output_shape has ", shape.size(), " entries for ", n, " spatial axes");
  for (size_t i = 0; i < n; ++i) {
    const Dim stride = attributes.strides[i];
    if (!shape.empty() || same) {
      const Dim wanted = shape.empty() ? input[i] * stride : Dim(shape[i]);
      const Dim full = (input[i] - 1) * stride + more[i] + (extents[i] - 1) * Dim(attributes.dilations[i]) + 1;
      const Dim total = full - wanted, cut = max(total, 0), half = floor_div(cut, 2);
      attributes.pad_low.push_back(upper ? half : cut - half);
      attributes.pad_high.push_back(total - attributes.pad_low.back() - more[i]);
    } else {
      const bool given = mode == "NOTSET";
      attributes.pad_low.push_back(given ? pads[i] : Dim(0));
      attributes.pad_high.push_back((given ? pads[n + i] : Dim(0)) - more[i]);
    }
  }
  Value y = ir::conv_transpose(b, x, kernel, std::move(attributes));
  const size_t bias = op.node().domain == kMicrosoft ? 3 : 2;
  if (op.has_input(bias)) y = add_channels(b, y, op.input(bias));
  op.output(0, y);
}

}  // namespace

void register_conv(Registry& r) {
  r.add("Conv", {1, 11, 22}, conv_node);
  r.add("ConvTranspose", {1, 11, 22}, conv_transpose);
  r.add("ConvTransposeWithDynamicPads", {1}, conv_transpose, kMicrosoft);
}

}  // namespace transmuter::ops
