// Dim: an extent, or any integer known while tracing: its concrete value in this trace (the hint) and an expression
// over the symbols of a run (input extents, values read from inputs, data-dependent counts).
//
// A trace decides things about dims. Four calls say what is meant:
//   provably_eq, provably_le   no guard; the only calls allowed in passes, backends and optional shortcuts
//   decide_eq, decide_lt, decide   answers from the hints and records a *guard* (the trace holds only while the answer
//   does);
//                              for lowering, and only where the program differs
//   require_eq, require        legality: records an *assertion* (an error at bind when it fails, never a retrace) and
//                              unifies the two expressions
//   specialize                 pins to the hint; the last resort, counted and shown by `inspect --trace`
// Intervals are tried before a guard or assertion is recorded. There is no == or <: a container or a pass must never
// record a guard by accident. Without a current scope (no symbols about) everything here is plain integer arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transmuter/error.h"

namespace transmuter {

class ShapeScope;

using ExprId = uint32_t;  // 0: no expression, a constant

class Dim {
 public:
  Dim() = default;                            // 0
  Dim(int64_t constant) : hint_(constant) {}  // NOLINT(google-explicit-constructor): 3 * n reads as it should
  Dim(int64_t hint, ExprId expr, uint32_t scope) : hint_(hint), expr_(expr), scope_(scope) {}

  bool is_constant() const { return expr_ == 0; }
  int64_t hint() const { return hint_; }  // the value in this trace
  ExprId expr() const { return expr_; }
  uint32_t scope_tag() const { return scope_; }

 private:
  int64_t hint_ = 0;
  ExprId expr_ = 0;
  uint32_t scope_ = 0;
};

using Dims = std::vector<Dim>;

// Interned and normalised: sums of products as polynomials, so (b*s*h)/(s*h) is b. Throws Error when the hint
// overflows.
Dim operator+(Dim a, Dim b);
Dim operator-(Dim a, Dim b);
Dim operator*(Dim a, Dim b);
Dim operator-(Dim a);
Dim floor_div(Dim a, Dim b);  // exact polynomial division where it divides; Error on division by zero
Dim ceil_div(Dim a, Dim b);
Dim trunc_div(Dim a, Dim b);  // ONNX Div: floor_div where the interval of a is >= 0
Dim mod(Dim a, Dim b);        // sign of b (Python)
Dim min(Dim a, Dim b);        // settled by intervals where they can
Dim max(Dim a, Dim b);
Dim abs(Dim a);
Dim product(const Dims& dims);

// Truth values are dims with the interval [0, 1]; and = min, or = max, not = 1 - x. No guard: only reading one decides.
Dim equal(Dim a, Dim b);
Dim less(Dim a, Dim b);
Dim less_equal(Dim a, Dim b);
Dim select(Dim condition, Dim if_true, Dim if_false);  // folds where the condition is settled or both arms are the same

// Known float values (Resize scales from shapes, positions): opaque expressions, evaluated in the dtype's own rounding.
enum class RealDType : uint8_t { f16, bf16, f32, f64 };
class Real {
 public:
  Real() = default;
  Real(double constant) : hint_(constant) {}  // NOLINT(google-explicit-constructor)
  Real(double hint, ExprId expr, uint32_t scope) : hint_(hint), expr_(expr), scope_(scope) {}
  bool is_constant() const { return expr_ == 0; }
  double hint() const { return hint_; }
  ExprId expr() const { return expr_; }
  uint32_t scope_tag() const { return scope_; }

