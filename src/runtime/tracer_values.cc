// Integers that the program computes, read while tracing (the start of a Slice, the length of a Range): they become
// symbols that the program defines when it runs. What is an expression of such (start + 1) becomes that expression, so
// that sizes made of one value go together.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/composites/composites.h"
#include "ir/passes/attribute_record.h"
#include "ir/primitives/primitives.h"
#include "runtime/tracer.h"

namespace transmuter::runtime {

using ops::Known;
using ops::Scalar;
using ops::Traced;

namespace {

constexpr int64_t kMaxRead = 64;  // elements whose values become symbols
constexpr int kMaxDepth = 16;
constexpr int64_t kHint = 2;  // of a value that nothing is known about

// Bounds of all elements of a value, from the ops that made it.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

Bounds bounds_of(const ir::Builder& build, ir::Value value, int depth);

Bounds of_dtype(DType dtype) {
  if (dtype == DType::boolean) return {0, 1};
  if (is_integer(dtype) && !is_signed_integer(dtype)) return {0, std::numeric_limits<double>::infinity()};
  return {};
}

Bounds of_constant(const Tensor& tensor) {
  if (tensor.size() == 0 || tensor.size() > kMaxRead || is_complex(tensor.dtype()) || is_packed(tensor.dtype()))
    return {};
  const Tensor wide = tensor.aligned().cast(DType::f64);
  Bounds bounds{wide.data<double>()[0], wide.data<double>()[0]};
  for (int64_t i = 0; i < wide.size(); ++i) {
    const double x = wide.data<double>()[i];
    if (std::isnan(x)) return {};
    bounds.low = std::min(bounds.low, x);
    bounds.high = std::max(bounds.high, x);
  }
  return bounds;
}

Bounds bounds_of_op(const ir::Builder& build, const ir::Op& op, ir::Value value, int depth) {
  namespace prim = ir::prim;
  const ir::Primitive* p = op.primitive;
  const auto of = [&](size_t i) { return bounds_of(build, op.operands[i], depth + 1); };
  if (p == &prim::constant) return of_constant(op.as<ir::ConstantAttributes>().value);
  if (p == &ir::composite::nonzero || p == &ir::composite::arg_extreme)
    return {0, std::numeric_limits<double>::infinity()};
  if (p == &prim::reshape || p == &prim::transpose || p == &prim::slice || p == &prim::broadcast_in_dim ||
      p == &prim::reverse || p == &prim::gather || p == &prim::dynamic_slice || p == &ir::composite::checked_indices)
    return of(0);
  if (p == &prim::reduce) {
    const ir::ReduceKind kind = op.as<ir::ReduceAttributes>().kind;
    const Bounds x = of(0);
    // Of nothing, a reduction is its identity; a sum of what is not negative isn't either.
    if (kind == ir::ReduceKind::add) return {x.low >= 0 ? 0 : -std::numeric_limits<double>::infinity(), Bounds().high};
    return {};
  }
  if (p == &prim::ceil || p == &prim::floor || p == &prim::round_nearest_even) {
    const Bounds x = of(0);
    return {std::floor(x.low), std::ceil(x.high)};
  }
  if (p == &prim::convert) {
    const Bounds x = of(0);
    const bool from_float = is_float(build.dtype(op.operands[0]));
    if (!from_float && bit_width(build.dtype(value)) < bit_width(build.dtype(op.operands[0]))) return {};
    // NaN gives 0, and truncation goes towards it.
    if (from_float && is_integer(build.dtype(value))) return {std::min(std::trunc(x.low), 0.0), std::max(x.high, 0.0)};
    return x;
  }
  if (p == &prim::abs || p == &prim::exponential || p == &prim::sqrt || p == &prim::logistic)
    return {0, std::numeric_limits<double>::infinity()};
  if (p == &prim::maximum || p == &prim::minimum) {
    const Bounds x = of(0), y = of(1);
    if (p == &prim::maximum) return {std::max(x.low, y.low), std::max(x.high, y.high)};
    return {std::min(x.low, y.low), std::min(x.high, y.high)};
  }
  if (p == &prim::select) {
    const Bounds x = of(1), y = of(2);
    return {std::min(x.low, y.low), std::max(x.high, y.high)};
  }
  if (p == &prim::multiply) {
    const Bounds x = of(0), y = of(1);
    if (x.low >= 0 && y.low >= 0) return {0, std::numeric_limits<double>::infinity()};
  }
  if (p == &prim::add) {
    const Bounds x = of(0), y = of(1);
    if (x.low >= 0 && y.low >= 0 && is_float(build.dtype(value))) return {0, Bounds().high};
  }
  return {};
}

Bounds bounds_of(const ir::Builder& build, ir::Value value, int depth) {
  const ir::Op* op = build.definition(value);
  Bounds bounds = of_dtype(build.dtype(value));
  if (!op || depth > kMaxDepth) return bounds;
  const Bounds made = bounds_of_op(build, *op, value, depth);
  return {std::max(bounds.low, made.low), std::min(bounds.high, made.high)};
}

Interval integers(const Bounds& bounds) {
  constexpr double kLimit = 9e18;
  return {bounds.low < -kLimit ? INT64_MIN : static_cast<int64_t>(std::ceil(bounds.low)),
          bounds.high > kLimit ? INT64_MAX : static_cast<int64_t>(std::floor(bounds.high))};
}

}  // namespace

bool Tracer::know(Traced& traced) {
  if (make_known(traced)) return true;
  if (!in_segment(traced) || traced.slot >= 0) return false;
  if (auto slots = deciding_inputs(traced.value); !slots.empty()) throw ReadValues{std::move(slots)};
  return read_values(traced);
}

bool Tracer::read_values(Traced& traced) {
  if (!can_hold_regions()) return false;
  if (!in_segment(traced) || traced.slot >= 0 || !is_integer(traced.type.dtype) || is_packed(traced.type.dtype))
    return false;
  if (!ir::all_constant(traced.type.shape)) return false;
  const int64_t count = product(traced.type.shape).hint();
  if (count > kMaxRead) return false;
  const Dims dims = read_back(traced.value, 0);
  // Elements that are known already are what they are.
  std::vector<Scalar> elements;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const bool known = traced.known.kind == Known::Kind::elements && traced.known.elements[i].known();
    elements.push_back(known ? traced.known.elements[i] : Scalar(dims[i]));
  }
  traced.known = Known::of(traced.type.dtype, traced.type.shape, std::move(elements));
  return traced.known.fully_known();
}

