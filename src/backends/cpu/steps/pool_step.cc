// Windows over up to three spatial axes: the largest element, or the sum.
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/conv_last.h"
#include "backends/cpu/plan/planner.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class PoolStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& w = op_.as<ir::ReduceWindowAttributes>();
    const std::vector<int64_t> window = bind.values(w.window), low = bind.values(w.pad_low);
    if (is_image_channels_last(bind.view(op_.operands[0]))) return bind_channels_last(bind);
    bind.untouch();
    const View x = bind.dense(op_.operands[0]);
    const View y = bind.allocate(op_.results[0]);
    if (y.size() == 0) return bind.untouch();
    PoolArgs args;
    const size_t rank = static_cast<size_t>(x.rank());
    for (size_t i = 2; i < rank; ++i) {
      const size_t t = i + 3 - rank;
      args.windows.in[t] = x.shape[i];
      args.windows.out[t] = y.shape[i];
      args.windows.kernel[t] = window[i];
      args.windows.stride[t] = w.strides[i];
      args.windows.dilation[t] = w.window_dilation[i];
      args.windows.pad[t] = low[i];
    }
    args.planes = x.dim(0) * x.dim(1);
    args.maximum = w.kind == ir::ReduceKind::max;
    const int32_t scratch = bind.scratch(static_cast<int64_t>(pool_scratch_bytes(args, bind.threads())));
    bind.launch("pool", static_cast<double>(y.size() * args.windows.taps()),
                [args, scratch, x = Place(x), y = Place(y)](const RunContext& run) {
                  PoolArgs a = args;
                  a.x = run.at(x);
                  a.y = run.at(y);
                  pool_windows(a, run.scratch(scratch), run.pool);
                });
  }

 private:
  // Of at most two spatial axes.
  static bool is_image_channels_last(const View& x) {
    return x.rank() <= 4 && !axis_order(x).empty() && in_order(x, channels_last_order(x.rank())).is_dense();
  }

  void bind_channels_last(Binder& bind) const {
    const auto& w = op_.as<ir::ReduceWindowAttributes>();
    const View x = bind.view(op_.operands[0]);
    const View y = bind.allocate(op_.results[0], channels_last_order(x.rank()));
    if (y.size() == 0) return bind.untouch();
    const std::vector<int64_t> window = bind.values(w.window), low = bind.values(w.pad_low);
    PoolLastArgs args;
    for (int64_t i = 2; i < x.rank(); ++i) {
      const size_t s = static_cast<size_t>(i), t = s + 3 - x.shape.size();
      args.windows.in[t] = x.dim(i);
      args.windows.out[t] = y.dim(i);
      args.windows.kernel[t] = window[s];
      args.windows.stride[t] = w.strides[s];
      args.windows.dilation[t] = w.window_dilation[s];
      args.windows.pad[t] = low[s];
    }
    args.images = x.dim(0);
    args.channels = x.dim(1);
    args.x_pixel = args.channels;
    args.x_row = args.windows.in[2] * args.x_pixel;
    args.x_image = args.windows.in[1] * args.x_row;
    args.maximum = w.kind == ir::ReduceKind::max;
    bind.launch("pool-last", static_cast<double>(y.size() * args.windows.taps()),
                [args, x = Place(x), y = Place(y)](const RunContext& run) {
                  PoolLastArgs a = args;
                  a.x = run.at(x);
                  a.y = run.at(y);
                  pool_last(a, run.pool);
                });
  }
};

}  // namespace

std::unique_ptr<Step> plan_pool(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::prim::reduce_window) return nullptr;
  const auto& w = op.as<ir::ReduceWindowAttributes>();
  const ir::Type& x = planner.type(op.operands[0]);
  const char* reason = nullptr;
  if (x.dtype != DType::f32) reason = "computes f32";
  if (w.kind != ir::ReduceKind::max && w.kind != ir::ReduceKind::add)
    reason = "neither the largest element nor the sum";
  if (x.rank() < 3 || x.rank() > 5) reason = "one to three spatial axes";
  for (size_t i = 0; !reason && i < w.window.size(); ++i) {
    if (w.base_dilation[i] != 1) reason = "a dilated input";
    const bool image = i < 2;
    if (image && (!provably_eq(w.window[i], 1) || w.strides[i] != 1 || !provably_eq(w.pad_low[i], 0) ||
                  !provably_eq(w.pad_high[i], 0))) {
      reason = "windows over images or channels";
    }
  }
  if (reason) {
    planner.refuse(op, "pool", reason);
    return nullptr;
  }
  return std::make_unique<PoolStep>(op);
}

}  // namespace transmuter::cpu
