// Convolutions of dequantized images and weights in integers: windows of bytes, the packed integer product, and what
// follows on its tile. Channels last, as the f32 ones have it.
#include "backends/cpu/kernels/patches.h"
#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/steps/integer_product.h"
#include "backends/cpu/steps/windows_between.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class IntegerConvStep : public Step {
 public:
  IntegerConvStep(const ir::Op& op, QuantizedProduct product, bool x_signed, bool w_signed, Shape filters,
                  const FusedEpilogue& epilogue, std::optional<Requantized> bytes, std::shared_ptr<const Packed> packed)
      : attributes_(op.as<ir::ConvolutionAttributes>()),
        product_(std::move(product)),
        x_signed_(x_signed),
        w_signed_(w_signed),
        filters_(std::move(filters)),
        e_(epilogue),
        bytes_(bytes),
        result_(bytes ? bytes->result : epilogue.result),
        packed_(std::move(packed)) {
    for (const ir::Value v : {product_.x, e_.bias, e_.residual})
      if (v) reads.push_back(v);
    writes = {result_};
  }

  void bind(Binder& bind) const override {
    if (e_.bias) bind.dense(e_.bias);
    if (e_.residual) bind.channels_last(e_.residual);
    bind.channels_last(product_.x);
    bind.untouch();
    const View x = bind.view(product_.x);
    const Place bias = e_.bias ? Place(bind.view(e_.bias)) : Place(View{});
    const Place residual = e_.residual ? Place(bind.view(e_.residual)) : Place(View{});
    const View y = bind.allocate(result_, channels_last_order(x.rank()));
    if (y.size() == 0) return bind.untouch();
    BytePatches patches;
    patches.images = x.dim(0);
    patches.channels = x.dim(1);
    patches.outside = static_cast<uint8_t>(product_.x_zero);
    patches.windows = windows_between(x.shape, y.shape, filters_, attributes_.strides, attributes_.rhs_dilation,
                                      bind.values(attributes_.pad_low));
    const Windows& w = patches.windows;
    bool every_pixel = patches.channels % 4 == 0;  // the image's pixels are the rows
    for (size_t t = 0; t < 3; ++t)
      every_pixel = every_pixel && w.kernel[t] == 1 && w.stride[t] == 1 && w.pad[t] == 0 && w.in[t] == w.out[t];
    QgemmArgs g;
    g.n = y.dim(1);
    g.m = y.size() / g.n;
    g.k = patches.depth();
    g.a_signed = x_signed_, g.a_row = g.k;
    g.b_signed = w_signed_;
    g.b_scale_per_column = true;
    g.c_row = g.n;
    g.epilogue = e_.arguments();
    g.epilogue.residual_row = g.n;
    if (bytes_) {
      g.bytes_signed = y.dtype == DType::i8;
      g.bytes_scale = bytes_->scale;
      g.bytes_zero = bytes_->zero;
    }
    if (!every_pixel) g.patches = &patches;  // for the scratch's size
    const int32_t scratch = bind.scratch(static_cast<int64_t>(qgemm_scratch_bytes(g, bind.threads())));
    const double flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
    bind.launch("qgemm-conv", flops,
                [g, scratch, every_pixel, patches, bias, residual, step = this, packed = packed_, x = Place(x),
                 y = Place(y)](const RunContext& run) {
                  QgemmArgs args = g;
                  args.a = run.at<void>(x);
                  if (!every_pixel) args.patches = &patches;
                  args.packed_b = packed->bytes;
                  args.a_zero = &step->product_.x_zero;
                  args.b_scale = step->product_.scales.data();
                  if (bias.buffer >= 0) args.epilogue.column_bias = run.at(bias);
                  if (residual.buffer >= 0) args.epilogue.residual = run.at(residual);
                  if (step->bytes_) {
                    args.bytes = run.at<void>(y);
                  } else {
                    args.c = run.at(y);
                  }
                  qgemm(args, run.scratch(scratch), run.pool);
                });
  }

 private:
  const ir::ConvolutionAttributes attributes_;
  const QuantizedProduct product_;
  bool x_signed_, w_signed_;
  const Shape filters_;
  const FusedEpilogue e_;
  const std::optional<Requantized> bytes_;
  const ir::Value result_;
  const std::shared_ptr<const Packed> packed_;
};

}  // namespace

