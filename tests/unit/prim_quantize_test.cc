// quantize_linear, dequantize_linear, quantized_dot, table_dot; the ops with data-dependent extents. Expected numbers
// by hand.
#include "ir/composites/composites.h"
#include "ir/composites/table_dot.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

Tensor quantize(const Tensor& x, const Tensor& scale, const Tensor& zero, QuantizeAttributes a) {
  std::vector<Tensor> inputs{x, scale};
  if (zero) inputs.push_back(zero);
  return run1(inputs, [&](Builder& build, const auto& in) {
    return quantize_linear(build, in[0], in[1], zero ? in[2] : Value{}, a);
  });
}

QuantizeAttributes to(DType dtype, int64_t axis = 0, int64_t block = 0) {
  QuantizeAttributes a;
  a.dtype = dtype;
  a.axis = axis;
  a.block = block;
  return a;
}

TEST(QuantizeLinear, RoundsHalfToEvenThenAddsTheZeroPoint) {
  const Tensor zero(std::vector<uint8_t>{128}, {});
  expect_tensor(quantize(floats({.25, .75, 1.25, 1.75}, {4}), floats({.5}, {}), zero, to(DType::u8)), {4},
                {128, 130, 130, 132});
  const Tensor one(std::vector<int8_t>{1}, {});
  expect_tensor(quantize(floats({.5, 1.5, -.5, -1.5}, {4}), floats({1}, {}), one, to(DType::i8)), {4}, {1, 3, 1, -1});
}

TEST(QuantizeLinear, Saturates) {
  const float inf = INFINITY;
  expect_tensor(quantize(floats({-1e9, 1e9, inf, -inf, 127.5}, {5}), floats({1}, {}), {}, to(DType::i8)), {5},
                {-128, 127, 127, -128, 127});
  expect_tensor(quantize(floats({-5, 7.6, 99}, {3}), floats({1}, {}), {}, to(DType::u4)), {3}, {0, 8, 15});
  expect_tensor(quantize(floats({-9, 7.6, -8}, {3}), floats({1}, {}), {}, to(DType::i4)), {3}, {-8, 7, -8});
  expect_tensor(quantize(floats({1000, -1000, 1.1}, {3}), floats({1}, {}), {}, to(DType::f8e4m3fn)), {3},
                {448, -448, 1.125});
}

TEST(QuantizeLinear, PerAxisAndBlocked) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_tensor(quantize(x, floats({1, 2}, {2}), {}, to(DType::i8)), {2, 3}, {1, 2, 3, 2, 2, 3});
  // blocks of 2 along the last axis, the second one short
  expect_tensor(quantize(x, floats({1, 3, 2, 6}, {2, 2}), {}, to(DType::i8, 1, 2)), {2, 3}, {1, 2, 1, 2, 2, 1});
  EXPECT_THAT(error_of([&] { quantize(x, floats({1, 2, 3}, {3}), {}, to(DType::i8)); }), testing::HasSubstr("C3"));
}

TEST(DequantizeLinear, SubtractsInIntegers) {
  const Tensor x(std::vector<uint8_t>{0, 128, 255}, {3}), zero(std::vector<uint8_t>{128}, {});
  expect_tensor(run1({x, floats({.5}, {}), zero},
                     [](Builder& build, const auto& in) {
                       return dequantize_linear(build, in[0], in[1], in[2], to(DType::f32));
                     }),
                {3}, {-64, 0, 63.5});
  const Tensor nibbles = Tensor(std::vector<int8_t>{-8, 7, -1}, {3}).cast(DType::i4);
  expect_tensor(
      run1({nibbles, floats({2}, {})},
           [](Builder& build, const auto& in) { return dequantize_linear(build, in[0], in[1], {}, to(DType::f16)); }),
      {3}, {-16, 14, -2});
}

