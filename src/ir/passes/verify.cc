#include "ir/passes/verify.h"

#include <optional>

#include "base/scope_copy.h"
#include "ir/primitives/infer.h"

namespace transmuter::ir {

namespace {

[[noreturn]] void broken(const Op& op, const std::string& what) {
  throw Error(ErrorCode::internal, str(op.primitive->name, ": ", what));
}

void check_types(const Program& program, const Op& op, const std::vector<Type>& inferred) {
  if (inferred.size() != op.results.size()) broken(op, "has the wrong number of results");
  for (size_t i = 0; i < inferred.size(); ++i) {
    const Type& recorded = program.type(op.results[i]);
    bool same = recorded.dtype == inferred[i].dtype && recorded.shape.size() == inferred[i].shape.size();
    for (size_t axis = 0; same && axis < recorded.shape.size(); ++axis)
      same = recorded.shape[axis].hint() == inferred[i].shape[axis].hint() || is_data_dependent(recorded.shape[axis]);
    if (!same) broken(op, str("is recorded as ", to_string(recorded), ", inferred ", to_string(inferred[i])));
  }
}

void verify_ops(const Program& program) {
  std::vector<bool> defined(static_cast<size_t>(program.value_count()));
  auto known = [&](Value value) {
    return value.id >= 0 && value.id < program.value_count() && defined[static_cast<size_t>(value.id)];
  };
  for (const Parameter& parameter : program.parameters()) defined[static_cast<size_t>(parameter.value.id)] = true;
  for (const Op& op : program.ops()) {
    std::vector<Type> operands;
    for (Value operand : op.operands) {
      if (!known(operand)) broken(op, "reads a value that is not defined before it");
      operands.push_back(program.type(operand));
    }
    for (const ProgramPtr& region : op.regions) verify_ops(*region);
    check_types(program, op, op.primitive->infer({*op.primitive, operands, op.attributes.get(), op.regions}));
    for (Value result : op.results) defined[static_cast<size_t>(result.id)] = true;
  }
  for (Value result : program.results())
    if (!known(result)) throw Error(ErrorCode::internal, "a result of the program is not defined");
}

}  // namespace

void verify(const Program& program) {
  std::optional<ShapeScope::Enter> enter;
  if (program.scope()) {
    // Inference makes symbols for the counts that ops find, and asserts: in a copy, for the program has all that.
    enter.emplace(copy_of(*program.scope()));
  }
  verify_ops(program);
}

}  // namespace transmuter::ir
