#include "backends/cpu/plan/planner.h"

#include <algorithm>

#include "ir/composites/composites.h"
#include "ir/composites/data_dependent.h"
#include "ir/evaluate.h"
#include "ir/primitives/primitives.h"
#include "telemetry/span.h"

namespace transmuter::cpu {

Planner::Planner(const ir::Program& program, ThreadPool& pool, WeightStore& store)
    : program_(program),
      pool_(pool),
      store_(store),
      packed_memory_(BlockMemory::of(store, "packed weights")),
      defined_(static_cast<size_t>(program.value_count())),
      users_(static_cast<size_t>(program.value_count())),
      is_result_(static_cast<size_t>(program.value_count())),
      parameter_(static_cast<size_t>(program.value_count())),
      absorbed_(program.ops().size()),
      appends_(find_appends(program)) {
  for (const ir::Op& op : program.ops()) {
    for (ir::Value v : op.results) defined_[static_cast<size_t>(v.id)] = &op;
    for (ir::Value v : op.operands) {
      auto& users = users_[static_cast<size_t>(v.id)];
      if (users.empty() || users.back() != &op) users.push_back(&op);
    }
  }
  for (ir::Value v : program.results()) is_result_[static_cast<size_t>(v.id)] = true;
  for (const ir::Parameter& p : program.parameters()) parameter_[static_cast<size_t>(p.value.id)] = &p;
  for (const Append& a : appends_) {
    if (a.zeros) absorb(*a.zeros);
  }
}

const Append* Planner::append(const ir::Op& op) const {
  for (const Append& a : appends_) {
    if (a.op == &op) return &a;
  }
  return nullptr;
}

const ir::Op* Planner::only_user(ir::Value v) const {
  return !is_result(v) && users(v).size() == 1 ? users(v)[0] : nullptr;
}

bool Planner::same_shape(ir::Value a, ir::Value b) const {
  const Dims &x = type(a).shape, &y = type(b).shape;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](Dim i, Dim j) { return provably_eq(i, j); });
}

const Tensor* Planner::constant(ir::Value v) const {
  if (const ir::Parameter* p = parameter_[static_cast<size_t>(v.id)]) {
    return p->kind == ir::Parameter::Kind::weight && !p->trainable ? &p->weight : nullptr;
  }
  const ir::Op* op = definition(v);
  return op && op->primitive == &ir::prim::constant ? &op->as<ir::ConstantAttributes>().value : nullptr;
}

bool Planner::constant_view(ir::Value v, ConstantView& out) const {
  if (const Tensor* tensor = constant(v)) {
    if (is_packed(tensor->dtype())) return false;
    out.tensor = *tensor;
    out.view = dense_view(0, tensor->dtype(), extents_of(tensor->shape()));
    return true;
  }
  const ir::Op* op = definition(v);
  if (!op) return false;
  for (const Dim& d : type(v).shape) {
    if (!d.is_constant()) return false;
  }
  if (op->primitive == &ir::prim::transpose) {
    if (!constant_view(op->operands[0], out)) return false;
    out.view = transposed(out.view, op->as<ir::AxesAttributes>().axes);
    return true;
  }
  if (op->primitive == &ir::prim::reshape) {
    if (!constant_view(op->operands[0], out)) return false;
    View view;
    if (!reshaped(out.view, extents_of(hints(type(v).shape)), view)) return false;
    out.view = view;
    return true;
  }
  return false;
}

const std::byte* Planner::aligned_bytes(const Tensor& tensor) {
  if (tensor.is_aligned()) return tensor.bytes();
  aligned_.assign(tensor.bytes(), tensor.bytes() + tensor.nbytes());
  return aligned_.data();
}

const ir::Parameter* Planner::lasting_root(ir::Value v) const {
  while (const ir::Op* op = definition(v)) {
    if (op->operands.empty()) return nullptr;
    v = op->operands[0];
  }
  const ir::Parameter* p = parameter_[static_cast<size_t>(v.id)];
  return p && p->kind == ir::Parameter::Kind::weight && !p->prepared ? p : nullptr;
}

Tensor Planner::evaluate_fixed(ir::Value v) const {
  if (const Tensor* tensor = constant(v)) return tensor->aligned();
  const ir::Op* op = definition(v);
  if (!op || op->operands.size() != 1) throw Error(ErrorCode::internal, "evaluates what is not fixed");
  return ir::evaluate_op(program_, *op, {evaluate_fixed(op->operands[0])}, nullptr)[0];
}

bool Planner::splat(ir::Value v, double& value) const {
  if (const Tensor* tensor = constant(v)) {
    if (tensor->size() != 1 || is_complex(tensor->dtype()) || is_packed(tensor->dtype())) return false;
    value = tensor->aligned().cast(DType::f64).data<double>()[0];
    return true;
  }
  const ir::Op* op = definition(v);
  if (!op) return false;
  if (op->primitive == &ir::prim::broadcast_in_dim || op->primitive == &ir::prim::reshape ||
      op->primitive == &ir::prim::convert) {
    if (op->primitive == &ir::prim::convert && !is_float(type(v).dtype)) return false;
    return splat(op->operands[0], value);
  }
  return false;
}

SmallVector<int64_t, 6> Planner::storage_order(ir::Value result) const {
  SmallVector<int64_t, 6> order;
  const ir::Op* user = only_user(result);
  if (!user || user->primitive != &ir::prim::transpose) return order;
  for (int64_t axis : user->as<ir::AxesAttributes>().axes) order.push_back(axis);
  if (order.back() != static_cast<int64_t>(order.size()) - 1) order.clear();
  return order;
}