TEST(QuantizedDot, BlocksAndZeroPoints) {
  const Tensor a = floats({1, 2, 3, 1, 0, 1}, {2, 3});
  const Tensor w = Tensor(std::vector<uint8_t>{8, 9, 10, 0, 15, 7}, {2, 3}).cast(DType::u4);
  const Tensor scales = floats({1, 10, 2, 1}, {2, 2});
  QuantizedDotAttributes attributes;
  attributes.block = 2;
  attributes.zero_point = 8;
  // weights - 8: [0, 1, 2], [-8, 7, -1]; scaled: [0, 1, 20], [-16, 14, -1]
  expect_tensor(
      run1({a, w, scales},
           [&](Builder& build, const auto& in) { return quantized_dot(build, in[0], in[1], in[2], {}, attributes); }),
      {2, 2}, {62, 9, 20, -17});
  const Tensor zeros = Tensor(std::vector<uint8_t>{8, 10, 0, 7}, {2, 2}).cast(DType::u4);
  // [0, 1, 0], [0, 30, 0]
  expect_tensor(run1({a, w, scales, zeros},
                     [&](Builder& build, const auto& in) {
                       return quantized_dot(build, in[0], in[1], in[2], in[3], attributes);
                     }),
                {2, 2}, {2, 60, 0, 0});
}

TEST(TableDot, PlacesInATableInEitherOrder) {
  const Tensor a = floats({1, 2, 3, 1, 1, 0, 1, 0}, {2, 4});
  const Tensor codes = Tensor(std::vector<uint8_t>{0, 1, 2, 3, 3, 3, 0, 2}, {2, 4}).cast(DType::u2);
  const Tensor scales = floats({1, 10, 2, 1}, {2, 2}), table = floats({-1, 0.5, 0, 2}, {4});
  const auto product = [&](bool swapped) {
    TableDotAttributes attributes;
    attributes.block = 2;
    attributes.swapped = swapped;
    return run1({a, codes, scales, table}, [&](Builder& build, const auto& in) {
      return table_dot(build, in[0], in[1], in[2], in[3], attributes);
    });
  };
  // [-1, 0.5, 0, 20], [4, 4, -1, 0]
  expect_tensor(product(false), {2, 2}, {20, 9, -1, 3});
  // [0.5, -1, 20, 0], [4, 4, 0, -1]
  expect_tensor(product(true), {2, 2}, {58.5, 11, 20.5, 4});
}

TEST(TableDot, RefusesATableOfAnotherSize) {
  const Tensor a = floats({1, 2}, {1, 2}), scales = floats({1}, {1, 1}), table = floats({1, 2, 3}, {3});
  const Tensor codes = Tensor(std::vector<uint8_t>{0, 1}, {1, 2}).cast(DType::u4);
  TableDotAttributes attributes;
  attributes.block = 2;
  EXPECT_THAT(error_of([&] {
                run1({a, codes, scales, table}, [&](Builder& build, const auto& in) {
                  return table_dot(build, in[0], in[1], in[2], in[3], attributes);
                });
              }),
              testing::HasSubstr("C8"));
}

// Ops that define a symbol: runs body in a scope and checks that the symbol took the result's extent.
template <class Body>
std::vector<Tensor> run_scoped(const std::vector<Tensor>& inputs, const Body& body) {
  const auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  Builder build(scope);
  std::vector<Value> in;
  for (const Tensor& input : inputs)
    in.push_back(build.input({input.dtype(), Dims(input.shape().begin(), input.shape().end())}, "x"));
  const std::vector<Value> results = body(build, in);
  const Program program = build.finish(results);
  Bindings bindings(scope);
  auto out = evaluate(program, inputs, &bindings);
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(bindings.evaluate(program.type(program.results()[i]).shape), out[i].shape());
  return out;
}

TEST(Nonzero, IndicesInOrder) {
  const auto count = [](const Tensor& x) {
    return run_scoped({x}, [](Builder& build, const auto& in) { return std::vector<Value>{nonzero(build, in[0])}; })[0];
  };
  expect_tensor(count(floats({0, 1, 0, NAN, -2, 0}, {2, 3})), {2, 3}, {0, 1, 1, 1, 0, 1});
  expect_tensor(count(floats({0, 0}, {2})), {1, 0}, {});
}

