#include "ir/autodiff.h"

#include <algorithm>

#include "ir/passes/copier.h"
#include "ir/passes/inline_composites.h"

namespace transmuter::ir {

namespace {

class Differentiator {
 public:
  Differentiator(const Program& program, std::span<const size_t> parameters)
      : program_(program),
        copier_(program),
        depends_(static_cast<size_t>(program.value_count())),
        gradients_(depends_.size()) {
    for (size_t index : parameters) wanted_.push_back(program.parameters().at(index).value);
    for (Value value : wanted_) depends_[static_cast<size_t>(value.id)] = true;
    for (const Op& op : program.ops()) {
      copier_.copy(op);
      bool any = std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return depends(v); });
      for (Value result : op.results) depends_[static_cast<size_t>(result.id)] = any;
    }
  }

  Builder& build() { return copier_.build(); }
  Value now(Value old) const { return copier_[old]; }

  // The gradient of a result before run().
  void seed(Value result, Value gradient) { add(result, gradient); }

  Program run() {
    for (size_t i = program_.ops().size(); i-- > 0;) step(program_.ops()[i]);
    std::vector<Value> results = copier_.mapped(program_.results());
    std::vector<std::string> names = program_.result_names();
    for (Value value : wanted_) {
      Value gradient = gradients_[static_cast<size_t>(value.id)];
      results.push_back(gradient ? gradient : build().like(now(value), 0));
      names.push_back("");
    }
    return build().finish(std::move(results), std::move(names));
  }

 private:
  bool depends(Value value) const { return depends_[static_cast<size_t>(value.id)]; }

  void add(Value value, Value gradient) {
    Value& sum = gradients_[static_cast<size_t>(value.id)];
    sum = sum ? build().add(sum, gradient) : gradient;
  }

  void step(const Op& op) {
    if (!depends(op.results[0])) return;
    std::vector<Value> gradients;
    for (Value result : op.results) gradients.push_back(gradients_[static_cast<size_t>(result.id)]);
    if (std::none_of(gradients.begin(), gradients.end(), [](Value g) { return bool(g); })) return;
    copier_.locate(op);
    try {
      if (!op.primitive->vjp) throw Error(ErrorCode::unsupported, str(op.primitive->name, " is not differentiable"));
      const std::vector<Value> operands = copier_.mapped(op.operands), results = copier_.mapped(op.results);
      VjpContext context{build(), op, operands, results, gradients};
      std::vector<Value> of_operands = op.primitive->vjp(context);
      of_operands.resize(operands.size());
      for (size_t i = 0; i < operands.size(); ++i)
        if (of_operands[i] && depends(op.operands[i])) add(op.operands[i], of_operands[i]);
    } catch (Error& error) {
      std::string where = copier_.location(op);
      if (!where.empty()) error.in(where);
      throw;
    }
  }

  const Program& program_;
  Copier copier_;
  std::vector<bool> depends_;
  std::vector<Value> gradients_;  // by old value, in the new program
  std::vector<Value> wanted_;
};

Program differentiable(const Program& program) {
  return inline_composites(program, [](const Program&, const Op& op) { return op.primitive->vjp != nullptr; });
}

void check_float(const Program& program, size_t result) {
  if (result >= program.results().size() || !is_float(program.type(program.results()[result]).dtype))
    throw Error(ErrorCode::invalid_input, str("result ", result, " is no float tensor to differentiate"));
}

}  // namespace

Program with_gradients(const Program& program, size_t loss, std::span<const size_t> parameters) {
  check_float(program, loss);
  const Program plain = differentiable(program);
  Value result = plain.results()[loss];
  if (plain.type(result).rank() != 0)
    throw Error(ErrorCode::invalid_input, str("a loss is a 0-d tensor, not ", to_string(plain.type(result))));
  Differentiator differentiator(plain, parameters);
  differentiator.seed(result, differentiator.build().like(differentiator.now(result), 1));
  return differentiator.run();
}

Program with_vjp(const Program& program, size_t result, std::span<const size_t> parameters) {
  return with_vjp(program, std::span<const size_t>(&result, 1), parameters);
}

Program with_vjp(const Program& program, std::span<const size_t> results, std::span<const size_t> parameters) {
  for (const size_t result : results) check_float(program, result);
  const Program plain = differentiable(program);
  Differentiator differentiator(plain, parameters);
  for (const size_t result : results) {
    const Value value = plain.results()[result];
    differentiator.seed(value, differentiator.build().input(plain.type(value), "gradient"));
  }
  return differentiator.run();
}

}  // namespace transmuter::ir
