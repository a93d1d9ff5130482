// The rotary embedding, f32: rows anywhere, each read and written once.
#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/rotary.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/takes.h"
#include "ir/composites/composites.h"

namespace transmuter::cpu {
namespace {

class RotaryStep : public OpStep {
 public:
  RotaryStep(const ir::Op& op, SmallVector<int64_t, 6> order) : OpStep(op), order_(std::move(order)) {}

  void bind(Binder& bind) const override {
    bind.dense(op_.operands[1]);
    bind.dense(op_.operands[2]);
    bind.untouch();
    View x = bind.view(op_.operands[0]);
    if (x.stride(3) != 1 && x.dim(3) > 1) x = bind.dense(op_.operands[0]);
    const View cos = bind.view(op_.operands[1]), sin = bind.view(op_.operands[2]);
    const View y = bind.allocate(op_.results[0], order_);
    if (y.size() == 0) return bind.untouch();
    Rotary args;
    args.batch = x.dim(0);
    args.heads = x.dim(1);
    args.sequence = x.dim(2);
    args.dim = x.dim(3);
    args.half = cos.dim(2);
    for (int i = 0; i < 3; ++i) {
      args.x_strides[i] = x.stride(i);
      args.out_strides[i] = y.stride(i);
    }
    args.angle_strides[0] = cos.dim(0) == 1 ? 0 : cos.stride(0);
    args.angle_strides[1] = cos.stride(1);
    args.interleaved = op_.as<ir::RotaryAttributes>().interleaved;
    bind.launch("rotary", 0,
                [args, x = Place(x), cos = Place(cos), sin = Place(sin), y = Place(y)](const RunContext& run) {
                  Rotary call = args;
                  call.x = run.at(x);
                  call.cos = run.at(cos);
                  call.sin = run.at(sin);
                  call.out = run.at(y);
                  rotary(call, &run.pool);
                });
  }

 private:
  SmallVector<int64_t, 6> order_;
};

}  // namespace

bool rotary_takes(const ir::Program& program, const ir::Op& op) {
  if (op.primitive != &ir::composite::rotary_embedding) return false;
  return std::all_of(op.operands.begin(), op.operands.end(),
                     [&](ir::Value v) { return program.type(v).dtype == DType::f32; });
}

std::unique_ptr<Step> plan_rotary(Planner& planner, const ir::Op& op) {
  if (!rotary_takes(planner.program(), op)) return nullptr;
  return std::make_unique<RotaryStep>(op, planner.storage_order(op.results[0]));
}

}  // namespace transmuter::cpu
