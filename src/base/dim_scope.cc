// ShapeScope: symbols, guards, assertions, and the calls that record them.
#include <algorithm>
#include <atomic>
#include <bit>

#include "base/dim_table.h"
#include "base/strings.h"

namespace transmuter {
namespace {

thread_local std::shared_ptr<ShapeScope> current_scope;
std::atomic<uint32_t> next_tag{1};
constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;

ShapeScope::Impl& scope_of(Dim a) {
  ShapeScope* scope = ShapeScope::current();
  if (!scope || scope->tag() != a.scope_tag()) throw Error(ErrorCode::internal, "a symbolic size outside its trace");
  return scope->impl();
}

std::string with_value(Dim a) { return a.is_constant() ? to_string(a) : str(to_string(a), " (= ", a.hint(), ")"); }

void record(std::vector<Fact>& facts, ExprId truth, int64_t expected, std::string what, int32_t region = -1) {
  for (const Fact& fact : facts)
    if (fact.truth == truth && fact.expected == expected && (fact.region < 0 || fact.region == region)) return;
  facts.push_back({truth, expected, std::move(what), region});
}

int32_t data_dependent_count(const ShapeScope::Impl& impl) {
  return static_cast<int32_t>(std::count_if(impl.symbols.begin(), impl.symbols.end(), [](const Symbol& symbol) {
    return symbol.source.kind == SymbolSource::Kind::data_dependent;
  }));
}

}  // namespace

void ShapeScope::Impl::set_value(int32_t symbol, int64_t value) {
  Symbol& known = symbols[static_cast<size_t>(symbol)];
  known.hint = table.nodes[known.expr].value = value;
  table.nodes[known.expr].data_dependent = false;
}

void ShapeScope::Impl::set_hints(Bindings& bindings) const {
  for (size_t i = 0; i < symbols.size(); ++i) bindings.set(static_cast<int32_t>(i), symbols[i].hint);
}

void ShapeScope::Impl::refresh(ExprId id, Bindings& hints) {
  Node& node = table.nodes[id];
  node.data_dependent = false;
  table.for_children(
      id, [&](ExprId child) { node.data_dependent = node.data_dependent || table.nodes[child].data_dependent; });
  try {
    node.value = hints.evaluate_expr(id);
  } catch (const Error&) {
    // An arm that the run does not take may have no value.
  }
}

void ShapeScope::Impl::add_guard(ExprId truth, int64_t expected, std::string what) {
  if (!origin.empty()) what += ", " + origin;
  record(guards, truth, expected, std::move(what));
}
void ShapeScope::Impl::add_assertion(ExprId truth, int64_t expected, std::string what) {
  if (!origin.empty()) what += ", " + origin;
  record(assertions, truth, expected, std::move(what), region);
}

int32_t ShapeScope::Impl::new_symbol(std::string name, int64_t hint, SymbolSource source, Interval known) {
  const auto index = static_cast<int32_t>(symbols.size());
  const ExprId id = table.symbol(index, hint, known, source.kind == SymbolSource::Kind::data_dependent);
  symbols.push_back({std::move(name), hint, source, id, Dim()});
  return index;
}

ShapeScope::ShapeScope() : impl_(std::make_unique<Impl>()) { impl_->tag = next_tag++; }
ShapeScope::~ShapeScope() = default;
std::shared_ptr<ShapeScope> ShapeScope::create() { return std::shared_ptr<ShapeScope>(new ShapeScope); }
ShapeScope* ShapeScope::current() { return current_scope.get(); }
uint32_t ShapeScope::tag() const { return impl_->tag; }
const std::vector<Symbol>& ShapeScope::symbols() const { return impl_->symbols; }
const std::vector<Fact>& ShapeScope::guards() const { return impl_->guards; }
const std::vector<Fact>& ShapeScope::assertions() const { return impl_->assertions; }
const std::vector<std::string>& ShapeScope::specializations() const { return impl_->specializations; }

ShapeScope::Enter::Enter(std::shared_ptr<ShapeScope> scope) : previous_(std::move(current_scope)) {
  current_scope = std::move(scope);
}
ShapeScope::Enter::~Enter() { current_scope = std::move(previous_); }

Dim ShapeScope::input_extent(int32_t input, int32_t axis, int64_t hint, const std::string& dim_param) {
  if (hint < 0) throw Error(ErrorCode::invalid_input, str("input ", input, " has a negative extent"));
  Impl& impl = *impl_;
  Table& table = impl.table;
  const SymbolSource source{SymbolSource::Kind::input_extent, input, axis};
  const std::string where = str("extent ", axis, " of input ", input);
  const auto shared = dim_param.empty() ? impl.shared.end() : impl.shared.find(dim_param);
  const bool is_known_name = shared != impl.shared.end();
  std::string name = dim_param.empty() ? str("s", impl.symbols.size()) : dim_param;
  if (is_known_name) name += str("_", input, "_", axis);
  const int32_t index = impl.new_symbol(name, hint, source, {0, kMax});
  const ExprId id = impl.symbols[static_cast<size_t>(index)].expr;
  if (hint <= 1) {
    impl.add_guard(id, hint, where + " is 0 or 1");
    table.narrow(id, {hint, hint});
    return hint;
  }
  if (is_known_name) {
    const Symbol& twin = impl.symbols[static_cast<size_t>(shared->second)];
    if (twin.hint == hint) {
      const ExprId one = table.canon(twin.expr);
      const ExprId truth = table.equal(table.canon(id), one);
      if (!table.is_constant(truth)) {
        impl.add_guard(truth, 1, str(where, " shares the name ", dim_param));
        table.learn(truth, 1);
      }
      return impl.dim_of(table.canon(id));
    }
  } else if (!dim_param.empty()) {
    impl.shared.emplace(dim_param, index);
  }
  const ExprId truth = table.less_equal(table.constant(2), id);  // written s >= 2
  impl.add_guard(truth, 1, where + " is at least 2");
  table.learn(truth, 1);
  return impl.dim_of(table.canon(id));
}

Dim ShapeScope::input_value(int32_t input, int32_t element, int64_t hint) {
  const int32_t index = impl_->new_symbol(str("v", impl_->symbols.size()), hint,
                                          {SymbolSource::Kind::input_value, input, element}, {kMin, kMax});
  return impl_->dim_of(impl_->symbols[static_cast<size_t>(index)].expr);
}

Dim ShapeScope::break_extent(int32_t value, int32_t axis, int64_t hint) {
  const int32_t index = impl_->new_symbol(str("b", impl_->symbols.size()), hint,
                                          {SymbolSource::Kind::break_extent, value, axis}, {0, kMax});
  return impl_->dim_of(impl_->symbols[static_cast<size_t>(index)].expr);
}

Dim ShapeScope::break_value(int32_t value, int32_t element, int64_t hint) {
  const int32_t index = impl_->new_symbol(str("w", impl_->symbols.size()), hint,
                                          {SymbolSource::Kind::break_value, value, element}, {kMin, kMax});
  return impl_->dim_of(impl_->symbols[static_cast<size_t>(index)].expr);
}

Dim ShapeScope::data_dependent(Dim bound, const char* what) {
  Impl& impl = *impl_;
  if (!impl.allows_counts)
    throw DataDependentDecision(ErrorCode::unsupported,
                                str(what, ": the backend runs no op that finds its own extent"));
  if (bound.hint() < 0) throw Error(ErrorCode::invalid_input, str(what, ": the bound of a count is negative"));
  const int32_t count = data_dependent_count(impl);
  const ExprId limit = impl.id_of(bound.hint(), bound.expr());
  const int32_t index = impl.new_symbol(str("u", count), bound.hint(), {SymbolSource::Kind::data_dependent, count, 0},
                                        {0, std::max<int64_t>(impl.table.range(limit).high, 0)});
  Symbol& symbol = impl.symbols[static_cast<size_t>(index)];
  symbol.bound = bound;
  if (!bound.is_constant())
    impl.table.assume_nonneg(impl.table.add_scaled(impl.table.terms_of(limit), impl.table.terms_of(symbol.expr), -1));
  return impl.dim_of(impl.table.canon(symbol.expr));
}

Dim ShapeScope::data_value(int64_t hint, Interval known) {
  Impl& impl = *impl_;
  const int32_t count = data_dependent_count(impl);
  const int32_t index = impl.new_symbol(str("u", count), hint, {SymbolSource::Kind::data_dependent, count, 1}, known);
  return impl.dim_of(impl.symbols[static_cast<size_t>(index)].expr);
}

struct ShapeScope::Local::Saved {
  Table::Facts facts;
  size_t guards, assertions;
  int32_t region;
};

ShapeScope::Local::Local(ShapeScope& scope) : scope_(scope) {
  Impl& impl = scope.impl();
  saved_ = std::make_unique<Saved>();
  saved_->facts = impl.table.facts();
  saved_->guards = impl.guards.size();
  saved_->assertions = impl.assertions.size();
  saved_->region = impl.region;
  symbol_ = impl.new_symbol("entered", 1, {SymbolSource::Kind::data_dependent, 0, 2}, {0, 1});
  impl.region = symbol_;
}

ShapeScope::Local::~Local() {
  Impl& impl = scope_.impl();
  if (!kept_) {
    impl.guards.resize(saved_->guards);
    impl.assertions.resize(saved_->assertions);
  }
  impl.region = saved_->region;
  impl.table.forget(std::move(saved_->facts));
  std::fill(impl.memo.begin(), impl.memo.end(), Impl::Memo());
}

Dims ShapeScope::Local::keep() {
  Impl& impl = scope_.impl();
  kept_ = true;
  for (const Fact& fact : impl.assertions)
    if (fact.region == symbol_) return {impl.dim_of(impl.symbols[static_cast<size_t>(symbol_)].expr)};
  return {};
}

void ShapeScope::settle(const std::shared_ptr<ShapeScope>& scope, int32_t symbol, int64_t value) {
  Impl& impl = scope->impl();
  Table& table = impl.table;
  impl.set_value(symbol, value);
  Bindings hints(scope);
  impl.set_hints(hints);
  const ExprId first = impl.symbols[static_cast<size_t>(symbol)].expr + 1;
  for (ExprId id = first; id < table.nodes.size(); ++id)  // children come before their parents
    if (table.nodes[id].data_dependent && table.nodes[id].kind != Kind::symbol) impl.refresh(id, hints);
}

Dim ShapeScope::refreshed(Dim a) { return a.is_constant() ? a : impl_->dim_of(impl_->table.canon(a.expr())); }

Real ShapeScope::refreshed(Real a) {
  if (a.is_constant()) return a;
  const ExprId id = impl_->table.canon(a.expr());
  const double hint = std::bit_cast<double>(impl_->table.hint(id));
  return impl_->table.nodes[id].kind == Kind::real_constant ? Real(hint) : Real(hint, id, tag());
}

void ShapeScope::set_origin(std::string origin) { impl_->origin = std::move(origin); }

void ShapeScope::guard_equal(Dim a, int64_t expected, const std::string& what) {
  Impl& impl = *impl_;
  const ExprId id = impl.id_of(a.hint(), a.expr());
  Table& table = impl.table;
  if (table.is_constant(id)) {
    if (table.hint(id) != expected) throw Error(ErrorCode::internal, str(what, ": pinned to what it is not"));
    return;
  }
  if (table.nodes[id].data_dependent)
    throw DataDependentDecision(ErrorCode::unsupported, str(what, ": ", impl.text(id), " is known only in the run"));
  impl.add_guard(id, expected, what);
  // The one value without a negative is held by the guard alone.
  if (expected != INT64_MIN) table.unify(table.add_constant(table.terms_of(id), -expected));
}

void ShapeScope::drop_guards_of_unused_inputs(const std::vector<bool>& used) {
  Impl& impl = *impl_;
  // A symbol counts where a used input has it, or where it stands for one of a used input.
  std::vector<bool> needed(impl.symbols.size(), false);
  for (size_t i = 0; i < impl.symbols.size(); ++i) {
    const SymbolSource& source = impl.symbols[i].source;
    const bool is_input =
        source.kind == SymbolSource::Kind::input_extent || source.kind == SymbolSource::Kind::input_value;
    if (is_input && (static_cast<size_t>(source.index) >= used.size() || !used[static_cast<size_t>(source.index)]))
      continue;
    needed[i] = true;
    for (const int32_t s : symbols_of(impl.table.canon(impl.symbols[i].expr))) needed[static_cast<size_t>(s)] = true;
  }
  std::erase_if(impl.guards, [&](const Fact& fact) {
    for (const int32_t s : symbols_of(fact.truth))
      if (!needed[static_cast<size_t>(s)]) return true;
    return false;
  });
}

std::vector<int32_t> ShapeScope::symbols_of(ExprId expr) const {
  const Table& table = impl_->table;
  std::vector<int32_t> found;
  if (!expr) return found;
  std::vector<bool> seen(expr + 1, false);
  std::vector<ExprId> stack{expr};
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    if (table.nodes[id].kind == Kind::symbol) found.push_back(static_cast<int32_t>(table.nodes[id].a));
    table.for_children(id, [&](ExprId child) { stack.push_back(child); });
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool decide(Dim truth, const char* what) {
  if (truth.is_constant()) return truth.hint() != 0;
  ShapeScope::Impl& impl = scope_of(truth);
  Table& table = impl.table;
  const ExprId id = table.truth(table.canon(truth.expr()));
  if (table.is_constant(id)) return table.hint(id) != 0;
  if (table.nodes[id].data_dependent)
    throw DataDependentDecision(ErrorCode::unsupported, str(what, ": ", impl.text(id), " is known only in the run"));
  const bool answer = table.hint(id) != 0;
  const ExprId opposite = table.negated(id);
  impl.add_guard(opposite ? opposite : id, opposite ? !answer : answer, what);
  table.learn(id, answer);
  return answer;
}

bool decide_eq(Dim a, Dim b, const char* what) { return decide(equal(a, b), what); }
bool decide_lt(Dim a, Dim b, const char* what) { return decide(less(a, b), what); }

namespace {

template <class MessageFn>
void assert_truth(Dim truth, const std::string& what, const MessageFn& message) {
  if (truth.is_constant()) {
    if (!truth.hint()) throw Error(ErrorCode::invalid_input, message());
    return;
  }
  ShapeScope::Impl& impl = scope_of(truth);
  Table& table = impl.table;
  const ExprId id = table.truth(table.canon(truth.expr()));
  const bool holds = table.hint(id) != 0;
  if (table.is_constant(id) && holds) return;
  // The hint of a count that only the run knows says nothing.
  if (!holds && (table.is_constant(id) || !table.nodes[id].data_dependent))
    throw Error(ErrorCode::invalid_input, message());
  const ExprId opposite = table.negated(id);
  impl.add_assertion(opposite ? opposite : id, opposite ? 0 : 1, what);
  table.learn(id, 1);
}

}  // namespace

void require(Dim truth, const std::string& what) {
  assert_truth(truth, what, [&] { return truth.is_constant() ? what : str(what, ": ", to_string(truth), " fails"); });
}

void require_eq(Dim a, Dim b, const std::string& what) {
  assert_truth(equal(a, b), what, [&] { return str(what, ": ", with_value(a), " and ", with_value(b), " differ"); });
}

int64_t specialize(Dim a, const char* what) {
  if (a.is_constant()) return a.hint();
  ShapeScope* scope = ShapeScope::current();
  ShapeScope::Impl& impl = scope_of(a);
  const ExprId id = impl.table.canon(a.expr());
  if (!impl.table.is_constant(id)) {
    std::string note =
        str(what, impl.origin.empty() ? "" : ", ", impl.origin, ": ", impl.text(id), " = ", impl.table.hint(id));
    scope->guard_equal(a, impl.table.hint(id), what);
    impl.specializations.push_back(std::move(note));
  }
  return impl.table.hint(id);
}

}  // namespace transmuter
