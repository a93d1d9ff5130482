#include <algorithm>
#include <cmath>

#include "maker.h"

namespace transmuter::runtime::testing {

bool GraphMaker::reduce() {
  const RandomValue* found = pick([](const RandomValue& v) { return !v.shape.empty() && v.dtype != DType::boolean; });
  if (!found) return false;
  const RandomValue x = *found;
  RandomValue y = x;
  const auto rank = static_cast<int64_t>(x.shape.size()), axis = below(rank);
  if (is_real(x.dtype) && below(3) == 0) return soften(x, axis);
  // One axis, two, or all.
  std::vector<int64_t> axes = {axis};
  if (rank > 1 && coin()) axes.push_back((axis + 1) % rank);
  if (below(6) == 0) {
    axes.clear();
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  const bool keep = coin();
  if (x.error == 0 && below(4) == 0) {
    if (x.shape[static_cast<size_t>(axis)] == 0) return false;
    axes = {axis};
    y.dtype = DType::i64;
  }
  double count = 1;
  std::sort(axes.begin(), axes.end());
  for (size_t i = axes.size(); i-- > 0;) {
    const auto at = static_cast<size_t>(axes[i]);
    count *= static_cast<double>(x.shape[at]);
    if (keep)
      y.shape[at] = 1;
    else
      y.shape.erase(y.shape.begin() + axes[i]);
  }
  if (count == 0) return false;
  if (y.dtype == DType::i64 && (x.dtype != DType::i64 || below(4) == 0)) {
    y.bound = 0;
    if (axes.size() != 1) return false;
    return emit(
        coin() ? "ArgMax" : "ArgMin", {x.name}, y,
        {int_attribute("keepdims", keep), int_attribute("axis", axes[0]), int_attribute("select_last_index", coin())});
  }
  const bool small = is_whole(x.dtype) && bit_width(x.dtype) <= 16;
  if (small && bit_width(x.dtype) == 16) return false;
  constexpr const char* kOps[] = {"ReduceMax",       "ReduceMin",  "ReduceSum",      "ReduceL1",
                                  "ReduceSumSquare", "ReduceMean", "ReduceLogSumExp"};
  const int64_t kind = below(small ? 2 : is_real(x.dtype) ? 7 : 5);
  const double unit = is_real(x.dtype) ? rounding_unit(x.dtype) : 0;
  if (kind == 2 || kind == 3) {
    y.bound = x.bound * count;
    y.error = x.error == 0 ? 0 : x.error * count + count * unit * y.bound;
  } else if (kind == 4) {
    y.bound = x.bound * x.bound * count;
    y.error = x.error == 0 ? 0 : 2 * x.error * x.bound * count + count * unit * y.bound;
  } else if (kind == 5) {
    y.error = x.error + (count + 1) * unit * x.bound;
  } else if (kind == 6) {
    y.bound = x.bound + std::log(count) + 1;
    y.error = x.error + (count + 8) * unit * y.bound;
  }
  return emit(kOps[kind], {x.name, constant(axes)}, y, {int_attribute("keepdims", keep)});
}

bool GraphMaker::soften(const RandomValue& x, int64_t axis) {
  RandomValue y = x;
  const double unit = rounding_unit(x.dtype);
  if (below(3) == 0) {
    const auto size = static_cast<double>(x.shape[static_cast<size_t>(axis)]);
    y.bound = 2 * x.bound + 1 + std::log(size + 1);
    y.error = 2 * x.error + 16 * unit * (1 + y.bound);
    return emit("LogSoftmax", {x.name}, y, {int_attribute("axis", axis)});
  }
  y.bound = 1;
  y.error = 2 * x.error + 16 * unit * (1 + x.bound);
  return emit("Softmax", {x.name}, y, {int_attribute("axis", axis)});
}

bool GraphMaker::contract() {
  const auto fits = [](const RandomValue& v) {
    return v.shape.size() >= 2 && v.dtype != DType::boolean && (is_real(v.dtype) || bit_width(v.dtype) >= 32);
  };
  const RandomValue* found = pick(fits);
  if (!found) return false;
  const RandomValue a = *found;
  RandomValue b;
  const int64_t inner = a.shape.back();
  if (const RandomValue* other = pick([&](const RandomValue& v) {
        return fits(v) && v.dtype == a.dtype && v.shape[v.shape.size() - 2] == inner;
      })) {
    b = *other;
  } else {
    const bool is_unsigned = is_whole(a.dtype) && !is_signed_integer(a.dtype);
    b = weight(a.dtype, {inner, extent()}, is_unsigned ? 0 : -2, 2);
  }
  RandomValue y;
  y.dtype = a.dtype;
  const auto count = static_cast<double>(inner);
  y.bound = count * a.bound * b.bound;
  y.error = count * (a.error * b.bound + b.error * a.bound);
  if (a.shape.size() == 2 && b.shape.size() == 2 && coin()) {
    // With a bias that may broadcast; alpha and beta are powers of two.
    const bool is_unsigned = is_whole(a.dtype) && !is_signed_integer(a.dtype);
    y.shape = {a.shape[0], b.shape[1]};
    const Shape shapes[] = {{}, {y.shape[1]}, {y.shape[0], 1}, y.shape};
    const RandomValue c = weight(a.dtype, one_of(shapes), is_unsigned ? 0 : -4, 4);
    const double factor = coin() ? 1 : 2;
    y.bound = factor * y.bound + 4;
    y.error = factor * y.error;
    if (y.error > 0) y.error += (count + 2) * rounding_unit(y.dtype) * y.bound;
    return emit("Gemm", {a.name, b.name, c.name}, y, {float_attribute("alpha", static_cast<float>(factor))});
  }
  if (!broadcast(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2), y.shape))
    return false;
  y.shape.push_back(a.shape[a.shape.size() - 2]);
  y.shape.push_back(b.shape.back());
  if (y.error > 0) y.error += (count + 1) * rounding_unit(y.dtype) * y.bound;
  return emit("MatMul", {a.name, b.name}, y);
}

}  // namespace transmuter::runtime::testing
