#include "ir/composites/composites.h"
#include "ir/passes/attribute_record.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"

namespace transmuter::ir {

namespace {

// Which values, and which data-dependent symbols, are needed by what comes later.
class Needs {
 public:
  explicit Needs(const Program& program) : program_(program), values_(static_cast<size_t>(program.value_count())) {
    if (!program.scope()) return;
    for (const Symbol& symbol : program.scope()->symbols())
      any_symbol_ = any_symbol_ || symbol.source.kind == SymbolSource::Kind::data_dependent;
    symbols_.resize(program.scope()->symbols().size());
  }

  void need(Value value) {
    values_[static_cast<size_t>(value.id)] = true;
    need(program_.type(value).shape);
  }
  void need(const Op& op) {
    for (Value operand : op.operands) need(operand);
    if (!any_symbol_) return;
    const AttributeRecord attributes(op.attributes.get());
    need(attributes.dims, attributes.reals);
    for (const ProgramPtr& region : op.regions) need_region(*region);
  }
  bool is_needed(Value value) const { return values_[static_cast<size_t>(value.id)]; }
  // The op has a result whose extent is a needed symbol: it, or another op before it, defines the symbol.
  bool defines_needed_symbol(const Op& op) const {
    if (!any_symbol_) return false;
    if (op.primitive == &composite::read_values) {
      for (Dim dim : op.as<ReadValuesAttributes>().symbols)
        for (int32_t s : symbols(dim.expr()))
          if (symbols_[static_cast<size_t>(s)]) return true;
    }
    for (Value result : op.results)
      for (Dim extent : program_.type(result).shape)
        for (int32_t s : symbols(extent.expr()))
          if (symbols_[static_cast<size_t>(s)]) return true;
    return false;
  }

 private:
  std::vector<int32_t> symbols(ExprId expr) const {
    return expr == 0 ? std::vector<int32_t>() : program_.scope()->symbols_of(expr);
  }
  void need(const Dims& dims, const std::vector<Real>& reals = {}) {
    if (!any_symbol_) return;
    for (Dim dim : dims) need_expr(dim.expr());
    for (Real real : reals) need_expr(real.expr());
  }
  void need_expr(ExprId expr) {
    for (int32_t s : symbols(expr))
      if (program_.scope()->symbols()[static_cast<size_t>(s)].source.kind == SymbolSource::Kind::data_dependent)
        symbols_[static_cast<size_t>(s)] = true;
  }
  void need_region(const Program& region) {
    if (!any_symbol_) return;
    for (const Op& op : region.ops()) {
      const AttributeRecord attributes(op.attributes.get());
      need(attributes.dims, attributes.reals);
      for (Value result : op.results) need(region.type(result).shape);
      for (const ProgramPtr& inner : op.regions) need_region(*inner);
    }
  }

  const Program& program_;
  std::vector<bool> values_;
  std::vector<bool> symbols_;
  bool any_symbol_ = false;
};

}  // namespace

Program dce(const Program& program) {
  Needs needs(program);
  for (Value result : program.results()) needs.need(result);
  std::vector<bool> live(program.ops().size());
  for (size_t i = program.ops().size(); i-- > 0;) {
    const Op& op = program.ops()[i];
    bool needed = needs.defines_needed_symbol(op);
    for (Value result : op.results) needed = needed || needs.is_needed(result);
    live[i] = needed;
    if (!needed) continue;
    for (Value result : op.results) needs.need(result);
    needs.need(op);
  }
  Copier copier(program, [&](const Parameter& parameter) {
    return parameter.kind == Parameter::Kind::input || needs.is_needed(parameter.value);
  });
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i]) copier.copy(program.ops()[i]);
  return copier.finish();
}

}  // namespace transmuter::ir
