// What exporters write for operators that have a name, whole and written out: the passes look for these.
#include <cmath>

#include "maker.h"

namespace transmuter::runtime::testing {

bool GraphMaker::pattern() {
  switch (below(4)) {
    case 0:
      return layer_norm(false);
    case 1:
      return layer_norm(true);
    case 2:
      return attention();
    default:
      return gelu();
  }
}

bool GraphMaker::layer_norm(bool written_out) {
  const RandomValue* found = pick([](const RandomValue& v) {
    return is_real(v.dtype) && !v.shape.empty() && element_count(v.shape) > 0 && v.bound <= 8;
  });
  if (!found) return false;
  const RandomValue x = *found;
  RandomValue y = x;
  const auto count = static_cast<double>(x.shape.back());
  const bool centred = coin();
  const RandomValue scale = weight(x.dtype, {x.shape.back()}, -2, 2), bias = weight(x.dtype, {x.shape.back()}, -3, 3);
  y.bound = 4 * x.bound + 3;
  y.error = 16 * x.error + (count + 24) * 4 * rounding_unit(x.dtype) * (1 + x.bound) * (1 + x.bound);
  if (!written_out) {
    if (!centred) return emit("RMSNormalization", {x.name, scale.name}, y, {float_attribute("epsilon", 1)});
    return emit("LayerNormalization", {x.name, scale.name, bias.name}, y, {float_attribute("epsilon", 1)});
  }
  const auto scalar = [&](float number) { return constant(Tensor(std::vector<float>{number}, {}).cast(x.dtype)); };
  RandomValue row = y, part = y;
  row.shape.back() = 1;
  const std::string axes = constant({-1});
  std::string from = x.name;
  if (centred) {
    if (!emit("ReduceMean", {x.name, axes}, row)) return false;
    if (!emit("Sub", {x.name, last().name}, part)) return false;
    from = last().name;
  }
  RandomValue squares = part;
  squares.bound = 4 * x.bound * x.bound + 1;
  squares.error = 8 * (1 + x.bound) * y.error;
  if (!emit("Pow", {from, scalar(2)}, squares)) return false;
  row.bound = squares.bound, row.error = squares.error;
  if (!emit("ReduceMean", {last().name, axes}, row)) return false;
  if (!emit("Add", {last().name, scalar(1)}, row)) return false;
  if (!emit("Sqrt", {last().name}, row)) return false;
  if (!emit("Div", {from, last().name}, part)) return false;
  if (!emit("Mul", {last().name, scale.name}, y)) return false;
  return !centred || emit("Add", {last().name, bias.name}, y);
}

bool GraphMaker::attention() {
  const int64_t batch = 1 + below(2), heads = 1 + below(3), rows = 1 + below(5), keys = rows + below(4),
                size = 1 + below(5);
  constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f16, DType::f64};
  const DType dtype = one_of(kTypes);
  const double unit = rounding_unit(dtype);
  const bool whole = coin();
  const RandomValue q = input(dtype, {batch, heads, rows, size}, -2, 2),
                    v = input(dtype, {batch, heads, keys, size}, -2, 2);
  RandomValue k = input(dtype, {batch, heads, keys, size}, -2, 2);
  RandomValue scores = q, y = q;
  scores.shape.back() = keys;
  scores.bound = 4 * static_cast<double>(size) + 4;
  scores.error = (static_cast<double>(size) + 4) * unit * scores.bound;
  y.error = static_cast<double>(keys) * 2 * (4 * scores.error + 32 * unit * (1 + scores.bound));
  const bool masked = coin();
  const RandomValue mask = input(dtype, {batch, 1, rows, keys}, -4, 0);
  if (whole) {
    Strings inputs = {q.name, k.name, v.name};
    if (masked) inputs.push_back(mask.name);
    Strings attributes;
    if (coin()) attributes.push_back(int_attribute("is_causal", 1));
    if (coin()) attributes.push_back(float_attribute("scale", .5F));
    if (coin()) attributes.push_back(float_attribute("softcap", 8));
    return emit("Attention", inputs, y, attributes);
  }
  std::swap(k.shape[2], k.shape[3]);
  if (!emit("Transpose", {k.name}, k, {ints_attribute("perm", {0, 1, 3, 2})})) return false;
  if (!emit("MatMul", {q.name, last().name}, scores)) return false;
  const std::string scale = constant(Tensor(std::vector<float>{.5F}, {}).cast(dtype));
  if (!emit("Mul", {last().name, scale}, scores)) return false;
  if (masked && !emit("Add", {last().name, mask.name}, scores)) return false;
  RandomValue weights = scores;
  weights.bound = 1;
  weights.error = 2 * scores.error + 32 * unit * (1 + scores.bound);
  if (!emit("Softmax", {last().name}, weights, {int_attribute("axis", -1)})) return false;
  return emit("MatMul", {last().name, v.name}, y);
}

bool GraphMaker::gelu() {
  const RandomValue* found = pick([](const RandomValue& v) { return is_real(v.dtype) && v.bound <= 64; });
  if (!found) return false;
  const RandomValue x = *found;
  RandomValue y = x;
  y.bound = x.bound + 1;
  y.error = 1.2 * x.error + 16 * rounding_unit(x.dtype) * y.bound;
  RandomValue part = y;
  part.bound = 2 * x.bound + 2;
  part.error = 4 * y.error + 8 * rounding_unit(x.dtype) * part.bound;
  const auto scalar = [&](double number) { return constant(Tensor(std::vector<double>{number}, {}).cast(x.dtype)); };
  if (coin()) {
    // silu
    if (!emit("Sigmoid", {x.name}, part)) return false;
    return emit("Mul", {x.name, last().name}, part);
  }
  if (!emit("Div", {x.name, scalar(below(4) == 0 ? 1.4142135 : std::sqrt(2.))}, part)) return false;
  if (!emit("Erf", {last().name}, part)) return false;
  if (!emit("Add", {last().name, scalar(1)}, part)) return false;
  RandomValue product = part;
  product.bound = 2 * x.bound + 1;
  product.error = part.error * (1 + x.bound) + 2 * x.error;
  if (!emit("Mul", {x.name, last().name}, product)) return false;
  return emit("Mul", {last().name, scalar(.5)}, product);
}

}  // namespace transmuter::runtime::testing
