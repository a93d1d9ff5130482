// Products of integers and of dequantized values on the CPU engine, with what follows them, against the interpreter.
#include <gtest/gtest.h>

#include <random>

#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir/passes/inline_composites.h"
#include "ir_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

using ir::Builder;
using ir::Value;

template <class T>
Tensor random_bytes(Shape shape, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<T> values(static_cast<size_t>(element_count(shape)));
  for (T& v : values) v = static_cast<T>(rng());
  return Tensor(values, std::move(shape));
}

Tensor random_floats(Shape shape, uint32_t seed, float low, float high) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (float& v : values) v = value(rng);
  return Tensor(values, std::move(shape));
}

// Compiles with inputs of the tensors' types, runs, compares.
template <class Body>
void expect_same(const std::vector<Tensor>& inputs, double tolerance, const Body& body) {
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  Builder b(scope);
  std::vector<Value> in;
  for (const Tensor& input : inputs)
    in.push_back(b.input({input.dtype(), Dims(input.shape().begin(), input.shape().end())}, "x"));
  const ir::Program program = b.finish(body(b, in));
  const auto backend = Backend::get("cpu");
  const ir::Program ready = ir::inline_composites(
      program, [&](const ir::Program& p, const ir::Op& op) { return backend->takes_composite(p, op); });
  const std::vector<Tensor> want = ir::evaluate(program, inputs);
  for (const int threads : {1, 3}) {
    BackendOptions options;
    options.threads = threads;
    const auto executable = backend->compile(ready, options);
    std::vector<Buffer> buffers;
    for (const Tensor& input : inputs) buffers.push_back({.host = input});
    Bindings bindings(scope);
    const std::vector<Buffer> got = executable->run(buffers, bindings);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].host.shape(), want[i].shape());
      ASSERT_EQ(got[i].host.dtype(), want[i].dtype());
      const std::vector<double> g = ir::numbers(got[i].host), w = ir::numbers(want[i]);
      // A byte is a rounded float: one of the two may fall on the other side of a half, seldom.
      const bool bytes = bit_width(want[i].dtype()) == 8;
      size_t apart = 0;
      for (size_t k = 0; k < w.size(); ++k) {
        ASSERT_NEAR(g[k], w[k], bytes ? 1 : tolerance * (1 + std::abs(w[k]))) << "result " << i << ", element " << k;
        apart += bytes && g[k] != w[k];
      }
      EXPECT_LE(apart, w.size() / 500);
    }
  }
}

Value product(Builder& b, Value x, Value w, DType dtype, int64_t inner) {
  ir::DotGeneralAttributes dot;
  dot.dtype = dtype;
  dot.lhs_contracting = {b.rank(x) - 1};
  dot.rhs_contracting = {inner};
  return b.dot_general(x, w, dot);
}

TEST(CpuIntegerProduct, IntegersStayExactAndWhatFollowsRunsOnTheTile) {
  for (const int64_t m : {1, 5, 40}) {
    const Tensor x = random_bytes<uint8_t>({m, 37}, 1), w = random_bytes<int8_t>({37, 45}, 2);
    const std::vector<Tensor> inputs = {x, random_bytes<int8_t>({45}, 3).cast(DType::i32),
                                        random_floats({45}, 4, 0.001f, 0.01f), random_floats({m, 45}, 5, -1, 1),
                                        random_floats({}, 6, 0.01f, 0.02f)};
    expect_same(inputs, 1e-5, [&](Builder& b, const auto& in) {
      const Value weight = b.weight(w, "w");
      const auto dot = [&] { return product(b, in[0], weight, DType::i32, 0); };
      const Dims shape = b.shape(dot());
      const auto along = [&](Value v) { return b.broadcast_in_dim(v, shape, {1}); };
      const Value shifted = b.subtract(dot(), along(in[1]));
      const Value scaled = b.multiply(b.convert(b.subtract(dot(), along(in[1])), DType::f32), along(in[2]));
      const Value by_one = b.multiply(b.convert(dot(), DType::f32), b.broadcast_to(in[4], shape));
      return std::vector<Value>{dot(), shifted, b.maximum(b.add(scaled, in[3]), b.like(scaled, 0)),
                                b.add(by_one, along(in[2]))};
    });
  }
}

struct Quantized {
  Tensor elements, scale, zero;
};
Value dequantized(Builder& b, Value elements, const Quantized& q, int64_t axis) {
  ir::QuantizeAttributes attributes;
  attributes.dtype = DType::f32;
  attributes.axis = axis;
  return ir::dequantize_linear(b, elements, b.constant(q.scale), b.constant(q.zero), attributes);
}

Value quantized(Builder& b, Value x, float scale, bool is_signed, bool has_zero = true) {
  ir::QuantizeAttributes attributes;
  attributes.dtype = is_signed ? DType::i8 : DType::u8;
  const Value zero = has_zero ? b.integer(attributes.dtype, is_signed ? -3 : 120) : Value();
  return ir::quantize_linear(b, x, b.scalar(DType::f32, scale), zero, attributes);
}

