// Which products run on the packed kernel, their weights, and the steps: products that read the same values run as one
// launch, as threads wait for each other once then, not once a product (q, k and v; gate and up).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "backends/cpu/kernels/rounded.h"
#include "backends/cpu/kernels/rounding.h"
#include "backends/cpu/steps/dot_step.h"
#include "backends/cpu/steps/takes.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/composites/table_dot.h"
#include "ir/passes/attribute_record.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

class DotGroupStep : public Step {
 public:
  explicit DotGroupStep(std::vector<std::unique_ptr<DotStep>> members) : members_(std::move(members)) {
    for (const auto& member : members_) {
      for (const ir::Value v : member->reads) {
        if (std::find(reads.begin(), reads.end(), v) == reads.end()) reads.push_back(v);
      }
      writes.insert(writes.end(), member->writes.begin(), member->writes.end());
    }
    location = members_.front()->location;
  }

  void bind(Binder& bind) const override {
    for (const auto& member : members_) prefetch(*member);
    std::vector<DotStep::Bound> bound;
    bound.reserve(members_.size());
    for (const auto& member : members_) {
      DotStep::Bound one;
      if (member->prepare(bind, one)) bound.push_back(one);
    }
    if (bound.empty()) return bind.untouch();
    std::vector<GemmArgs> sizes;
    sizes.reserve(bound.size());
    double flops = 0;
    for (const DotStep::Bound& one : bound) {
      sizes.push_back(one.args);
      flops += one.flops;
    }
    const bool rounded = members_.front()->is_rounded();
    const size_t bytes =
        rounded ? rounded_gemm_scratch_bytes(sizes, bind.threads()) : gemm_group_scratch_bytes(sizes, bind.threads());
    const int32_t scratch = bind.scratch(static_cast<int64_t>(bytes));
    const auto run_all = rounded ? &rounded_gemm : &gemm_group;
    bind.launch(rounded ? "gemm-group-rounded" : "gemm-group", flops,
                [bound = std::move(bound), scratch, run_all](const RunContext& run) {
                  SmallVector<GemmArgs, 4> args;
                  for (const DotStep::Bound& one : bound) args.push_back(one.with_pointers(run));
                  run_all({args.data(), args.size()}, run.scratch(scratch), run.pool);
                });
  }

 private:
  const std::vector<std::unique_ptr<DotStep>> members_;
};

Storage storage_of(DType dtype) {
  return dtype == DType::f32 ? Storage::f32 : dtype == DType::f16 ? Storage::f16 : Storage::bf16;
}

// Weights and constants, moved or converted: what Planner::evaluate_fixed computes.
bool is_fixed(const ir::Program& program, ir::Value v, const ir::Op* before) {
  for (const ir::Parameter& p : program.parameters()) {
    if (p.value == v) return p.kind == ir::Parameter::Kind::weight && !p.trainable;
  }
  for (const ir::Op* op = before; op-- != program.ops().data();) {
    if (std::find(op->results.begin(), op->results.end(), v) == op->results.end()) continue;
    if (op->primitive == &ir::prim::constant) return true;
    const bool moves = op->primitive == &ir::prim::reshape || op->primitive == &ir::prim::slice ||
                       op->primitive == &ir::prim::transpose || op->primitive == &ir::prim::convert;
    return moves && ir::all_constant(ir::AttributeRecord(op->attributes.get())) &&
           ir::all_constant(program.type(v).shape) && is_fixed(program, op->operands[0], op);
  }
  return false;
}

}  // namespace

