#include "ir/counted_loop.h"

#include "ir/primitives/primitives.h"

namespace transmuter::ir {

CountedRegion::CountedRegion(Builder& outer, std::span<const Value> state_outside, std::span<const Value> fixed_outside)
    : build(outer.scope()) {
  t = build.input({DType::i64, {}}, "t");
  for (const Value value : state_outside) state.push_back(build.input(outer.type(value), "state"));
  for (const Value value : fixed_outside) fixed.push_back(build.input(outer.type(value), "fixed"));
}

std::vector<Value> emit_counted(Builder& build, Dim trips, std::span<const Value> state, std::span<const Value> fixed,
                                CountedRegion& region, std::vector<Value> next) {
  std::vector<Value> results{region.build.add(region.t, region.build.integer(DType::i64, 1))};
  results.insert(results.end(), next.begin(), next.end());
  results.insert(results.end(), region.fixed.begin(), region.fixed.end());
  const auto body = std::make_shared<const Program>(region.build.finish(std::move(results)));

  CountedRegion test(build, state, fixed);
  const Value more = test.build.compare(test.t, test.build.dim_value(trips, DType::i64), CompareDirection::lt);
  const auto condition = std::make_shared<const Program>(test.build.finish({more}));

  std::vector<Value> operands{build.integer(DType::i64, 0)};
  operands.insert(operands.end(), state.begin(), state.end());
  operands.insert(operands.end(), fixed.begin(), fixed.end());
  std::vector<Value> out = build.while_loop(std::move(operands), condition, body);
  return {out.begin() + 1, out.begin() + 1 + static_cast<int64_t>(state.size())};
}

std::vector<Value> inline_into(Builder& build, const Program& program, const std::vector<Value>& arguments) {
  std::vector<Value> map(static_cast<size_t>(program.value_count()));
  const auto mapped = [&](const std::vector<Value>& values) {
    std::vector<Value> now;
    for (const Value value : values) now.push_back(map[value.id]);
    return now;
  };
  for (size_t i = 0; i < arguments.size(); ++i) map[program.parameters()[i].value.id] = arguments[i];
  for (const Op& op : program.ops()) {
    std::vector<Type> types;
    for (const Value result : op.results) types.push_back(program.type(result));
    const auto results = build.emit_copy(op, mapped(op.operands), types, "");
    for (size_t i = 0; i < results.size(); ++i) map[op.results[i].id] = results[i];
  }
  return mapped(program.results());
}

Value with_row(Builder& build, Value stacked, Value row, Value at) {
  std::vector<Value> starts(static_cast<size_t>(build.rank(stacked)), build.integer(DType::i64, 0));
  starts[0] = at;
  return build.dynamic_update_slice(stacked, build.expand_dims(row, {0}), std::move(starts));
}

namespace {

const Op* definition(const Program& program, Value value) {
  for (const Op& op : program.ops()) {
    for (const Value result : op.results) {
      if (result == value) return &op;
    }
  }
  return nullptr;
}

// What a 0-d integer value is, where it is known: a constant or a dim_value.
std::optional<Dim> known(const Op* op) {
  if (!op) return {};
  if (op->primitive == &prim::dim_value && !op->as<DimValueAttributes>().is_real)
    return op->as<DimValueAttributes>().dim;
  if (op->primitive != &prim::constant) return {};
  const Tensor& value = op->as<ConstantAttributes>().value;
  if (value.dtype() != DType::i64 || value.size() != 1) return {};
  return *value.aligned().data<int64_t>();
}

}  // namespace

std::optional<Dim> trip_count(const Builder& build, const Op& while_op) {
  const std::optional<Dim> first = known(build.definition(while_op.operands[0]));
  if (!first || !provably_eq(*first, 0) || build.dtype(while_op.operands[0]) != DType::i64) return {};
  const Program &condition = *while_op.regions[0], &body = *while_op.regions[1];
  const Op* test = definition(condition, condition.results()[0]);
  if (!test || test->primitive != &prim::compare || test->as<CompareAttributes>().direction != CompareDirection::lt ||
      !(test->operands[0] == condition.parameters()[0].value))
    return {};
  const Op* step = definition(body, body.results()[0]);
  if (!step || step->primitive != &prim::add || !(step->operands[0] == body.parameters()[0].value)) return {};
  const std::optional<Dim> by = known(definition(body, step->operands[1]));
  if (!by || !provably_eq(*by, 1)) return {};
  return known(definition(condition, test->operands[1]));
}

}  // namespace transmuter::ir
