// Random small graphs with inputs, and how far right answers may lie apart. Floats begin as small integers; each value
// carries a bound of its magnitude and of its rounding error, so that operators which jump (comparisons, floors, casts
// to integers, arg extremes) are given exact values only, and the others are compared within what rounding can explain.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "runtime_testing.h"

namespace transmuter::runtime::testing {

struct RandomValue {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  double bound = 0;       // of the magnitude, floats only
  double error = 0;       // of the rounding; 0: exact
  bool terminal = false;  // its shape is not known here: an output, and no operator's input
};

struct RandomGraph {
  GraphParts parts;  // without the inputs, which are declared with sizes or names
  std::vector<RandomValue> inputs, outputs;
  TensorMap feeds;
  std::string text;  // for the message of a failure
};

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed) : random_(seed) {}

  RandomGraph make() {
    const int64_t inputs = below(3) + 1;
    for (int64_t i = 0; i < inputs; ++i) add_input();
    const int64_t wanted = below(8) + 2;
    for (int64_t made = 0, tries = 0; made < wanted && tries < 400; ++tries) made += step();
    // Whatever nothing reads.
    for (const RandomValue& v : values_)
      if (!read(v.name)) graph_.outputs.push_back(v);
    for (const RandomValue& v : graph_.outputs) graph_.parts.outputs.push_back(value(v.name, number(v.dtype)));
    return std::move(graph_);
  }

  static int32_t number(DType dtype) {
    switch (dtype) {
      case DType::f32:
        return 1;
      case DType::u8:
        return 2;
      case DType::i8:
        return 3;
      case DType::i32:
        return 6;
      case DType::i64:
        return 7;
      case DType::boolean:
        return 9;
      case DType::f16:
        return 10;
      default:
        return 11;  // f64
    }
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  static double unit(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : 0x1p-10; }
  static bool is_real(DType dtype) { return dtype == DType::f16 || dtype == DType::f32 || dtype == DType::f64; }
  // Integers up to here are exact; sums stay well below.
  static double exact_limit(DType dtype) { return dtype == DType::f16 ? 1024 : 4194304; }

  bool read(const std::string& name) const { return std::find(read_.begin(), read_.end(), name) != read_.end(); }

  void add_input() {
    constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::f16,
                                DType::i32, DType::i64, DType::u8,  DType::i8,  DType::boolean};
    RandomValue v;
    v.name = str("in", graph_.inputs.size());
    v.dtype = kTypes[below(10)];
    for (int64_t i = below(5); i > 0; --i) v.shape.push_back(below(12) == 0 ? 0 : below(5) + 1);
    std::vector<int64_t> numbers(static_cast<size_t>(element_count(v.shape)));
    const bool wild = !is_real(v.dtype) && v.dtype != DType::boolean && below(4) == 0;  // wraps around
    for (int64_t& n : numbers) n = wild ? static_cast<int64_t>(random_()) : below(9) - (v.dtype == DType::u8 ? 0 : 4);
    Tensor tensor(numbers, v.shape);
    if (wild) {
      // The low bits, as they are.
      std::vector<int64_t> low = numbers;
      for (int64_t& n : low)
        n = v.dtype == DType::i64   ? n
            : v.dtype == DType::i32 ? static_cast<int32_t>(n)
            : v.dtype == DType::i8  ? static_cast<int8_t>(n)
                                    : static_cast<uint8_t>(n);
      tensor = Tensor(low, v.shape);
    }
    graph_.feeds[v.name] = tensor.cast(v.dtype);
    v.bound = 4;
    values_.push_back(v);
    graph_.inputs.push_back(v);
  }

  template <class Wanted>
  const RandomValue* pick(Wanted wanted) {
    for (int64_t tries = 0; tries < 6; ++tries) {
      const RandomValue& v = values_[static_cast<size_t>(below(static_cast<int64_t>(values_.size())))];
      if (!v.terminal && wanted(v)) return &v;
    }
    return nullptr;
  }

  std::string constant(const std::vector<int64_t>& numbers, bool scalar = false) {
    const std::string name = str("c", graph_.parts.initializers.size());
    graph_.parts.initializers.push_back(int64_tensor(name, numbers, scalar));
    return name;
  }

  // Writes the node; its one result. False for magnitudes that would leave the dtype.
  bool emit(const std::string& op, const Strings& inputs, RandomValue result, const Strings& attributes = {}) {
    if (is_real(result.dtype) && !(result.bound <= exact_limit(result.dtype))) return false;
    result.name = str("v", values_.size());
    graph_.parts.nodes.push_back(node(op, inputs, {result.name}, attributes));
    std::string line = result.name + " = " + op + "(";
    for (const std::string& input : inputs) line += input + " ";
    graph_.text += line + ") " + std::string(name(result.dtype)) + " " + str(result.shape) + "\n";
    read_.insert(read_.end(), inputs.begin(), inputs.end());
    values_.push_back(std::move(result));
    return true;
  }

  static bool broadcast(const Shape& a, const Shape& b, Shape& out) {
    out.assign(std::max(a.size(), b.size()), 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) return false;
      out[out.size() - 1 - i] = x == 1 ? y : x;
    }
    return true;
  }

  bool step() {
    switch (below(12)) {
      case 0:
      case 1:
        return binary();
      case 2:
        return unary();
      case 3:
        return compare();
      case 4:
        return bits();
      case 5:
        return cast();
      case 6:
      case 7:
        return move();
      case 8:
        return pad_or_slice();
      case 9:
        return reduce();
      case 10:
        return contract();
      default:
        return pick_elements();
    }
  }

  bool binary() {
    const RandomValue* a = pick([](const RandomValue& v) { return v.dtype != DType::boolean; });
    if (!a) return false;
    const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype; });
    RandomValue y;
    if (!b || !broadcast(a->shape, b->shape, y.shape)) return false;
    y.dtype = a->dtype;
    constexpr const char* kOps[] = {"Add", "Sub", "Mul", "Min", "Max", "Div", "Mod"};
    const std::string op = kOps[below(is_real(y.dtype) ? 5 : 7)];
    const double rounding = a->error + b->error == 0 ? 0 : unit(y.dtype);
    if (op == "Mul") {
      y.bound = a->bound * b->bound;
      y.error = a->error * b->bound + b->error * a->bound + rounding * y.bound;
    } else {
      y.bound = op == "Add" || op == "Sub" ? a->bound + b->bound : std::max(a->bound, b->bound);
      y.error = a->error + b->error + rounding * y.bound;
    }
    return emit(op, {a->name, b->name}, y);
  }

  bool unary() {
    const RandomValue* x = pick([](const RandomValue& v) { return v.dtype != DType::boolean; });
    if (!x) return false;
    RandomValue y = *x;
    if (!is_real(x->dtype)) {
      if (x->dtype == DType::u8) return emit("Abs", {x->name}, y);
      constexpr const char* kOps[] = {"Abs", "Neg", "Sign"};
      return emit(kOps[below(3)], {x->name}, y);
    }
    if (coin()) {
      constexpr const char* kOps[] = {"Abs", "Neg", "Relu", "Identity"};
      return emit(kOps[below(4)], {x->name}, y);
    }
    if (x->error == 0 && below(3) == 0) {
      constexpr const char* kOps[] = {"Floor", "Ceil", "Round", "Sign"};
      return emit(kOps[below(4)], {x->name}, y);
    }
    // Their slopes are at most 1.2; a few units of rounding.
    constexpr const char* kOps[] = {"Sigmoid", "Tanh", "Sin", "Cos", "Erf", "Softplus", "Gelu", "HardSwish", "Elu"};
    y.bound = x->bound + 1;
    y.error = 1.2 * x->error + 8 * unit(x->dtype) * y.bound;
    return emit(kOps[below(9)], {x->name}, y);
  }

  bool compare() {
    const RandomValue* a = pick([](const RandomValue& v) { return v.error == 0; });
    if (!a) return false;
    const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype && v.error == 0; });
    RandomValue y;
    if (!b || !broadcast(a->shape, b->shape, y.shape)) return false;
    y.dtype = DType::boolean;
    constexpr const char* kOps[] = {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"};
    constexpr const char* kLogic[] = {"And", "Or", "Xor"};
    return emit(a->dtype == DType::boolean ? kLogic[below(3)] : kOps[below(5)], {a->name, b->name}, y);
  }

  bool bits() {
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
    const RandomValue* a = pick([](const RandomValue& v) { return !is_real(v.dtype) && v.dtype != DType::boolean; });
    if (!a) return false;
    const RandomValue* b = pick([&](const RandomValue& v) { return v.dtype == a->dtype; });
    RandomValue y;
    if (!b || !broadcast(a->shape, b->shape, y.shape)) return false;
    y.dtype = a->dtype;
    constexpr const char* kOps[] = {"BitwiseAnd", "BitwiseOr", "BitwiseXor"};
    return emit(kOps[below(3)], {a->name, b->name}, y);
  }

  bool cast() {
    constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::i32,
                                DType::i64, DType::u8,  DType::i8,  DType::boolean};
    const RandomValue* x = pick([](const RandomValue&) { return true; });
    RandomValue y = *(x ? x : &values_[0]);
    y.dtype = kTypes[below(8)];
    if (!x || (!is_real(y.dtype) && x->error != 0)) return false;
    if (is_real(y.dtype) && is_real(x->dtype)) {
      if (x->error != 0) y.error += unit(y.dtype) * x->bound;
    } else if (is_real(y.dtype)) {
      // Integers of any size may have wrapped: only small dtypes stay small.
      if (x->dtype == DType::i32 || x->dtype == DType::i64) return false;
      y.bound = x->dtype == DType::boolean ? 1 : 256;
      y.error = 0;
    }
    if (!is_real(y.dtype)) y.bound = 0;
    return emit("Cast", {x->name}, y, {int_attribute("to", number(y.dtype))});
  }

  bool move() {
    const RandomValue* x = pick([](const RandomValue&) { return true; });
    if (!x) return false;
    RandomValue y = *x;
    const int64_t rank = static_cast<int64_t>(x->shape.size());
    switch (below(7)) {
      case 0: {
        std::vector<int64_t> order(static_cast<size_t>(rank));
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        for (size_t i = order.size(); i > 1; --i)
          std::swap(order[i - 1], order[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
        for (size_t i = 0; i < order.size(); ++i) y.shape[i] = x->shape[static_cast<size_t>(order[i])];
        return emit("Transpose", {x->name}, y, {ints_attribute("perm", order)});
      }
      case 1: {
        if (element_count(x->shape) == 0) return false;
        y.shape = {element_count(x->shape)};
        if (rank > 1 && coin()) y.shape = {x->shape[0], element_count(x->shape) / x->shape[0]};
        std::vector<int64_t> to = y.shape;
        if (coin()) to.back() = -1;
        return emit("Reshape", {x->name, constant(to)}, y);
      }
      case 2: {
        if (rank > 4) return false;
        const int64_t axis = below(rank + 1);
        y.shape.insert(y.shape.begin() + axis, 1);
        return emit("Unsqueeze", {x->name, constant({coin() ? axis : axis - rank - 1})}, y);
      }
      case 3: {
        std::vector<int64_t> to;
        for (int64_t extent : x->shape) to.push_back(extent == 1 ? below(3) + 1 : extent);
        y.shape = to;
        return emit("Expand", {x->name, constant(to)}, y);
      }
      case 4: {
        if (rank == 0 || element_count(x->shape) > 200) return false;
        std::vector<int64_t> repeats;
        for (int64_t& extent : y.shape) repeats.push_back(below(2) + 1), extent *= repeats.back();
        return emit("Tile", {x->name, constant(repeats)}, y);
      }
      case 5: {
        const RandomValue* other =
            pick([&](const RandomValue& v) { return v.dtype == x->dtype && v.shape.size() == x->shape.size(); });
        if (!other || rank == 0) return false;
        const size_t axis = static_cast<size_t>(below(rank));
        for (size_t i = 0; i < x->shape.size(); ++i)
          if (i != axis && x->shape[i] != other->shape[i]) return false;
        y.shape[axis] += other->shape[axis];
        y.bound = std::max(x->bound, other->bound);
        y.error = std::max(x->error, other->error);
        return emit("Concat", {x->name, other->name}, y, {int_attribute("axis", static_cast<int64_t>(axis))});
      }
      default: {
        if (rank == 0) return false;
        const int64_t axis = below(rank + 1);
        int64_t rows = 1, columns = 1;
        for (int64_t i = 0; i < rank; ++i) (i < axis ? rows : columns) *= x->shape[static_cast<size_t>(i)];
        y.shape = {rows, columns};
        return emit("Flatten", {x->name}, y, {int_attribute("axis", axis)});
      }
    }
  }

  bool pad_or_slice() {
    const RandomValue* x = pick([](const RandomValue& v) { return !v.shape.empty(); });
    if (!x) return false;
    RandomValue y = *x;
    const int64_t rank = static_cast<int64_t>(x->shape.size()), axis = below(rank);
    int64_t& extent = y.shape[static_cast<size_t>(axis)];
    if (coin()) {
      std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
      const bool reflects = extent > 2 && coin();
      const int64_t low = below(3), high = below(3);
      pads[static_cast<size_t>(axis)] = low;
      pads[static_cast<size_t>(rank + axis)] = high;
      extent += low + high;
      return emit("Pad", {x->name, constant(pads)}, y, {entry_mode(reflects ? "reflect" : "constant")});
    }
    const int64_t start = below(5) - 2, end = below(8) - 2, step = coin() ? 1 : coin() ? 2 : -1;
    // The specification's rules, by walking: with a negative step the start is clamped to 0, where NumPy has nothing.
    const auto place = [&](int64_t i) { return i < 0 ? i + extent : i; };
    int64_t from = place(start), to = place(end), count = 0;
    if (step > 0) {
      from = std::clamp<int64_t>(from, 0, extent), to = std::clamp<int64_t>(to, 0, extent);
      for (int64_t i = from; i < to; i += step) ++count;
    } else {
      from = std::clamp<int64_t>(from, 0, std::max<int64_t>(extent - 1, 0)),
      to = std::clamp<int64_t>(to, -1, extent - 1);
      for (int64_t i = from; i > to; i += step) ++count;
    }
    if (extent == 0) count = 0;
    extent = count;
    return emit("Slice", {x->name, constant({start}), constant({end}), constant({axis}), constant({step})}, y);
  }

  static std::string entry_mode(const std::string& mode) {
    std::string out;
    protozero::pbf_writer writer(out);
    writer.add_string(1, "mode");
    writer.add_bytes(4, mode);
    writer.add_int32(20, 3);
    return out;
  }

  bool reduce() {
    const RandomValue* x = pick([](const RandomValue& v) {
      return !v.shape.empty() && (is_real(v.dtype) || v.dtype == DType::i32 || v.dtype == DType::i64);
    });
    if (!x) return false;
    RandomValue y = *x;
    const int64_t rank = static_cast<int64_t>(x->shape.size()), axis = below(rank);
    const auto count = static_cast<double>(x->shape[static_cast<size_t>(axis)]);
    if (count == 0) return false;
    const bool keep = coin();
    if (keep)
      y.shape[static_cast<size_t>(axis)] = 1;
    else
      y.shape.erase(y.shape.begin() + axis);
    const Strings attributes = {int_attribute("keepdims", keep)};
    if (is_real(x->dtype) && coin()) {
      y.shape = x->shape;
      y.bound = 1;
      y.error = 2 * x->error + 16 * unit(x->dtype) * (1 + x->bound);
      return emit("Softmax", {x->name}, y, {int_attribute("axis", axis)});
    }
    if (x->error == 0 && below(3) == 0) {
      y.dtype = DType::i64;
      return emit(coin() ? "ArgMax" : "ArgMin", {x->name}, y,
                  {int_attribute("keepdims", keep), int_attribute("axis", axis)});
    }
    constexpr const char* kOps[] = {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceMean"};
    const int64_t kind = below(is_real(x->dtype) ? 5 : 4);
    if (kind >= 2) {
      if (kind != 4) y.bound = x->bound * count;
      y.error = x->error * count + (x->error == 0 && kind != 4 ? 0 : count * unit(x->dtype) * x->bound);
    }
    return emit(kOps[kind], {x->name, constant({axis})}, y, attributes);
  }

  bool contract() {
    const auto fits = [](const RandomValue& v) {
      return v.shape.size() >= 2 && (is_real(v.dtype) || v.dtype == DType::i32 || v.dtype == DType::i64);
    };
    const RandomValue* a = pick(fits);
    if (!a) return false;
    const RandomValue* b = pick([&](const RandomValue& v) {
      return fits(v) && v.dtype == a->dtype && v.shape[v.shape.size() - 2] == a->shape.back();
    });
    if (!b) return false;
    RandomValue y;
    if (!broadcast(Shape(a->shape.begin(), a->shape.end() - 2), Shape(b->shape.begin(), b->shape.end() - 2), y.shape))
      return false;
    y.shape.push_back(a->shape[a->shape.size() - 2]);
    y.shape.push_back(b->shape.back());
    y.dtype = a->dtype;
    const auto count = static_cast<double>(a->shape.back());
    y.bound = count * a->bound * b->bound;
    y.error = count * (a->error * b->bound + b->error * a->bound);
    if (y.error > 0) y.error += (count + 1) * unit(y.dtype) * y.bound;
    return emit("MatMul", {a->name, b->name}, y);
  }

  bool pick_elements() {
    const RandomValue* x = pick([](const RandomValue& v) { return !v.shape.empty(); });
    if (!x) return false;
    RandomValue y = *x;
    const int64_t rank = static_cast<int64_t>(x->shape.size()), axis = below(rank);
    const int64_t extent = x->shape[static_cast<size_t>(axis)];
    switch (below(4)) {
      case 0: {
        if (extent == 0) return false;
        std::vector<int64_t> indices(static_cast<size_t>(below(4)));
        for (int64_t& i : indices) i = below(2 * extent) - extent;
        y.shape[static_cast<size_t>(axis)] = static_cast<int64_t>(indices.size());
        return emit("Gather", {x->name, constant(indices)}, y, {int_attribute("axis", axis)});
      }
      case 1: {
        y.dtype = DType::i64;
        y.shape = {rank};
        y.error = 0;
        return emit("Shape", {x->name}, y);
      }
      case 2: {
        if (x->error != 0) return false;
        y.dtype = DType::i64;
        y.terminal = true;
        return emit("NonZero", {x->name}, y);
      }
      default: {
        if (x->dtype != DType::f32 && x->dtype != DType::f64 && x->dtype != DType::i32 && x->dtype != DType::i64)
          return false;
        y.bound = x->bound * static_cast<double>(std::max<int64_t>(extent, 1));
        y.error = x->error == 0 ? 0 : static_cast<double>(extent) * (x->error + unit(x->dtype) * x->bound);
        return emit("CumSum", {x->name, constant({axis}, true)}, y, {int_attribute("reverse", coin())});
      }
    }
  }

  std::mt19937_64 random_;
  RandomGraph graph_;
  std::vector<RandomValue> values_;
  Strings read_;
};

}  // namespace transmuter::runtime::testing
