// Builder: one function per primitive, named as in StableHLO. Each infers and verifies at once and throws Error with
// the numbered constraint. Binary functions want equal shapes; the numpy_* helpers broadcast first.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/primitive.h"
#include "ir/primitives/attributes.h"
#include "ir/program.h"

namespace transmuter::ir {

class Builder {
 public:
  explicit Builder(std::shared_ptr<ShapeScope> scope);

  const std::shared_ptr<ShapeScope>& scope() const { return program_.scope_; }
  Value input(Type type, std::string name);
  Value weight(Tensor tensor, std::string name, bool trainable = false);
  // A weight whose bytes come later (split_weights.h), by with_weights().
  Value prepared_weight(Type type, std::string name);
  static Program with_weights(Program program, const std::vector<size_t>& parameters, std::vector<Tensor> weights);
  // Those of the parameters that have something in `as` hold its weight, the rest stay inputs.
  static Program with_parameters(Program program, const std::vector<const Parameter*>& as);
  const Type& type(Value value) const { return program_.types_[static_cast<size_t>(value.id)]; }
  const Dims& shape(Value value) const { return type(value).shape; }
  DType dtype(Value value) const { return type(value).dtype; }
  int64_t rank(Value value) const { return type(value).rank(); }
  // The op that defined a value (null for parameters); valid until the next op is added.
  const Op* definition(Value value) const;
  // The value of a `constant` op, or null.
  const Tensor* constant_value(Value value) const;
  // The parameter that a value is (null for results of ops).
  const Parameter* parameter_of(Value value) const;

  // Later ops come from this ONNX node.
  void set_location(std::string label);
  Program finish(std::vector<Value> results, std::vector<std::string> names = {});

  std::vector<Value> emit(const Primitive& primitive, std::vector<Value> operands, AttributesPtr attributes = nullptr,
                          std::vector<ProgramPtr> regions = {});
  Value emit1(const Primitive& primitive, std::vector<Value> operands, AttributesPtr attributes = nullptr) {
    return emit(primitive, std::move(operands), std::move(attributes))[0];
  }
  // Emits with result types that are known to be right (copies by passes): no inference.
  std::vector<Value> emit_copy(const Op& op, std::vector<Value> operands, const std::vector<Type>& result_types,
                               const std::string& location);

  // constants and shapes
  Value constant(Tensor value);
  Value scalar(DType dtype, double value);             // 0-d; integers exact up to 2^53
  Value integer(DType dtype, int64_t value);           // 0-d
  Value splat(DType dtype, double value, Dims shape);  // scalar + broadcast_in_dim
  Value like(Value x, double value);                   // splat of x's dtype and shape
  Value dim_value(Dim dim, DType dtype);               // 0-d; a constant when the Dim is one
  Value real_value(Real real, DType dtype);
  Value iota(DType dtype, Dims shape, int64_t dimension);

  // elementwise
  Value abs(Value x);
  Value negate(Value x);
  Value sign(Value x);
  Value exponential(Value x);
  Value exponential_minus_one(Value x);
  Value log(Value x);
  Value log_plus_one(Value x);
  Value logistic(Value x);
  Value tanh(Value x);
  Value sine(Value x);
  Value cosine(Value x);
  Value tan(Value x);
  Value sqrt(Value x);
  Value rsqrt(Value x);
  Value cbrt(Value x);
  Value ceil(Value x);
  Value floor(Value x);
  Value round_nearest_even(Value x);
  Value is_finite(Value x);
  Value logical_not(Value x);  // bool: logical; integers: bitwise (StableHLO `not`)
  Value popcnt(Value x);
  Value real(Value x);
  Value imag(Value x);
  Value add(Value a, Value b);
  Value subtract(Value a, Value b);
  Value multiply(Value a, Value b);
  Value divide(Value a, Value b);     // integers truncate; x / 0 = -1 (all bits set), INT_MIN / -1 = INT_MIN
  Value remainder(Value a, Value b);  // sign of a; x % 0 = x
  Value power(Value a, Value b);
  Value maximum(Value a, Value b);  // NaN wins
  Value minimum(Value a, Value b);
  Value logical_and(Value a, Value b);
  Value logical_or(Value a, Value b);
  Value logical_xor(Value a, Value b);
  Value shift_left(Value a, Value b);  // a shift by the width or more gives 0
  Value shift_right_logical(Value a, Value b);
  Value shift_right_arithmetic(Value a, Value b);
  Value atan2(Value a, Value b);
  Value complex(Value re, Value im);
  Value compare(Value a, Value b, CompareDirection direction);   // NaN: unordered, only ne is true
  Value select(Value predicate, Value if_true, Value if_false);  // predicate: same shape or 0-d
  Value clamp(Value low, Value x, Value high);                   // low, high: same shape or 0-d
  Value convert(Value x, DType dtype);          // x when it has the dtype; float->int truncates, saturates, NaN -> 0
  Value bitcast_convert(Value x, DType dtype);  // equal widths

