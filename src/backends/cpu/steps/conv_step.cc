// Convolution of f32 images, channels first, up to three spatial axes, with bias, residual and activation on the tile.
#include "backends/cpu/kernels/conv.h"

#include <cstring>

#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/copy.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

// Each image's channels may lie anywhere, but a channel is dense.
bool planes_dense(const View& v) {
  int64_t expected = 1;
  for (int64_t i = v.rank() - 1; i >= 2; --i) {
    if (v.dim(i) != 1 && v.stride(i) != expected) return false;
    expected *= v.dim(i);
  }
  return v.stride(0) >= 0 && (v.stride(1) >= expected || v.dim(1) == 1);
}

class ConvStep : public Step {
 public:
  ConvStep(const ir::Op& op, FusedEpilogue epilogue, Planner& planner)
      : op_(op),
        e_(epilogue),
        weight_(planner.constant(op.operands[1])),
        store_(planner.store()),
        memory_(planner.packed_memory()),
        pool_(planner.pool()) {
    if (weight_ && weight_->dtype() != DType::f32) {
      const auto widen = [&] {
        auto wide = std::make_shared<const Tensor>(weight_->aligned().cast(DType::f32));
        release_pages(weight_->bytes(), weight_->nbytes());
        return wide;
      };
      wide_ = store_.get<Tensor>(
          str("conv f32 ", reinterpret_cast<uintptr_t>(weight_->bytes()), " ", weight_->nbytes()), *weight_, widen);
      weight_ = wide_.get();
    }
    reads = {op.operands[0]};
    if (!wide_) reads.push_back(op.operands[1]);
    if (e_.bias) reads.push_back(e_.bias);
    if (e_.residual) reads.push_back(e_.residual);
    writes = {e_.result};
  }

  void bind(Binder& bind) const override {
    if (!wide_) bind.dense(op_.operands[1]);
    if (e_.bias) bind.dense(e_.bias);
    if (!planes_dense(bind.view(op_.operands[0]))) bind.dense(op_.operands[0]);
    if (e_.residual && !planes_dense(bind.view(e_.residual))) bind.dense(e_.residual);
    bind.untouch();
    const View x = dilated(bind);
    const View filters = wide_ ? bind.constant(*wide_) : bind.view(op_.operands[1]);
    const View bias = e_.bias ? bind.view(e_.bias) : View{};
    const View residual = e_.residual ? bind.view(e_.residual) : View{};
    const View y = bind.allocate(e_.result);
    if (y.size() == 0) return bind.untouch();
    ConvArgs args = arguments(bind, x, filters, y, residual);
    std::shared_ptr<const Packed> packed;
    if (const size_t bytes = weight_ ? conv_packed_bytes(args) : 0) {
      packed = store_.get<Packed>(
          str("conv ", reinterpret_cast<uintptr_t>(weight_->bytes()), " ", weight_->nbytes(), " ", bytes), *weight_,
          [&] {
            auto made = std::make_shared<Packed>(memory_, bytes);
            const Tensor aligned = weight_->aligned();
            ConvArgs with_filters = args;
            with_filters.filters = reinterpret_cast<const float*>(aligned.bytes());
            conv_pack(with_filters, made->bytes, pool_);
            release_pages(weight_->bytes(), weight_->nbytes());
            return std::shared_ptr<const Packed>(std::move(made));
          });
      args.packed_filters = packed->bytes;
    }
    const int32_t scratch = bind.scratch(static_cast<int64_t>(conv_scratch_bytes(args, bind.threads())));
    const int64_t depth = args.in_channels / args.groups * args.windows.taps();
    const double flops = 2.0 * static_cast<double>(y.size()) * static_cast<double>(depth);
    bind.launch(packed ? "conv-packed" : "conv", flops,
                [args, packed, scratch, x = Place(x), filters = Place(filters), bias = Place(bias),
                 residual = Place(residual), y = Place(y)](const RunContext& run) {
                  ConvArgs a = args;
                  a.x = run.at(x);
                  a.filters = run.at(filters);
                  if (packed) a.packed_filters = packed->bytes;
                  a.y = run.at(y);
                  if (bias.buffer >= 0) a.epilogue.row_bias = run.at(bias);
                  if (residual.buffer >= 0) a.epilogue.residual = run.at(residual);
                  conv(a, run.scratch(scratch), run.pool);
                });
  }