bool plan_quantized_convolution(Planner& planner, const ir::Op& op) {
  const auto& c = op.as<ir::ConvolutionAttributes>();
  const ir::Type &y = planner.type(op.results[0]), &filters = planner.type(op.operands[1]);
  if (y.dtype != DType::f32 || y.rank() < 3 || y.rank() > 4 || c.feature_groups != 1 || c.batch_groups != 1)
    return false;
  for (const int64_t dilation : c.lhs_dilation)
    if (dilation != 1) return false;
  int64_t depth = 1;
  for (const Dim& extent : filters.shape) {
    if (!extent.is_constant()) return false;
    depth *= extent.hint();
  }
  const int64_t n = filters.shape[0].hint();
  if (depth == 0) return false;
  depth /= n;
  auto product = match_quantized_product(planner, op, 0, n, depth);
  if (!product) return false;
  const Tensor& weight = *planner.constant(product->w);
  const bool w_signed = weight.dtype() == DType::i8;
  BytePatches patches;  // of which only the depth counts here
  patches.channels = filters.shape[1].hint();
  for (int64_t i = 2; i < filters.rank(); ++i) {
    const size_t t = static_cast<size_t>(i + 3 - filters.rank());
    patches.windows.kernel[t] = filters.shape[static_cast<size_t>(i)].hint();
    patches.windows.dilation[t] = c.rhs_dilation[static_cast<size_t>(i - 2)];
  }
  const auto make = [&] {
    // Taps outermost and runs filled up, as the windows have them.
    const int64_t channels = filters.shape[1].hint(), taps = depth / channels, taps_run = patches.run() / channels;
    const std::byte* from = planner.aligned_bytes(weight);
    std::vector<std::byte> last(static_cast<size_t>(n * patches.depth()));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < channels; ++i) {
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t at = t / taps_run * patches.filled_run() + t % taps_run * channels + i;
          last[static_cast<size_t>(j * patches.depth() + at)] = from[j * depth + i * taps + t];
        }
      }
    }
    auto packed =
        std::make_shared<Packed>(planner.packed_memory(), packed_qb_bytes(patches.depth(), n), weight.dtype());
    pack_qb(patches.depth(), n, last.data(), w_signed, 1, patches.depth(), packed->bytes, planner.pool());
    release_pages(weight.bytes(), weight.nbytes());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  const std::string key = str("qgemm conv ", reinterpret_cast<uintptr_t>(weight.bytes()), " ", patches.filled_run(),
                              " ", patches.runs(), " ", n);
  auto packed = planner.has_lasting_address(product->w) ? planner.store().get<Packed>(key, weight, make) : make();
  for (const ir::Value v : {op.operands[0], op.operands[1]}) absorb_unread(planner, v, op, product->x);
  planner.absorb(op);
  const FusedEpilogue epilogue = match_epilogue(planner, op, 1);
  const std::optional<Requantized> bytes = match_requantized(planner, epilogue.result);
  Shape shape;
  for (const Dim& extent : filters.shape) shape.push_back(extent.hint());
  const bool x_signed = planner.type(product->x).dtype == DType::i8;
  auto step = std::make_unique<IntegerConvStep>(op, std::move(*product), x_signed, w_signed, std::move(shape), epilogue,
                                                bytes, std::move(packed));
  step->location = op.location;
  planner.move_to(std::move(step), bytes ? *bytes->last : epilogue.last ? *epilogue.last : op);
  return true;
}

}  // namespace transmuter::cpu
