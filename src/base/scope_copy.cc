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
  for (const auto& [index, value] : values) {
    Symbol& symbol = impl.symbols[static_cast<size_t>(index)];
    symbol.hint = table.nodes[symbol.expr].value = value;
    table.nodes[symbol.expr].data_dependent = false;
  }
  Bindings hints(copy);
  for (size_t i = 0; i < impl.symbols.size(); ++i) hints.set(static_cast<int32_t>(i), impl.symbols[i].hint);
  for (ExprId id = 1; id < table.nodes.size(); ++id) {  // children come before their parents
    Node& node = table.nodes[id];
    if (node.kind == Kind::symbol || node.kind == Kind::constant || node.kind == Kind::real_constant) continue;
    bool depends = false;
    table.for_children(id, [&](ExprId child) { depends = depends || table.nodes[child].data_dependent; });
    node.data_dependent = depends;
    try {
      node.value = hints.evaluate_expr(id);
    } catch (const Error&) {
      // An arm that the run does not take may have no value.
    }
  }
  return copy;
}

}  // namespace transmuter
