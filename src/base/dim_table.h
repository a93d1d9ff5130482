// The expression table behind ShapeScope: interned nodes, polynomials over atoms, ranges, and what facts say.
//
// An integer expression is a polynomial: a sum of coefficient * product of *atoms*. An atom is a symbol or an
// operation that is no polynomial (floor_div, min, max, select, truth values, floats read as integers). Every function
// here takes and returns *canonical* ids: expressions in which what facts replaced no longer occurs. A fact moves
// `epoch` on; canon() brings an older id up to date, lazily. Children have smaller ids than their parents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dim.h"
#include "base/small_vector.h"

namespace transmuter {

using MonoId = uint32_t;  // an interned product of atoms, 0: the empty one

struct Term {
  MonoId mono;
  int64_t coefficient;
};
using Terms = SmallVector<Term, 8>;  // ascending by mono, no zero coefficients
using Atoms = SmallVector<ExprId, 8>;

enum class Kind : uint8_t {
  constant,
  symbol,  // a: index
  sum,     // a: first term in the pool, b: how many
  floor_div,
  min,
  max,
  is_zero,          // a == 0
  is_nonneg,        // a >= 0
  select,           // a: condition, b: if true, c: if false
  dim_from,         // a: a real
  real_equal,       // a, b: reals
  real_less,        // a < b
  real_less_equal,  // a <= b
  real_constant,    // value: its bits
  real_from,        // a: an integer
  real_unary,
  real_binary,
};
inline bool is_real(Kind kind) { return kind >= Kind::real_constant; }

struct Node {
  Kind kind = Kind::constant;
  RealOp op = RealOp::add;           // reals
  RealDType dtype = RealDType::f64;  // reals
  bool busy = false;                 // being brought up to date
  bool data_dependent = false;       // reads a symbol that only the run knows
  uint16_t depth = 0;                // height above symbols, saturating
  ExprId a = 0, b = 0, c = 0;
  MonoId mono = 0;                       // this atom alone, once asked for
  int64_t value = 0;                     // constant: its value; else the hint. Reals: the bits of a double
  Interval range{INT64_MIN, INT64_MAX};  // at `fresh`; reals: the bits of two doubles
  Interval known{INT64_MIN, INT64_MAX};  // what facts and the symbol's kind say
  ExprId replaced = 0;                   // by facts
  ExprId canon = 0;                      // at `fresh`
  uint32_t fresh = 0;
};

struct Table {
  Table();

  // dim_table.cc
  ExprId constant(int64_t value);
  ExprId symbol(int32_t index, int64_t hint, Interval known, bool data_dependent);  // a new one
  ExprId canon(ExprId id) {
    const Node& node = nodes[id];
    if (node.fresh == epoch) return node.canon;
    return node.busy ? id : refresh(id);
  }
  Terms terms_of(ExprId id);
  ExprId from_terms(const Terms& terms);
  // Finds or makes an atom or real, and brings it up to date.
  ExprId intern(const Node& key);
  bool is_constant(ExprId id) const { return nodes[id].kind == Kind::constant; }
  int64_t hint(ExprId id) const { return nodes[id].value; }
  int64_t hint(const Terms& terms) const;  // saturates
  const ExprId* atoms(MonoId mono) const { return mono_atoms.data() + monos[mono].first; }
  size_t degree(MonoId mono) const { return monos[mono].count; }
  MonoId mono_of(ExprId atom);
  MonoId mono_product(MonoId x, MonoId y);
  std::optional<MonoId> mono_quotient(MonoId x, MonoId y);
  bool mono_less(MonoId x, MonoId y) const;  // graded, then lexical
  // Throw Error when a coefficient overflows.
  Terms add_scaled(const Terms& x, const Terms& y, int64_t scale) const;
  Terms multiply(const Terms& x, const Terms& y);
  Terms add_constant(const Terms& x, int64_t value) const;
  Terms complement(const Terms& x) const;  // -x - 1: not negative exactly where x is negative
  // terms[index] is c * atom * rest; the same with `by` for one occurrence of `atom`.
  Terms substitute(const Terms& terms, size_t index, ExprId atom, const Terms& by);
  template <class Fn>  // fn(child) for the nodes that an expression is directly made of
  void for_children(ExprId id, const Fn& fn) const {
    const Node node = nodes[id];
    if (node.kind == Kind::sum) {
      for (uint32_t t = node.a; t < node.a + node.b; ++t) {
        const MonoId mono = term_pool[t].mono;
        for (size_t i = 0; i < degree(mono); ++i) fn(atoms(mono)[i]);
      }
    } else if (node.kind != Kind::constant && node.kind != Kind::symbol && node.kind != Kind::real_constant) {
      fn(node.a);
      if (node.b) fn(node.b);
      if (node.c) fn(node.c);
    }
  }
  bool contains(ExprId id, ExprId part) const;

  // dim_range.cc
  Interval range(ExprId id) const { return nodes[id].range; }
  Interval range(const Terms& terms);
  Interval compute_range(ExprId id);
  // True only where it always holds; never throws.
  bool proves_nonneg(const Terms& terms);
  bool proves_le(ExprId x, ExprId y);

  // dim_divide.cc
  ExprId floor_div(ExprId x, ExprId y);
  ExprId trunc_div(ExprId x, ExprId y);
  Terms without_common_factor(const Terms& terms);  // atoms in all terms that are never zero are divided out

