#include "ir/passes/inline_composites.h"

#include "ir/passes/copier.h"

namespace transmuter::ir {

namespace {

using Keep = std::function<bool(const Program&, const Op&)>;

// One round; decompositions may hold composites in turn. Sets `left` where another round is needed.
Program inline_once(const Program& program, const Keep& keep, bool& left) {
  Copier copier(program);
  Keep keep_inside;
  if (keep) keep_inside = [&](const Program& inner, const Op& op) { return op.primitive->evaluate && keep(inner, op); };
  for (const Op& op : program.ops()) {
    if (!op.primitive->decompose || (keep && keep(program, op))) {
      std::vector<ProgramPtr> regions;
      for (const ProgramPtr& region : op.regions)
        regions.push_back(std::make_shared<const Program>(inline_composites(*region, keep_inside)));
      copier.copy(op, std::move(regions));
      continue;
    }
    left = true;
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

Program inline_composites(const Program& program, const Keep& keep) {
  Program out = program;
  for (bool left = true; left;) {
    left = false;
    out = inline_once(out, keep, left);
  }
  return out;
}

}  // namespace transmuter::ir
