// Building and running one-op programs in tests of the primitives and composites.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "tensor/cast.h"

namespace transmuter::ir::prim_testing {

inline Tensor floats(std::vector<float> values, Shape shape) { return Tensor(std::move(values), std::move(shape)); }
inline Tensor ints(std::vector<int64_t> values, Shape shape) { return Tensor(std::move(values), std::move(shape)); }
inline std::vector<float> counting(int64_t count, float first = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

// Builds body(builder, inputs) over inputs of the tensors' types and runs it.
template <class Body>
std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Body& body) {
  Builder build(nullptr);
  std::vector<Value> values;
  for (const Tensor& input : inputs)
    values.push_back(build.input({input.dtype(), Dims(input.shape().begin(), input.shape().end())}, "x"));
  return evaluate(build.finish(body(build, values)), inputs);
}
template <class Body>
Tensor run1(const std::vector<Tensor>& inputs, const Body& body) {
  return run(inputs,
             [&](Builder& build, const std::vector<Value>& in) { return std::vector<Value>{body(build, in)}; })[0];
}

inline std::vector<double> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.cast(DType::f64);
  return wide.to_vector<double>();
}

// Shape and elements; tolerance relative to max(1, |expected|). NaN equals NaN.
inline void expect_tensor(const Tensor& got, const Shape& shape, const std::vector<double>& expected,
                          double tolerance = 1e-6) {
  EXPECT_EQ(got.shape(), shape);
  const auto values = numbers(got);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]) ? std::isnan(values[i]) : values[i] == expected[i]) continue;
    EXPECT_LE(std::abs(values[i] - expected[i]), tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i << ": " << values[i] << ", expected " << expected[i];
  }
}

// The gradient of sum(results * weights) by the op's own rule against central differences, in f64, for each float
// operand. `body` builds one op from its inputs.
template <class Body>
void check_gradient(const std::vector<Tensor>& inputs, const Body& body, double tolerance = 1e-5) {
  Builder build(nullptr);
  std::vector<Value> in;
  for (const Tensor& input : inputs)
    in.push_back(build.input({input.dtype(), Dims(input.shape().begin(), input.shape().end())}, "x"));
  const Value result = body(build, in);
  const Op op = *build.definition(result);
  const auto weight = [](int64_t i) { return std::sin(1.0 + 2.0 * static_cast<double>(i)); };
  Tensor weights(DType::f64, Shape{hints(build.shape(result))});
  for (int64_t i = 0; i < weights.size(); ++i) weights.mutable_data<double>()[i] = weight(i);
  std::vector<Value> gradients(op.results.size());
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (op.results[i] == result) gradients[i] = build.constant(weights);
  }
  ASSERT_NE(op.primitive->vjp, nullptr);
  VjpContext context{build, op, op.operands, op.results, gradients};
  const std::vector<Value> rule = op.primitive->vjp(context);
  ASSERT_EQ(rule.size(), op.operands.size());
  std::vector<Value> wanted;
  std::vector<size_t> index;
  for (size_t i = 0; i < in.size(); ++i) {
    for (size_t o = 0; o < op.operands.size(); ++o) {
      if (!(op.operands[o] == in[i]) || inputs[i].dtype() != DType::f64) continue;
      wanted.push_back(rule[o] ? rule[o] : build.like(in[i], 0));
      index.push_back(i);
    }
  }
  const auto loss = [&](const std::vector<Tensor>& at) {
    const auto out = numbers(run1(at, body));
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * weight(static_cast<int64_t>(i));
    return sum;
  };
  const auto got = evaluate(build.finish(wanted), inputs);
  for (size_t g = 0; g < got.size(); ++g) {
    ASSERT_EQ(got[g].shape(), inputs[index[g]].shape());
    for (int64_t i = 0; i < got[g].size(); ++i) {
      const double step = 1e-5;
      std::vector<Tensor> up = inputs, down = inputs;
      up[index[g]] = up[index[g]].clone();
      down[index[g]] = down[index[g]].clone();
      up[index[g]].mutable_data<double>()[i] += step;
      down[index[g]].mutable_data<double>()[i] -= step;
      const double expected = (loss(up) - loss(down)) / (2 * step);
      EXPECT_NEAR(got[g].data<double>()[i], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "input " << index[g] << ", element " << i;
    }
  }
}

// Values without ties or zeros, in f64.
inline Tensor spread(Shape shape, double seed = 0.3) {
  Tensor tensor(DType::f64, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.mutable_data<double>()[i] =
        2 * std::sin(seed + 1.7 * static_cast<double>(i)) + 0.01 * static_cast<double>(i);
  return tensor;
}

}  // namespace transmuter::ir::prim_testing

namespace transmuter::ir {
using namespace prim_testing;  // NOLINT: every test of this family
}
