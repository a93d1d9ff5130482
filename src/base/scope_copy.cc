#include "base/scope_copy.h"

#include "base/dim_table.h"

namespace transmuter {

std::shared_ptr<ShapeScope> copy_of(const ShapeScope& scope) {
  std::shared_ptr<ShapeScope> copy = ShapeScope::create();
  copy->impl() = scope.impl();
  return copy;
}

std::shared_ptr<ShapeScope> copy_of(const ShapeScope& scope, const std::vector<std::pair<int32_t, int64_t>>& values) {
  std::shared_ptr<ShapeScope> copy = copy_of(scope);
  ShapeScope::Impl& impl = copy->impl();
  Table& table = impl.table;
  for (const auto& [symbol, value] : values) impl.set_value(symbol, value);
  Bindings hints(copy);
  impl.set_hints(hints);
  for (ExprId id = 1; id < table.nodes.size(); ++id) {  // children come before their parents
    const Kind kind = table.nodes[id].kind;
    if (kind != Kind::symbol && kind != Kind::constant && kind != Kind::real_constant) impl.refresh(id, hints);
  }
  return copy;
}

}  // namespace transmuter
