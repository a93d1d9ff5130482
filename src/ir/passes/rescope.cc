#include "ir/passes/rescope.h"

#include "base/scope_copy.h"
#include "ir/passes/copier.h"

namespace transmuter::ir {
namespace {

Program rescoped(const Program& program, const std::shared_ptr<ShapeScope>& scope) {
  Copier copier(program, {}, program.scope() ? scope : nullptr);
  for (const Op& op : program.ops())
    copier.copy(op, changed_regions(op, [&](const Program& region) { return rescoped(region, scope); }));
  return copier.finish();
}

}  // namespace

Program with_own_scope(const Program& program) {
  return program.scope() ? rescoped(program, copy_of(*program.scope())) : program;
}

}  // namespace transmuter::ir
