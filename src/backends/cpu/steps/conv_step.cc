// Convolution of f32 images, up to three spatial axes, with bias, residual and activation on the tile. With fixed
// filters and up to two axes it is computed channels last, and so its result is stored: in a network of convolutions
// images change their order at its ends only.
#include "backends/cpu/kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/conv_last.h"
#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/copy.h"
#include "backends/cpu/steps/integer_product.h"
#include "backends/cpu/steps/windows_between.h"
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
        leaves_(planner.is_result(epilogue.result) && planner.users(epilogue.result).empty()),
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
    if (!weight_) dequantize(planner, op);
    reads = {op.operands[0]};
    if (!wide_) reads.push_back(op.operands[1]);
    if (e_.bias) reads.push_back(e_.bias);
    if (e_.residual) reads.push_back(e_.residual);
    writes = {e_.result};
  }

  void bind(Binder& bind) const override {
    if (!wide_) bind.dense(op_.operands[1]);
    if (e_.bias) bind.dense(e_.bias);
    bind.untouch();
    const Extents in = bind.shape(op_.operands[0]);
    ConvLastArgs last = channels_last_arguments(bind, in);
    if (product(spread(in)) != product(in)) {
      const auto& dilation = op_.as<ir::ConvolutionAttributes>().lhs_dilation;
      for (size_t i = 0; i < dilation.size(); ++i) last.spread[i + 3 - dilation.size()] = dilation[i];
      last.way = choose(bind, last);
      if (last.way == ConvLastWay::none) last = channels_last_arguments(bind, spread(in));
    }
    if (last.way == ConvLastWay::none) last.way = choose(bind, last);
    if (last.way != ConvLastWay::none) return bind_channels_last(bind, last);
    if (!planes_dense(bind.view(op_.operands[0]))) bind.dense(op_.operands[0]);
    if (e_.residual && !planes_dense(bind.view(e_.residual))) bind.dense(e_.residual);
    bind.untouch();
    const View x = dilated(bind, {});
    const View filters = wide_ ? bind.constant(*wide_) : bind.view(op_.operands[1]);
    const View bias = e_.bias ? bind.view(e_.bias) : View{};
    const View residual = e_.residual ? bind.view(e_.residual) : View{};
    const View y = bind.allocate(e_.result);
    if (y.size() == 0) return bind.untouch();
    ConvArgs args = arguments(bind, x, filters, y, residual);
    std::shared_ptr<const Packed> packed;
    if (const size_t bytes = weight_ ? conv_packed_bytes(args) : 0) {
      packed = pack("conv", bytes, [&](const float* dense, void* out) {
        ConvArgs with_filters = args;
        with_filters.filters = dense;
        conv_pack(with_filters, out, pool_);
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
  // Fixed filters of eight bits with scales, widened once.
  void dequantize(Planner& planner, const ir::Op& op) {
    const auto filters = match_dequantized(planner, op.operands[1]);
    const Tensor* const stored = filters ? planner.constant(filters->x) : nullptr;
    if (!stored || !planner.has_lasting_address(filters->x) || filters->axis > 0) return;
    const std::string key = str("conv dequantized ", reinterpret_cast<uintptr_t>(stored->bytes()), " ",
                                stored->nbytes(), " ", filters->scale[0], " ", filters->zero[0]);
    wide_ = store_.get<Tensor>(key, *stored, [&] {
      std::vector<float> elements = stored->aligned().cast(DType::f32).to_vector<float>();
      const size_t per_filter = elements.size() / static_cast<size_t>(std::max<int64_t>(1, stored->dim(0)));
      for (size_t i = 0; i < elements.size(); ++i) {
        const auto of = [&](const std::vector<double>& v) {
          return static_cast<float>(v[v.size() == 1 ? 0 : i / per_filter]);
        };
        elements[i] = (elements[i] - of(filters->zero)) * of(filters->scale);
      }
      return std::make_shared<const Tensor>(Tensor(elements, stored->shape()));
    });
    weight_ = wide_.get();
    absorb_unread(planner, op.operands[1], op, filters->x);
  }

  template <class Fn>
  std::shared_ptr<const Packed> pack(const std::string& kind, size_t bytes, const Fn& fill) const {
    return store_.get<Packed>(
        str(kind, " ", reinterpret_cast<uintptr_t>(weight_->bytes()), " ", weight_->nbytes(), " ", bytes), *weight_,
        [&] {
          auto made = std::make_shared<Packed>(memory_, bytes, DType::f32);
          const Tensor aligned = weight_->aligned();
          fill(reinterpret_cast<const float*>(aligned.bytes()), made->bytes);
          release_pages(weight_->bytes(), weight_->nbytes());
          return std::shared_ptr<const Packed>(std::move(made));
        });
  }

  // All but the strides.
  ConvLastArgs channels_last_arguments(Binder& bind, const Extents& in) const {
    const auto& c = op_.as<ir::ConvolutionAttributes>();
    const Extents out = bind.shape(e_.result), filters = bind.shape(op_.operands[1]);
    ConvLastArgs args;
    args.windows = windows(bind, in, filters, out);
    args.images = in[0];
    args.groups = c.feature_groups;
    args.in_channels = in[1];
    args.out_channels = out[1];
    args.epilogue = e_.arguments();
    return args;
  }

  ConvLastWay choose(Binder& bind, const ConvLastArgs& args) const {
    if (!weight_ || bind.program().type(op_.operands[0]).rank() > 4) return ConvLastWay::none;
    const ConvLastWay way = conv_last_way(args);
    if (way == ConvLastWay::none || conv_last_copies(args)) return way;
    const View x = bind.view(op_.operands[0]);
    bind.untouch();
    if (x.stride(1) == 1 || x.dim(1) == 1 || args.windows.in_pixels() == 1) return way;
    // Images that come channels first would have to be turned, which takes long beside little work, and twice where
    // they leave so.
    const bool pointwise = args.windows.taps() == 1, little = pointwise && (args.out_channels < 64 || leaves_);
    return little || way == ConvLastWay::depthwise ? ConvLastWay::none : way;
  }

  void bind_channels_last(Binder& bind, ConvLastArgs args) const {
    const int64_t rank = bind.program().type(op_.operands[0]).rank();
    const AxisOrder order = channels_last_order(rank);
    {
      const View given = bind.view(op_.operands[0]);
      if (!conv_last_copies(args) && given.stride(1) != 1 && given.dim(1) != 1) bind.channels_last(op_.operands[0]);
      if (e_.residual) bind.channels_last(e_.residual);
      bind.untouch();
    }
    const View x = args.way == ConvLastWay::transposed ? bind.view(op_.operands[0]) : dilated(bind, order);
    const Windows& w = args.windows;
    args.x_channel = x.dim(1) == 1 ? 1 : x.stride(1);
    args.x_image = x.stride(0);
    args.x_row = rank == 4 ? x.stride(2) : 0;
    args.x_pixel = x.stride(rank - 1);
    // Strides of extents of 1 say nothing.
    if (w.in[2] == 1) args.x_pixel = w.in[1] == 1 ? args.x_image : args.x_row;
    if (w.in[1] == 1) args.x_row = args.x_pixel * w.in[2];
    const View bias = e_.bias ? bind.view(e_.bias) : View{};
    const View residual = e_.residual ? bind.view(e_.residual) : View{};
    const View y = bind.allocate(e_.result, order);
    const size_t bytes = conv_last_packed_bytes(args);
    const std::string kind = str("conv last ", static_cast<int>(args.way), " ", args.groups, " ", w.kernel[1], " ",
                                 w.kernel[2], " ", w.stride[2], " ", args.spread[1], " ", args.spread[2], " ",
                                 w.pad[1] % args.spread[1], " ", w.pad[2] % args.spread[2]);
    const std::shared_ptr<const Packed> packed =
        pack(kind, bytes, [&](const float* filters, void* out) { conv_last_pack(args, filters, out, pool_); });
    args.packed_filters = packed->bytes;
    const int32_t scratch = bind.scratch(static_cast<int64_t>(conv_last_scratch_bytes(args, bind.threads())));
    const int64_t taps = w.taps() / (args.spread[1] * args.spread[2]);
    const int64_t products = args.in_channels / args.groups * taps;  // an element of the result
    const double flops = 2.0 * static_cast<double>(y.size()) * static_cast<double>(products);
    bind.launch(name_of(args.way), flops,
                [args, packed, scratch, x = Place(x), bias = Place(bias), residual = Place(residual),
                 y = Place(y)](const RunContext& run) {
                  ConvLastArgs a = args;
                  a.x = run.at(x);
                  a.y = run.at(y);
                  if (bias.buffer >= 0) a.epilogue.column_bias = run.at(bias);
                  if (residual.buffer >= 0) a.epilogue.residual = run.at(residual);
                  conv_last(a, run.scratch(scratch), run.pool);
                });
  }

  static const char* name_of(ConvLastWay way) {
    return way == ConvLastWay::depthwise    ? "conv-depthwise"
           : way == ConvLastWay::winograd   ? "conv-winograd"
           : way == ConvLastWay::transposed ? "conv-transposed"
                                            : "conv-last";
  }

  // With the zeros that the convolution asks for between the elements.
  Extents spread(Extents shape) const {
    const auto& dilation = op_.as<ir::ConvolutionAttributes>().lhs_dilation;
    for (size_t i = 0; i < dilation.size(); ++i) {
      if (shape[i + 2] > 0) shape[i + 2] = (shape[i + 2] - 1) * dilation[i] + 1;
    }
    return shape;
  }

  // The input with zeros between its elements, where the convolution asks for it (a transposed convolution does).
  View dilated(Binder& bind, const AxisOrder& order) const {
    const auto& dilation = op_.as<ir::ConvolutionAttributes>().lhs_dilation;
    const View x = bind.view(op_.operands[0]);
    const Extents shape = spread(x.shape);
    if (product(shape) == x.size()) return x;
    bind.untouch();
    const int64_t bytes = product(shape) * static_cast<int64_t>(sizeof(float));
    View zeros = dense_view(bind.scratch(bytes), DType::f32, shape);
    set_strides(zeros, order);
    bind.launch("zero", 0, [bytes, zeros = Place(zeros)](const RunContext& run) {
      std::memset(run.at<void>(zeros), 0, static_cast<size_t>(bytes));
    });
    View elements = zeros;
    elements.shape = x.shape;
    for (size_t i = 0; i < dilation.size(); ++i) elements.strides[i + 2] *= dilation[i];
    bind.touch_again(x.buffer);
    bind.touch_again(zeros.buffer);
    launch_copy(bind, x, elements);
    bind.touch_again(zeros.buffer);
    return zeros;
  }

  Windows windows(Binder& bind, const Extents& in, const Extents& filters, const Extents& out) const {
    const auto& c = op_.as<ir::ConvolutionAttributes>();
    return windows_between(in, out, filters, c.strides, c.rhs_dilation, bind.values(c.pad_low));
  }

  ConvArgs arguments(Binder& bind, const View& x, const View& filters, const View& y, const View& residual) const {
    ConvArgs args;
    args.windows = windows(bind, x.shape, filters.shape, y.shape);
    args.images = x.dim(0);
    args.groups = op_.as<ir::ConvolutionAttributes>().feature_groups;
    args.in_channels = x.dim(1);
    args.out_channels = y.dim(1);
    args.x_image = x.stride(0);
    args.x_channel = x.dim(1) == 1 ? args.windows.in_pixels() : x.stride(1);
    args.y_image = y.stride(0);
    args.y_channel = args.windows.out_pixels();
    args.epilogue = e_.arguments();
    if (residual.buffer >= 0) {
      args.epilogue.residual_row = residual.dim(1) == 1 ? args.windows.out_pixels() : residual.stride(1);
      args.epilogue.residual_column = 1;
      args.residual_image = residual.stride(0);
    }
    return args;
  }

  const ir::Op& op_;
  FusedEpilogue e_;
  const bool leaves_;                   // nothing here reads the result, which goes out with its channels first
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
