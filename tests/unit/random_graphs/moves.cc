#include <algorithm>
#include <numeric>

#include "maker.h"

namespace transmuter::runtime::testing {

bool GraphMaker::move() {
  const RandomValue* x = pick([](const RandomValue&) { return true; });
  if (!x) return false;
  const RandomValue chosen = *x;
  switch (below(6)) {
    case 0:
      return reorder(chosen);
    case 1:
      return reshape(chosen);
    case 2:
      return enlarge(chosen);
    case 3:
      return join_or_split(chosen);
    case 4:
      return pad(chosen);
    default:
      return slice(chosen);
  }
}

bool GraphMaker::reorder(const RandomValue& x) {
  RandomValue y = x;
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (rank == 4 && below(3) == 0) {
    const int64_t channels = x.shape[1];
    if (channels % 4 == 0 && coin()) {
      y.shape = {x.shape[0], channels / 4, x.shape[2] * 2, x.shape[3] * 2};
      return emit("DepthToSpace", {x.name}, y,
                  {int_attribute("blocksize", 2), text_attribute("mode", coin() ? "DCR" : "CRD")});
    }
    if (x.shape[2] % 2 == 0 && x.shape[3] % 2 == 0) {
      y.shape = {x.shape[0], channels * 4, x.shape[2] / 2, x.shape[3] / 2};
      return emit("SpaceToDepth", {x.name}, y, {int_attribute("blocksize", 2)});
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  for (size_t i = 0; i < order.size(); ++i) y.shape[i] = x.shape[static_cast<size_t>(order[i])];
  return emit("Transpose", {x.name}, y, {ints_attribute("perm", order)});
}

bool GraphMaker::reshape(const RandomValue& x) {
  RandomValue y = x;
  const auto rank = static_cast<int64_t>(x.shape.size());
  switch (below(4)) {
    case 0: {
      if (element_count(x.shape) == 0) return false;
      y.shape = {element_count(x.shape)};
      if (rank > 1 && coin()) y.shape = {x.shape[0], element_count(x.shape) / x.shape[0]};
      std::vector<int64_t> to = y.shape;
      if (coin()) to.back() = -1;
      if (to.size() == 2 && coin()) to[0] = 0;
      return emit("Reshape", {x.name, constant(to)}, y);
    }
    case 1: {
      if (rank > 4) return false;
      const int64_t axis = below(rank + 1);
      y.shape.insert(y.shape.begin() + axis, 1);
      return emit("Unsqueeze", {x.name, constant({coin() ? axis : axis - rank - 1})}, y);
    }
    case 2: {
      const auto one = std::find(x.shape.begin(), x.shape.end(), 1);
      if (one == x.shape.end()) return false;
      const int64_t axis = one - x.shape.begin();
      y.shape.erase(y.shape.begin() + axis);
      return emit("Squeeze", {x.name, constant({coin() ? axis : axis - rank})}, y);
    }
    default: {
      if (rank == 0) return false;
      const int64_t axis = below(rank + 1);
      int64_t rows = 1, columns = 1;
      for (int64_t i = 0; i < rank; ++i) (i < axis ? rows : columns) *= x.shape[static_cast<size_t>(i)];
      y.shape = {rows, columns};
      return emit("Flatten", {x.name}, y, {int_attribute("axis", axis)});
    }
  }
}

bool GraphMaker::enlarge(const RandomValue& x) {
  RandomValue y = x;
  std::vector<int64_t> sizes;
  if (coin()) {
    for (int64_t& extent : y.shape) {
      sizes.push_back(extent == 1 ? below(3) + 1 : coin() ? 1 : extent);
      extent = std::max(extent == 1 ? sizes.back() : extent, extent == 0 ? 0 : int64_t{1});
    }
    return emit("Expand", {x.name, constant(sizes)}, y);
  }
  if (x.shape.empty() || element_count(x.shape) > 200) return false;
  for (int64_t& extent : y.shape) sizes.push_back(below(2) + 1), extent *= sizes.back();
  return emit("Tile", {x.name, constant(sizes)}, y);
}

bool GraphMaker::join_or_split(const RandomValue& x) {
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (rank == 0) return false;
  const auto axis = static_cast<size_t>(below(rank));
  RandomValue y = x;
  if (coin()) {
    // In parts of which all may be outputs.
    const int64_t first = below(x.shape[axis] + 1);
    std::vector<RandomValue> parts(2, x);
    parts[0].shape[axis] = first;
    parts[1].shape[axis] = x.shape[axis] - first;
    return emit_all("Split", {x.name, constant({first, x.shape[axis] - first})}, parts,
                    {int_attribute("axis", static_cast<int64_t>(axis) - (coin() ? rank : 0))});
  }
  const RandomValue* other =
      pick([&](const RandomValue& v) { return v.dtype == x.dtype && v.shape.size() == x.shape.size(); });
  if (!other) return false;
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (i != axis && x.shape[i] != other->shape[i]) return false;
  y.shape[axis] += other->shape[axis];
  y.bound = std::max(x.bound, other->bound);
  y.error = std::max(x.error, other->error);
  return emit("Concat", {x.name, other->name}, y, {int_attribute("axis", static_cast<int64_t>(axis))});
}

bool GraphMaker::pad(const RandomValue& x) {
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (rank == 0) return false;
  RandomValue y = x;
  const auto axis = static_cast<size_t>(below(rank));
  int64_t& extent = y.shape[axis];
  constexpr const char* kModes[] = {"constant", "reflect", "edge", "wrap"};
  std::string mode = one_of(kModes);
  // Reflections stay inside; negative pads cut.
  if (extent < 3) mode = "constant";
  const int64_t low = below(mode == "constant" && extent > 2 ? 4 : 3) - (mode == "constant" && extent > 2 ? 1 : 0);
  const int64_t high = below(3);
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
  pads[axis] = low;
  pads[static_cast<size_t>(rank) + axis] = high;
  extent += low + high;
  return emit("Pad", {x.name, constant(pads)}, y, {text_attribute("mode", mode)});
}

bool GraphMaker::slice(const RandomValue& x) {
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (rank == 0) return false;
  RandomValue y = x;
  const int64_t axis = below(rank);
  int64_t& extent = y.shape[static_cast<size_t>(axis)];
  const int64_t start = below(5) - 2, end = below(8) - 2, step = coin() ? 1 : coin() ? 2 : -1;
  // The specification's rules, by walking: with a negative step the start is clamped to 0, where NumPy has nothing.
  const auto place = [&](int64_t i) { return i < 0 ? i + extent : i; };
  int64_t from = place(start), to = place(end), count = 0;
  if (step > 0) {
    from = std::clamp<int64_t>(from, 0, extent), to = std::clamp<int64_t>(to, 0, extent);
    for (int64_t i = from; i < to; i += step) ++count;
  } else {
    from = std::clamp<int64_t>(from, 0, std::max<int64_t>(extent - 1, 0)), to = std::clamp<int64_t>(to, -1, extent - 1);
    for (int64_t i = from; i > to; i += step) ++count;
  }
  if (extent == 0) count = 0;
  extent = count;
  return emit("Slice", {x.name, constant({start}), constant({end}), constant({axis}), constant({step})}, y);
}

}  // namespace transmuter::runtime::testing
