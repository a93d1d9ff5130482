// compare, select, clamp.
#include "base/dispatch.h"
#include "ir/builder.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"
#include "ir/primitives/vjp.h"

namespace transmuter::ir {

namespace {

std::vector<Type> infer_compare(const InferContext& c) {
  check_operand_count(c, 2);
  const Type &a = c.operands[0], &b = c.operands[1];
  check_same_dtype(c, a, b, "C1");
  check_same_shape(c, a, b, "C2");
  CompareDirection direction = c.as<CompareAttributes>().direction;
  bool ordered = direction != CompareDirection::eq && direction != CompareDirection::ne;
  c.check(!is_complex(a.dtype) || !ordered, "C4", "complex numbers have no order");
  c.check(a.dtype != DType::string && a.dtype != DType::f4e2m1, "I1", "does not take ", name(a.dtype));
  return {{DType::boolean, a.shape}};
}

template <class T>
bool compare_one(T a, T b, CompareDirection direction) {
  switch (direction) {
    case CompareDirection::eq:
      return a == b;
    case CompareDirection::ne:
      return a != b;
    case CompareDirection::lt:
      return a < b;
    case CompareDirection::le:
      return a <= b;
    case CompareDirection::gt:
      return a > b;
    case CompareDirection::ge:
      return a >= b;
  }
  return false;
}

void evaluate_compare(EvaluateContext& c) {
  const Tensor &a = c.operands[0], &b = c.operands[1];
  CompareDirection direction = c.as<CompareAttributes>().direction;
  bool* out = c.make_result().mutable_data<bool>();
  if (is_complex(a.dtype())) {
    const Tensor left = a.cast(DType::c128), right = b.cast(DType::c128);
    for (int64_t i = 0; i < a.size(); ++i) {
      c128 x = elements<c128>(left)[i], y = elements<c128>(right)[i];
      out[i] = (x.re == y.re && x.im == y.im) == (direction == CompareDirection::eq);
    }
    return;
  }
  dispatch_stored(a.dtype(), "compare", [&]<class T>(TypeTag<T>) {
    const T *left = elements<T>(a), *right = elements<T>(b);
    for (int64_t i = 0; i < a.size(); ++i) out[i] = compare_one(load<T>(left[i]), load<T>(right[i]), direction);
  });
}

PrintedOp print_compare(const PrintContext& c) {
  static constexpr const char* kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  PrintedOp out;
  out.attributes = str("comparison_direction = #stablehlo<comparison_direction ",
                       kNames[static_cast<int>(c.op.as<CompareAttributes>().direction)], ">");
  return out;
}

std::vector<Type> infer_select(const InferContext& c) {
  check_operand_count(c, 3);
  const Type &predicate = c.operands[0], &a = c.operands[1], &b = c.operands[2];
  c.check(predicate.dtype == DType::boolean, "I1", "the predicate must be bool");
  if (!predicate.shape.empty()) check_same_shape(c, predicate, a, "C1");
  check_same_dtype(c, a, b, "C2");
  check_same_shape(c, a, b, "C2");
  Type out = a;
  for (size_t i = 0; i < out.shape.size(); ++i) out.shape[i] = plainer(out.shape[i], b.shape[i]);
  return {std::move(out)};
}

void evaluate_select(EvaluateContext& c) {
  const Tensor &predicate = c.operands[0], &a = c.operands[1], &b = c.operands[2];
  const bool* chosen = predicate.data<bool>();
  const int64_t step = predicate.rank() == 0 ? 0 : 1;
  Tensor& y = c.make_result();
  dispatch_width(a.dtype(), "select", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < a.size(); ++i)
      mutable_elements<T>(y)[i] = chosen[i * step] ? elements<T>(a)[i] : elements<T>(b)[i];
  });
}

std::vector<Type> infer_clamp(const InferContext& c) {
  check_operand_count(c, 3);
  const Type &low = c.operands[0], &x = c.operands[1], &high = c.operands[2];
  if (!low.shape.empty()) check_same_shape(c, low, x, "C1");
  if (!high.shape.empty()) check_same_shape(c, high, x, "C2");
  check_same_dtype(c, low, x, "C3");
  check_same_dtype(c, high, x, "C3");
  c.check(!is_complex(x.dtype) && x.dtype != DType::boolean, "I2", "does not take ", name(x.dtype));
  return {x};
}

void evaluate_clamp(EvaluateContext& c) {
  const Tensor &low = c.operands[0], &x = c.operands[1], &high = c.operands[2];
  const int64_t low_step = low.rank() == 0 ? 0 : 1, high_step = high.rank() == 0 ? 0 : 1;
  Tensor& y = c.make_result();
  dispatch_numeric(x.dtype(), "clamp", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < x.size(); ++i) {
      auto value = load<T>(elements<T>(x)[i]);
      auto least = load<T>(elements<T>(low)[i * low_step]), most = load<T>(elements<T>(high)[i * high_step]);
      if (value < least || least != least) value = least;  // min(max(x, low), high): NaN wins
      if (most < value || most != most) value = most;
      mutable_elements<T>(y)[i] = store<T>(value);
    }
  });
}

}  // namespace

namespace prim {

constinit const Primitive compare = {.name = "compare",
                                     .infer = infer_compare,
                                     .evaluate = evaluate_compare,
                                     .print = print_compare,
                                     .elementwise = true};
constinit const Primitive select = {
    .name = "select", .infer = infer_select, .evaluate = evaluate_select, .vjp = vjp::select, .elementwise = true};
constinit const Primitive clamp = {
    .name = "clamp", .infer = infer_clamp, .evaluate = evaluate_clamp, .vjp = vjp::clamp, .elementwise = true};

}  // namespace prim

Value Builder::compare(Value a, Value b, CompareDirection direction) {
  return emit1(prim::compare, {a, b}, std::make_shared<CompareAttributes>(direction));
}
Value Builder::select(Value predicate, Value if_true, Value if_false) {
  return emit1(prim::select, {predicate, if_true, if_false});
}
Value Builder::clamp(Value low, Value x, Value high) { return emit1(prim::clamp, {low, x, high}); }

}  // namespace transmuter::ir
