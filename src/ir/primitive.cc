#include "ir/primitive.h"

#include "ir/primitives/infer.h"
#include "tensor/packed.h"

namespace transmuter::ir {

void InferContext::fail(const char* constraint, const std::string& message) const {
  throw Error(ErrorCode::invalid_model,
              str(primitive.name, ": ", constraint, " ", message, "; operands ", type_list(operands)));
}

std::string type_list(std::span<const Type> types) {
  std::string out = "(";
  for (size_t i = 0; i < types.size(); ++i) out += str(i ? ", " : "", to_string(types[i]));
  return out + ")";
}

void check_operand_count(const InferContext& c, size_t count) {
  c.check(c.operands.size() == count, "C0", "takes ", count, " operands, got ", c.operands.size());
}

void check_same_extent(const InferContext& c, Dim a, Dim b, const char* constraint, const char* what) {
  if (provably_eq(a, b)) return;
  c.check(!a.is_constant() || !b.is_constant(), constraint, what, ": ", a.hint(), " and ", b.hint());
  require_eq(a, b, str(c.primitive.name, ": ", constraint, " ", what));
}

void check_same_shape(const InferContext& c, const Type& a, const Type& b, const char* constraint) {
  c.check(a.rank() == b.rank(), constraint, "operands must have equal ranks");
  for (size_t i = 0; i < a.shape.size(); ++i)
    check_same_extent(c, a.shape[i], b.shape[i], constraint, "operands must have equal shapes");
}

void check_same_dtype(const InferContext& c, const Type& a, const Type& b, const char* constraint) {
  c.check(a.dtype == b.dtype, constraint, "operands must have equal element types");
}

void check_scalar(const InferContext& c, const Type& type, const char* constraint, const char* what) {
  c.check(type.shape.empty(), constraint, what, " must be a 0-d tensor, got ", to_string(type));
}

void check_axes(const InferContext& c, const std::vector<int64_t>& axes, int64_t rank, const char* constraint,
                const char* what) {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int64_t axis : axes) {
    c.check(axis >= 0 && axis < rank, constraint, what, " ", axes, " must lie in [0, ", rank, ")");
    c.check(!seen[static_cast<size_t>(axis)], constraint, what, " ", axes, " must be unique");
    seen[static_cast<size_t>(axis)] = true;
  }
}

void check_holds(const InferContext& c, Dim truth, const char* constraint, const char* what) {
  if (truth.is_constant()) return c.check(truth.hint() != 0, constraint, what);
  require(truth, str(c.primitive.name, ": ", constraint, " ", what));
}

bool is_data_dependent(Dim a) {
  ShapeScope* scope = ShapeScope::current();
  if (a.is_constant() || !scope) return false;
  for (int32_t s : scope->symbols_of(a.expr())) {
    SymbolSource::Kind kind = scope->symbols()[static_cast<size_t>(s)].source.kind;
    if (kind == SymbolSource::Kind::data_dependent || kind == SymbolSource::Kind::break_extent) return true;
  }
  return false;
}

std::optional<int32_t> symbol_of(const ShapeScope& scope, Dim a) {
  if (a.is_constant()) return {};
  const std::vector<Symbol>& symbols = scope.symbols();
  for (size_t s = 0; s < symbols.size(); ++s)
    if (symbols[s].expr == a.expr()) return static_cast<int32_t>(s);
  return {};
}

namespace {

[[noreturn]] void no_bindings() {
  throw Error(ErrorCode::internal, "a symbolic extent was evaluated without bindings");
}

}  // namespace

int64_t EvaluateContext::value(Dim dim) const {
  if (dim.is_constant()) return dim.hint();
  if (!bindings) no_bindings();
  return bindings->evaluate(dim);
}

std::vector<int64_t> EvaluateContext::values(const Dims& dims) const {
  std::vector<int64_t> out(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) out[i] = value(dims[i]);
  return out;
}

double EvaluateContext::value(Real real) const {
  if (real.is_constant()) return real.hint();
  if (!bindings) no_bindings();
  return bindings->evaluate(real);
}

Tensor& EvaluateContext::make_result(size_t i) {
  if (results.size() <= i) results.resize(op.results.size());
  DType dtype = result_type(i).dtype;
  results[i] = Tensor(is_packed(dtype) ? unpacked_dtype(dtype) : dtype, result_shape(i));
  return results[i];
}

void EvaluateContext::define(Dim dim, int64_t value) const {
  if (!bindings) no_bindings();
  const std::optional<int32_t> symbol = symbol_of(bindings->scope(), dim);
  if (!symbol) throw Error(ErrorCode::internal, str(op.primitive->name, ": ", to_string(dim), " is no symbol"));
  bindings->set(*symbol, value);
}

}  // namespace transmuter::ir
