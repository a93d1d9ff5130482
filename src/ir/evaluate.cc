#include "ir/evaluate.h"

#include <optional>
#include <unordered_map>

#include "base/run_control.h"
#include "ir/builder.h"
#include "tensor/packed.h"

namespace transmuter::ir {

namespace {

using BodyCache = std::unordered_map<const Op*, ProgramPtr>;

// The bodies of composites, kept while the outermost evaluation of this thread runs: regions come round many times.
thread_local BodyCache* current_bodies = nullptr;

class BodyScope {
 public:
  BodyScope() : outermost_(current_bodies == nullptr) {
    if (outermost_) current_bodies = &bodies_;
  }
  ~BodyScope() {
    if (outermost_) current_bodies = nullptr;
  }
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;

 private:
  BodyCache bodies_;
  bool outermost_;
};

// The tensor has the type's extents, as far as they are known: elementwise loops rely on it, and an assertion about
// data-dependent extents may have failed.
bool has_shape(const Tensor& tensor, const Type& type, Bindings* bindings) {
  if (tensor.rank() != type.rank()) return false;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    Dim extent = type.shape[i];
    if (!extent.is_constant() && !bindings) continue;
    if (tensor.shape()[i] != (bindings ? bindings->evaluate(extent) : extent.hint())) return false;
  }
  return true;
}

std::vector<Tensor> pack_results(const Program& program, const Op& op, std::vector<Tensor> results,
                                 Bindings* bindings) {
  if (results.size() != op.results.size()) throw Error(ErrorCode::internal, str(op.primitive->name, " gave no result"));
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& type = program.type(op.results[i]);
    DType dtype = type.dtype;
    if (!has_shape(results[i], type, bindings))
      throw Error(ErrorCode::invalid_input,
                  str(op.primitive->name, " gives ", describe(results[i]), ", expected ", to_string(type)));
    if (is_packed(dtype)) results[i] = pack(results[i], dtype);
    if (results[i].dtype() != dtype)
      throw Error(ErrorCode::internal,
                  str(op.primitive->name, " gave ", describe(results[i]), " in place of ", name(dtype)));
  }
  return results;
}

// Per value the index of the op after which it isn't needed.
std::vector<size_t> last_uses(const Program& program) {
  std::vector<size_t> last(static_cast<size_t>(program.value_count()), 0);
  for (size_t i = 0; i < program.ops().size(); ++i) {
    for (Value value : program.ops()[i].operands) last[static_cast<size_t>(value.id)] = i;
    for (Value value : program.ops()[i].results) last[static_cast<size_t>(value.id)] = i;
  }
  for (Value value : program.results()) last[static_cast<size_t>(value.id)] = program.ops().size();
  return last;
}

}  // namespace

ProgramPtr body_of(const Program& program, const Op& op) {
  if (op.primitive->evaluate) return nullptr;
  if (!op.primitive->decompose)
    throw Error(ErrorCode::internal, str(op.primitive->name, " has neither an evaluation nor a decomposition"));
  std::optional<ShapeScope::Enter> enter;
  if (program.scope()) enter.emplace(program.scope());
  Builder build(program.scope());
  std::vector<Value> operands;
  for (Value operand : op.operands) operands.push_back(build.input(program.type(operand), ""));
  std::vector<Value> results = op.primitive->decompose(build, operands, op.attributes.get());
  return std::make_shared<const Program>(build.finish(std::move(results)));
}

std::vector<Tensor> evaluate_op(const Program& program, const Op& op, std::vector<Tensor> operands, Bindings* bindings,
                                const RegionRunner* runner) {
  BodyScope bodies;
  if (!op.primitive->evaluate) {
    ProgramPtr& body = (*current_bodies)[&op];
    if (!body) body = body_of(program, op);
    return evaluate(*body, operands, bindings);
  }
  // Regions take what they are given as programs do.
  const bool packed = !op.regions.empty();
  for (Tensor& operand : operands) operand = packed ? operand.aligned() : unpack(operand.aligned());
  EvaluateContext context{program, op, operands, bindings, {}, runner};
  op.primitive->evaluate(context);
  return pack_results(program, op, std::move(context.results), bindings);
}

std::vector<Tensor> evaluate(const Program& program, std::span<const Tensor> inputs, Bindings* bindings) {
  BodyScope bodies;
  std::vector<Tensor> values(static_cast<size_t>(program.value_count()));
  size_t next = 0;
  for (const Parameter& parameter : program.parameters()) {
    Tensor& value = values[static_cast<size_t>(parameter.value.id)];
    if (parameter.kind == Parameter::Kind::weight) {
      if (!parameter.weight)
        throw Error(ErrorCode::internal, str("weight \"", parameter.name, "\" has not been prepared"));
      value = parameter.weight;
      continue;
    }
    if (next == inputs.size()) throw Error(ErrorCode::invalid_input, str("input \"", parameter.name, "\" is missing"));
    value = inputs[next++];
    const Type& type = program.type(parameter.value);
    if (value.dtype() != type.dtype || !has_shape(value, type, bindings))
      throw Error(ErrorCode::invalid_input,
                  str("input \"", parameter.name, "\" is ", describe(value), ", expected ", to_string(type)));
  }
  if (next != inputs.size()) throw Error(ErrorCode::invalid_input, str("takes ", next, " inputs, got ", inputs.size()));

  const std::vector<size_t> last = last_uses(program);
  for (size_t i = 0; i < program.ops().size(); ++i) {
    RunControl::check();
    const Op& op = program.ops()[i];
    std::vector<Tensor> operands;
    for (Value operand : op.operands) operands.push_back(values[static_cast<size_t>(operand.id)]);
    std::vector<Tensor> results;
    try {
      results = evaluate_op(program, op, std::move(operands), bindings);
    } catch (Error& error) {
      if (op.location >= 0) error.in(program.locations()[static_cast<size_t>(op.location)]);
      throw;
    }
    for (size_t r = 0; r < results.size(); ++r) values[static_cast<size_t>(op.results[r].id)] = std::move(results[r]);
    for (Value value : op.operands)
      if (last[static_cast<size_t>(value.id)] == i) values[static_cast<size_t>(value.id)] = {};
    for (Value value : op.results)
      if (last[static_cast<size_t>(value.id)] == i) values[static_cast<size_t>(value.id)] = {};
  }
  std::vector<Tensor> results;
  for (Value value : program.results()) results.push_back(values[static_cast<size_t>(value.id)]);
  return results;
}

std::vector<Tensor> EvaluateContext::run_region(size_t region, std::span<const Tensor> region_operands,
                                                Bindings* inner) const {
  if (runner) return (*runner)(region, region_operands, inner);
  return evaluate(*op.regions[region], region_operands, inner);
}

}  // namespace transmuter::ir
