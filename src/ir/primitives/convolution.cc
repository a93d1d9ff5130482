// convolution: StableHLO convolution in the layouts [n, c, ...] x [o, c / groups, ...] -> [n, o, ...], any number of
// spatial axes, no window reversal. Operand dtypes may differ. Sums as in dot_general.
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/matmul.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/windows.h"
#include "ir/print.h"

namespace transmuter::ir {
namespace {

std::vector<Type> infer(const InferContext& ctx) {
  const auto& conv = ctx.as<ConvolutionAttributes>();
  check_operand_count(ctx, 2);
  const Type &x = ctx.operands[0], &kernel = ctx.operands[1];
  ctx.check(x.rank() == kernel.rank() && x.rank() >= 2, "C1", "ranks ", x.rank(), " and ", kernel.rank(),
            " must be equal and at least 2");
  const size_t spatial = x.shape.size() - 2;
  ctx.check(conv.strides.size() == spatial && conv.pad_low.size() == spatial && conv.pad_high.size() == spatial &&
                conv.lhs_dilation.size() == spatial && conv.rhs_dilation.size() == spatial,
            "C2", "strides, pads and dilations need one entry for each of ", spatial, " spatial axes");
  for (size_t i = 0; i < spatial; ++i) {
    ctx.check(conv.strides[i] > 0, "C3", "stride must be > 0, got ", conv.strides[i]);
    ctx.check(conv.lhs_dilation[i] > 0, "C6", "lhs dilation must be > 0, got ", conv.lhs_dilation[i]);
    ctx.check(conv.rhs_dilation[i] > 0, "C8", "rhs dilation must be > 0, got ", conv.rhs_dilation[i]);
  }
  ctx.check(conv.feature_groups > 0 && conv.batch_groups > 0, "C21", "group counts must be > 0");
  ctx.check(conv.feature_groups == 1 || conv.batch_groups == 1, "C23", "one of feature and batch groups must be 1");
  require(equal(mod(x.shape[0], conv.batch_groups), 0), "convolution: C10 batch divides by the batch groups");
  require(equal(mod(x.shape[1], conv.feature_groups), 0), "convolution: C11 features divide by the groups");
  check_same_extent(ctx, kernel.shape[1] * conv.feature_groups, x.shape[1], "C14",
                    "kernel input features times groups and input features");
  require(equal(mod(kernel.shape[0], conv.feature_groups * conv.batch_groups), 0),
          "convolution: C15 output features divide by the groups");
  ctx.check(contraction_takes(x.dtype, kernel.dtype, conv.dtype), "C27", "no product of ", name(x.dtype), " and ",
            name(kernel.dtype), " into ", name(conv.dtype));
  Dims shape{conv.batch_groups == 1 ? x.shape[0] : floor_div(x.shape[0], conv.batch_groups), kernel.shape[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim padded = dilated_extent(x.shape[i + 2], conv.lhs_dilation[i]) + conv.pad_low[i] + conv.pad_high[i];
    shape.push_back(window_count(padded, kernel.shape[i + 2], conv.rhs_dilation[i], conv.strides[i],
                                 "convolution: C25 the kernel is larger than the padded input"));
  }
  return {{conv.dtype, std::move(shape)}};
}

// The spatial geometry: which element of a channel a kernel position ("tap") meets at a result position, -1 in padding.
struct Taps {
  Shape in, kernel, out;
  std::vector<int64_t> strides, low, lhs_dilation, rhs_dilation;

  int64_t offset(int64_t position, int64_t tap) const {
    int64_t offset = 0, scale = 1;
    for (size_t axis = in.size(); axis-- > 0;) {
      const int64_t at = position % out[axis] * strides[axis] - low[axis] + tap % kernel[axis] * rhs_dilation[axis];
      position /= out[axis];
      tap /= kernel[axis];
      if (at < 0 || at % lhs_dilation[axis] != 0 || at / lhs_dilation[axis] >= in[axis]) return -1;
      offset += at / lhs_dilation[axis] * scale;
      scale *= in[axis];
    }
    return offset;
  }
};

Shape spatial_part(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

void evaluate(EvaluateContext& ctx) {
  const auto& conv = ctx.as<ConvolutionAttributes>();
  const Tensor &x = ctx.operands[0], &kernel = ctx.operands[1];
  Tensor& result = ctx.make_result();
  const Taps taps{spatial_part(x.shape()),
                  spatial_part(kernel.shape()),
                  spatial_part(result.shape()),
                  conv.strides,
                  ctx.values(conv.pad_low),
                  conv.lhs_dilation,
                  conv.rhs_dilation};
  const int64_t in_size = element_count(taps.in), out_size = element_count(taps.out);
  const int64_t tap_count = element_count(taps.kernel);
  const int64_t groups = conv.feature_groups * conv.batch_groups;
  const int64_t batch = result.dim(0), outputs = result.dim(1), group_outputs = outputs / groups;
  const int64_t channels = kernel.dim(1), k = channels * tap_count;
  dispatch_product(x.dtype(), kernel.dtype(), result.dtype(), "convolution", [&]<class T>(TypeTag<T>) {
    const std::vector<T> in = elements_as<T>(x), weights = elements_as<T>(kernel);
    std::vector<T> out(static_cast<size_t>(result.size()));
    std::vector<T> panel(static_cast<size_t>(k * kPanel)), sums(static_cast<size_t>(group_outputs * kPanel));
    std::vector<int64_t> offsets(static_cast<size_t>(tap_count * kPanel));
    for (int64_t first = 0; first < out_size && batch * outputs > 0; first += kPanel) {
      const int64_t width = std::min(kPanel, out_size - first);
      for (int64_t tap = 0; tap < tap_count; ++tap) {
        for (int64_t j = 0; j < width; ++j) offsets[tap * kPanel + j] = taps.offset(first + j, tap);
      }
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t g = 0; g < groups; ++g) {
          // Feature groups slice the channels, batch groups the batch.
          const int64_t image = conv.batch_groups == 1 ? n : g * batch + n;
          const int64_t channel = image * x.dim(1) + (conv.batch_groups == 1 ? g * channels : 0);
          for (int64_t c = 0; c < channels; ++c) {
            const T* from = in.data() + (channel + c) * in_size;
            T* to = panel.data() + c * tap_count * kPanel;
            for (int64_t tap = 0; tap < tap_count; ++tap, to += kPanel) {
              const int64_t* offset = &offsets[tap * kPanel];
              for (int64_t j = 0; j < width; ++j) to[j] = offset[j] < 0 ? T{0} : from[offset[j]];
            }
          }
          multiply_panel(weights.data() + g * group_outputs * k, panel.data(), group_outputs, k, sums.data());
          for (int64_t o = 0; o < group_outputs; ++o) {
            const int64_t row = n * outputs + g * group_outputs + o;
            std::copy_n(&sums[o * kPanel], width, &out[row * out_size + first]);
          }
        }
      }
    }
    store_products(out, result);
  });
}

std::vector<int64_t> spatial_axes(int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = 2; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

Value swap_first_two(Builder& build, Value x) {
  std::vector<int64_t> order{1, 0};
  return build.transpose(x, joined(std::move(order), spatial_axes(build.rank(x))));
}

// The kernel with input and output features exchanged within each group.
Value exchange_features(Builder& build, Value kernel, int64_t groups) {
  const Dims shape = build.shape(kernel);
  const Dim group_outputs = floor_div(shape[0], groups);
  Dims split{groups, group_outputs, shape[1]}, merged{shape[1] * groups, group_outputs};
  std::vector<int64_t> order{0, 2, 1};
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    split.push_back(shape[axis]);
    merged.push_back(shape[axis]);
    order.push_back(static_cast<int64_t>(axis) + 1);
  }
  return build.reshape(build.transpose(build.reshape(kernel, split), order), merged);
}

std::vector<Value> vjp(VjpContext& ctx) {
  const auto& conv = ctx.op.as<ConvolutionAttributes>();
  if (conv.batch_groups != 1) throw Error(ErrorCode::unsupported, "convolution with batch groups has no gradient");
  Builder& build = ctx.build;
  const Value x = ctx.operands[0], kernel = ctx.operands[1], gradient = ctx.gradients[0];
  const Dims in = build.shape(x), taps = build.shape(kernel), out = build.shape(gradient);
  const size_t spatial = in.size() - 2;
  ConvolutionAttributes to_x, to_kernel;
  to_x.strides = conv.lhs_dilation;
  to_x.lhs_dilation = conv.strides;
  to_x.rhs_dilation = conv.rhs_dilation;
  to_x.feature_groups = conv.feature_groups;
  to_kernel.strides = conv.rhs_dilation;
  to_kernel.lhs_dilation = conv.lhs_dilation;
  to_kernel.rhs_dilation = conv.strides;
  to_kernel.batch_groups = conv.feature_groups;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim wide_in = dilated_extent(in[i + 2], conv.lhs_dilation[i]);
    const Dim wide_out = dilated_extent(out[i + 2], conv.strides[i]);
    const Dim reach = (taps[i + 2] - 1) * conv.rhs_dilation[i];
    to_x.pad_low.push_back(reach - conv.pad_low[i]);
    to_x.pad_high.push_back(wide_in - wide_out + conv.pad_low[i]);
    to_kernel.pad_low.push_back(conv.pad_low[i]);
    to_kernel.pad_high.push_back(reach + wide_out - wide_in - conv.pad_low[i]);
  }
  std::vector<Value> gradients(2);
  to_x.dtype = build.dtype(x);
  if (is_float(to_x.dtype)) {
    const Value flipped =
        build.reverse(exchange_features(build, kernel, conv.feature_groups), spatial_axes(build.rank(kernel)));
    gradients[0] = build.convolution(gradient, flipped, to_x);
  }
  to_kernel.dtype = build.dtype(kernel);
  if (is_float(to_kernel.dtype)) {
    const Value product = build.convolution(swap_first_two(build, x), swap_first_two(build, gradient), to_kernel);
    gradients[1] = swap_first_two(build, product);
  }
  return gradients;
}

PrintedOp print(const PrintContext& ctx) {
  const auto& conv = ctx.op.as<ConvolutionAttributes>();
  std::string axes, reversal = "array<i1";
  for (size_t i = 0; i < conv.strides.size(); ++i) {
    axes += str(", ", i);
    reversal += i ? ", false" : ": false";
  }
  PrintedOp out;
  out.attributes =
      str("window_strides = ", array_text(conv.strides),
          ", padding = ", padding_text(ctx.values(conv.pad_low), ctx.values(conv.pad_high)),
          ", lhs_dilation = ", array_text(conv.lhs_dilation), ", rhs_dilation = ", array_text(conv.rhs_dilation),
          ", window_reversal = ", reversal, ">, dimension_numbers = #stablehlo.conv<[b, f", axes, "]x[o, i", axes,
          "]->[b, f", axes, "]>, feature_group_count = ", conv.feature_groups,
          " : i64, batch_group_count = ", conv.batch_groups, " : i64");
  return out;
}

}  // namespace

const Primitive prim::convolution{
    .name = "convolution", .infer = infer, .evaluate = evaluate, .vjp = vjp, .print = print};

Value Builder::convolution(Value x, Value kernel, ConvolutionAttributes attributes) {
  return emit1(prim::convolution, {x, kernel}, std::make_shared<ConvolutionAttributes>(std::move(attributes)));
}

}  // namespace transmuter::ir