 private:
  // The input with zeros between its elements, where the convolution asks for it (a transposed convolution does).
  View dilated(Binder& bind) const {
    const auto& dilation = op_.as<ir::ConvolutionAttributes>().lhs_dilation;
    const View x = bind.view(op_.operands[0]);
    Extents shape = x.shape;
    for (size_t i = 0; i < dilation.size(); ++i) {
      if (shape[i + 2] > 0) shape[i + 2] = (shape[i + 2] - 1) * dilation[i] + 1;
    }
    if (product(shape) == x.size()) return x;
    bind.untouch();
    const int64_t bytes = product(shape) * static_cast<int64_t>(sizeof(float));
    const View spread = dense_view(bind.scratch(bytes), DType::f32, shape);
    bind.launch("zero", 0, [bytes, spread = Place(spread)](const RunContext& run) {
      std::memset(run.at<void>(spread), 0, static_cast<size_t>(bytes));
    });
    View elements = spread;
    elements.shape = x.shape;
    for (size_t i = 0; i < dilation.size(); ++i) elements.strides[i + 2] *= dilation[i];
    bind.touch_again(x.buffer);
    bind.touch_again(spread.buffer);
    launch_copy(bind, x, elements);
    bind.touch_again(spread.buffer);
    return spread;
  }

  ConvArgs arguments(Binder& bind, const View& x, const View& filters, const View& y, const View& residual) const {
    const auto& c = op_.as<ir::ConvolutionAttributes>();
    const std::vector<int64_t> low = bind.values(c.pad_low);
    ConvArgs args;
    const int64_t spatial = x.rank() - 2, skip = 3 - spatial;
    for (int64_t i = 0; i < spatial; ++i) {
      const size_t s = static_cast<size_t>(i), t = static_cast<size_t>(i + skip);
      args.windows.in[t] = x.dim(i + 2);
      args.windows.out[t] = y.dim(i + 2);
      args.windows.kernel[t] = filters.dim(i + 2);
      args.windows.stride[t] = c.strides[s];
      args.windows.dilation[t] = c.rhs_dilation[s];
      args.windows.pad[t] = low[s];
    }
    args.images = x.dim(0);
    args.groups = c.feature_groups;
    args.in_channels = x.dim(1);
    args.out_channels = y.dim(1);
    args.x_image = x.stride(0);
    args.x_channel = x.dim(1) == 1 ? args.windows.in_pixels() : x.stride(1);
    args.y_image = y.stride(0);
    args.y_channel = args.windows.out_pixels();
    args.epilogue.alpha = e_.alpha;
    args.epilogue.activation = e_.activation;
    args.epilogue.first = e_.first;
    args.epilogue.second = e_.second;
    args.epilogue.combine = e_.combine;
    if (residual.buffer >= 0) {
      args.epilogue.residual_row = residual.dim(1) == 1 ? args.windows.out_pixels() : residual.stride(1);
      args.epilogue.residual_column = 1;
      args.residual_image = residual.stride(0);
    }
    return args;
  }

  const ir::Op& op_;
  FusedEpilogue e_;
  const Tensor* weight_;                // constant filters
  std::shared_ptr<const Tensor> wide_;  // they, where they are stored in a half type
  WeightStore& store_;
  std::shared_ptr<const BlockMemory> memory_;
  ThreadPool& pool_;
};

}  // namespace

bool plan_convolution_fused(Planner& planner, const ir::Op& op) {
  const auto& c = op.as<ir::ConvolutionAttributes>();
  const ir::Type& x = planner.type(op.operands[0]);
  const ir::Type& filters = planner.type(op.operands[1]);
  std::string reason;
  const bool half = (filters.dtype == DType::f16 || filters.dtype == DType::bf16) && planner.constant(op.operands[1]);
  if (x.dtype != DType::f32 || (filters.dtype != DType::f32 && !half) || c.dtype != DType::f32) reason = "computes f32";
  if (x.rank() > 5 || x.rank() < 3) reason = "one to three spatial axes";
  if (c.batch_groups != 1) reason = "batch groups";
  if (!reason.empty()) {
    planner.refuse(op, "conv", reason);
    return false;
  }
  const FusedEpilogue epilogue = match_epilogue(planner, op, 1);
  auto step = std::make_unique<ConvStep>(op, epilogue, planner);
  step->location = op.location;
  planner.absorb(op);
  planner.move_to(std::move(step), epilogue.last ? *epilogue.last : op);
  return true;
}

}  // namespace transmuter::cpu
