// Softmax and the normalisations, f32.
#include "backends/cpu/kernels/norm.h"
#include "backends/cpu/kernels/softmax.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/reduce_shape.h"
#include "backends/cpu/steps/takes.h"
#include "ir/composites/composites.h"

namespace transmuter::cpu {
namespace {

class SoftmaxStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::SoftmaxAttributes>();
    const View x = bind.dense(op_.operands[0]);
    const View to = bind.allocate_over(op_.results[0], x);
    const ReduceShape shape = reduce_shape(x, a.axis);
    if (x.size() == 0) return bind.untouch();
    bind.launch(a.log ? "log_softmax" : "softmax", 0,
                [shape, x = Place(x), to = Place(to), log = a.log](const RunContext& run) {
                  (log ? log_softmax : softmax)(run.at(x), run.at(to), shape, &run.pool);
                });
  }
};

// What the norms have in common: x, then scale and bias where the attributes have them, and where the result goes.
struct NormValues {
  ir::Value x, scale, bias, to;

  template <class A>
  NormValues(const ir::Op& op, const A& attributes) : x(op.operands[0]), to(op.results[0]) {
    size_t next = 1;
    if (attributes.has_scale) scale = op.operands[next++];
    if (attributes.has_bias) bias = op.operands[next++];
  }
};

struct NormPlaces {
  Place x, scale, bias, to;

  // `view`: x's.
  NormPlaces(Binder& bind, const NormValues& values, View& view) {
    for (const ir::Value v : {values.x, values.scale, values.bias})
      if (v) bind.dense(v);
    view = bind.view(values.x);
    x = view;
    if (values.scale) scale = bind.view(values.scale);
    if (values.bias) bias = bind.view(values.bias);
    to = bind.allocate_over(values.to, view);
  }

  template <class Kernel>
  void place(Kernel& kernel, const RunContext& run) const {
    kernel.x = run.at(x);
    kernel.out = run.at(to);
    if (scale.buffer >= 0) kernel.scale = run.at(scale);
    if (bias.buffer >= 0) kernel.bias = run.at(bias);
  }
};

class RowNormStep : public Step {
 public:
  RowNormStep(const ir::Op& op, bool rms)
      : values_(op, op.as<ir::NormAttributes>()),
        axis_(op.as<ir::NormAttributes>().axis),
        epsilon_(static_cast<float>(op.as<ir::NormAttributes>().epsilon)),
        rms_(rms) {
    reads = op.operands;
    writes = op.results;
  }

  void bind(Binder& bind) const override {
    View x;
    const NormPlaces places(bind, values_, x);
    RowNorm norm;
    norm.rows = 1;
    norm.cols = 1;
    for (int64_t i = 0; i < x.rank(); ++i) (i < axis_ ? norm.rows : norm.cols) *= x.dim(i);
    norm.epsilon = epsilon_;
    norm.rms = rms_;
    if (x.size() == 0) return bind.untouch();
    bind.launch(rms_ ? "rms_norm" : "layer_norm", 0, [places, norm](const RunContext& run) {
      RowNorm n = norm;
      places.place(n, run);
      row_norm(n, &run.pool);
    });
  }

 private:
  const NormValues values_;
  int64_t axis_;
  float epsilon_;
  bool rms_;
};

class GroupNormStep : public OpStep {
 public:
  using OpStep::OpStep;

  void bind(Binder& bind) const override {
    const auto& a = op_.as<ir::GroupNormAttributes>();
    View x;
    const NormPlaces places(bind, {op_, a}, x);
    GroupNorm norm;
    norm.batch = x.dim(0);
    norm.channels = x.dim(1);
    norm.spatial = 1;
    for (int64_t i = 2; i < x.rank(); ++i) norm.spatial *= x.dim(i);
    norm.groups = bind.value(a.groups);
    norm.epsilon = static_cast<float>(a.epsilon);
    if (x.size() == 0) return bind.untouch();
    bind.launch("group_norm", 0, [places, norm](const RunContext& run) {
      GroupNorm n = norm;
      places.place(n, run);
      group_norm(n, &run.pool);
    });
  }
};

bool all_f32(const ir::Program& program, const ir::Op& op) {
  for (ir::Value v : op.operands) {
    if (program.type(v).dtype != DType::f32) return false;
  }
  return true;
}

}  // namespace

bool normalize_takes(const ir::Program& program, const ir::Op& op) {
  if (!all_f32(program, op)) return false;
  if (op.primitive == &ir::composite::softmax || op.primitive == &ir::composite::group_norm) return true;
  return (op.primitive == &ir::composite::layer_norm || op.primitive == &ir::composite::rms_norm) &&
         !op.as<ir::NormAttributes>().statistics;
}

std::unique_ptr<Step> plan_normalize(Planner& planner, const ir::Op& op) {
  if (!normalize_takes(planner.program(), op)) return nullptr;
  if (op.primitive == &ir::composite::softmax) return std::make_unique<SoftmaxStep>(op);
  if (op.primitive == &ir::composite::group_norm) return std::make_unique<GroupNormStep>(op);
  return std::make_unique<RowNormStep>(op, op.primitive == &ir::composite::rms_norm);
}

}  // namespace transmuter::cpu
