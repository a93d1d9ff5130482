// Resizing of f32 images, an axis after the other, in the order in which they lie; of images of any elements where it
// only picks them, all axes at once.
#include "backends/cpu/kernels/resize.h"

#include "backends/cpu/kernels/nearest.h"

#include "backends/cpu/plan/planner.h"
#include "ir/composites/composites.h"
#include "ir/composites/resize_taps.h"

namespace transmuter::cpu {
namespace {

using Coordinates = ir::ResizeAttributes::Coordinates;

ResizeTable table_of(const ir::ResizeTaps& taps, int64_t in, int64_t out) {
  ResizeTable table{.in = in, .out = out, .taps = taps.taps, .index = {}, .weight = {}, .outside = {}};
  for (int64_t t = 0; t < taps.taps; ++t) {
    for (int64_t o = 0; o < out; ++o) {
      const size_t at = static_cast<size_t>(o * taps.taps + t);
      table.index.push_back(static_cast<int32_t>(taps.index[at]));
      table.weight.push_back(taps.weight[at]);
    }
  }
  table.outside.assign(taps.outside.begin(), taps.outside.end());
  return table;
}

class ResizeStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::ResizeAttributes>();
    const AxisOrder order = stored_order(bind.view(op_.operands[0]));
    bind.untouch();
    const View x = order.empty() ? bind.dense(op_.operands[0]) : bind.view(op_.operands[0]);
    const View y = bind.allocate(op_.results[0], order);
    if (y.size() == 0) return bind.untouch();
    struct Axis {
      int64_t in;
      bool changes;
      ResizeTable table;
    };
    auto axes = std::make_shared<std::vector<Axis>>();
    for (size_t at = 0; at < x.shape.size(); ++at) {
      const size_t i = order.empty() ? at : static_cast<size_t>(order[at]);
      const int64_t in = x.shape[i], out = y.shape[i];
      const double scale = bind.value(a.scales[i]);
      Axis axis{.in = in, .changes = !ir::is_left_alone(a, in, out, scale), .table = {}};
      if (axis.changes) {
        const bool crops = a.coordinates == Coordinates::tf_crop_and_resize;
        const auto start = crops ? static_cast<float>(bind.value(a.roi_start[i])) : 0.0f;
        const auto end = crops ? static_cast<float>(bind.value(a.roi_end[i])) : 0.0f;
        axis.table = table_of(ir::resize_taps(a, in, out, static_cast<float>(scale), start, end), in, out);
      }
      axes->push_back(std::move(axis));
    }
    if (only_picks(a)) {
      bind.launch("nearest", static_cast<double>(y.size()),
                  [axes = std::shared_ptr<const std::vector<Axis>>(std::move(axes)), x = Place(x),
                   y = Place(y)](const RunContext& run) {
                    NearestAxis picked[kMostAxes];
                    for (size_t i = 0; i < axes->size(); ++i) {
                      const Axis& axis = (*axes)[i];
                      picked[i] = {axis.in, axis.in, nullptr};
                      if (axis.changes) picked[i] = {axis.in, axis.table.out, axis.table.index.data()};
                    }
                    resize_nearest(x.dtype, run.at<void>(x), run.at<void>(y), static_cast<int>(axes->size()), picked,
                                   &run.pool);
                  });
      return;
    }
    const auto extrapolation = static_cast<float>(a.extrapolation_value);
    bind.launch("resize", static_cast<double>(y.size()),
                [axes = std::shared_ptr<const std::vector<Axis>>(std::move(axes)), extrapolation, x = Place(x),
                 y = Place(y)](const RunContext& run) {
                  int64_t dims[kMostAxes];
                  const ResizeTable* tables[kMostAxes];
                  for (size_t i = 0; i < axes->size(); ++i) {
                    dims[i] = (*axes)[i].in;
                    tables[i] = (*axes)[i].changes ? &(*axes)[i].table : nullptr;
                  }
                  resize(run.at(x), run.at(y), static_cast<int>(axes->size()), dims, tables, extrapolation, &run.pool);
                });
  }

  static constexpr int64_t kMostAxes = 8;
  // No element lies outside, none is computed.
  static bool only_picks(const ir::ResizeAttributes& a) {
    return a.mode == ir::ResizeAttributes::Mode::nearest && a.coordinates != Coordinates::tf_crop_and_resize &&
           !a.antialias;
  }

 private:
  static AxisOrder stored_order(const View& x) {
    if (x.is_dense()) return {};
    if (x.rank() > 2 && in_order(x, channels_last_order(x.rank())).is_dense()) return channels_last_order(x.rank());
    const AxisOrder order = axis_order(x);
    return in_order(x, order).is_dense() ? order : AxisOrder();
  }
};

}  // namespace

std::unique_ptr<Step> plan_resize(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::composite::resize) return nullptr;
  const ir::Type& x = planner.type(op.operands[0]);
  const bool takes =
      ResizeStep::only_picks(op.as<ir::ResizeAttributes>()) ? !is_packed(x.dtype) : x.dtype == DType::f32;
  if (!takes || x.rank() == 0 || x.rank() > ResizeStep::kMostAxes) {
    planner.refuse(op, "resize", "computes f32 of one to eight axes, and picks whole bytes");
    return nullptr;
  }
  return std::make_unique<ResizeStep>(op);
}

}  // namespace transmuter::cpu