bool quantized_dot_takes(const ir::Program& program, const ir::Op& op) {
  if (op.primitive != &ir::composite::quantized_dot) return false;
  const auto& q = op.as<ir::QuantizedDotAttributes>();
  const ir::Type& weight = program.type(op.operands[1]);
  const int bits = bit_width(weight.dtype);
  if (program.type(op.operands[0]).dtype != DType::f32 || !is_integer(weight.dtype) || bits > 8) return false;
  if (q.block % elements_of_word(bits) != 0 || !weight.shape[0].is_constant() || !weight.shape[1].is_constant())
    return false;
  const double lowest = is_signed_integer(weight.dtype) ? -static_cast<double>(1 << (bits - 1)) : 0;
  if (q.has_zero_points ? program.type(op.operands[3]).dtype != weight.dtype
                        : q.zero_point != std::floor(q.zero_point) || q.zero_point < lowest || q.zero_point > 255)
    return false;
  return std::all_of(op.operands.begin() + 1, op.operands.end(),
                     [&](ir::Value v) { return is_fixed(program, v, &op); });
}

bool table_dot_takes(const ir::Program& program, const ir::Op& op) {
  if (op.primitive != &ir::composite::table_dot) return false;
  const ir::Type& codes = program.type(op.operands[1]);
  if (program.type(op.operands[0]).dtype != DType::f32 || codes.dtype != DType::u4 ||
      op.as<ir::TableDotAttributes>().block % elements_of_word(4) != 0 || !codes.shape[0].is_constant() ||
      !codes.shape[1].is_constant())
    return false;
  return std::all_of(op.operands.begin() + 1, op.operands.end(),
                     [&](ir::Value v) { return is_fixed(program, v, &op); });
}

// Packs a constant right-hand side: [batch] matrices of contracted x free, if each group of axes runs on in the weight.
PackedOperand DotPlanner::pack(const ir::Op& op, const ir::DotGeneralAttributes& d, const FreeAxes& axes) {
  ConstantView weight;
  if (!planner_.constant_view(op.operands[1], weight)) return {};
  auto group = [&](const std::vector<int64_t>& list) {
    DotLoops loops;
    for (int64_t axis : list) loops.push_back({weight.view.dim(axis), weight.view.stride(axis), 0, 0, 0});
    return joined(loops);
  };
  const DotLoops batch = group(d.rhs_batching), inner = group(d.rhs_contracting), columns = group(axes.rhs);
  if (batch.size() > 1 || inner.size() > 1 || columns.size() > 1) {
    planner_.refuse(op, "gemm with packed weights", "the weight's axes do not join");
    return {};
  }
  auto extent = [](const DotLoops& l) { return l.empty() ? 1 : l[0].extent; };
  auto stride = [](const DotLoops& l) { return l.empty() ? 0 : l[0].a; };
  const int64_t k = extent(inner), n = extent(columns), count = extent(batch);
  if (k * n * count == 0) return {};
  const Storage source = storage_of(weight.tensor.dtype());
  const std::string key = str("gemm ", reinterpret_cast<uintptr_t>(weight.tensor.bytes()), " ", weight.view.offset, " ",
                              k, " ", n, " ", count, " ", stride(inner), " ", stride(columns), " ", stride(batch));
  auto make = [&] {
    const size_t matrix_bytes = packed_b_bytes(k, n, source);
    auto packed = std::make_shared<Packed>(planner_.packed_memory(), matrix_bytes * static_cast<size_t>(count),
                                           weight.tensor.dtype());
    packed->matrix_bytes = matrix_bytes;
    const size_t width = static_cast<size_t>(bit_width(weight.tensor.dtype())) / 8;
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* from =
          weight.tensor.bytes() + weight.view.offset + static_cast<size_t>(i * stride(batch)) * width;
      pack_b(k, n, from, source, stride(inner), stride(columns), source,
             packed->bytes + static_cast<size_t>(i) * matrix_bytes, planner_.pool(), release_pages);
    }
    release_pages(weight.tensor.bytes(), weight.tensor.nbytes());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  const bool lasting = planner_.has_lasting_address(op.operands[1]);
  return {.packed = lasting ? planner_.store().get<Packed>(key, weight.tensor, make) : make(), .storage = source};
}

