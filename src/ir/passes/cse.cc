#include <unordered_map>

#include "ir/passes/attribute_record.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"

namespace transmuter::ir {

namespace {

struct Seen {
  const Op* op;
  std::vector<Value> operands;
  AttributeRecord attributes;
};

bool same_types(const Program& program, const Op& a, const Op& b) {
  if (a.results.size() != b.results.size()) return false;
  for (size_t i = 0; i < a.results.size(); ++i) {
    const Type &x = program.type(a.results[i]), &y = program.type(b.results[i]);
    if (x.dtype != y.dtype || x.shape.size() != y.shape.size()) return false;
    for (size_t axis = 0; axis < x.shape.size(); ++axis)
      if (!same_expression(x.shape[axis], y.shape[axis])) return false;  // a fresh symbol must stay defined
  }
  return true;
}

}  // namespace

Program cse(const Program& program) {
  Copier copier(program);
  std::unordered_multimap<std::string, Seen> seen;
  for (const Op& op : program.ops()) {
    Seen now{&op, copier.mapped(op.operands), AttributeRecord(op.attributes.get())};
    std::string key = str(op.primitive->name, ";", now.attributes.key);
    for (Value operand : now.operands) key += str(operand.id, ",");
    auto [first, last] = seen.equal_range(key);
    while (first != last &&
           !(first->second.op->primitive == op.primitive && first->second.op->regions == op.regions &&
             same(first->second.attributes, now.attributes) && same_types(program, *first->second.op, op)))
      ++first;
    if (first != last) {
      for (size_t i = 0; i < op.results.size(); ++i) copier.set(op.results[i], copier[first->second.op->results[i]]);
      continue;
    }
    copier.copy(op);
    seen.emplace(std::move(key), std::move(now));
  }
  return copier.finish();
}

}  // namespace transmuter::ir
