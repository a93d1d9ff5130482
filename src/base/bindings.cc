// Evaluation of expressions for one run. No recursion on deep expressions, no exceptions on the way of a guard.
#include <algorithm>
#include <bit>

#include "base/dim_table.h"
#include "base/strings.h"

namespace transmuter {
namespace {

constexpr uint16_t kShallow = 4;  // up to this height computing again is cheaper than remembering
constexpr const char* kUnset = "a size is asked for before the symbols it needs are known";

[[noreturn]] void throw_zero_division() { throw Error(ErrorCode::invalid_input, "a size is divided by zero"); }

}  // namespace

Bindings::Bindings(std::shared_ptr<const ShapeScope> scope) : scope_(std::move(scope)) {
  values_.resize(scope_->symbols().size());
  set_.resize(values_.size());
}

void Bindings::reset() { ++run_; }

void Bindings::set(int32_t symbol, int64_t value) {
  const auto index = static_cast<size_t>(symbol);
  if (index >= values_.size()) {  // made after these bindings were
    values_.resize(std::max(scope_->symbols().size(), index + 1));
    set_.resize(values_.size());
  }
  if (set_[index] == run_ && values_[index] != value)
    throw Error(ErrorCode::invalid_input,
                str("the size ", scope_->symbols()[index].name, " is both ", values_[index], " and ", value));
  values_[index] = value;
  set_[index] = run_;
}

bool Bindings::has(int32_t symbol) const {
  const auto index = static_cast<size_t>(symbol);
  return index < set_.size() && set_[index] == run_;
}

// A sum in 128 bits; `saturate` where only its sign counts.
Bindings::Outcome Bindings::sum(ExprId id, bool saturate, int64_t& result, ExprId& missing) {
  using Wide = __int128;
  const Table& table = scope_->impl().table;
  const Node& node = table.nodes[id];
  const Term* const terms = table.term_pool.data() + node.a;
  Wide total = 0;
  for (uint32_t t = 0; t < node.b; ++t) {
    int64_t product = terms[t].coefficient;
    const ExprId* const atoms = table.atoms(terms[t].mono);
    const size_t degree = table.degree(terms[t].mono);
    for (size_t i = 0; i < degree; ++i) {
      int64_t value = 0;
      const Node& atom = table.nodes[atoms[i]];
      if (atom.kind == Kind::symbol && atom.a < set_.size() && set_[atom.a] == run_) {
        value = values_[atom.a];
      } else if (const Outcome outcome = operand(atoms[i], value, missing); outcome != Outcome::ok) {
        return outcome;
      }
      if (__builtin_mul_overflow(product, value, &product)) return Outcome::overflow;
    }
    total += product;
  }
  if (saturate) total = std::clamp<Wide>(total, INT64_MIN, INT64_MAX);
  result = static_cast<int64_t>(total);
  return total == result ? Outcome::ok : Outcome::overflow;
}

Bindings::Outcome Bindings::operand(ExprId id, int64_t& result, ExprId& missing) {
  const Node& node = scope_->impl().table.nodes[id];
  switch (node.kind) {
    case Kind::constant:
    case Kind::real_constant:
      result = node.value;
      return Outcome::ok;
    case Kind::symbol:
      if (node.a >= set_.size() || set_[node.a] != run_) return Outcome::unset;
      result = values_[node.a];
      return Outcome::ok;
    default:
      break;
  }
  if (node.depth <= kShallow) return compute(id, result, missing);
  if (id < cached_.size() && cached_[id] == run_) {
    result = cache_[id];
    return Outcome::ok;
  }
  missing = id;
  return Outcome::missing;
}

Bindings::Outcome Bindings::compute(ExprId id, int64_t& result, ExprId& missing) {
  const Node& node = scope_->impl().table.nodes[id];
  int64_t x = 0, y = 0;
  Outcome outcome = Outcome::ok;
  const auto get = [&](ExprId child, int64_t& value) {
    outcome = operand(child, value, missing);
    return outcome == Outcome::ok;
  };
  const auto get_sign = [&](ExprId child, int64_t& value) {
    if (scope_->impl().table.nodes[child].kind != Kind::sum) return get(child, value);
    outcome = sum(child, true, value, missing);
    return outcome == Outcome::ok;
  };
  switch (node.kind) {
    case Kind::constant:
    case Kind::real_constant:
    case Kind::symbol:
      return operand(id, result, missing);
    case Kind::sum:
      return sum(id, false, result, missing);
    case Kind::floor_div:
      if (!get(node.a, x) || !get(node.b, y)) return outcome;
      if (y == 0) return Outcome::zero_division;
      if (x == INT64_MIN && y == -1) return Outcome::overflow;
      result = floor_quotient(x, y);
      return outcome;
    case Kind::min:
    case Kind::max:
      if (!get(node.a, x) || !get(node.b, y)) return outcome;
      result = node.kind == Kind::min ? std::min(x, y) : std::max(x, y);
      return outcome;
    case Kind::is_zero:
      if (get_sign(node.a, x)) result = x == 0;
      return outcome;
    case Kind::is_nonneg:
      if (get_sign(node.a, x)) result = x >= 0;
      return outcome;
    case Kind::select:  // the other arm may well be undefined
      if (get(node.a, x) && get(x ? node.b : node.c, y)) result = y;
      return outcome;
    case Kind::dim_from:
      if (get(node.a, x)) result = integer_from_real(std::bit_cast<double>(x));
      return outcome;
    case Kind::real_from:
      if (get(node.a, x)) result = std::bit_cast<int64_t>(real_from_integer(x, node.dtype));
      return outcome;
    case Kind::real_equal:
    case Kind::real_less:
    case Kind::real_less_equal:
    case Kind::real_unary:
    case Kind::real_binary: {
      if (!get(node.a, x) || (node.b && !get(node.b, y))) return outcome;
      const double value =
          apply_real(node.kind, node.op, node.dtype, std::bit_cast<double>(x), std::bit_cast<double>(y));
      result = is_real(node.kind) ? std::bit_cast<int64_t>(value) : static_cast<int64_t>(value);
      return outcome;
    }
  }
  return outcome;
}

Bindings::Outcome Bindings::evaluate_into(ExprId id, int64_t& result) {
  ExprId missing = 0;
  Outcome outcome = operand(id, result, missing);
  if (outcome != Outcome::missing) return outcome;
  if (cached_.size() < scope_->impl().table.nodes.size()) {
    cache_.resize(scope_->impl().table.nodes.size());
    cached_.resize(cache_.size());
  }
  std::vector<ExprId> stack{id};
  while (!stack.empty()) {
    outcome = compute(stack.back(), result, missing);
    if (outcome == Outcome::missing) {
      stack.push_back(missing);
      continue;
    }
    if (outcome != Outcome::ok) return outcome;
    cache_[stack.back()] = result;
    cached_[stack.back()] = run_;
    stack.pop_back();
  }
  return Outcome::ok;
}

int64_t Bindings::evaluate_expr(ExprId expr) {
  int64_t result = 0;
  switch (evaluate_into(expr, result)) {
    case Outcome::ok:
      break;
    case Outcome::overflow:
      throw_overflow();
    case Outcome::zero_division:
      throw_zero_division();
    default:
      throw Error(ErrorCode::internal, kUnset);
  }
  return result;
}

int64_t Bindings::evaluate(Dim a) {
  if (a.is_constant()) return a.hint();
  if (a.scope_tag() != scope_->tag()) throw Error(ErrorCode::internal, "a size of another trace");
  return evaluate_expr(a.expr());
}

double Bindings::evaluate(Real a) {
  if (a.is_constant()) return a.hint();
  if (a.scope_tag() != scope_->tag()) throw Error(ErrorCode::internal, "a size of another trace");
  return std::bit_cast<double>(evaluate_expr(a.expr()));
}

std::vector<int64_t> Bindings::evaluate(const Dims& dims) {
  std::vector<int64_t> result;
  result.reserve(dims.size());
  for (const Dim& dim : dims) result.push_back(evaluate(dim));
  return result;
}

bool Bindings::guards_hold() {
  for (const Fact& fact : scope_->guards()) {
    int64_t value = 0;
    const Outcome outcome = evaluate_into(fact.truth, value);
    if (outcome != Outcome::unset && (outcome != Outcome::ok || value != fact.expected)) return false;
  }
  return true;
}

std::string Bindings::explain_fact(const Fact& fact) {
  const ShapeScope::Impl& impl = scope_->impl();
  std::string text = str(fact.what, ": ", scope_->text(fact));
  text += " fails with";
  const char* separator = " ";
  for (const int32_t s : scope_->symbols_of(fact.truth)) {
    const auto index = static_cast<size_t>(s);
    text += str(separator, impl.symbols[index].name, " = ", has(s) ? std::to_string(values_[index]) : "?");
    separator = ", ";
  }
  return text;
}

std::optional<std::string> Bindings::explain() {
  for (const Fact& fact : scope_->guards()) {
    int64_t value = 0;
    const Outcome outcome = evaluate_into(fact.truth, value);
    if (outcome != Outcome::unset && (outcome != Outcome::ok || value != fact.expected)) return explain_fact(fact);
  }
  return std::nullopt;
}

void Bindings::check_assertions() {
  for (const Fact& fact : scope_->assertions()) {
    if (fact.region >= 0 && !has(fact.region)) continue;
    int64_t value = 0;
    const Outcome outcome = evaluate_into(fact.truth, value);
    if (outcome != Outcome::unset && (outcome != Outcome::ok || value != fact.expected))
      throw Error(ErrorCode::invalid_input, explain_fact(fact));
  }
}

}  // namespace transmuter
