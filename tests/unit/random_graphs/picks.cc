#include <algorithm>

#include "maker.h"

namespace transmuter::runtime::testing {

bool GraphMaker::gather() {
  const RandomValue* found = pick([](const RandomValue& v) { return !v.shape.empty(); });
  if (!found) return false;
  const RandomValue x = *found;
  RandomValue y = x;
  const auto rank = static_cast<int64_t>(x.shape.size()), axis = below(rank);
  const int64_t size = x.shape[static_cast<size_t>(axis)];
  if (element_count(x.shape) == 0) return false;
  switch (below(3)) {
    case 0: {
      const Shape shape = coin() ? Shape{} : coin() ? Shape{below(4)} : Shape{below(3) + 1, below(3) + 1};
      const RandomValue indices = coin() ? input(DType::i64, shape, -size, size - 1)
                                         : weight(coin() ? DType::i64 : DType::i32, shape, -size, size - 1, true);
      y.shape.erase(y.shape.begin() + axis);
      y.shape.insert(y.shape.begin() + axis, shape.begin(), shape.end());
      return emit("Gather", {x.name, indices.name}, y, {int_attribute("axis", axis)});
    }
    case 1: {
      Shape shape;
      for (int64_t i = 0; i < rank; ++i) {
        const int64_t extent = x.shape[static_cast<size_t>(i)];
        shape.push_back(i == axis ? below(4) : below(extent) + 1);
      }
      const RandomValue indices = weight(DType::i64, shape, -size, size - 1);
      y.shape = shape;
      return emit("GatherElements", {x.name, indices.name}, y, {int_attribute("axis", axis)});
    }
    default: {
      // Tuples that name the first axes, behind one of the batch perhaps.
      const int64_t batch = rank > 1 && coin() ? 1 : 0;
      const int64_t named = 1 + below(rank - batch);
      int64_t smallest = x.shape[static_cast<size_t>(batch)];
      for (int64_t i = 0; i < named; ++i) smallest = std::min(smallest, x.shape[static_cast<size_t>(batch + i)]);
      Shape shape = {below(3) + 1, named};
      if (batch == 1) shape.insert(shape.begin(), x.shape[0]);
      const RandomValue indices = weight(DType::i64, shape, -smallest, smallest - 1);
      y.shape.assign(shape.begin(), shape.end() - 1);
      y.shape.insert(y.shape.end(), x.shape.begin() + batch + named, x.shape.end());
      return emit("GatherND", {x.name, indices.name}, y, {int_attribute("batch_dims", batch)});
    }
  }
}

bool GraphMaker::scatter() {
  const RandomValue* found = pick(
      [](const RandomValue& v) { return !v.shape.empty() && v.dtype != DType::boolean && element_count(v.shape) > 0; });
  if (!found) return false;
  const RandomValue x = *found;
  RandomValue y = x;
  const auto rank = static_cast<int64_t>(x.shape.size()), axis = below(rank);
  const int64_t size = x.shape[static_cast<size_t>(axis)];
  constexpr const char* kKinds[] = {"none", "add", "mul", "max", "min"};
  std::string kind = one_of(kKinds);
  const bool nd = coin();
  const int64_t count = below(3) + (kind == "none" ? 0 : 1);
  const Shape rows = {count, 1};
  Shape shape = rows;
  if (!nd) {
    shape = x.shape;
    shape[static_cast<size_t>(axis)] = count;
  }
  const int64_t reach = nd ? x.shape[0] : size;
  RandomValue indices;
  if (kind == "none") {
    // Each place once at most, or the answer is anybody's.
    if (count > reach) return false;
    std::vector<int64_t> places(static_cast<size_t>(element_count(shape)));
    const int64_t first = below(reach - count + 1);
    int64_t inner = 1;
    if (!nd)
      for (int64_t i = axis + 1; i < rank; ++i) inner *= shape[static_cast<size_t>(i)];
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = first + static_cast<int64_t>(i) / inner % std::max<int64_t>(count, 1) - (coin() ? reach : 0);
    indices.name = constant(Tensor(places, shape));
  } else {
    indices = weight(DType::i64, shape, -reach, reach - 1);
  }
  Shape updates_shape = shape;
  if (nd) {
    updates_shape = x.shape;
    updates_shape[0] = count;
  }
  const bool is_unsigned = is_whole(x.dtype) && !is_signed_integer(x.dtype);
  const RandomValue updates = weight(x.dtype, updates_shape, is_unsigned ? 0 : -3, 3);
  const auto times = static_cast<double>(nd ? count : element_count(shape));
  const double rounding = x.error == 0 ? 0 : rounding_unit(x.dtype);
  if (kind == "add") {
    y.bound = x.bound + times * updates.bound;
    y.error = x.error + times * rounding * y.bound;
  } else if (kind == "mul") {
    double factor = 1;
    for (int64_t i = 0; i < static_cast<int64_t>(times) && factor < 1e12; ++i) factor *= 3;
    y.bound = x.bound * factor;
    y.error = factor * x.error + times * rounding * y.bound;
  } else {
    y.bound = std::max(x.bound, updates.bound);
  }
  Strings attributes = {text_attribute("reduction", kind)};
  if (nd) return emit("ScatterND", {x.name, indices.name, updates.name}, y, attributes);
  attributes.push_back(int_attribute("axis", axis));
  return emit("ScatterElements", {x.name, indices.name, updates.name}, y, attributes);
}

bool GraphMaker::sort() {
  const RandomValue* found = pick([](const RandomValue& v) {
    return !v.shape.empty() && v.error == 0 && v.dtype != DType::boolean && v.dtype != DType::bf16;
  });
  if (!found) return false;
  const RandomValue x = *found;
  const auto rank = static_cast<int64_t>(x.shape.size()), axis = below(rank);
  const int64_t size = x.shape[static_cast<size_t>(axis)];
  if (below(4) == 0 && is_real(x.dtype)) return emit("Hardmax", {x.name}, x, {int_attribute("axis", axis)});
  const int64_t k = below(size + 1);
  std::vector<RandomValue> results(2, x);
  for (RandomValue& result : results) result.shape[static_cast<size_t>(axis)] = k;
  results[1].dtype = DType::i64;
  return emit_all("TopK", {x.name, constant({k})}, results,
                  {int_attribute("axis", axis), int_attribute("largest", coin())});
}

bool GraphMaker::other_picks() {
  const RandomValue* found = pick([](const RandomValue& v) { return !v.shape.empty(); });
  if (!found) return false;
  const RandomValue x = *found;
  RandomValue y = x;
  const auto rank = static_cast<int64_t>(x.shape.size()), axis = below(rank);
  switch (below(6)) {
    case 0:
      y.dtype = DType::i64;
      y.shape = {rank};
      y.bound = y.error = 0;
      return emit("Shape", {x.name}, y);
    case 1:
      if (x.error != 0) return false;
      y.dtype = DType::i64;
      y.terminal = true;
      return emit("NonZero", {x.name}, y);
    case 2: {
      if (x.dtype == DType::bf16) return false;  // since opset 28
      const RandomValue condition = input(DType::boolean, {x.shape[static_cast<size_t>(axis)]}, 0, 1);
      y.terminal = true;
      return emit("Compress", {x.name, condition.name}, y, {int_attribute("axis", axis)});
    }
    case 3:
      if (rank < 2) return false;
      return emit("Trilu", {x.name, constant({below(5) - 2}, true)}, y, {int_attribute("upper", coin())});
    case 4: {
      if (!(x.dtype == DType::i64 || x.dtype == DType::i32) || rank > 3) return false;
      y.dtype = DType::f32;
      const int64_t depth = below(5) + 1, place = below(rank + 1);
      y.shape.insert(y.shape.begin() + place, depth);
      y.bound = 2;
      y.error = 0;
      const std::string values = constant(Tensor(std::vector<float>{-1, 2}, {2}));
      return emit("OneHot", {x.name, constant({depth}, true), values}, y, {int_attribute("axis", place)});
    }
    default: {
      constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i32, DType::i64};
      if (std::find(std::begin(kTypes), std::end(kTypes), x.dtype) == std::end(kTypes)) return false;
      const auto size = static_cast<double>(std::max<int64_t>(x.shape[static_cast<size_t>(axis)], 1));
      y.bound = x.bound * size;
      y.error = x.error == 0 ? 0 : size * (x.error + rounding_unit(x.dtype) * x.bound);
      return emit("CumSum", {x.name, constant({axis}, true)}, y,
                  {int_attribute("reverse", coin()), int_attribute("exclusive", coin())});
    }
  }
}

}  // namespace transmuter::runtime::testing
