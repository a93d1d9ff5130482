#include <unordered_map>

#include "ir/passes/attribute_record.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"

namespace transmuter::ir {

namespace {

struct Seen {
  const Op* op;
  std::vector<Value> operands;
};

uint64_t hash_of(const Seen& seen) {
  uint64_t hash = attribute_hash(seen.op->attributes.get()) ^ reinterpret_cast<uintptr_t>(seen.op->primitive);
  for (const Value operand : seen.operands) hash = (hash + static_cast<uint64_t>(operand.id) + 1) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

bool same_attributes(const Op& a, const Op& b) {
  return a.attributes == b.attributes || same(AttributeRecord(a.attributes.get()), AttributeRecord(b.attributes.get()));
}

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
  std::unordered_multimap<uint64_t, Seen> seen;
  seen.reserve(program.ops().size());
  for (const Op& op : program.ops()) {
    Seen now{&op, copier.mapped(op.operands)};
    const uint64_t key = hash_of(now);
    auto [first, last] = seen.equal_range(key);
    while (first != last) {
      const Seen& before = first->second;
      if (before.op->primitive == op.primitive && before.operands == now.operands && before.op->regions == op.regions &&
          same_types(program, *before.op, op) && same_attributes(*before.op, op))
        break;
      ++first;
    }
    if (first != last) {
      for (size_t i = 0; i < op.results.size(); ++i) copier.set(op.results[i], copier[first->second.op->results[i]]);
      continue;
    }
    copier.copy(op);
    seen.emplace(key, std::move(now));
  }
  return copier.finish();
}

}  // namespace transmuter::ir
