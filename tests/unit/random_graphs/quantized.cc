// Scales are powers of two and values whole, so that every step of a right answer is exact, the fused ones too.
#include <algorithm>

#include "maker.h"

namespace transmuter::runtime::testing {
namespace {

bool of_bytes(const RandomValue& v) { return v.dtype == DType::u8 || v.dtype == DType::i8; }

}  // namespace

bool GraphMaker::quantized() {
  const auto exact = [](const RandomValue& v) {
    return (v.dtype == DType::f32 || v.dtype == DType::f16) && v.error == 0 && v.bound <= 4096;
  };
  switch (below(8)) {
    case 0:
      if (const RandomValue* x = pick(exact)) return quantize(*x);
      return false;
    case 1:
      if (const RandomValue* x =
              pick([](const RandomValue& v) { return of_bytes(v) || v.dtype == DType::u16 || v.dtype == DType::i16; }))
        return dequantize(*x);
      return false;
    case 2:
    case 3:
      return quantized_chain();
    case 4:
      return integer_product();
    case 5:
      return integer_convolution();
    case 6:
      return dynamic_product();
    default:
      return few_bits_product();
  }
}

bool GraphMaker::quantize(const RandomValue& x) {
  constexpr DType kTypes[] = {DType::u8, DType::i8, DType::u8, DType::i8, DType::u16, DType::i16};
  constexpr float kScales[] = {.5F, 1, 2, 4};
  RandomValue y = x;
  y.dtype = one_of(kTypes);
  y.bound = 0;
  const auto rank = static_cast<int64_t>(x.shape.size());
  Shape shape;
  Strings attributes;
  if (rank > 0 && coin()) {
    const int64_t axis = below(rank);
    shape = {x.shape[static_cast<size_t>(axis)]};
    attributes.push_back(int_attribute("axis", axis));
  }
  std::vector<float> scales(static_cast<size_t>(element_count(shape)));
  for (float& scale : scales) scale = one_of(kScales);
  const bool is_signed = is_signed_integer(y.dtype);
  const RandomValue zero = weight(y.dtype, shape, is_signed ? -20 : 0, is_signed ? 20 : 140, true);
  return emit("QuantizeLinear", {x.name, constant(Tensor(scales, shape).cast(x.dtype)), zero.name}, y, attributes);
}

bool GraphMaker::dequantize(const RandomValue& x) {
  RandomValue y = x;
  y.dtype = DType::f32;
  const bool is_signed = is_signed_integer(x.dtype);
  const float scale = coin() ? 1 : 2;
  y.bound = scale * (bit_width(x.dtype) == 8 ? 400. : 66000.);
  const RandomValue zero = weight(x.dtype, {}, is_signed ? -20 : 0, is_signed ? 20 : 140, true);
  return emit("DequantizeLinear", {x.name, constant(Tensor(std::vector<float>{scale}, {})), zero.name}, y);
}

// Bytes to reals, a product or a convolution with weights of eight bits, to bytes again, as quantizers leave them.
bool GraphMaker::quantized_chain() {
  const bool convolution = coin();
  constexpr DType kTypes[] = {DType::u8, DType::i8};
  const DType dtype = one_of(kTypes);
  const bool is_signed = is_signed_integer(dtype);
  RandomValue x;
  const auto fits = [&](const RandomValue& v) {
    return v.dtype == DType::f32 && v.error == 0 && v.bound <= 4096 && element_count(v.shape) > 0 &&
           (convolution ? v.shape.size() == 4 : v.shape.size() >= 2);
  };
  if (const RandomValue* found = pick(fits)) {
    x = *found;
  } else if (convolution) {
    x = input(DType::f32, {1 + below(2), 1 + below(8), 3 + below(6), 3 + below(6)}, -100, 100);
  } else {
    x = input(DType::f32, {1 + below(6), coin() ? extent() : 8 + below(40)}, -100, 100);
  }
  const auto scalar = [&](float number) { return constant(Tensor(std::vector<float>{number}, {})); };
  const auto bytes_and_back = [&](const RandomValue& from, float scale) {
    RandomValue code = from;
    code.dtype = dtype;
    code.bound = 0;
    const RandomValue zero = weight(dtype, {}, is_signed ? -9 : 100, is_signed ? 9 : 140, true);
    const std::string by = scalar(scale);
    if (!emit("QuantizeLinear", {from.name, by, zero.name}, code)) return false;
    RandomValue real = from;
    real.bound = 300. * static_cast<double>(scale);
    return emit("DequantizeLinear", {last().name, by, zero.name}, real);
  };
  if (!bytes_and_back(x, 1)) return false;
  x = last();
  // Weights for each column or filter their scale, zero points 0.
  RandomValue y = x;
  Shape shape;
  int64_t size = 1, pad = 0, outputs = 1 + below(20);
  double taps;
  if (convolution) {
    size = coin() ? 3 : 1, pad = size / 2;
    taps = static_cast<double>(x.shape[1] * size * size);
    shape = {outputs, x.shape[1], size, size};
    y.shape[1] = outputs;
  } else {
    taps = static_cast<double>(x.shape.back());
    shape = {x.shape.back(), outputs};
    y.shape.back() = outputs;
  }
  const RandomValue codes = weight(DType::i8, shape, -127, 127, true);
  const bool each = coin();
  std::vector<float> scales(each ? static_cast<size_t>(outputs) : 1);
  for (float& scale : scales) scale = coin() ? .5F : .25F;
  const Shape scale_shape = each ? Shape{outputs} : Shape{};
  RandomValue weights;
  weights.shape = shape;
  weights.bound = 64;
  const std::string zero = constant(Tensor(DType::i8, scale_shape));
  Strings attributes;
  if (each) attributes.push_back(int_attribute("axis", convolution ? 0 : 1));
  if (!emit("DequantizeLinear", {codes.name, constant(Tensor(scales, scale_shape)), zero}, weights, attributes))
    return false;
  weights = last();
  y.bound = taps * x.bound * weights.bound + 4;
  if (y.bound * 4 > exact_limit(DType::f32)) return false;
  Strings inputs = {x.name, weights.name};
  if (convolution) {
    if (coin()) inputs.push_back(weight(DType::f32, {outputs}, -4, 4, true).name);
    if (!emit("Conv", inputs, y, {ints_attribute("pads", {pad, pad, pad, pad})})) return false;
  } else {
    if (!emit("MatMul", inputs, y)) return false;
    if (coin() && !emit("Add", {last().name, weight(DType::f32, {outputs}, -4, 4, true).name}, y)) return false;
  }
  if (coin() && !emit("Relu", {last().name}, y)) return false;
  return bytes_and_back(last(), 64);
}

bool GraphMaker::integer_product() {
  const auto fits = [](const RandomValue& v) {
    return of_bytes(v) && v.shape.size() >= 2 && element_count(v.shape) > 0;
  };
  RandomValue a;
  if (const RandomValue* found = pick(fits)) {
    a = *found;
  } else {
    const bool is_signed = coin();
    a = input(is_signed ? DType::i8 : DType::u8, {1 + below(6), below(4) == 0 ? 60 + below(40) : extent()},
              is_signed ? -128 : 0, is_signed ? 127 : 255, true);
  }
  const bool is_signed = coin();
  const DType dtype = is_signed ? DType::i8 : DType::u8;
  const RandomValue b = weight(dtype, {a.shape.back(), 1 + below(20)}, is_signed ? -128 : 0, is_signed ? 127 : 255);
  RandomValue y = a;
  y.shape.back() = b.shape.back();
  y.bound = y.error = 0;
  const auto zero_of = [&](DType type, const Shape& shape) {
    return weight(type, shape, type == DType::i8 ? -128 : 0, type == DType::i8 ? 127 : 255, true).name;
  };
  if (coin()) {
    y.dtype = DType::i32;
    Strings inputs = {a.name, b.name};
    if (coin()) {
      inputs.push_back(coin() ? zero_of(a.dtype, {}) : "");
      inputs.push_back(zero_of(dtype, coin() ? Shape{} : Shape{b.shape.back()}));
    }
    return emit("MatMulInteger", inputs, y);
  }
  y.dtype = a.dtype;
  const auto scale = [&](float number) { return constant(Tensor(std::vector<float>{number}, {})); };
  return emit("QLinearMatMul",
              {a.name, scale(1), zero_of(a.dtype, {}), b.name, scale(.5F), zero_of(dtype, {}), scale(512),
               zero_of(a.dtype, {})},
              y);
}

bool GraphMaker::integer_convolution() {
  const bool is_signed = coin();
  RandomValue x;
  if (const RandomValue* found =
          pick([](const RandomValue& v) { return of_bytes(v) && v.shape.size() == 4 && element_count(v.shape) > 0; })) {
    x = *found;
  } else {
    x = input(is_signed ? DType::i8 : DType::u8, {1 + below(2), 1 + below(8), 3 + below(5), 3 + below(5)},
              is_signed ? -128 : 0, is_signed ? 127 : 255, true);
  }
  const int64_t groups = coin() ? 1 : x.shape[1], filters = groups * (1 + below(3)), size = 1 + below(3),
                pad = below(2);
  const bool signed_filter = coin();
  const DType dtype = signed_filter ? DType::i8 : DType::u8;
  const RandomValue w = weight(dtype, {filters, x.shape[1] / groups, size, size}, signed_filter ? -128 : 0,
                               signed_filter ? 127 : 255, true);
  RandomValue y = x;
  y.bound = y.error = 0;
  y.shape[1] = filters;
  for (size_t i = 2; i < 4; ++i) {
    y.shape[i] += 2 * pad - size + 1;
    if (y.shape[i] < 1) return false;
  }
  const auto zero_of = [&](DType type) {
    return weight(type, {}, type == DType::i8 ? -128 : 0, type == DType::i8 ? 127 : 255, true).name;
  };
  const Strings attributes = {ints_attribute("pads", {pad, pad, pad, pad}), int_attribute("group", groups)};
  if (coin()) {
    y.dtype = DType::i32;
    Strings inputs = {x.name, w.name};
    if (coin()) inputs.insert(inputs.end(), {zero_of(x.dtype), zero_of(dtype)});
    return emit("ConvInteger", inputs, y, attributes);
  }
  const auto scale = [&](float number) { return constant(Tensor(std::vector<float>{number}, {})); };
  Strings inputs = {x.name,     scale(1),       zero_of(x.dtype), w.name,
                    scale(.5F), zero_of(dtype), scale(256),       zero_of(x.dtype)};
  if (coin()) inputs.push_back(weight(DType::i32, {filters}, -1000, 1000, true).name);
  return emit("QLinearConv", inputs, y, attributes);
}

// Activations quantized as they come; what follows is real again.
bool GraphMaker::dynamic_product() {
  const RandomValue* found = pick([](const RandomValue& v) {
    return v.dtype == DType::f32 && v.error == 0 && v.shape.size() >= 2 && element_count(v.shape) > 0 &&
           v.bound <= 4096;
  });
  if (!found) return false;
  const RandomValue x = *found;
  std::vector<RandomValue> codes(3, x);
  codes[0].dtype = DType::u8;
  codes[0].bound = 0;
  codes[1].shape.clear();
  codes[2] = codes[0];
  codes[2].shape.clear();
  if (!emit_all("DynamicQuantizeLinear", {x.name}, codes)) return false;
  codes.assign(values_.end() - 3, values_.end());
  const int64_t outputs = 1 + below(20);
  const RandomValue w = weight(DType::i8, {x.shape.back(), outputs}, -127, 127, true);
  RandomValue y = x;
  y.dtype = DType::i32;
  y.bound = 0;
  y.shape.back() = outputs;
  Strings inputs = {codes[0].name, w.name, codes[2].name};
  if (coin()) inputs.push_back(constant(Tensor(DType::i8, {})));
  if (!emit("MatMulInteger", inputs, y)) return false;
  y.dtype = DType::f32;
  y.bound = static_cast<double>(x.shape.back()) * 255 * 127;
  if (!emit("Cast", {last().name}, y, {int_attribute("to", 1)})) return false;
  const std::string sum = last().name;
  RandomValue scale = codes[1];
  scale.bound = x.bound;
  scale.error = 4 * rounding_unit(DType::f32) * x.bound;
  if (!emit("Mul", {codes[1].name, constant(Tensor(std::vector<float>{.5F}, {}))}, scale)) return false;
  y.bound = static_cast<double>(x.shape.back()) * 127 * (2 * x.bound + 1);
  y.error = 16 * rounding_unit(DType::f32) * y.bound;
  return emit("Mul", {sum, last().name}, y);
}

bool GraphMaker::few_bits_product() {
  const RandomValue* found = pick([](const RandomValue& v) {
    return (v.dtype == DType::f32 || v.dtype == DType::f16) && v.shape.size() >= 2 && element_count(v.shape) > 0;
  });
  RandomValue x = found ? *found : input(DType::f32, {1 + below(4), 16 + below(60)}, -3, 3);
  constexpr int64_t kBits[] = {4, 4, 8, 2}, kBlocks[] = {16, 32, 64};
  const int64_t bits = one_of(kBits), block = one_of(kBlocks), inner = x.shape.back(), outputs = 1 + below(20);
  const int64_t blocks = (inner + block - 1) / block;
  const RandomValue codes = weight(DType::u8, {outputs, blocks, block * bits / 8}, 0, 255, true);
  std::vector<float> scales(static_cast<size_t>(outputs * blocks));
  for (float& scale : scales) scale = coin() ? 1.F : .5F;
  Strings inputs = {x.name, codes.name, constant(Tensor(scales, {outputs, blocks}).cast(x.dtype))};
  if (coin()) inputs.push_back(weight(DType::u8, {outputs, (blocks * bits + 7) / 8}, 0, 255, true).name);
  RandomValue y = x;
  y.shape.back() = outputs;
  const double largest = bits == 8 ? 255 : bits == 4 ? 15 : 3;
  y.bound = static_cast<double>(inner) * x.bound * largest;
  y.error = static_cast<double>(inner) * largest * x.error;
  if (y.error > 0) y.error += static_cast<double>(inner + 2) * rounding_unit(x.dtype) * y.bound;
  return emit("MatMulNBits", inputs, y,
              {int_attribute("K", inner), int_attribute("N", outputs), int_attribute("bits", bits),
               int_attribute("block_size", block)},
              "com.microsoft");
}

}  // namespace transmuter::runtime::testing