Dims Tracer::leaf_symbols(ir::Value value) {
  const std::pair<int32_t, int32_t> key{segment_, value.id};
  if (const auto found = leaves_.find(key); found != leaves_.end()) return found->second;
  ir::Builder& b = build();
  const Interval known = integers(bounds_of(b, value, 0));
  const int64_t hint = std::clamp(kHint, std::max(known.low, INT64_MIN / 4), std::min(known.high, INT64_MAX / 4));
  Dims symbols;
  const int64_t count = product(b.shape(value)).hint();
  for (int64_t i = 0; i < count; ++i) symbols.push_back(trace_->scope->data_value(hint, known));
  if (count > 0) ir::read_values(b, b.convert(value, DType::i64), symbols);
  return leaves_[key] = symbols;
}

// The elements of an integer value of constant shape.
Dims Tracer::read_back(ir::Value value, int depth) {
  namespace prim = ir::prim;
  ir::Builder& b = build();
  const ir::Op* const op = b.definition(value);
  const int64_t count = product(b.shape(value)).hint();
  if (const Tensor* constant = b.constant_value(value)) {
    const Tensor wide = constant->aligned().cast(DType::i64);
    return {wide.data<int64_t>(), wide.data<int64_t>() + wide.size()};
  }
  if (!op || depth > kMaxDepth) return leaf_symbols(value);
  const ir::Primitive* p = op->primitive;
  const std::vector<ir::Value> operands = op->operands;  // the op moves when others are added
  const auto readable = [&](ir::Value v) {
    return is_integer(b.dtype(v)) && !is_packed(b.dtype(v)) && ir::all_constant(b.shape(v)) &&
           product(b.shape(v)).hint() <= kMaxRead;
  };
  if (!std::all_of(operands.begin(), operands.end(), readable)) return leaf_symbols(value);
  if (p == &prim::dim_value) {
    const auto& attributes = op->as<ir::DimValueAttributes>();
    if (!attributes.is_real && b.dtype(value) == DType::i64) return {attributes.dim};
    return leaf_symbols(value);
  }
  if (p == &prim::reshape) return read_back(operands[0], depth + 1);
  if (p == &prim::convert && bit_width(b.dtype(operands[0])) <= bit_width(b.dtype(value)) &&
      (is_signed_integer(b.dtype(value)) || !is_signed_integer(b.dtype(operands[0]))))
    return read_back(operands[0], depth + 1);
  if (p == &prim::broadcast_in_dim && product(b.shape(operands[0])).hint() == 1)
    return Dims(static_cast<size_t>(count), read_back(operands[0], depth + 1).at(0));
  if (p == &prim::concatenate && b.rank(value) == 1) {
    Dims dims;
    for (const ir::Value operand : operands) {
      const Dims part = read_back(operand, depth + 1);
      dims.insert(dims.end(), part.begin(), part.end());
    }
    return dims;
  }
  if (p == &prim::slice && b.rank(value) == 1) {
    const auto& slice = op->as<ir::SliceAttributes>();
    const Dim start = slice.start[0], stride = slice.stride[0];
    if (!start.is_constant() || !stride.is_constant()) return leaf_symbols(value);
    const Dims all = read_back(operands[0], depth + 1);
    Dims dims;
    for (int64_t i = 0; i < count; ++i) dims.push_back(all.at(static_cast<size_t>(start.hint() + i * stride.hint())));
    return dims;
  }
  // Narrower integers wrap around, which a Dim doesn't.
  const bool arithmetic = p == &prim::add || p == &prim::subtract || p == &prim::maximum || p == &prim::minimum;
  if (arithmetic && b.dtype(value) == DType::i64) {
    const Dims x = read_back(operands[0], depth + 1), y = read_back(operands[1], depth + 1);
    Dims dims;
    for (size_t i = 0; i < x.size(); ++i) {
      if (p == &prim::add)
        dims.push_back(x[i] + y[i]);
      else if (p == &prim::subtract)
        dims.push_back(x[i] - y[i]);
      else
        dims.push_back(p == &prim::maximum ? max(x[i], y[i]) : min(x[i], y[i]));
    }
    return dims;
  }
  return leaf_symbols(value);
}

}  // namespace transmuter::runtime
