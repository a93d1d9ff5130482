// A residual connection of a quantized network: DequantizeLinear of both sides, Add, perhaps Relu, QuantizeLinear.
#include "backends/cpu/kernels/quantize.h"
#include "backends/cpu/steps/integer_product.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class AddBytesStep : public Step {
 public:
  AddBytesStep(const AddBytes& add, ir::Value a, ir::Value b, ir::Value result)
      : add_(add), a_(a), b_(b), result_(result) {
    reads = {a, b};
    writes = {result};
  }

  void bind(Binder& bind) const override {
    const View given = bind.view(a_);
    bind.untouch();
    const bool last = given.rank() > 2 && given.dim(1) > 1 && given.stride(1) == 1;
    for (const ir::Value v : reads) last ? bind.channels_last(v) : bind.dense(v);
    bind.untouch();
    const View a = bind.view(a_), b = bind.view(b_);
    const View out = bind.allocate(result_, last ? channels_last_order(given.rank()) : AxisOrder{});
    if (out.size() == 0) return bind.untouch();
    bind.launch("add-bytes", 0,
                [add = add_, count = out.size(), a = Place(a), b = Place(b), out = Place(out)](const RunContext& run) {
                  add_bytes(add, run.at<void>(a), run.at<void>(b), run.at<void>(out), count, &run.pool);
                });
  }

 private:
  const AddBytes add_;
  const ir::Value a_, b_, result_;
};

}  // namespace

bool plan_add_bytes(Planner& planner, const ir::Op& op) {
  const auto a = match_dequantized(planner, op.operands[0]), b = match_dequantized(planner, op.operands[1]);
  if (!a || !b || a->axis != -1 || b->axis != -1 || a->zero.size() != 1 || b->zero.size() != 1) return false;
  if (!planner.same_shape(a->x, op.results[0]) || !planner.same_shape(b->x, op.results[0])) return false;
  if (!moderate(a->scale[0]) || !moderate(b->scale[0])) return false;
  AddBytes add;
  const ir::Op* relu = planner.only_user(op.results[0]);
  double zero;
  if (relu && relu->primitive == &ir::prim::maximum && !planner.absorbed(*relu) &&
      planner.splat(relu->operands[relu->operands[0] == op.results[0] ? 1 : 0], zero) && zero == 0) {
    add.relu = true;
  } else {
    relu = nullptr;
  }
  const auto bytes = match_requantized(planner, relu ? relu->results[0] : op.results[0]);
  if (!bytes) return false;
  const auto operand = [&](ir::Value v, double scale, double zero_point) {
    return AddBytes::Operand{static_cast<float>(scale), static_cast<int32_t>(zero_point),
                             planner.type(v).dtype == DType::i8};
  };
  add.a = operand(a->x, a->scale[0], a->zero[0]);
  add.b = operand(b->x, b->scale[0], b->zero[0]);
  add.out = operand(bytes->result, bytes->scale, bytes->zero);
  absorb_unread(planner, op.operands[0], op, a->x);
  if (op.operands[1] != op.operands[0]) absorb_unread(planner, op.operands[1], op, b->x);
  planner.absorb(op);
  if (relu) planner.absorb(*relu);
  auto step = std::make_unique<AddBytesStep>(add, a->x, b->x, bytes->result);
  step->location = op.location;
  planner.move_to(std::move(step), *bytes->last);
  return true;
}

}  // namespace transmuter::cpu