  // dim_expr.cc
  ExprId add(ExprId x, ExprId y, int64_t scale = 1);
  ExprId multiply(ExprId x, ExprId y);
  ExprId min_max(Kind kind, ExprId x, ExprId y);
  ExprId equal(ExprId x, ExprId y);
  ExprId less_equal(ExprId x, ExprId y, int64_t offset = 0);  // x + offset <= y
  ExprId is_zero(Terms terms);
  ExprId is_nonneg(Terms terms);
  ExprId select(ExprId condition, ExprId if_true, ExprId if_false);
  ExprId truth(ExprId x);          // x itself where it is 0 or 1, else x != 0
  ExprId negated(ExprId x) const;  // t where x is written 1 - t with a truth value t, else 0

  // dim_real.cc
  ExprId real_constant(double value);
  ExprId real_from(ExprId x, RealDType dtype);
  ExprId real_apply(Kind kind, RealOp op, RealDType dtype, ExprId x, ExprId y);
  ExprId real_compare(Kind kind, ExprId x, ExprId y);
  ExprId dim_from(ExprId x);
  Interval real_range(const Node& node) const;

  // dim_facts.cc
  void learn(ExprId truth, int64_t value);
  void unify(Terms zero);
  void assume_nonneg(const Terms& terms);
  void narrow(ExprId atom, Interval to);
  // What facts say, as it stands; forget() goes back to it. Expressions made in between stay.
  struct Facts {
    std::vector<ExprId> replaced;  // by node
    std::vector<Interval> known;
    std::vector<ExprId> nonneg;
  };
  Facts facts() const;
  void forget(Facts&& until) noexcept;

  std::vector<Node> nodes;  // [0] is unused
  uint32_t epoch = 1;
  std::vector<Term> term_pool;
  struct Mono {
    uint32_t first, count;
  };
  std::vector<Mono> monos;
  std::vector<ExprId> mono_atoms;
  std::vector<ExprId> nonneg_facts;  // sums known not to be negative

 private:
  // Open addressing over ids; the contents live in the tables above.
  struct HashSet {
    std::vector<uint32_t> slots;
    size_t used = 0;
  };
  HashSet node_set_, mono_set_;

  ExprId refresh(ExprId root);
  ExprId rebuild(ExprId id);
  ExprId add_node(Node node, uint64_t hash);
  MonoId intern_mono(const ExprId* atoms, size_t count);
  uint64_t hash_node(ExprId id) const;
  void describe_sum(Node& node, const Terms& terms) const;
  template <class HashOf>
  void reserve_slot(HashSet& set, const HashOf& hash_of);
  Interval mono_range(MonoId mono) const;
  Interval plain_range(const Terms& terms) const;
  Interval range_by_remainders(const Terms& terms, Interval best);
  bool proves_by_shift(const Terms& terms);
  bool proves_nonneg(const Terms& terms, int& budget, int depth);
};

// Value of a real operation in its dtype's rounding (dim_real.cc); also what bindings evaluate with.
double apply_real(Kind kind, RealOp op, RealDType dtype, double x, double y);
double real_from_integer(int64_t x, RealDType dtype);
int64_t integer_from_real(double x);
[[noreturn]] void throw_overflow();

inline int64_t floor_quotient(int64_t x, int64_t y) {  // y != 0; INT64_MIN / -1 saturates
  if (x == INT64_MIN && y == -1) return INT64_MAX;
  const int64_t q = x / y;
  return q - ((x % y != 0) && ((x < 0) != (y < 0)));
}

struct ShapeScope::Impl {
  Table table;
  uint32_t tag = 0;
  std::vector<Symbol> symbols;
  std::vector<Fact> guards, assertions;
  std::vector<std::string> specializations;
  std::string origin;                               // of facts recorded now
  int32_t region = -1;                              // of assertions recorded now
  bool allows_counts = true;                        // else data_dependent() is a decision that cannot be made
  std::unordered_map<std::string, int32_t> shared;  // dim_param -> symbol

  // Results of binary operations, direct-mapped.
  struct Memo {
    uint32_t op = 0;
    ExprId x = 0, y = 0, result = 0;
  };
  std::vector<Memo> memo = std::vector<Memo>(1024);

  ExprId id_of(int64_t hint, ExprId expr) { return expr ? table.canon(expr) : table.constant(hint); }
  Dim dim_of(ExprId id) {
    const Node& node = table.nodes[id];
    return node.kind == Kind::constant ? Dim(node.value) : Dim(node.value, id, tag);
  }
  int32_t new_symbol(std::string name, int64_t hint, SymbolSource source, Interval known);
  // A symbol has this value from now on: that is its hint, and it may be decided on. refresh() follows.
  void set_value(int32_t symbol, int64_t value);
  void set_hints(Bindings& bindings) const;  // of the symbols, as their values
  // The hint of an expression, and whether it depends on data, from its children, which were refreshed.
  void refresh(ExprId id, Bindings& hints);
  void add_guard(ExprId truth, int64_t expected, std::string what);
  void add_assertion(ExprId truth, int64_t expected, std::string what);
  std::string text(ExprId id) const;  // dim_text.cc
};

}  // namespace transmuter
