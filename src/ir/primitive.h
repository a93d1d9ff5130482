// What the IR knows of a primitive, side by side in one record: shape inference with verification, the reference
// evaluation, the gradient, the printing. One file a family under ir/primitives/; a record with `decompose` is a
// composite (ir/composites/): a backend that has a kernel takes it as it is, any other inlines its decomposition.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/program.h"
#include "transmuter/error.h"

namespace transmuter::ir {

class Builder;

struct InferContext {
  const Primitive& primitive;
  std::span<const Type> operands;
  const Attributes* attributes;
  std::span<const ProgramPtr> regions;

  template <class A>
  const A& as() const {
    return static_cast<const A&>(*attributes);
  }
  // Throws Error: "transpose: C2 permutation must ...". Constraint numbers stand in guides/ir.md.
  template <class... Pieces>
  void check(bool ok, const char* constraint, const Pieces&... pieces) const {
    if (!ok) fail(constraint, str(pieces...));
  }
  [[noreturn]] void fail(const char* constraint, const std::string& message) const;
};

// Runs a region of an op on concrete operands. Backends that compile regions bring their own.
using RegionRunner =
    std::function<std::vector<Tensor>(size_t region, std::span<const Tensor> operands, Bindings* bindings)>;

// One evaluation with concrete tensors. Operands are aligned and unpacked (packed dtypes as one byte an element, of
// unpacked_dtype); results are made the same way and packed afterwards.
struct EvaluateContext {
  const Program& program;
  const Op& op;
  std::span<const Tensor> operands;
  Bindings* bindings;  // null when the program has no scope
  std::vector<Tensor> results;
  const RegionRunner* runner = nullptr;  // null: the plain interpreter

  template <class A>
  const A& as() const {
    return op.as<A>();
  }
  const Type& operand_type(size_t i) const { return program.type(op.operands[i]); }
  const Type& result_type(size_t i = 0) const { return program.type(op.results[i]); }
  // Concrete values of attribute dims and of a result's shape.
  int64_t value(Dim dim) const;
  std::vector<int64_t> values(const Dims& dims) const;
  double value(Real real) const;
  Shape result_shape(size_t i = 0) const { return values(result_type(i).shape); }
  // A fresh result tensor of its inferred type (packed dtypes: one byte an element), stored as results[i].
  Tensor& make_result(size_t i = 0);
  // Data-dependent ops: says what the fresh symbol `dim` turned out to be.
  void define(Dim dim, int64_t value) const;
  // Runs a region on operands; free values of the enclosing program are passed as operands by the op itself.
  std::vector<Tensor> run_region(size_t region, std::span<const Tensor> operands) const {
    return run_region(region, operands, bindings);
  }
  std::vector<Tensor> run_region(size_t region, std::span<const Tensor> operands, Bindings* inner) const;
};

// Reverse mode: given the op and the gradients of its results (invalid Value: zero), returns one gradient per operand
// (invalid Value: none). `operands` and `results` are the op's values in `build`.
struct VjpContext {
  Builder& build;
  const Op& op;
  std::span<const Value> operands;
  std::span<const Value> results;
  std::span<const Value> gradients;
};

// Text of one op in StableHLO's generic form; the printer writes operands and types around it.
struct PrintContext {
  const Program& program;
  const Op& op;
  Bindings* bindings;
  int64_t value(Dim dim) const;  // the bound value, or the hint without bindings
  std::vector<int64_t> values(const Dims& dims) const;
  std::string type_text(const Type& type) const;  // tensor<2x3xf32>
};
struct PrintedOp {
  std::string name;                              // "stablehlo.add"; empty: "stablehlo." + primitive.name
  std::string attributes;                        // text between the braces: `dimension = 0 : i64`
  std::string regions;                           // "({...})" or empty
  std::vector<std::string> extra_operands;       // further operand names (e.g. an init constant), with
  std::vector<std::string> extra_operand_types;  // their types,
  std::string before;                            // and the lines that define them (use %cst_<op result id> names)
};

struct Primitive {
  const char* name;
  std::vector<Type> (*infer)(const InferContext&);
  void (*evaluate)(EvaluateContext&) = nullptr;       // null only for composites that inline
  std::vector<Value> (*vjp)(VjpContext&) = nullptr;   // null: not differentiable (says so by name)
  PrintedOp (*print)(const PrintContext&) = nullptr;  // null: no attributes, name as is
  // Composites: writes the body over the operands, returns the results.
  std::vector<Value> (*decompose)(Builder&, std::span<const Value> operands, const Attributes*) = nullptr;
  // Every operand has the result's shape (the predicate of select and the bounds of clamp may be 0-d); result element
  // i depends on element i alone.
  bool elementwise = false;
};

}  // namespace transmuter::ir
