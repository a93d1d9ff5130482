// What the tests of the raising passes share: programs as exporters write them, raised, and run before and after.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "ir/composites/composites.h"
#include "ir/passes/pipeline.h"
#include "ir/passes/raising.h"
#include "ir/primitives/primitives.h"
#include "ir_testing.h"

namespace transmuter::ir {

using Values = const std::vector<Value>&;
constexpr auto kAdd = ReduceKind::add;

inline Tensor random(Shape shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> numbers(-2, 2);
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(numbers(engine));
  return Tensor(values, shape);
}

// The names of the composites that are left, in order.
inline std::string composites(const Program& program) {
  std::string out;
  for (const Op& op : program.ops())
    if (op.primitive->decompose && op.primitive != &prim::erf) out += str(out.empty() ? "" : " ", op.primitive->name);
  return out;
}

struct Row {
  const char* what;
  std::string left;
  std::function<Value(Builder&, Values)> fn;
};

inline Program raised(const Program& program) {
  PipelineOptions options;
  options.verify = true;
  return run_passes(run_passes(program, standard_passes(), options), raising_passes(), options);
}

inline void check(const std::vector<Shape>& shapes, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Builder b(nullptr);
    std::vector<Value> values;
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) {
      values.push_back(b.input({DType::f32, Dims(shape.begin(), shape.end())}, "x"));
      inputs.push_back(random(shape, static_cast<unsigned>(inputs.size() + 1)));
    }
    const Value result = row.fn(b, values);
    const Program before = b.finish({result}), after = raised(before);
    EXPECT_EQ(composites(after), row.left);
    const std::vector<double> wanted = numbers(evaluate(before, inputs)[0]), got = numbers(evaluate(after, inputs)[0]);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i]))) << i;
  }
}

// The product over an axis of each, in f32; `batching` are axes of both.
inline Value contract(Builder& b, Value x, Value y, std::vector<int64_t> batching, int64_t of_x, int64_t of_y) {
  DotGeneralAttributes a;
  a.lhs_batching = a.rhs_batching = std::move(batching);
  a.lhs_contracting = {of_x};
  a.rhs_contracting = {of_y};
  a.dtype = DType::f32;
  return b.dot_general(x, y, a);
}
inline Value spread(Builder& b, Value small, Value like) { return b.broadcast_to(small, b.shape(like)); }
inline Value square(Builder& b, Value x) { return b.multiply(x, x); }
inline Value power(Builder& b, Value x, double exponent) { return b.power(x, b.like(x, exponent)); }
inline Value plus(Builder& b, Value x, double number) { return b.add(x, b.like(x, number)); }
inline Value times(Builder& b, Value x, double number) { return b.multiply(x, b.like(x, number)); }

}  // namespace transmuter::ir