  // composites that stand for mathematical functions (ir/composites/math.cc)
  Value erf(Value x);
  Value asin(Value x);
  Value acos(Value x);
  Value atan(Value x);
  Value sinh(Value x);
  Value cosh(Value x);
  Value asinh(Value x);
  Value acosh(Value x);
  Value atanh(Value x);

  // shape
  Value broadcast_in_dim(Value x, Dims shape, std::vector<int64_t> dimensions);  // x when nothing changes
  Value reshape(Value x, Dims shape);                                            // x when nothing changes
  Value transpose(Value x, std::vector<int64_t> permutation);                    // x for the identity
  Value concatenate(std::vector<Value> xs, int64_t axis);                        // the one when there is one
  Value slice(Value x, Dims start, Dims limit, Dims stride);
  Value slice_axis(Value x, int64_t axis, Dim start, Dim limit, Dim stride = 1);
  Value pad(Value x, Value value, Dims low, Dims high, Dims interior);
  Value reverse(Value x, std::vector<int64_t> axes);
  Value dynamic_slice(Value x, std::vector<Value> starts, Dims sizes);
  Value dynamic_update_slice(Value x, Value update, std::vector<Value> starts);
  Value gather(Value x, Value indices, GatherAttributes attributes);
  Value scatter(Value x, Value indices, Value updates, ScatterAttributes attributes);

  // contractions, windows, order
  Value dot_general(Value a, Value b, DotGeneralAttributes attributes);
  Value convolution(Value x, Value kernel, ConvolutionAttributes attributes);
  Value reduce(Value x, ReduceKind kind, std::vector<int64_t> axes);  // the axes disappear
  Value reduce_window(Value x, ReduceWindowAttributes attributes);
  std::vector<Value> sort(std::vector<Value> xs, SortAttributes attributes);
  Value fft(Value x, FftKind kind, Dims lengths);

  // Regions see only their own parameters: outer values go in as operands. while: operands = state; regions cond, body.
  std::vector<Value> while_loop(std::vector<Value> state, ProgramPtr condition, ProgramPtr body);
  // `entries`: by branch, what ShapeScope::Local says.
  std::vector<Value> case_of(Value index, std::vector<Value> operands, std::vector<ProgramPtr> branches,
                             std::vector<Dims> entries = {});

  // NumPy broadcasting (ir/broadcast.cc)
  Value broadcast_to(Value x, const Dims& shape);  // aligned at the end; x when nothing changes
  std::pair<Value, Value> numpy_broadcast(Value a, Value b);
  // Inserts extents of 1 / drops axes of extent 1 (checked).
  Value expand_dims(Value x, const std::vector<int64_t>& axes);  // positions in the result, ascending
  Value squeeze(Value x, const std::vector<int64_t>& axes);      // ascending
  // reduce, then the axes come back with extent 1.
  Value reduce_keep(Value x, ReduceKind kind, const std::vector<int64_t>& axes);

 private:
  Program program_;
  std::vector<int32_t> defined_by_;  // per value: index of its op, -1 for parameters
  int32_t location_ = -1;
};

// The shape that NumPy broadcasting gives: equal extents, or 1 against anything. Data-dependent extents against
// anything but 1 and themselves: see design "Shapes". `what` names the operator in errors.
Dims broadcast_shapes(const Dims& a, const Dims& b, const std::string& what);
Dim broadcast_dim(Dim a, Dim b, const std::string& what);

}  // namespace transmuter::ir
