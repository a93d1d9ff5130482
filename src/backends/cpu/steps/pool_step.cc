// Windows over up to three spatial axes: the largest element, or the sum.
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/conv_last.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/windows_between.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class PoolStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& w = op_.as<ir::ReduceWindowAttributes>();
    if (is_image_channels_last(bind.view(op_.operands[0]))) return bind_channels_last(bind);
    bind.untouch();
    const View x = bind.dense(op_.operands[0]);
    const View y = bind.allocate(op_.results[0]);
    if (y.size() == 0) return bind.untouch();
    PoolArgs args;
    args.windows = windows(bind, x, y);
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
  Windows windows(Binder& bind, const View& x, const View& y) const {
    const auto& w = op_.as<ir::ReduceWindowAttributes>();
    return windows_between(x.shape, y.shape, bind.values(w.window), w.strides, w.window_dilation,
                           bind.values(w.pad_low));
  }

  // Of at most two spatial axes.
  static bool is_image_channels_last(const View& x) {
    return x.rank() <= 4 && !axis_order(x).empty() && in_order(x, channels_last_order(x.rank())).is_dense();
  }

  void bind_channels_last(Binder& bind) const {
    const auto& w = op_.as<ir::ReduceWindowAttributes>();
    const View x = bind.view(op_.operands[0]);
    const View y = bind.allocate(op_.results[0], channels_last_order(x.rank()));
    if (y.size() == 0) return bind.untouch();
    PoolLastArgs args;
    args.windows = windows(bind, x, y);
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