void DotPlanner::add(const ir::Op& op) {
  if (op.primitive == &ir::composite::quantized_dot || op.primitive == &ir::composite::table_dot)
    return add_few_bits(op);
  const auto& d = op.as<ir::DotGeneralAttributes>();
  const ir::Type& lhs = planner_.type(op.operands[0]);
  const ir::Type& rhs = planner_.type(op.operands[1]);
  if (plan_integer_dot(planner_, op) || plan_quantized_dot(planner_, op)) return;
  if (lhs.dtype != DType::f32 || d.dtype != DType::f32) {
    return planner_.refuse(op, "gemm", str("computes f32, got ", name(lhs.dtype), " -> ", name(d.dtype)));
  }
  FreeAxes axes = free_axes(d, lhs.rank(), rhs.rank());
  PackedOperand packed;
  if (rhs.dtype == DType::f32 || rhs.dtype == DType::f16 || rhs.dtype == DType::bf16) packed = pack(op, d, axes);
  if (!packed.packed && rhs.dtype != DType::f32) {
    return planner_.refuse(op, "gemm", str("the right-hand side is ", name(rhs.dtype), " and no fixed weight"));
  }
  place(op, d, std::move(axes), std::move(packed));
}

// quantized_dot, table_dot.
void DotPlanner::add_few_bits(const ir::Op& op) {
  const bool by_table = op.primitive == &ir::composite::table_dot;
  const auto* const q = by_table ? nullptr : &op.as<ir::QuantizedDotAttributes>();
  const auto* const t = by_table ? &op.as<ir::TableDotAttributes>() : nullptr;
  const ir::Type& weight = planner_.type(op.operands[1]);
  const int64_t n = weight.shape[0].hint(), k = weight.shape[1].hint();
  const bool is_signed = is_signed_integer(weight.dtype);
  PackedOperand rhs;
  rhs.bits.bits = bit_width(weight.dtype);
  const int64_t per_word = elements_of_word(rhs.bits.bits);
  rhs.bits.block = std::min(by_table ? t->block : q->block, round_up(k, per_word));
  rhs.bits.zeros = q && q->has_zero_points;
  // Two's complement goes up by half of the range, and its zeros too.
  const int middle = is_signed ? 1 << (rhs.bits.bits - 1) : 0;
  if (q && !rhs.bits.zeros) rhs.bits.zero = static_cast<float>(q->zero_point + middle);
  rhs.rounded = q && q->may_round && rounded_gemm_takes(rhs.bits);
  const size_t bytes = packed_few_bits_bytes(k, n, rhs.bits);
  const ir::Parameter* const stored = planner_.lasting_root(op.operands[1]);
  auto make = [&] {
    const Tensor elements = planner_.evaluate_fixed(op.operands[1]);
    const Tensor scales = planner_.evaluate_fixed(op.operands[2]).cast(DType::f32);
    std::vector<uint8_t> moved;
    if (rhs.bits.zeros) {
      const Tensor zeros = planner_.evaluate_fixed(op.operands[3]);
      for (const int32_t z : zeros.cast(DType::i32).to_vector<int32_t>())
        moved.push_back(static_cast<uint8_t>(z + middle));
    }
    auto packed =
        std::make_shared<Packed>(planner_.packed_memory(), bytes + (by_table ? kFewBitsTableBytes : 0), weight.dtype);
    pack_few_bits(k, n, rhs.bits, elements.bytes(), is_signed, scales.data<float>(), moved.data(), packed->bytes,
                  planner_.pool(), t && t->swapped);
    if (by_table)
      std::memcpy(packed->bytes + bytes, planner_.evaluate_fixed(op.operands[3]).bytes(), kFewBitsTableBytes);
    for (size_t i = 1; i < op.operands.size(); ++i) {
      if (const ir::Parameter* root = planner_.lasting_root(op.operands[i]))
        release_pages(root->weight.bytes(), root->weight.nbytes());
    }
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  std::string key = str("few bits ", k, " ", n, " ", name(weight.dtype), " ", ir::attribute_text(op.attributes.get()));
  bool lasting = stored != nullptr;
  for (size_t i = 1; i < op.operands.size(); ++i) {
    const ir::Parameter* root = planner_.lasting_root(op.operands[i]);
    if (!root) {
      const Tensor* constant = planner_.constant(op.operands[i]);
      lasting = lasting && constant;
      if (constant) key += str(" constant ", hash_of(constant->bytes(), constant->nbytes()));
      continue;
    }
    key += str(" ", reinterpret_cast<uintptr_t>(root->weight.bytes()));
    // Parts of one weight have one address: what is taken of it counts, too.
    const ir::Op* made = planner_.definition(op.operands[i]);
    for (; made && !made->operands.empty(); made = planner_.definition(made->operands[0]))
      key += str(" ", made->primitive->name, " ", ir::attribute_text(made->attributes.get()));
  }
  rhs.packed = lasting ? planner_.store().get<Packed>(key, stored->weight, make) : make();
  if (by_table) rhs.bits.table = reinterpret_cast<const float*>(rhs.packed->bytes + bytes);
  // What made them has nothing to do any more.
  for (size_t i = 1; i < op.operands.size(); ++i) {
    ir::Value v = op.operands[i];
    for (const ir::Op* user = &op; planner_.only_user(v) == user;) {
      user = planner_.definition(v);
      if (!user || user->operands.empty()) break;
      planner_.absorb(*user);
      v = user->operands[0];
    }
  }
  const int64_t rank = planner_.type(op.operands[0]).rank();
  ir::DotGeneralAttributes d;
  d.dtype = DType::f32;
  d.lhs_contracting = {rank - 1};
  d.rhs_contracting = {1};
  place(op, d, free_axes(d, rank, 2), std::move(rhs));
}

void DotPlanner::place(const ir::Op& op, const ir::DotGeneralAttributes& d, FreeAxes axes, PackedOperand rhs) {
  // A bias runs along the one column axis, the last of the result; -1: there is no such axis.
  const int64_t feature_axis = axes.rhs.size() == 1 ? planner_.type(op.results[0]).rank() - 1 : -1;
  const FusedEpilogue epilogue = match_epilogue(planner_, op, feature_axis);
  auto step = std::make_unique<DotStep>(op, d, epilogue, std::move(axes), std::move(rhs));
  step->location = op.location;
  step->set_order(planner_.storage_order(epilogue.result));
  planner_.absorb(op);
  planned_.push_back({std::move(step), &op, epilogue.last ? epilogue.last : &op});
}

void DotPlanner::finish() {
  // A group stands where its first product is: all it reads must be there. Results that are read much later would
  // only take memory.
  constexpr ptrdiff_t kNear = 32;
  const auto joins = [&](const DotStep& step) {
    return step.is_packed() && !step.has_residual() && (!step.bias() || planner_.constant(step.bias()));
  };
  for (size_t i = 0; i < planned_.size(); ++i) {
    Planned& first = planned_[i];
    if (!first.step) continue;  // in a group already
    std::vector<std::unique_ptr<DotStep>> members;
    for (size_t j = i + 1; joins(*first.step) && j < planned_.size() && planned_[j].op - first.op <= kNear; ++j) {
      if (planned_[j].step && planned_[j].step->lhs() == first.step->lhs() && joins(*planned_[j].step) &&
          planned_[j].step->is_rounded() == first.step->is_rounded())
        members.push_back(std::move(planned_[j].step));
    }
    if (members.empty()) {
      planner_.move_to(std::move(first.step), *first.at);
      continue;
    }
    members.insert(members.begin(), std::move(first.step));
    planner_.move_to(std::make_unique<DotGroupStep>(std::move(members)), *first.op);
  }
}

}  // namespace transmuter::cpu