TEST(Compress, SlicesAndElements) {
  const Tensor x = floats(counting(6), {3, 2});
  Tensor keep(DType::boolean, {2});
  keep.mutable_data<bool>()[0] = false;
  keep.mutable_data<bool>()[1] = true;
  const auto at = [&](int64_t axis) {
    return run_scoped({x, keep}, [&](Builder& build, const auto& in) {
      return std::vector<Value>{compress(build, in[0], in[1], axis)};
    })[0];
  };
  expect_tensor(at(0), {1, 2}, {2, 3});
  expect_tensor(at(1), {3, 1}, {1, 3, 5});
  expect_tensor(at(-1), {1}, {1});
}

TEST(Unique, FirstComeSortedAndAlongAnAxis) {
  const auto of = [](const Tensor& x, int64_t axis, bool sorted) {
    return run_scoped({x}, [&](Builder& build, const auto& in) { return unique(build, in[0], axis, sorted); });
  };
  const Tensor x = floats({2, 1, 1, 3, 4, 3}, {6});
  auto out = of(x, -1, false);
  expect_tensor(out[0], {4}, {2, 1, 3, 4});
  expect_tensor(out[1], {4}, {0, 1, 3, 4});
  expect_tensor(out[2], {6}, {0, 1, 1, 2, 3, 2});
  expect_tensor(out[3], {4}, {1, 2, 2, 1});
  out = of(x, -1, true);
  expect_tensor(out[0], {4}, {1, 2, 3, 4});
  expect_tensor(out[1], {4}, {1, 0, 3, 4});
  expect_tensor(out[2], {6}, {1, 0, 0, 2, 3, 2});
  out = of(floats({1, 0, 0, 1, 0, 0, 2, 3, 4}, {3, 3}), 0, true);
  expect_tensor(out[0], {2, 3}, {1, 0, 0, 2, 3, 4});
  expect_tensor(out[3], {2}, {2, 1});
  out = of(floats({1, 2, 1, 3, 4, 3}, {2, 3}), 1, true);
  expect_tensor(out[0], {2, 2}, {1, 2, 3, 4});
}

TEST(Nms, FlippedCornersStrictThresholdsAndLimits) {
  // Box 0 and 1 overlap with IoU 0.5 exactly; box 2 is box 0 with its corners exchanged; box 3 is apart.
  const Tensor boxes = floats({0, 0, 1, 1, 0, 0, 1, 0.5, 1, 1, 0, 0, 2, 2, 3, 3}, {1, 4, 4});
  const Tensor scores = floats({0.9, 0.8, 0.7, 0.3}, {1, 1, 4});
  const auto of = [&](int64_t most, float iou, float score) {
    return run_scoped({boxes, scores, Tensor::scalar(most), Tensor::scalar(iou), Tensor::scalar(score)},
                      [](Builder& build, const auto& in) {
                        return std::vector<Value>{nms(build, in[0], in[1], in[2], in[3], in[4], false)};
                      })[0];
  };
  expect_tensor(of(10, 0.5f, 0.0f), {3, 3}, {0, 0, 0, 0, 0, 1, 0, 0, 3});
  expect_tensor(of(10, 0.4f, 0.0f), {2, 3}, {0, 0, 0, 0, 0, 3});
  expect_tensor(of(10, 0.5f, 0.3f), {2, 3}, {0, 0, 0, 0, 0, 1});
  expect_tensor(of(1, 0.5f, 0.0f), {1, 3}, {0, 0, 0});
  expect_tensor(of(0, 0.5f, 0.0f), {0, 3}, {});
  const auto centred = run_scoped({floats({0.5, 0.5, 1, 1, 0.5, 0.5, 0.5, 1}, {1, 2, 4}), floats({0.9, 0.8}, {1, 1, 2}),
                                   Tensor::scalar(int64_t{5}), Tensor::scalar(0.49f)},
                                  [](Builder& build, const auto& in) {
                                    return std::vector<Value>{nms(build, in[0], in[1], in[2], in[3], {}, true)};
                                  });
  expect_tensor(centred[0], {1, 3}, {0, 0, 0});
}

}  // namespace
}  // namespace transmuter::ir
