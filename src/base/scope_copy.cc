#include "base/scope_copy.h"

#include "base/dim_table.h"

namespace transmuter {

std::shared_ptr<ShapeScope> copy_of(const ShapeScope& scope) {
  std::shared_ptr<ShapeScope> copy = ShapeScope::create();
  copy->impl() = scope.impl();
  return copy;
}

}  // namespace transmuter