 private:
  double hint_ = 0;
  ExprId expr_ = 0;
  uint32_t scope_ = 0;
};
enum class RealOp : uint8_t {
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  neg,
  abs,
  floor,
  ceil,
  round,
  sqrt,
  reciprocal,
  exp,
  log,
  cast
};
Real real_unary(RealOp op, Real a, RealDType dtype);
Real real_binary(RealOp op, Real a, Real b, RealDType dtype);
Real real_from(Dim a, RealDType dtype);
Dim dim_from(Real a);  // truncates, saturates, NaN -> 0; x from real_from(x) folds back when exact
Dim equal(Real a, Real b);
Dim less(Real a, Real b);
Dim less_equal(Real a, Real b);

// The four calls. `what` ends up in messages: "MatMul: inner extents".
bool provably_eq(Dim a, Dim b);
bool provably_le(Dim a, Dim b);
inline bool provably_lt(Dim a, Dim b) { return provably_le(a + 1, b); }
inline bool provably_ge(Dim a, Dim b) { return provably_le(b, a); }
std::optional<bool> settled(Dim truth);  // a truth value that intervals and unification decide; no guard

// decide*() and specialize() throw it where the answer hangs on a count that only the run knows: a guard on it could
// not be checked before the run. Legality (require*) becomes an assertion instead, checked once the count is bound.
class DataDependentDecision : public Error {
 public:
  using Error::Error;
};
bool depends_on_data(Dim a);

bool decide(Dim truth, const char* what);
bool decide_eq(Dim a, Dim b, const char* what);
bool decide_lt(Dim a, Dim b, const char* what);
void require(Dim truth, const std::string& what);  // Error(invalid_input) at once when the hint fails
void require_eq(Dim a, Dim b, const std::string& what);
int64_t specialize(Dim a, const char* what);

bool same_expression(Dim a, Dim b);  // identical after unification; what provably_eq starts with, for CSE and hashing
std::vector<int64_t> hints(const Dims& dims);
std::string to_string(Dim a);  // "2*s0 + 1"; symbols by name where they have one ("batch")
std::string to_string(const Dims& dims);

struct Interval {
  int64_t low;
  int64_t high;  // INT64_MIN / INT64_MAX: unbounded
};
Interval interval(Dim a);

// Where a symbol's value comes from in a run.
struct SymbolSource {
  enum class Kind : uint8_t {
    input_extent,    // extent `axis` of input `index`
    input_value,     // element `axis` of input `index`, an integer
    data_dependent,  // defined by an op while the program runs; index counts them; axis 1: a value, not a count;
                     // axis 2: set where a region runs
    break_extent,    // extent `axis` of value `index` that a break produced
    break_value,
  };
  Kind kind;
  int32_t index = 0;
  int32_t axis = 0;
};

struct Symbol {
  std::string name;  // a dim_param, or made up: "s3", "u0"
  int64_t hint;
  SymbolSource source;
  ExprId expr;
  Dim bound;  // data_dependent only: 0 <= value <= bound
};

// A fact that the trace relies on: `truth` evaluates to `expected` (0 or 1), or for a pinned value to `expected`
// itself.
struct Fact {
  ExprId truth;
  int64_t expected;
  std::string what;     // which operator asked, and what for
  int32_t region = -1;  // an assertion made in a region (ShapeScope::Local): holds only where this symbol is set
};

class Bindings;

// The symbols, expressions, guards and assertions of one trace. One is current per thread (RAII); Dims remember their
// scope and mixing scopes is a fault of ours (Error internal). Not thread-safe while tracing; evaluation through
// Bindings is.
class ShapeScope {
 public:
  static std::shared_ptr<ShapeScope> create();
  ~ShapeScope();
  ShapeScope(const ShapeScope&) = delete;
  ShapeScope& operator=(const ShapeScope&) = delete;

  class Enter {  // makes a scope current for this thread while it lives
   public:
    explicit Enter(std::shared_ptr<ShapeScope> scope);
    ~Enter();
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;

   private:
    std::shared_ptr<ShapeScope> previous_;
  };
  static ShapeScope* current();  // null outside any

  // While it lives, a branch or the body of a loop is traced, which may not run: what facts say meanwhile is forgotten
  // at its end, and assertions hold only where the region runs. Unless kept, its guards and assertions go as well.
  class Local {
   public:
    explicit Local(ShapeScope& scope);
    ~Local();
    Local(const Local&) = delete;
    Local& operator=(const Local&) = delete;
    // The symbol (none where there are no assertions) to be set while the region runs.
    Dims keep();

   private:
    struct Saved;
    ShapeScope& scope_;
    std::unique_ptr<Saved> saved_;
    int32_t symbol_;
    bool kept_ = false;
  };

