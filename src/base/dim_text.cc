// Expressions as text, for messages and listings: "2*s0 + 1".
#include <bit>
#include <cstdio>

#include "base/dim_table.h"
#include "base/strings.h"

namespace transmuter {
namespace {

constexpr int kMaxNesting = 12;  // deeper parts print as "..."

class Printer {
 public:
  explicit Printer(const ShapeScope::Impl& impl) : impl_(impl), table_(impl.table) {}

  std::string text(ExprId id, int nesting) const {
    if (nesting > kMaxNesting) return "...";
    const Node& node = table_.nodes[id];
    const auto child = [&](ExprId c) { return text(c, nesting + 1); };
    switch (node.kind) {
      case Kind::constant:
        return std::to_string(node.value);
      case Kind::symbol:
        return impl_.symbols[node.a].name;
      case Kind::sum:
        if (const ExprId opposite = table_.negated(id)) return str("not ", child(opposite));
        return sum(table_.term_pool.data() + node.a, node.b, 1, nesting);
      case Kind::floor_div:
        return str(factor(node.a, nesting), "/", factor(node.b, nesting));
      case Kind::min:
        return str("min(", child(node.a), ", ", child(node.b), ")");
      case Kind::max:
        return str("max(", child(node.a), ", ", child(node.b), ")");
      case Kind::is_zero:
        return comparison(node.a, " == ", nesting);
      case Kind::is_nonneg:
        return comparison(node.a, " >= ", nesting);
      case Kind::select:
        return str("(", child(node.a), " ? ", child(node.b), " : ", child(node.c), ")");
      case Kind::dim_from:
        return str("int(", child(node.a), ")");
      case Kind::real_equal:
        return str("(", child(node.a), " == ", child(node.b), ")");
      case Kind::real_less:
        return str("(", child(node.a), " < ", child(node.b), ")");
      case Kind::real_less_equal:
        return str("(", child(node.a), " <= ", child(node.b), ")");
      case Kind::real_constant: {
        char buffer[32];
        std::snprintf(buffer, sizeof(buffer), "%.9g", std::bit_cast<double>(node.value));
        return buffer;
      }
      case Kind::real_from:
        return str(dtype_name(node.dtype), "(", child(node.a), ")");
      case Kind::real_unary:
        return str(op_name(node.op), "(", child(node.a), ")");
      case Kind::real_binary:
        return str(op_name(node.op), "(", child(node.a), ", ", child(node.b), ")");
    }
    return "?";
  }

 private:
  // In parentheses unless it is one word.
  std::string factor(ExprId id, int nesting) const {
    const Kind kind = table_.nodes[id].kind;
    const std::string inner = text(id, nesting + 1);
    return kind == Kind::sum || kind == Kind::floor_div ? str("(", inner, ")") : inner;
  }

  std::string product(const Term& term, uint64_t magnitude, int nesting) const {
    std::string result;
    if (magnitude != 1 || term.mono == 0) result = std::to_string(magnitude);
    for (size_t i = 0; i < table_.degree(term.mono); ++i) {
      if (!result.empty()) result += "*";
      result += factor(table_.atoms(term.mono)[i], nesting);
    }
    return result;
  }

  // The sum of terms whose sign is `sign` (0: all), constants last.
  std::string sum(const Term* terms, size_t count, int sign, int nesting, bool only = false) const {
    std::string result;
    for (const bool constants : {false, true}) {
      for (size_t i = 0; i < count; ++i) {
        if ((terms[i].mono == 0) != constants) continue;
        const bool negative = (terms[i].coefficient < 0) != (sign < 0);
        if (only && negative) continue;
        const uint64_t magnitude = terms[i].coefficient < 0 ? 0 - static_cast<uint64_t>(terms[i].coefficient)
                                                            : static_cast<uint64_t>(terms[i].coefficient);
        if (!result.empty()) {
          result += negative ? " - " : " + ";
        } else if (negative) {
          result += '-';
        }
        result += product(terms[i], magnitude, nesting);
      }
    }
    return result.empty() ? "0" : result;
  }

  // x == 0 or x >= 0 with the negative terms on the other side.
  std::string comparison(ExprId id, const char* relation, int nesting) const {
    const Node& node = table_.nodes[id];
    if (node.kind != Kind::sum) return str("(", text(id, nesting + 1), relation, "0)");
    const Term* terms = table_.term_pool.data() + node.a;
    return str("(", sum(terms, node.b, 1, nesting, true), relation, sum(terms, node.b, -1, nesting, true), ")");
  }

  static const char* dtype_name(RealDType dtype) {
    constexpr const char* kNames[] = {"float16", "bfloat16", "float32", "float64"};
    return kNames[static_cast<size_t>(dtype)];
  }
  static const char* op_name(RealOp op) {
    constexpr const char* kNames[] = {"add",   "sub",  "mul",   "div",  "pow",        "min", "max", "neg", "abs",
                                      "floor", "ceil", "round", "sqrt", "reciprocal", "exp", "log", "cast"};
    return kNames[static_cast<size_t>(op)];
  }

  const ShapeScope::Impl& impl_;
  const Table& table_;
};

}  // namespace

std::string ShapeScope::Impl::text(ExprId id) const { return Printer(*this).text(id, 0); }

std::string ShapeScope::text(const Fact& fact) const {
  const Interval range = impl_->table.nodes[fact.truth].range;
  const bool is_truth = range.low >= 0 && range.high <= 1 && impl_->table.nodes[fact.truth].kind != Kind::symbol;
  const std::string truth = impl_->text(fact.truth);
  if (!is_truth) return str(truth, " == ", fact.expected);
  return fact.expected ? truth : "not " + truth;
}

}  // namespace transmuter
