#include "ir/passes/inline_composites.h"

#include "ir/passes/copier.h"

namespace transmuter::ir {

namespace {

using Keep = std::function<bool(const Program&, const Op&)>;

bool is_inlined(const Program& program, const Op& op, const Keep& keep) {
  return op.primitive->decompose && !(keep && keep(program, op));
}

bool has_inlined(const Program& program, const Keep& keep) {
  for (const Op& op : program.ops()) {
    if (is_inlined(program, op, keep)) return true;
    for (const ProgramPtr& region : op.regions)
      if (has_inlined(*region, keep)) return true;
  }
  return false;
}

// One round; decompositions may hold composites in turn.
Program inline_once(const Program& program, const Keep& keep) {
  Copier copier(program);
  for (const Op& op : program.ops()) {
    if (!is_inlined(program, op, keep)) {
      copier.copy(op, changed_regions(op, [&](const Program& region) { return inline_composites(region, keep); }));
      continue;
    }
    copier.locate(op);
    std::vector<Value> results =
        op.primitive->decompose(copier.build(), copier.mapped(op.operands), op.attributes.get());
    if (results.size() != op.results.size())
      throw Error(ErrorCode::internal, str(op.primitive->name, ": the decomposition has another number of results"));
    for (size_t i = 0; i < results.size(); ++i) copier.set(op.results[i], results[i]);
  }
  return copier.finish();
}

}  // namespace

Program inline_composites(Program program, const Keep& keep) {
  while (has_inlined(program, keep)) program = inline_once(program, keep);
  return program;
}

}  // namespace transmuter::ir