  // Extent of a graph input. 0 and 1 become constants with a guard; others a symbol in [2, inf). Inputs that share a
  // dim_param share a symbol when their hints agree (an assertion-like guard checks it each run), else get their own.
  Dim input_extent(int32_t input, int32_t axis, int64_t hint, const std::string& dim_param);
  Dim input_value(int32_t input, int32_t element, int64_t hint);  // any int64
  Dim break_extent(int32_t value, int32_t axis, int64_t hint);    // [0, inf), never specialised
  Dim break_value(int32_t value, int32_t element, int64_t hint);
  Dim data_dependent(Dim bound, const char* what);  // [0, bound], hint = bound's
  // The same kind of symbol for an integer that an op computes, not a count: any value of the interval.
  Dim data_value(int64_t hint, Interval known);

  // A data-dependent symbol that the run has defined becomes like any other: it may be decided on, and its hint is the
  // value. Dims and Reals made before keep their old hints: refreshed() gives the new ones.
  static void settle(const std::shared_ptr<ShapeScope>& scope, int32_t symbol, int64_t value);
  Dim refreshed(Dim a);
  Real refreshed(Real a);

  // Facts and specialisations recorded from now on say where they come from: "node Reshape_3".
  void set_origin(std::string origin);

  // Pins: the guard that this value is what it was.
  void guard_equal(Dim a, int64_t expected, const std::string& what);

  const std::vector<Symbol>& symbols() const;
  const std::vector<Fact>& guards() const;
  const std::vector<Fact>& assertions() const;
  const std::vector<std::string>& specializations() const;
  // Drops guards on inputs for which `used(input)` is false: what no emitted step reads decides nothing.
  void drop_guards_of_unused_inputs(const std::vector<bool>& used);

  // Symbols that an expression (or a fact) reads, ascending, as indices into symbols().
  std::vector<int32_t> symbols_of(ExprId expr) const;

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }
  uint32_t tag() const;
  // As it was recorded: "not batch == 1".
  std::string text(const Fact& fact) const;

 private:
  ShapeScope();
  std::unique_ptr<Impl> impl_;
};

// Symbol values of one run. evaluate() computes what it needs once and keeps it. Several threads may each use their own
// while the scope is frozen (no Dim arithmetic, decisions or proofs in it).
class Bindings {
 public:
  explicit Bindings(std::shared_ptr<const ShapeScope> scope);
  void reset();                             // no symbol is set; keeps the memory for another run
  void set(int32_t symbol, int64_t value);  // throws Error if set to another value before
  bool has(int32_t symbol) const;
  int64_t value(int32_t symbol) const { return values_[static_cast<size_t>(symbol)]; }  // of one that is set
  int64_t evaluate(Dim a);  // constants at once; Error if a symbol is unset, on overflow or x / 0
  double evaluate(Real a);
  std::vector<int64_t> evaluate(const Dims& dims);
  int64_t evaluate_expr(ExprId expr);
  // Guards hold? Well under a microsecond for a usual trace. explain() names the first that fails. Guards that read a
  // symbol not set (yet) are passed over.
  bool guards_hold();
  std::optional<std::string> explain();
  // Throws Error(invalid_input) naming the first assertion (over set symbols) that fails.
  void check_assertions();
  const ShapeScope& scope() const { return *scope_; }

 private:
  enum class Outcome : uint8_t { ok, missing, unset, overflow, zero_division };
  Outcome compute(ExprId id, int64_t& result, ExprId& missing);
  Outcome operand(ExprId id, int64_t& result, ExprId& missing);
  Outcome sum(ExprId id, bool saturate, int64_t& result, ExprId& missing);
  Outcome evaluate_into(ExprId id, int64_t& result);
  std::string explain_fact(const Fact& fact);

  std::shared_ptr<const ShapeScope> scope_;
  std::vector<int64_t> values_;  // by symbol
  std::vector<uint32_t> set_;    // == run_ where the symbol is set
  std::vector<int64_t> cache_;   // by expression; doubles are stored as their bits
  std::vector<uint32_t> cached_;
  uint32_t run_ = 1;
};

}  // namespace transmuter
