// Random small graphs with inputs, and how far right answers may lie apart. Floats begin as small integers; each value
// carries a bound of its magnitude and of its rounding error, so that operators which jump (comparisons, floors, casts
// to integers, arg extremes, quantization) are given exact values only, and the others are compared within what
// rounding can explain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../runtime_testing.h"

namespace transmuter::runtime::testing {

struct RandomValue {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  double bound = 0;       // of the magnitude, floats only
  double error = 0;       // of the rounding; 0: exact
  bool terminal = false;  // its shape is not known here: an output, and no operator's input
};

struct RandomInput {
  RandomValue value;
  int64_t low = 0, high = 0;  // of what it holds
  bool wild = false;          // any bits; for integers
};

struct RandomGraph {
  GraphParts parts;  // without the inputs, which are declared with sizes or names
  std::vector<RandomInput> inputs;
  std::vector<RandomValue> outputs;
  TensorMap feeds;
  std::string text;  // for the message of a failure
};

// ONNX's number of a dtype.
int32_t type_number(DType dtype);
// How far one rounding of a value of magnitude 1 goes.
double rounding_unit(DType dtype);
// Numbers for an input, in another shape perhaps.
Tensor numbers_for(const RandomInput& input, const Shape& shape, uint64_t seed);

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed) : random_(seed) {}

  RandomGraph make();

 private:
  // Values made inside a subgraph go with it.
  struct Body {
    Strings nodes;
    std::vector<RandomValue> made;
  };

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  template <class T, size_t kCount>
  const T& one_of(const T (&choices)[kCount]) {
    return choices[below(static_cast<int64_t>(kCount))];
  }
  // An extent: small, now and then beyond a vector or a tile.
  int64_t extent() { return below(14) == 0 ? 9 + below(30) : below(5) + 1; }
  Shape some_shape(int64_t rank);

  static bool is_real(DType dtype) {
    return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
  }
  static bool is_whole(DType dtype) { return !is_real(dtype) && dtype != DType::boolean; }
  // Integers up to here are exact; sums stay well below.
  static double exact_limit(DType dtype);

  bool read(const std::string& name) const;
  template <class Wanted>
  const RandomValue* pick(Wanted wanted) {
    const auto count = static_cast<int64_t>(values_.size());
    for (int64_t tries = 0; tries < 6; ++tries) {
      // Often what was made last: chains are what gets fused.
      const int64_t i = coin() ? count - 1 - below(std::min<int64_t>(count, 3)) : below(count);
      const RandomValue& v = values_[static_cast<size_t>(i)];
      if (!v.terminal && wanted(v)) return &v;
    }
    return nullptr;
  }

  // Leaves that operators want: an input, or a weight (a constant, seldom an input).
  void add_input();
  RandomValue input(DType dtype, const Shape& shape, int64_t low, int64_t high, bool wild = false);
  RandomValue weight(DType dtype, const Shape& shape, int64_t low, int64_t high, bool constant = false);
  std::string constant(const std::vector<int64_t>& numbers, bool scalar = false);
  std::string constant(const Tensor& tensor);

  // Writes the node; its results, or its one result. False for magnitudes that would leave the dtype.
  bool emit(const std::string& op, const Strings& inputs, RandomValue result, const Strings& attributes = {},
            const std::string& domain = "");
  bool emit_all(const std::string& op, const Strings& inputs, std::vector<RandomValue> results,
                const Strings& attributes = {}, const std::string& domain = "");
  // What was made last, by value: later nodes move the values.
  RandomValue last() const { return values_.back(); }

  static bool broadcast(const Shape& a, const Shape& b, Shape& out);

  bool step();
  // elementwise.cc
  bool binary();
  bool unary();
  bool compare();
  bool bits();
  bool cast();
  // moves.cc
  bool move();
  bool reorder(const RandomValue& x);
  bool reshape(const RandomValue& x);
  bool enlarge(const RandomValue& x);
  bool join_or_split(const RandomValue& x);
  bool pad(const RandomValue& x);
  bool slice(const RandomValue& x);
  // picks.cc
  bool gather();
  bool scatter();
  bool sort();
  bool other_picks();
  // sums.cc
  bool reduce();
  bool contract();
  bool soften(const RandomValue& x, int64_t axis);
  // windows.cc
  RandomValue picture();
  bool convolve();
  bool convolve_back();
  bool pool();
  bool normalize_channels();
  // patterns.cc: what exporters write for one operator
  bool pattern();
  bool layer_norm(bool written_out);
  bool attention();
  bool gelu();
  // quantized.cc
  bool quantized();
  bool quantize(const RandomValue& x);
  bool dequantize(const RandomValue& x);
  bool quantized_chain();
  bool integer_product();
  bool integer_convolution();
  bool dynamic_product();
  bool few_bits_product();
  // regions.cc
  bool region();
  Body body(const std::function<void()>& make);
  bool branch();
  bool loop();
  bool scan();
  std::string close_body(const Body& body, const std::vector<RandomValue>& inputs,
                         const std::vector<RandomValue>& outputs);
  RandomValue carried(const RandomValue& state);
  // Some steps of a trip: what they make of the state, and a value to stack.
  std::pair<RandomValue, RandomValue> trip_of(const RandomValue& state);

  std::mt19937_64 random_;
  RandomGraph graph_;
  Strings* nodes_ = &graph_.parts.nodes;
  std::vector<RandomValue> values_;
  Strings read_;
  int64_t names_ = 0;
  int depth_ = 0;
};

}  // namespace transmuter::runtime::testing
