#include "ir/builder.h"

#include "ir/primitives/primitives.h"

namespace transmuter::ir {

Builder::Builder(std::shared_ptr<ShapeScope> scope) { program_.scope_ = std::move(scope); }

Value Builder::input(Type type, std::string name) {
  Value value{program_.value_count()};
  program_.types_.push_back(std::move(type));
  defined_by_.push_back(-1);
  program_.parameters_.push_back({Parameter::Kind::input, std::move(name), value, {}, false});
  return value;
}

Value Builder::weight(Tensor tensor, std::string name, bool trainable) {
  Value value = input({tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end())}, std::move(name));
  Parameter& parameter = program_.parameters_.back();
  parameter.kind = Parameter::Kind::weight;
  parameter.weight = std::move(tensor);
  parameter.trainable = trainable;
  return value;
}

Value Builder::prepared_weight(Type type, std::string name) {
  Value value = input(std::move(type), std::move(name));
  program_.parameters_.back().kind = Parameter::Kind::weight;
  program_.parameters_.back().prepared = true;
  return value;
}

Program Builder::with_weights(Program program, const std::vector<size_t>& parameters, std::vector<Tensor> weights) {
  for (size_t i = 0; i < parameters.size(); ++i) program.parameters_.at(parameters[i]).weight = std::move(weights[i]);
  return program;
}

const Op* Builder::definition(Value value) const {
  int32_t op = defined_by_[static_cast<size_t>(value.id)];
  return op < 0 ? nullptr : &program_.ops_[static_cast<size_t>(op)];
}

const Parameter* Builder::parameter_of(Value value) const {
  for (const Parameter& parameter : program_.parameters_) {
    if (parameter.value == value) return &parameter;
  }
  return nullptr;
}

const Tensor* Builder::constant_value(Value value) const {
  const Op* op = definition(value);
  return op && op->primitive == &prim::constant ? &op->as<ConstantAttributes>().value : nullptr;
}

void Builder::set_location(std::string label) {
  if (location_ >= 0 && program_.locations_[static_cast<size_t>(location_)] == label) return;
  location_ = label.empty() ? -1 : static_cast<int32_t>(program_.locations_.size());
  if (location_ >= 0) program_.locations_.push_back(std::move(label));
}

Program Builder::with_parameters(Program program, const std::vector<const Parameter*>& as) {
  for (size_t i = 0; i < as.size(); ++i) {
    if (!as[i]) continue;
    Parameter& parameter = program.parameters_.at(i);
    parameter.kind = Parameter::Kind::weight;
    parameter.weight = as[i]->weight;
    parameter.prepared = as[i]->prepared;
  }
  return program;
}

Program Builder::finish(std::vector<Value> results, std::vector<std::string> names) {
  for (Value value : results)
    if (!value || value.id >= program_.value_count())
      throw Error(ErrorCode::internal, "a program's result is no value of its builder");
  names.resize(results.size());
  program_.results_ = std::move(results);
  program_.result_names_ = std::move(names);
  return std::move(program_);
}

std::vector<Value> Builder::emit(const Primitive& primitive, std::vector<Value> operands, AttributesPtr attributes,
                                 std::vector<ProgramPtr> regions) {
  std::vector<Type> types;
  types.reserve(operands.size());
  for (Value value : operands) {
    if (!value || value.id >= program_.value_count())
      throw Error(ErrorCode::internal, str(primitive.name, ": an operand is no value of this builder"));
    types.push_back(type(value));
  }
  std::vector<Type> results = primitive.infer({primitive, types, attributes.get(), regions});
  Op op{&primitive, std::move(operands), std::move(attributes), {}, std::move(regions), location_};
  for (Type& result : results) {
    op.results.push_back({program_.value_count()});
    program_.types_.push_back(std::move(result));
    defined_by_.push_back(static_cast<int32_t>(program_.ops_.size()));
  }
  program_.ops_.push_back(std::move(op));
  return program_.ops_.back().results;
}

std::vector<Value> Builder::emit_copy(const Op& op, std::vector<Value> operands, const std::vector<Type>& result_types,
                                      const std::string& location) {
  if (location_ < 0 || program_.locations_[static_cast<size_t>(location_)] != location) set_location(location);
  Op copy{op.primitive, std::move(operands), op.attributes, {}, op.regions, location_};
  for (const Type& result : result_types) {
    copy.results.push_back({program_.value_count()});
    program_.types_.push_back(result);
    defined_by_.push_back(static_cast<int32_t>(program_.ops_.size()));
  }
  program_.ops_.push_back(std::move(copy));
  return program_.ops_.back().results;
}

}  // namespace transmuter::ir
