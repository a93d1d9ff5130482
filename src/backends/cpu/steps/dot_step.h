// A product with what follows it (dot_step.cc), and the planning of all of them (dot_plan.cc).
#pragma once

#include <utility>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/plan/epilogue_match.h"
#include "backends/cpu/plan/packed.h"
#include "backends/cpu/plan/planner.h"
#include "ir/primitives/attributes.h"

namespace transmuter::cpu {

// The axes of a product that are neither batch nor contracted.
struct FreeAxes {
  std::vector<int64_t> lhs, rhs;
};
FreeAxes free_axes(const ir::DotGeneralAttributes& d, int64_t lhs_rank, int64_t rhs_rank);

// A fixed right-hand side, laid out for the kernel.
struct PackedOperand {
  std::shared_ptr<const Packed> packed;  // null: the operand is read as it lies
  Storage storage = Storage::f32;
  FewBits bits = {};
  bool rounded = false;  // with activations rounded to eight bits: kernels/rounded.h
};

// One loop of the product: an extent and what a step of it means in each operand.
struct DotLoop {
  int64_t extent, a, b, c, r;
};
using DotLoops = std::vector<DotLoop>;
// Drops extents of 1 and joins neighbours that run on in every operand.
DotLoops joined(const DotLoops& loops);

class DotStep : public Step {
 public:
  // `op` has the operands lhs and rhs in front and multiplies them as `d` says.
  DotStep(const ir::Op& op, ir::DotGeneralAttributes d, FusedEpilogue epilogue, FreeAxes axes, PackedOperand rhs);
  void set_order(SmallVector<int64_t, 6> order) { order_ = std::move(order); }

  ir::Value lhs() const { return lhs_; }
  bool is_packed() const { return rhs_.packed != nullptr; }
  bool is_rounded() const { return rhs_.rounded; }
  bool has_residual() const { return static_cast<bool>(e_.residual); }
  ir::Value bias() const { return e_.bias; }

  void bind(Binder& bind) const override;

  // What a launch of it needs: everything but the pointers is in `args`.
  struct Bound {
    GemmArgs args;
    Place a, b, c, bias, residual;
    int32_t packed = -1;  // buffer
    double flops = 0;

    GemmArgs with_pointers(const RunContext& run) const;
  };
  // Launches the copies it needs, touches its operands for a launch that follows. False: the result is empty.
  bool prepare(Binder& bind, Bound& out) const;

 private:
  DotLoops contracted(const View& a, const View& b) const;
  void fill(const View& a, const View& b, const View& c, const View& r, const DotLoops& inner, GemmArgs& args) const;

  const ir::Value lhs_, rhs_value_;
  const ir::DotGeneralAttributes d_;
  FusedEpilogue e_;
  FreeAxes axes_;
  PackedOperand rhs_;
  SmallVector<int64_t, 6> order_;
};

// Plans every product of a program, in order; `finish` places the steps: products that read the same values become one.
class DotPlanner {
 public:
  explicit DotPlanner(Planner& planner) : planner_(planner) {}
  void add(const ir::Op& op);
  void finish();

 private:
  struct Planned {
    std::unique_ptr<DotStep> step;
    const ir::Op* op;
    const ir::Op* at;  // where the step stands
  };
  void place(const ir::Op& op, const ir::DotGeneralAttributes& d, FreeAxes axes, PackedOperand rhs);
  PackedOperand pack(const ir::Op& op, const ir::DotGeneralAttributes& d, const FreeAxes& axes);
  void add_few_bits(const ir::Op& op);

  Planner& planner_;
  std::vector<Planned> planned_;
};

}  // namespace transmuter::cpu
