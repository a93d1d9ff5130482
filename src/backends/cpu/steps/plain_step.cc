// The last in the list: the primitive's own evaluator, or its decomposition's, on dense operands.
#include <cstring>

#include "backends/cpu/plan/planner.h"
#include "ir/evaluate.h"

namespace transmuter::cpu {
namespace {

std::shared_ptr<const void> nobody() { return {}; }

class PlainStep : public OpStep {
 public:
  // The body is made here: while the plan is used, in any number of threads, the program's scope must not grow.
  PlainStep(const ir::Program& program, const ir::Op& op) : OpStep(op), body_(ir::body_of(program, op)) {}

  void bind(Binder& bind) const override {
    std::vector<View> operands, results;
    for (ir::Value v : op_.operands) operands.push_back(bind.dense(v));
    // dense() may have launched copies: everything is touched again for this launch.
    for (ir::Value v : op_.operands) bind.view(v);
    for (ir::Value v : op_.results) results.push_back(bind.allocate(v));
    const ir::Program& program = bind.program();
    bind.launch(op_.primitive->name, 0, [&program, this, operands, results](const RunContext& run) {
      std::vector<Tensor> tensors;
      tensors.reserve(operands.size());
      for (const View& v : operands) {
        tensors.push_back(Tensor::view(v.dtype, shape_of(v.shape), run.at<std::byte>(v), nobody()));
      }
      const std::vector<Tensor> computed = body_ ? ir::evaluate(*body_, tensors, &run.bindings)
                                                 : ir::evaluate_op(program, op_, std::move(tensors), &run.bindings);
      for (size_t i = 0; i < results.size(); ++i) {
        if (computed[i].shape() != shape_of(results[i].shape)) {
          throw Error(ErrorCode::internal,
                      str(op_.primitive->name, ": ", computed[i].shape(), " in place of ", shape_of(results[i].shape)));
        }
        if (computed[i].nbytes()) std::memcpy(run.at<std::byte>(results[i]), computed[i].bytes(), computed[i].nbytes());
      }
    });
  }

 private:
  const ir::ProgramPtr body_;  // of a composite that nothing evaluates as it is
};

}  // namespace

std::unique_ptr<Step> plan_plain(Planner& planner, const ir::Op& op) {
  return std::make_unique<PlainStep>(planner.program(), op);
}

}  // namespace transmuter::cpu