void Planner::refuse(const ir::Op& op, const char* kernel, const std::string& reason) const {
  if (!telemetry::anybody_listens(telemetry::Kind::note)) return;
  telemetry::tell(telemetry::Kind::note, "refused",
                  {{"op", op.primitive->name},
                   {"result", op.results.empty() ? "" : ir::to_string(type(op.results[0]))},
                   {"kernel", kernel},
                   {"reason", reason}});
}

std::unique_ptr<Step> Planner::choose(const ir::Op& op) {
  using Plan = std::unique_ptr<Step> (*)(Planner&, const ir::Op&);
  static constexpr Plan kKernels[] = {plan_view,      plan_table,     plan_tile,        plan_reduce,
                                      plan_normalize, plan_attention, plan_rotary,      plan_pool,
                                      plan_resize,    plan_gather,    plan_concatenate, plan_update,
                                      plan_order,     plan_windows,   plan_recurrent,   plan_plain};
  for (Plan plan : kKernels) {
    if (std::unique_ptr<Step> step = plan(*this, op)) {
      step->location = op.location;
      return step;
    }
  }
  throw Error(ErrorCode::internal, str("no kernel takes ", op.primitive->name));
}

bool Planner::views_fixed(ir::Value v) const {
  while (!constant(v)) {
    const ir::Op* op = definition(v);
    if (!op || op->operands.size() != 1) return false;
    v = op->operands[0];
  }
  return true;
}

void Planner::drop_unread(std::vector<Stage>& stages) const {
  std::vector<bool> read = is_result_;
  auto mark = [&](const std::vector<ir::Value>& values) {
    for (ir::Value v : values) read[static_cast<size_t>(v.id)] = true;
  };
  for (size_t s = stages.size(); s-- > 0;) {
    auto& steps = stages[s].steps;
    for (size_t i = steps.size(); i-- > 0;) {
      Step& step = *steps[i];
      const bool unread = std::none_of(step.writes.begin(), step.writes.end(),
                                       [&](ir::Value v) { return read[static_cast<size_t>(v.id)]; });
      const bool fixed = std::all_of(step.reads.begin(), step.reads.end(), [&](ir::Value v) { return views_fixed(v); });
      if (unread && fixed && !step.reads.empty())
        steps[i].reset();
      else
        mark(step.reads);
    }
    std::erase(steps, nullptr);
    if (stages[s].dynamic) mark(stages[s].dynamic->operands);
  }
}

std::vector<Stage> Planner::plan() {
  plan_clusters(*this);
  std::vector<Stage> stages(1);
  for (const ir::Op& op : program_.ops()) {
    if (defines_symbols(op)) {  // runs between stages, on values whose sizes are known
      if (!stages.back().steps.empty()) stages.emplace_back();
      stages.back().dynamic = &op;
      stages.emplace_back();
      continue;
    }
    if (auto placed = placed_.find(index_of(op)); placed != placed_.end()) {
      stages.back().steps.push_back(std::move(placed->second));
      continue;
    }
    if (absorbed_[index_of(op)] || op.primitive == &ir::prim::constant) continue;
    if (const Append* a = append(op)) stages.back().appends.push_back(*a);
    stages.back().steps.push_back(choose(op));
  }
  drop_unread(stages);
  // Which values cross from one stage into another.
  std::vector<int32_t> made_in(static_cast<size_t>(program_.value_count()), -1);
  auto needs = [&](size_t stage, ir::Value v, std::vector<bool>& seen) {
    if (constant(v) || seen[static_cast<size_t>(v.id)] ||
        made_in[static_cast<size_t>(v.id)] == static_cast<int32_t>(stage))
      return;
    if (parameter_[static_cast<size_t>(v.id)] &&
        parameter_[static_cast<size_t>(v.id)]->kind == ir::Parameter::Kind::weight)
      return;
    seen[static_cast<size_t>(v.id)] = true;
    stages[stage].inputs.push_back(v);
  };
  for (size_t s = 0; s < stages.size(); ++s) {
    Stage& stage = stages[s];
    std::vector<bool> seen(made_in.size());
    stage.last_use.assign(made_in.size(), -1);
    auto reads = [&](const std::vector<ir::Value>& values, int32_t index) {
      for (ir::Value v : values) {
        needs(s, v, seen);
        stage.last_use[static_cast<size_t>(v.id)] = index;
      }
    };
    if (stage.dynamic) {
      reads(stage.dynamic->operands, 0);
      for (ir::Value v : stage.dynamic->results) made_in[static_cast<size_t>(v.id)] = static_cast<int32_t>(s);
    }
    for (size_t i = 0; i < stage.steps.size(); ++i) {
      reads(stage.steps[i]->reads, static_cast<int32_t>(i));
      for (ir::Value v : stage.steps[i]->writes) {
        made_in[static_cast<size_t>(v.id)] = static_cast<int32_t>(s);
        stage.last_use[static_cast<size_t>(v.id)] =
            std::max(stage.last_use[static_cast<size_t>(v.id)], static_cast<int32_t>(i));
      }
    }
  }
  std::vector<bool> leaves(made_in.size());
  auto leaving = [&](ir::Value v) {
    const int32_t stage = made_in[static_cast<size_t>(v.id)];
    if (stage < 0 || leaves[static_cast<size_t>(v.id)]) return;
    leaves[static_cast<size_t>(v.id)] = true;
    Stage& from = stages[static_cast<size_t>(stage)];
    from.last_use[static_cast<size_t>(v.id)] = INT32_MAX;
    if (!from.dynamic) from.outputs.push_back(v);
  };
  for (ir::Value v : program_.results()) leaving(v);
  for (const Stage& stage : stages) {
    for (ir::Value v : stage.inputs) leaving(v);
  }
  return stages;
}

}  // namespace transmuter::cpu
