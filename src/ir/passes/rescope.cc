#include "ir/passes/rescope.h"

#include "base/scope_copy.h"
#include "ir/passes/copier.h"

namespace transmuter::ir {
namespace {

Program rescoped(const Program& program, const std::shared_ptr<ShapeScope>& scope) {
  Copier copier(program, {}, program.scope() ? scope : nullptr);
  for (const Op& op : program.ops()) {
    std::vector<ProgramPtr> regions;
    for (const ProgramPtr& region : op.regions)
      regions.push_back(std::make_shared<const Program>(rescoped(*region, scope)));
    copier.copy(op, std::move(regions));
  }
  return copier.finish();
}

}  // namespace

Program with_own_scope(const Program& program) {
  return program.scope() ? rescoped(program, copy_of(*program.scope())) : program;
}

}  // namespace transmuter::ir
