// conv_transpose: the convolution of the dilated operand with the flipped kernel.
#include "ir/composites/common.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  check_operand_count(ctx, 2);
  const auto& conv = ctx.as<ConvTransposeAttributes>();
  const Type &x = ctx.operands[0], &kernel = ctx.operands[1];
  check_float(ctx, x, "C1");
  check_float(ctx, kernel, "C1");
  ctx.check(x.rank() == kernel.rank() && x.rank() >= 2, "C2", "ranks must be equal and at least 2");
  const size_t spatial = x.shape.size() - 2;
  ctx.check(conv.strides.size() == spatial && conv.dilations.size() == spatial && conv.pad_low.size() == spatial &&
                conv.pad_high.size() == spatial,
            "C3", "strides, dilations and pads need one entry for each of ", spatial, " spatial axes");
  ctx.check(conv.groups > 0, "C4", "groups must be > 0");
  require(equal(mod(x.shape[1], conv.groups), 0), "conv_transpose: C5 features divide by the groups");
  check_same_extent(ctx, x.shape[1], kernel.shape[0], "C6", "input features of operand and kernel");
  Dims shape{x.shape[0], kernel.shape[1] * conv.groups};
  for (size_t i = 0; i < spatial; ++i) {
    ctx.check(conv.strides[i] > 0 && conv.dilations[i] > 0, "C7", "strides and dilations must be > 0");
    require(less(0, x.shape[i + 2]), "conv_transpose: C9 an empty axis has nothing to spread");
    const Dim extent = (x.shape[i + 2] - 1) * conv.strides[i] + (kernel.shape[i + 2] - 1) * conv.dilations[i] + 1 -
                       conv.pad_low[i] - conv.pad_high[i];
    require(less_equal(0, extent), "conv_transpose: C8 pads crop more than there is");
    shape.push_back(extent);
  }
  return {{x.dtype, std::move(shape)}};
}

std::vector<Value> decompose(Builder& build, std::span<const Value> operands, const Attributes* attributes) {
  const auto& conv = static_cast<const ConvTransposeAttributes&>(*attributes);
  const Dims shape = build.shape(operands[1]);
  const size_t spatial = conv.strides.size();
  // [g c, o, ...] -> [g, c, o, ...] -> [g, o, c, ...] -> [g o, c, ...]
  const Dim channels = floor_div(shape[0], conv.groups);
  Dims split{conv.groups, channels, shape[1]}, merged{shape[1] * conv.groups, channels};
  std::vector<int64_t> order{0, 2, 1}, flipped;
  ConvolutionAttributes plain;
  for (size_t i = 0; i < spatial; ++i) {
    split.push_back(shape[i + 2]);
    merged.push_back(shape[i + 2]);
    order.push_back(static_cast<int64_t>(i) + 3);
    flipped.push_back(static_cast<int64_t>(i) + 2);
    const Dim reach = (shape[i + 2] - 1) * conv.dilations[i];
    plain.pad_low.push_back(reach - conv.pad_low[i]);
    plain.pad_high.push_back(reach - conv.pad_high[i]);
  }
  plain.strides.assign(spatial, 1);
  plain.lhs_dilation = conv.strides;
  plain.rhs_dilation = conv.dilations;
  plain.feature_groups = conv.groups;
  plain.dtype = build.dtype(operands[0]);
  const Value kernel = build.reshape(build.transpose(build.reshape(operands[1], split), order), merged);
  return {build.convolution(operands[0], build.reverse(kernel, flipped), plain)};
}

}  // namespace

const Primitive composite::conv_transpose{.name = "conv_transpose", .infer = infer, .decompose = decompose};

Value conv_transpose(Builder& build, Value x, Value kernel, ConvTransposeAttributes attributes) {
  return build.emit1(composite::conv_transpose, {x, kernel},
                     std::make_shared<ConvTransposeAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