TEST(CpuIntegerProduct, ProductsOfDequantizedValues) {
  for (const bool transposed : {false, true}) {
    const Tensor x = random_bytes<uint8_t>({2, 6, 50}, 1);
    const Quantized q{x, Tensor(std::vector<float>{0.02f}, {}), Tensor(std::vector<uint8_t>{131}, {})};
    const Quantized w{random_bytes<int8_t>(transposed ? Shape{33, 50} : Shape{50, 33}, 2),
                      random_floats({33}, 3, 0.001f, 0.01f), Tensor(std::vector<int8_t>(33, 0), {33})};
    expect_same({x, random_floats({33}, 4, -1, 1)}, 1e-4, [&](Builder& b, const auto& in) {
      const Value y =
          product(b, dequantized(b, in[0], q, 0), dequantized(b, b.weight(w.elements, "w"), w, transposed ? 0 : 1),
                  DType::f32, transposed ? 1 : 0);
      const Value again =
          product(b, dequantized(b, in[0], q, 0), dequantized(b, b.weight(w.elements, "w"), w, transposed ? 0 : 1),
                  DType::f32, transposed ? 1 : 0);
      return std::vector<Value>{ir::gelu(b, b.add(y, b.broadcast_in_dim(in[1], b.shape(y), {2}))),
                                quantized(b, again, 0.3f, transposed)};
    });
  }
}

TEST(CpuIntegerProduct, SumsOfDequantizedValuesThatBecomeBytes) {
  const Tensor x = random_bytes<uint8_t>({3, 7, 11}, 1), y = random_bytes<int8_t>({3, 7, 11}, 2);
  const Quantized qx{x, Tensor(std::vector<float>{0.02f}, {}), Tensor(std::vector<uint8_t>{131}, {})};
  const Quantized qy{y, Tensor(std::vector<float>{0.013f}, {}), Tensor(std::vector<int8_t>{-5}, {})};
  expect_same({x, y}, 1e-5, [&](Builder& b, const auto& in) {
    const auto sum = [&](size_t i, size_t j) {
      return b.add(dequantized(b, in[i], i ? qy : qx, 0), dequantized(b, in[j], j ? qy : qx, 0));
    };
    const Value plain = sum(0, 1), relu = sum(1, 0), twice = sum(0, 0), float_too = sum(1, 1);
    return std::vector<Value>{
        quantized(b, plain, 0.017f, false), quantized(b, b.maximum(relu, b.like(relu, 0)), 0.03f, true),
        quantized(b, twice, 0.05f, false, false), quantized(b, float_too, 0.05f, true), float_too};
  });
}

struct ConvCase {
  Shape x, w;
  int64_t stride, pad, dilation, zero, w_zero = 0, groups = 1;
};

// Strided, padded with a zero point that is not 0, dilated, one axis; filters whose zeros count and groups of channels
// go another way.
TEST(CpuIntegerProduct, ConvolutionsOfDequantizedImages) {
  const ConvCase cases[] = {{{2, 5, 9, 11}, {7, 5, 3, 3}, 1, 1, 1, 7},
                            {{1, 16, 8, 8}, {40, 16, 1, 1}, 1, 0, 1, 0},
                            {{1, 8, 9, 9}, {6, 8, 3, 3}, 2, 1, 1, 200},
                            {{1, 4, 13, 12}, {5, 4, 3, 3}, 1, 2, 2, 100},
                            {{2, 6, 20}, {9, 6, 5}, 2, 2, 1, 3},
                            {{1, 4, 6, 6}, {8, 4, 3, 3}, 1, 1, 1, 5, 3},
                            {{1, 8, 6, 6}, {8, 1, 3, 3}, 1, 1, 1, 9, 0, 8},
                            {{1, 3, 20, 20}, {64, 3, 7, 7}, 2, 3, 1, 128},
                            {{2, 3, 11, 10}, {17, 3, 3, 2}, 1, 2, 3, 255}};
  for (const ConvCase& c : cases) {
    const size_t spatial = c.x.size() - 2;
    const Tensor x = random_bytes<uint8_t>(c.x, 1);
    const int64_t n = c.w[0];
    const Quantized q{x, Tensor(std::vector<float>{0.02f}, {}),
                      Tensor(std::vector<uint8_t>{static_cast<uint8_t>(c.zero)}, {})};
    const Quantized w{random_bytes<int8_t>(c.w, 2), random_floats({n}, 3, 0.001f, 0.01f),
                      Tensor(std::vector<int8_t>(static_cast<size_t>(n), static_cast<int8_t>(c.w_zero)), {n})};
    expect_same({x, random_floats({n}, 4, -1, 1)}, 2e-4, [&](Builder& b, const auto& in) {
      ir::ConvolutionAttributes conv;
      conv.strides.assign(spatial, c.stride);
      conv.pad_low.assign(spatial, Dim(c.pad));
      conv.pad_high.assign(spatial, Dim(c.pad));
      conv.lhs_dilation.assign(spatial, 1);
      conv.rhs_dilation.assign(spatial, c.dilation);
      conv.feature_groups = c.groups;
      conv.dtype = DType::f32;
      const auto biased = [&] {
        const Value y =
            b.convolution(dequantized(b, in[0], q, 0), dequantized(b, b.weight(w.elements, "w"), w, 0), conv);
        return b.add(y, b.broadcast_in_dim(in[1], b.shape(y), {1}));
      };
      const Value y = biased();
      return std::vector<Value>{b.maximum(y, b.like(y, 0)), quantized(b, biased(), 0.2f, false),
                                quantized(b, biased(), 0.2f, true, false)};
    });
  }
}

}  // namespace
}  // namespace transmuter
