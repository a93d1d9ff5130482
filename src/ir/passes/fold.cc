#include <algorithm>

#include "ir/evaluate.h"
#include "ir/passes/attribute_record.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {

namespace {

class Folder {
 public:
  explicit Folder(const Program& program) : copier_(program) {}

  Program run() {
    for (const Op& op : copier_.from().ops())
      if (!fold_splats(op) && !fold_constants(op)) copier_.copy(op);
    return copier_.finish();
  }

 private:
  Builder& build() { return copier_.build(); }

  // The 0-d constant that the value repeats, or null.
  const Tensor* splat(Value value) {
    const Op* op = build().definition(value);
    if (op && op->primitive == &prim::broadcast_in_dim && build().rank(op->operands[0]) == 0) value = op->operands[0];
    const Tensor* constant = build().constant_value(value);
    return constant && constant->rank() == 0 ? constant : nullptr;
  }

  // Op over the tensors, by a program of its own.
  static std::vector<Tensor> evaluate_alone(const Op& op, const std::vector<Tensor>& operands,
                                            const std::vector<Type>& results) {
    Builder alone(nullptr);
    std::vector<Value> inputs;
    for (const Tensor& operand : operands) inputs.push_back(alone.weight(operand, ""));
    return evaluate(alone.finish(alone.emit_copy(op, std::move(inputs), results, "")), {});
  }

  bool is_foldable(const Op& op) { return !op.operands.empty() && op.primitive->evaluate && op.regions.empty(); }

  bool fold_splats(const Op& op) {
    if (!op.primitive->elementwise || op.results.size() != 1 || !is_foldable(op)) return false;
    std::vector<Tensor> operands;
    for (Value operand : op.operands) {
      const Tensor* value = splat(copier_[operand]);
      if (!value) return false;
      operands.push_back(*value);
    }
    const Type& type = copier_.from().type(op.results[0]);
    std::vector<Tensor> results = evaluate_alone(op, operands, {{type.dtype, {}}});
    copier_.locate(op);
    copier_.set(op.results[0], build().broadcast_in_dim(build().constant(std::move(results[0])), type.shape, {}));
    return true;
  }

  bool fold_constants(const Op& op) {
    if (!is_foldable(op) || op.primitive == &prim::broadcast_in_dim) return false;  // repeats are cheaper than bytes
    for (Value operand : op.operands)
      if (!build().constant_value(copier_[operand])) return false;
    if (!all_constant(AttributeRecord(op.attributes.get()))) return false;
    std::vector<Tensor> operands;
    for (Value operand : op.operands) operands.push_back(*build().constant_value(copier_[operand]));
    std::vector<Type> types;
    for (Value result : op.results) {
      const Type& type = copier_.from().type(result);
      if (!all_constant(type.shape) || byte_size(type.dtype, product(type.shape).hint()) > kFoldLimit) return false;
      types.push_back(type);
    }
    std::vector<Tensor> results = evaluate_alone(op, operands, types);
    copier_.locate(op);
    for (size_t i = 0; i < results.size(); ++i) copier_.set(op.results[i], build().constant(std::move(results[i])));
    return true;
  }

  Copier copier_;
};

}  // namespace

Program fold(const Program& program) { return Folder(program).run(); }

}  // namespace transmuter::ir
