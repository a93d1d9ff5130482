// The attention composite by the flash kernel: scores never reach memory.
#include <limits>
#include <utility>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/takes.h"
#include "ir/composites/composites.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class AttentionStep : public Step {
 public:
  // k and v: the operands, or the half values that they were converted from.
  AttentionStep(const ir::Op& op, ir::Value k, ir::Value v, SmallVector<int64_t, 6> order)
      : a_(op.as<ir::AttentionAttributes>()), result_(op.results[0]), order_(std::move(order)) {
    reads = op.operands;
    reads[1] = k;
    reads[2] = v;
    operands_.assign(reads.data(), reads.size());
    writes = op.results;
  }

  void bind(Binder& bind) const override {
    const ir::AttentionAttributes& a = a_;
    size_t next = 3;
    const ir::Value lengths_value = a.has_lengths ? operands_[a.has_mask ? 4 : 3] : ir::Value{};
    if (lengths_value) bind.dense(lengths_value);
    bind.untouch();
    const View q = bind.view(operands_[0]), k = bind.view(operands_[1]), v = bind.view(operands_[2]);
    View mask, lengths, sink;
    if (a.has_mask) mask = bind.view(operands_[next++]);
    if (a.has_lengths) lengths = bind.view(operands_[next++]);
    if (a.has_sink) sink = bind.view(operands_[next++]);
    const View y = bind.allocate(result_, order_);
    if (y.size() == 0) return bind.untouch();
    Attention args;
    args.batch = q.dim(0);
    args.q_heads = q.dim(1);
    args.kv_heads = k.dim(1);
    args.q_len = q.dim(2);
    args.kv_len = k.dim(2);
    args.dim = q.dim(3);
    args.v_dim = v.dim(3);
    for (int i = 0; i < 4; ++i) {
      args.q_strides[i] = q.stride(i);
      args.k_strides[i] = k.stride(i);
      args.v_strides[i] = v.stride(i);
      args.out_strides[i] = y.stride(i);
      if (a.has_mask) args.mask_strides[i] = mask.dim(i) == 1 ? 0 : mask.stride(i);
    }
    args.kv_dtype = k.dtype;
    args.scale = static_cast<float>(bind.value(a.scale));
    args.softcap = static_cast<float>(a.softcap);
    if (a.empty_rows_nan) args.empty_row = std::numeric_limits<float>::quiet_NaN();
    args.causal = a.causal;
    args.offset = bind.value(a.offset);
    args.left = a.left_window;
    args.right = a.right_window;
    const double flops =
        2.0 * static_cast<double>(args.batch * args.q_heads * args.q_len * args.kv_len * (args.dim + args.v_dim));
    bind.launch("attention", flops,
                [args, q = Place(q), k = Place(k), v = Place(v), mask = Place(mask), lengths = Place(lengths),
                 sink = Place(sink), y = Place(y)](const RunContext& run) {
                  Attention call = args;
                  call.q = run.at(q);
                  call.k = run.at<void>(k);
                  call.v = run.at<void>(v);
                  call.out = run.at(y);
                  if (mask.buffer >= 0 && mask.dtype == DType::boolean) call.keep = run.at<uint8_t>(mask);
                  if (mask.buffer >= 0 && mask.dtype == DType::f32) call.mask = run.at(mask);
                  if (sink.buffer >= 0) call.sink = run.at(sink);
                  std::vector<int64_t> counts, offsets;
                  if (lengths.buffer >= 0) {
                    for (int64_t b = 0; b < args.batch; ++b) {
                      const int64_t n =
                          lengths.dtype == DType::i64 ? run.at<int64_t>(lengths)[b] : run.at<int32_t>(lengths)[b];
                      counts.push_back(n);
                      offsets.push_back(n - args.q_len);
                    }
                    call.key_lengths = counts.data();
                    call.offsets = offsets.data();
                  }
                  attention(call, &run.pool);
                });
  }

 private:
  // Copies: the op's lie elsewhere, and binding waits for each place in memory.
  const ir::AttentionAttributes a_;
  SmallVector<ir::Value, 6> operands_;
  ir::Value result_;
  SmallVector<int64_t, 6> order_;
};

// The half value that only this attention reads, converted; else invalid.
ir::Value half_source(const Planner& planner, ir::Value v) {
  const ir::Op* op = planner.definition(v);
  if (!op || op->primitive != &ir::prim::convert || !planner.only_user(v)) return {};
  const DType from = planner.type(op->operands[0]).dtype;
  return from == DType::f16 || from == DType::bf16 ? op->operands[0] : ir::Value{};
}

}  // namespace

bool attention_takes(const ir::Program& program, const ir::Op& op) {
  if (op.primitive != &ir::composite::attention) return false;
  const auto& a = op.as<ir::AttentionAttributes>();
  if (a.scores != ir::AttentionAttributes::Scores::none || a.smooth_softmax) return false;
  for (int i = 0; i < 3; ++i) {
    if (program.type(op.operands[static_cast<size_t>(i)]).dtype != DType::f32) return false;
  }
  if (a.has_lengths) {
    const DType lengths = program.type(op.operands[a.has_mask ? 4 : 3]).dtype;
    if (lengths != DType::i64 && lengths != DType::i32) return false;
  }
  return true;
}

void plan_attention_halves(Planner& planner) {
  for (const ir::Op& op : planner.program().ops()) {
    if (!attention_takes(planner.program(), op)) continue;
    const ir::Value k = half_source(planner, op.operands[1]), v = half_source(planner, op.operands[2]);
    if (!k || !v || planner.type(k).dtype != planner.type(v).dtype) continue;
    planner.absorb(*planner.definition(op.operands[1]));
    planner.absorb(*planner.definition(op.operands[2]));
  }
}

std::unique_ptr<Step> plan_attention(Planner& planner, const ir::Op& op) {
  if (!attention_takes(planner.program(), op)) return nullptr;
  const auto source = [&](ir::Value v) {
    const ir::Op* def = planner.definition(v);
    return def && planner.absorbed(*def) ? half_source(planner, v) : ir::Value{};
  };
  ir::Value k = source(op.operands[1]), v = source(op.operands[2]);
  if (!k || !v) {
    k = op.operands[1];
    v = op.operands[2];
  }
  return std::make_unique<AttentionStep>(op, k, v, planner.storage_order(op.results[0]));
}

}  // namespace transmuter::cpu
