#include "runtime/constant_slice.h"

#include <unordered_map>

#include "ir/evaluate.h"
#include "ir/passes/attribute_record.h"

namespace transmuter::runtime {
namespace {

constexpr size_t kMaxOps = 2000;

struct Slice {
  const ir::Builder& build;
  std::unordered_map<int32_t, bool> seen;  // value -> reached
  std::vector<const ir::Op*> ops;          // in reverse post-order
  std::vector<ir::Value> weights;

  bool visit(ir::Value value) {
    if (seen.contains(value.id)) return true;
    seen[value.id] = true;
    if (!ir::all_constant(build.shape(value))) return false;
    const ir::Op* op = build.definition(value);
    if (!op) {
      const ir::Parameter* parameter = build.parameter_of(value);
      if (!parameter || parameter->kind != ir::Parameter::Kind::weight || parameter->trainable) return false;
      weights.push_back(value);
      return true;
    }
    if (ops.size() > kMaxOps) return false;
    if (!ir::all_constant(ir::AttributeRecord(op->attributes.get()))) return false;
    for (ir::Value operand : op->operands) {
      if (!visit(operand)) return false;
    }
    for (ir::Value result : op->results) seen[result.id] = true;
    ops.push_back(op);
    return true;
  }
};

}  // namespace

std::optional<Tensor> constant_slice(const ir::Builder& build, ir::Value value) {
  Slice slice{build, {}, {}, {}};
  if (!slice.visit(value)) return std::nullopt;
  if (const Tensor* constant = build.constant_value(value)) return *constant;
  ir::Builder copy(nullptr);
  std::unordered_map<int32_t, ir::Value> map;
  for (ir::Value w : slice.weights) map[w.id] = copy.weight(build.parameter_of(w)->weight, build.parameter_of(w)->name);
  for (const ir::Op* op : slice.ops) {
    std::vector<ir::Value> operands;
    for (ir::Value v : op->operands) operands.push_back(map.at(v.id));
    std::vector<ir::Type> types;
    for (ir::Value v : op->results) types.push_back(build.type(v));
    std::vector<ir::Value> results = copy.emit_copy(*op, std::move(operands), types, "");
    for (size_t i = 0; i < results.size(); ++i) map[op->results[i].id] = results[i];
  }
  const ir::Program program = copy.finish({map.at(value.id)});
  return ir::evaluate(program, {}, nullptr)[0];
}

}  // namespace transmuter::runtime
