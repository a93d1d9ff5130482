#include <algorithm>

#include "maker.h"

namespace transmuter::runtime::testing {

bool GraphMaker::binary() {
  const RandomValue* a = pick([](const RandomValue& v) { return v.dtype != DType::boolean; });
  if (!a) return false;
  const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype; });
  RandomValue y;
  if (!b || !broadcast(a->shape, b->shape, y.shape)) return false;
  y.dtype = a->dtype;
  constexpr const char* kOps[] = {"Add", "Sub", "Mul", "Min", "Max", "Div", "Mod"};
  const std::string op = kOps[below(is_real(y.dtype) ? 5 : 7)];
  const double rounding = a->error + b->error == 0 ? 0 : rounding_unit(y.dtype);
  if (op == "Mul") {
    y.bound = a->bound * b->bound;
    y.error = a->error * b->bound + b->error * a->bound + rounding * y.bound;
  } else {
    y.bound = op == "Add" || op == "Sub" ? a->bound + b->bound : std::max(a->bound, b->bound);
    y.error = a->error + b->error + rounding * y.bound;
  }
  Strings attributes;
  if (op == "Mod" && coin()) attributes.push_back(int_attribute("fmod", 1));
  return emit(op, {a->name, b->name}, y, attributes);
}

bool GraphMaker::unary() {
  const RandomValue* x = pick([](const RandomValue& v) { return v.dtype != DType::boolean; });
  if (!x) return false;
  RandomValue y = *x;
  if (below(6) == 0) {
    // Bounds that are constants; reals stay as exact as they were.
    const int64_t low = below(4) - (is_whole(x->dtype) && !is_signed_integer(x->dtype) ? 0 : 3), high = low + below(5);
    const std::string lower = constant(Tensor(std::vector<int64_t>{low}, {}).cast(x->dtype));
    const std::string upper = constant(Tensor(std::vector<int64_t>{high}, {}).cast(x->dtype));
    y.bound = std::max<double>(x->bound, 4);
    return emit("Clip", {x->name, coin() ? lower : "", upper}, y);
  }
  if (!is_real(x->dtype)) {
    if (!is_signed_integer(x->dtype)) return emit(coin() ? "Abs" : "BitwiseNot", {x->name}, y);
    constexpr const char* kOps[] = {"Abs", "Neg", "Sign", "BitwiseNot", "Relu"};
    return emit(one_of(kOps), {x->name}, y);
  }
  if (coin()) {
    constexpr const char* kOps[] = {"Abs", "Neg", "Relu", "Identity"};
    return emit(one_of(kOps), {x->name}, y);
  }
  if (x->error == 0 && below(3) == 0) {
    constexpr const char* kOps[] = {"Floor", "Ceil", "Round", "Sign"};
    return emit(one_of(kOps), {x->name}, y);
  }
  // Their slopes are at most 1.2; a few units of rounding.
  constexpr const char* kOps[] = {"Sigmoid",   "Tanh", "Sin",       "Cos",      "Erf",  "Softplus",   "Gelu",
                                  "HardSwish", "Elu",  "LeakyRelu", "Softsign", "Mish", "HardSigmoid"};
  y.bound = x->bound + 1;
  y.error = 1.2 * x->error + 8 * rounding_unit(x->dtype) * y.bound;
  return emit(one_of(kOps), {x->name}, y);
}

bool GraphMaker::compare() {
  const RandomValue* a = pick([](const RandomValue& v) { return v.error == 0; });
  if (!a) return false;
  if (a->dtype == DType::boolean && below(4) == 0) return emit("Not", {a->name}, *a);
  const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype && v.error == 0; });
  RandomValue y;
  if (!b || !broadcast(a->shape, b->shape, y.shape)) return false;
  y.dtype = DType::boolean;
  constexpr const char* kOps[] = {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"};
  constexpr const char* kLogic[] = {"And", "Or", "Xor"};
  return emit(a->dtype == DType::boolean ? one_of(kLogic) : one_of(kOps), {a->name, b->name}, y);
}

bool GraphMaker::bits() {
  if (coin()) {
    const RandomValue* condition = pick([](const RandomValue& v) { return v.dtype == DType::boolean; });
    const RandomValue* a = pick([](const RandomValue&) { return true; });
    if (!condition || !a) return false;
    const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype; });
    Shape both;
    RandomValue y;
    if (!b || !broadcast(a->shape, b->shape, both) || !broadcast(condition->shape, both, y.shape)) return false;
    y.dtype = a->dtype;
    y.bound = std::max(a->bound, b->bound);
    y.error = std::max(a->error, b->error);
    return emit("Where", {condition->name, a->name, b->name}, y);
  }
  const RandomValue* a = pick([](const RandomValue& v) { return is_whole(v.dtype); });
  if (!a) return false;
  const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype; });
  RandomValue y;
  if (!b || !broadcast(a->shape, b->shape, y.shape)) return false;
  y.dtype = a->dtype;
  if (!is_signed_integer(a->dtype) && below(4) == 0)
    return emit("BitShift", {a->name, b->name}, y, {text_attribute("direction", coin() ? "LEFT" : "RIGHT")});
  constexpr const char* kOps[] = {"BitwiseAnd", "BitwiseOr", "BitwiseXor"};
  return emit(one_of(kOps), {a->name, b->name}, y);
}

bool GraphMaker::cast() {
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64,
                              DType::u8,  DType::i8,  DType::u16, DType::i16,  DType::u32, DType::boolean};
  const RandomValue* x = pick([](const RandomValue&) { return true; });
  if (!x) return false;
  RandomValue y = *x;
  y.dtype = one_of(kTypes);
  if (!is_real(y.dtype) && x->error != 0) return false;
  if (is_real(y.dtype) && is_real(x->dtype)) {
    if (x->error != 0) y.error += rounding_unit(y.dtype) * x->bound;
  } else if (is_real(y.dtype)) {
    // Integers of any size may have wrapped: only small dtypes stay small.
    if (x->dtype != DType::boolean && bit_width(x->dtype) > 8) return false;
    y.bound = x->dtype == DType::boolean ? 1 : 256;
    y.error = 0;
  }
  if (!is_real(y.dtype)) y.bound = 0;
  return emit("Cast", {x->name}, y, {int_attribute("to", type_number(y.dtype))});
}

}  // namespace transmuter::runtime::testing
