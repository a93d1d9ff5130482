#include "backends/cpu/run/symbol_bits.h"

#include <algorithm>

namespace transmuter::cpu {

namespace {

constexpr uint64_t kUnknown = ~uint64_t{0};
constexpr uint64_t kLater = uint64_t{1} << 63;  // symbols made after the program

// The expressions among the fields of an op.
class Expressions : public ir::AttributeVisitor {
 public:
  std::vector<ExprId> found;

  void integer(const char*, int64_t) override {}
  void integers(const char*, const std::vector<int64_t>&) override {}
  void dims(const char*, const Dims& value) override {
    for (const Dim d : value) found.push_back(d.expr());
  }
  void real(const char*, double) override {}
  void text(const char*, std::string_view) override {}
  void tensor(const char*, const Tensor&) override {}
  void real_expression(const char*, Real value) override { found.push_back(value.expr()); }
};

}  // namespace

SymbolBits::SymbolBits(const ir::Program& program) {
  if (!program.scope()) return;
  of_symbol_.resize(program.scope()->symbols().size());
  for (int32_t id = 0; id < program.value_count(); ++id) add(program, program.type({id}).shape);
  for (const ir::Op& op : program.ops()) {
    if (!op.attributes) continue;
    Expressions expressions;
    op.attributes->visit(expressions);
    for (const ExprId expr : expressions.found) add(program, expr);
  }
}

uint64_t SymbolBits::differing(const std::vector<int64_t>& before, const std::vector<int64_t>& now) const {
  uint64_t bits = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (i < before.size() && before[i] == now[i]) continue;
    bits |= i < of_symbol_.size() ? of_symbol_[i] : kLater;
  }
  return bits;
}

void SymbolBits::add(const ir::Program& program, const Dims& dims) {
  for (const Dim d : dims) add(program, d.expr());
}

void SymbolBits::add(const ir::Program& program, ExprId expr) {
  if (expr == 0) return;
  if (expr >= of_expression_.size()) of_expression_.resize(expr + 1, kUnknown);
  if (of_expression_[expr] != kUnknown) return;
  uint64_t bits = 0;
  for (const int32_t s : program.scope()->symbols_of(expr)) {
    uint64_t& bit = of_symbol_[static_cast<size_t>(s)];
    if (!bit) bit = uint64_t{1} << std::min(used_++, 62);
    bits |= bit;
  }
  of_expression_[expr] = bits;
}

}  // namespace transmuter::cpu
