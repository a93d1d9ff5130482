#include <algorithm>

#include "maker.h"

namespace transmuter::runtime::testing {

// A value with a batch, channels and one to three axes of space.
RandomValue GraphMaker::picture() {
  if (const RandomValue* x = pick([](const RandomValue& v) {
        return is_real(v.dtype) && v.shape.size() >= 3 && v.shape.size() <= 5 && element_count(v.shape) > 0;
      }))
    return *x;
  constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64};
  constexpr int64_t kChannels[] = {1, 2, 3, 4, 6, 8, 16, 19};
  Shape shape = {1 + below(2), one_of(kChannels)};
  const int64_t space = below(8) == 0 ? 3 : below(3) == 0 ? 1 : 2;
  for (int64_t i = 0; i < space; ++i) shape.push_back(space == 3 ? 2 + below(3) : 3 + below(8));
  return input(one_of(kTypes), shape, -3, 3);
}

bool GraphMaker::convolve() {
  const RandomValue x = picture();
  RandomValue y = x;
  const size_t space = x.shape.size() - 2;
  const int64_t channels = x.shape[1];
  int64_t groups = 1;
  if (coin()) groups = coin() ? channels : channels % 2 == 0 ? 2 : 1;
  const int64_t filters = groups * (groups == channels && coin() ? 1 : below(5) == 0 ? 16 : 1 + below(4));
  Shape shape = {filters, channels / groups};
  std::vector<int64_t> kernel, strides, dilations, pads(2 * space);
  constexpr const char* kAuto[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  const std::string automatic = below(4) == 0 ? one_of(kAuto) : "";
  y.shape[1] = filters;
  double taps = static_cast<double>(channels / groups);
  const bool common = coin();  // 3 x 3 or 1 x 1, as networks have them
  const int64_t size = coin() ? 3 : 1, step = coin() ? 1 : 2;
  for (size_t i = 0; i < space; ++i) {
    kernel.push_back(common ? size : 1 + below(4));
    strides.push_back(common ? step : 1 + below(3));
    dilations.push_back(common || coin() ? 1 : 2);
    taps *= static_cast<double>(kernel[i]);
    const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
    int64_t& extent = y.shape[i + 2];
    if (automatic.starts_with("SAME")) {
      extent = (extent + strides[i] - 1) / strides[i];
      continue;
    }
    if (automatic.empty()) {
      pads[i] = common ? size / 2 : below(3);
      pads[i + space] = common ? size / 2 : below(3);
    }
    extent += pads[i] + pads[i + space] - reach;
    if (extent < 0) return false;
    extent = extent / strides[i] + 1;
  }
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  const RandomValue filter = weight(x.dtype, shape, -2, 2);
  Strings inputs = {x.name, filter.name};
  y.bound = taps * filter.bound * x.bound;
  y.error = taps * filter.bound * x.error;
  if (coin()) {
    const RandomValue bias = weight(x.dtype, {filters}, -4, 4);
    inputs.push_back(bias.name);
    y.bound += bias.bound;
  }
  // Winograd's sums go further than the result does.
  if (y.bound > 65536) return false;
  if (y.error > 0) y.error += (taps + 8) * rounding_unit(x.dtype) * y.bound;
  Strings attributes = {ints_attribute("strides", strides), ints_attribute("dilations", dilations),
                        int_attribute("group", groups)};
  if (coin()) attributes.push_back(ints_attribute("kernel_shape", kernel));
  if (automatic.empty())
    attributes.push_back(ints_attribute("pads", pads));
  else
    attributes.push_back(text_attribute("auto_pad", automatic));
  return emit("Conv", inputs, y, attributes);
}

bool GraphMaker::convolve_back() {
  const RandomValue x = picture();
  RandomValue y = x;
  const size_t space = x.shape.size() - 2;
  const int64_t channels = x.shape[1];
  const int64_t groups = coin() ? 1 : coin() ? channels : channels % 2 == 0 ? 2 : 1;
  const int64_t filters = below(5) == 0 ? 8 : 1 + below(3);
  Shape shape = {channels, filters};
  std::vector<int64_t> strides, dilations, more, pads(2 * space);
  y.shape[1] = filters * groups;
  double taps = static_cast<double>(channels / groups);
  for (size_t i = 0; i < space; ++i) {
    const int64_t size = 1 + below(4);
    shape.push_back(size);
    strides.push_back(1 + below(3));
    dilations.push_back(coin() ? 1 : 1 + below(2));
    more.push_back(below(2) * below(std::max(strides[i], dilations[i])));
    pads[i] = below(2), pads[i + space] = below(2);
    taps *= static_cast<double>(size);
    int64_t& extent = y.shape[i + 2];
    extent = (extent - 1) * strides[i] + more[i] + (size - 1) * dilations[i] + 1 - pads[i] - pads[i + space];
    if (extent < 1) return false;
  }
  const RandomValue filter = weight(x.dtype, shape, -2, 2);
  Strings inputs = {x.name, filter.name};
  y.bound = taps * filter.bound * x.bound;
  y.error = taps * filter.bound * x.error;
  if (coin()) {
    const RandomValue bias = weight(x.dtype, {y.shape[1]}, -4, 4);
    inputs.push_back(bias.name);
    y.bound += bias.bound;
  }
  if (y.error > 0) y.error += (taps + 2) * rounding_unit(x.dtype) * y.bound;
  return emit("ConvTranspose", inputs, y,
              {ints_attribute("strides", strides), ints_attribute("dilations", dilations), ints_attribute("pads", pads),
               ints_attribute("output_padding", more), int_attribute("group", groups)});
}

bool GraphMaker::pool() {
  const RandomValue x = picture();
  RandomValue y = x;
  const size_t space = x.shape.size() - 2;
  const double unit = rounding_unit(x.dtype);
  double taps = 1;
  if (below(4) == 0) {
    for (size_t i = 0; i < space; ++i) taps *= static_cast<double>(x.shape[i + 2]), y.shape[i + 2] = 1;
    if (coin()) return emit("GlobalMaxPool", {x.name}, y);
    y.error += (taps + 1) * unit * x.bound;
    return emit("GlobalAveragePool", {x.name}, y);
  }
  const bool rounds_up = below(3) == 0;
  constexpr const char* kOps[] = {"MaxPool", "AveragePool", "LpPool"};
  const std::string op = one_of(kOps);
  std::vector<int64_t> kernel, strides, dilations, pads(2 * space);
  for (size_t i = 0; i < space; ++i) {
    kernel.push_back(1 + below(3));
    strides.push_back(1 + below(3));
    dilations.push_back(below(4) == 0 ? 2 : 1);
    // Never a window of padding alone.
    if (dilations[i] == 1) pads[i] = below(kernel[i]), pads[i + space] = below(kernel[i]);
    taps *= static_cast<double>(kernel[i]);
    const int64_t size = x.shape[i + 2], all = size + pads[i] + pads[i + space] - (kernel[i] - 1) * dilations[i] - 1;
    if (all < 0) return false;
    int64_t& extent = y.shape[i + 2];
    extent = all / strides[i] + 1;
    if (rounds_up && all % strides[i] != 0 && extent * strides[i] < size + pads[i]) {
      ++extent;
      // With a dilation the last window may begin inside and have no tap there but the first.
    }
  }
  Strings attributes = {ints_attribute("kernel_shape", kernel), ints_attribute("strides", strides),
                        ints_attribute("dilations", dilations), ints_attribute("pads", pads),
                        int_attribute("ceil_mode", rounds_up)};
  if (op == "MaxPool") {
    if (below(3) != 0) return emit(op, {x.name}, y, attributes);
    if (x.error != 0) return false;
    std::vector<RandomValue> results(2, y);
    results[1].dtype = DType::i64;
    results[1].bound = 0;
    return emit_all(op, {x.name}, results, attributes);
  }
  if (op == "LpPool") {
    y.bound = taps * x.bound;
    y.error = x.error == 0 ? 0 : taps * x.error + (taps + 1) * unit * y.bound;
    attributes.push_back(int_attribute("p", 1));
    return emit(op, {x.name}, y, attributes);
  }
  y.error += (taps + 1) * unit * x.bound;
  attributes.push_back(int_attribute("count_include_pad", coin()));
  return emit(op, {x.name}, y, attributes);
}

// What networks have behind a convolution: the variance is at least 1, so slopes stay small.
bool GraphMaker::normalize_channels() {
  const RandomValue x = picture();
  RandomValue y = x;
  const int64_t channels = x.shape[1];
  const RandomValue scale = weight(x.dtype, {channels}, -2, 2), bias = weight(x.dtype, {channels}, -3, 3);
  const double unit = rounding_unit(x.dtype);
  if (coin()) {
    const RandomValue mean = weight(x.dtype, {channels}, -2, 2, true),
                      variance = weight(x.dtype, {channels}, 1, 4, true);
    y.bound = 2 * (x.bound + 2) + 3;
    y.error = 2 * x.error + 8 * unit * y.bound;
    return emit("BatchNormalization", {x.name, scale.name, bias.name, mean.name, variance.name}, y);
  }
  double count = 1;
  for (size_t i = 2; i < x.shape.size(); ++i) count *= static_cast<double>(x.shape[i]);
  const bool groups = coin() && channels % 2 == 0;
  if (groups) count *= static_cast<double>(channels / 2);
  y.bound = 2 * 2 * x.bound + 3;
  y.error = 16 * x.error + (count + 16) * 4 * unit * (1 + x.bound) * (1 + x.bound);
  Strings attributes = {float_attribute("epsilon", 1)};
  if (groups) attributes.push_back(int_attribute("num_groups", 2));
  return emit(groups ? "GroupNormalization" : "InstanceNormalization", {x.name, scale.name, bias.name}, y, attributes);
}

}  // namespace transmuter::runtime::testing
