// Raising: each pattern that exporters write becomes its composite, what only looks like it stays, and the numbers are
// the same before and after.
#include "raise_testing.h"

namespace transmuter::ir {
namespace {

// ---- norms

Value mean(Builder& b, Value x, std::vector<int64_t> axes) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(b.shape(x)[static_cast<size_t>(axis)].hint());
  const Value sum = b.reduce_keep(x, kAdd, axes);
  return b.divide(sum, b.like(sum, count));
}
Value centred(Builder& b, Value x, std::vector<int64_t> axes) {
  return b.subtract(x, spread(b, mean(b, x, std::move(axes)), x));
}
Value deviation(Builder& b, Value c, std::vector<int64_t> axes) {
  return b.sqrt(plus(b, mean(b, square(b, c), std::move(axes)), 1e-5));
}

TEST(Raise, LayerNorm) {
  check({{2, 3, 8}, {8}, {8}, {2, 1, 8}, {3, 8}},
        {{"as torch exports it", "layer_norm",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            const Value d = b.sqrt(plus(b, mean(b, power(b, c, 2), {2}), 1e-12));
            const Value y = b.divide(c, spread(b, d, c));
            return b.add(b.multiply(y, spread(b, v[1], y)), spread(b, v[2], y));
          }},
         {"without parameters", "layer_norm",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            return b.divide(c, spread(b, deviation(b, c, {2}), c));
          }},
         {"the centre computed twice, the scale first, rsqrt", "layer_norm",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2}), again = centred(b, v[0], {2});
            const Value r = b.rsqrt(plus(b, mean(b, square(b, again), {2}), 1e-5));
            const Value y = b.multiply(spread(b, v[1], c), b.multiply(spread(b, r, c), c));
            return b.add(spread(b, v[2], y), y);
          }},
         {"over two axes, 1 / sqrt", "layer_norm",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {1, 2}), d = deviation(b, c, {1, 2});
            const Value y = b.multiply(c, spread(b, b.divide(b.like(d, 1), d), c));
            return b.multiply(y, spread(b, v[4], y));
          }},
         {"without kept axes, the power -1/2, a reciprocal count", "layer_norm",
          [](Builder& b, Values v) {
            const auto mean_of = [&](Value x) { return times(b, b.reduce(x, kAdd, {2}), 0.125); };
            const Value m = b.broadcast_in_dim(mean_of(v[0]), b.shape(v[0]), {0, 1});
            const Value c = b.subtract(v[0], m);
            const Value r = power(b, plus(b, mean_of(square(b, c)), 1e-6), -0.5);
            return b.multiply(c, b.broadcast_in_dim(r, b.shape(c), {0, 1}));
          }},
         {"a scale for each of the batch stays outside", "layer_norm",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            const Value y = b.divide(c, spread(b, deviation(b, c, {2}), c));
            return b.multiply(y, spread(b, v[3], y));
          }},
         {"not over the last axis", "",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {1});
            return b.divide(c, spread(b, deviation(b, c, {1}), c));
          }},
         {"the mean of another axis: no layer_norm, but an rms_norm of the difference", "rms_norm",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {1});
            return b.divide(c, spread(b, deviation(b, c, {2}), c));
          }},
         {"the variance of something else", "",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            return b.divide(c, spread(b, deviation(b, v[0], {2}), c));
          }},
         {"a sum in place of the mean", "",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            const Value d = b.sqrt(plus(b, b.reduce_keep(square(b, c), kAdd, {2}), 1e-5));
            return b.divide(c, spread(b, d, c));
          }},
         {"epsilon subtracted", "",
          [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            return b.divide(c, spread(b, b.sqrt(plus(b, mean(b, square(b, c), {2}), -1e-5)), c));
          }},
         {"the deviation multiplied", "", [](Builder& b, Values v) {
            const Value c = centred(b, v[0], {2});
            return b.multiply(c, spread(b, deviation(b, c, {2}), c));
          }}});
}

TEST(Raise, LayerNormTakesParametersOnlyWhereItIsReadAlone) {
  check({{2, 8}, {8}}, {{"also read before the scale", "layer_norm", [](Builder& b, Values v) {
                           const Value c = centred(b, v[0], {1});
                           const Value y = b.divide(c, spread(b, deviation(b, c, {1}), c));
                           return b.subtract(b.multiply(y, spread(b, v[1], y)), b.tanh(y));
                         }}});
}

TEST(Raise, RmsNorm) {
  check({{2, 3, 8}, {8}},
        {{"as Llama is exported", "rms_norm",
          [](Builder& b, Values v) {
            const Value s = b.sqrt(plus(b, mean(b, power(b, v[0], 2), {2}), 1e-6));
            const Value r = b.divide(b.like(s, 1), s);
            const Value y = b.multiply(v[0], spread(b, r, v[0]));
            return b.multiply(spread(b, v[1], y), y);
          }},
         {"a quotient, no scale", "rms_norm",
          [](Builder& b, Values v) { return b.divide(v[0], spread(b, deviation(b, v[0], {2}), v[0])); }},
         {"no bias", "rms_norm",
          [](Builder& b, Values v) {
            const Value y = b.divide(v[0], spread(b, deviation(b, v[0], {2}), v[0]));
            return b.add(y, spread(b, v[1], y));
          }},
         {"of another value", "",
          [](Builder& b, Values v) { return b.divide(b.tanh(v[0]), spread(b, deviation(b, v[0], {2}), v[0])); }}});
}

TEST(Raise, NormsOfSymbolicExtents) {
  auto scope = ShapeScope::create();
  ShapeScope::Enter enter(scope);
  const Dim rows = scope->input_extent(0, 0, 3, "rows"), width = scope->input_extent(0, 1, 5, "width");
  Builder b(scope);
  const Value x = b.input({DType::f32, {rows, width}}, "x");
  const auto mean_of = [&](Value v) {
    const Value sum = b.reduce_keep(v, kAdd, {1});
    return b.divide(sum, b.broadcast_to(b.dim_value(width, DType::f32), b.shape(sum)));
  };
  const Value c = b.subtract(x, spread(b, mean_of(x), x));
  const Value y = b.divide(c, spread(b, b.sqrt(plus(b, mean_of(square(b, c)), 1e-5)), c));
  const Program before = b.finish({y});
  const size_t guards = scope->guards().size(), assertions = scope->assertions().size();
  EXPECT_EQ(composites(raised(before)), "layer_norm");
  EXPECT_EQ(scope->guards().size(), guards);
  EXPECT_EQ(scope->assertions().size(), assertions);
}

// ---- softmax

TEST(Raise, Softmax) {
  const auto powers = [](Builder& b, Value x, int64_t axis) {
    return b.exponential(b.subtract(x, spread(b, b.reduce_keep(x, ReduceKind::max, {axis}), x)));
  };
  check({{2, 3, 4}}, {{"quotient", "softmax",
                       [&](Builder& b, Values v) {
                         const Value e = powers(b, v[0], 2);
                         return b.divide(e, spread(b, b.reduce_keep(e, kAdd, {2}), e));
                       }},
                      {"product with the inverse, an inner axis", "softmax",
                       [&](Builder& b, Values v) {
                         const Value e = powers(b, v[0], 1), sum = b.reduce_keep(e, kAdd, {1});
                         return b.multiply(spread(b, b.divide(b.like(sum, 1), sum), e), e);
                       }},
                      {"logarithm", "softmax",
                       [&](Builder& b, Values v) {
                         const Value d = b.subtract(v[0], spread(b, b.reduce_keep(v[0], ReduceKind::max, {2}), v[0]));
                         return b.subtract(d, spread(b, b.log(b.reduce_keep(b.exponential(d), kAdd, {2})), d));
                       }},
                      {"without the maximum", "",
                       [&](Builder& b, Values v) {
                         const Value e = b.exponential(v[0]);
                         return b.divide(e, spread(b, b.reduce_keep(e, kAdd, {2}), e));
                       }},
                      {"two axes", "", [&](Builder& b, Values v) {
                         const Value e = powers(b, v[0], 2);
                         return b.divide(e, spread(b, b.reduce_keep(e, kAdd, {1}), e));
                       }}});
}

// ---- activations

// In f64 a constant of an f32's digits is another number, and the composite would give other results.
TEST(Raise, GeluInDoublesNeedsDoubles) {
  for (const bool rounded : {false, true}) {
    Builder b(nullptr);
    const Value x = b.input({DType::f64, Dims{4}}, "x");
    const double root = rounded ? static_cast<double>(std::sqrt(2.0F)) : std::sqrt(2.0);
    const Value curve = plus(b, b.erf(b.divide(x, b.like(x, root))), 1);
    const Program program = b.finish({times(b, b.multiply(x, curve), 0.5)});
    EXPECT_EQ(composites(raised(program)), rounded ? "" : "gelu");
  }
}

TEST(Raise, Gelu) {
  const double root = std::sqrt(0.5), factor = std::sqrt(2 / M_PI);
  const auto one_plus_erf = [=](Builder& b, Value x) {
    return plus(b, b.erf(b.divide(x, b.like(x, std::sqrt(2.0)))), 1);
  };
  check(
      {{3, 5}, {3, 5}},
      {{"(x * (1 + erf)) * 0.5", "gelu",
        [=](Builder& b, Values v) { return times(b, b.multiply(v[0], one_plus_erf(b, v[0])), 0.5); }},
       {"(0.5 x) * (1 + erf), of a product", "gelu",
        [=](Builder& b, Values v) {
          const Value x = b.multiply(v[0], v[1]);
          return b.multiply(times(b, x, 0.5), plus(b, b.erf(times(b, x, root)), 1));
        }},
       {"x * (0.5 (1 + erf))", "gelu",
        [=](Builder& b, Values v) { return b.multiply(v[0], times(b, one_plus_erf(b, v[0]), 0.5)); }},
       {"x / 2 + x / 2 * erf", "gelu",
        [=](Builder& b, Values v) {
          const Value half = b.divide(v[0], b.like(v[0], 2));
          return b.add(half, b.multiply(half, b.erf(times(b, v[0], root))));
        }},
       {"tanh with a power", "gelu",
        [=](Builder& b, Values v) {
          const Value sum = b.add(v[0], times(b, power(b, v[0], 3), 0.044715));
          return b.multiply(times(b, v[0], 0.5), plus(b, b.tanh(times(b, sum, factor)), 1));
        }},
       {"tanh with products", "gelu",
        [=](Builder& b, Values v) {
          const Value x = v[0], inner = plus(b, times(b, b.multiply(x, x), 0.044715), 1);
          const Value t = b.tanh(b.multiply(times(b, x, factor), inner));
          return b.multiply(x, times(b, plus(b, t, 1), 0.5));
        }},
       {"a constant rounded to f16, as 1.4142 is", "gelu",
        [=](Builder& b, Values v) {
          const Value x = times(b, v[0], 0.01);  // small, as the difference is then
          return times(b, b.multiply(x, plus(b, b.erf(b.divide(x, b.like(x, 1.4140625))), 1)), 0.5);
        }},
       {"another value in erf", "",
        [=](Builder& b, Values v) { return times(b, b.multiply(v[0], one_plus_erf(b, v[1])), 0.5); }},
       {"another factor", "",
        [=](Builder& b, Values v) { return times(b, b.multiply(v[0], one_plus_erf(b, v[0])), 0.25); }},
       {"another scale in erf", "",
        [=](Builder& b, Values v) { return times(b, b.multiply(v[0], plus(b, b.erf(times(b, v[0], 0.7)), 1)), 0.5); }},
       {"1 - erf", "", [=](Builder& b, Values v) {
          const Value erf = b.erf(times(b, v[0], root));
          return times(b, b.multiply(v[0], b.subtract(b.like(erf, 1), erf)), 0.5);
        }}});
}

TEST(Raise, Silu) {
  check(
      {{3, 5}, {3, 5}},
      {{"x * logistic(x)", "silu", [](Builder& b, Values v) { return b.multiply(v[0], b.logistic(v[0])); }},
       {"quick gelu", "silu", [](Builder& b, Values v) { return b.multiply(b.logistic(times(b, v[0], 1.702)), v[0]); }},
       {"a gate", "silu", [](Builder& b, Values v) { return b.multiply(b.multiply(v[0], b.logistic(v[0])), v[1]); }},
       {"another value", "", [](Builder& b, Values v) { return b.multiply(v[1], b.logistic(v[0])); }},
       {"an offset inside", "", [](Builder& b, Values v) { return b.multiply(v[0], b.logistic(plus(b, v[0], 1))); }}});
}

// ---- scales by channel

struct FoldRow {
  const char* what;
  bool folds;
  std::function<Value(Builder&, Value x, Values weights)>
      fn;  // x [2, 4, 5, 5]; weights [3, 4, 3, 3], [3], [3], [5, 6], [6]
};
Value conv(Builder& b, Value x, Value w) {
  ConvolutionAttributes a;
  a.strides = a.lhs_dilation = a.rhs_dilation = {1, 1};
  a.pad_low = a.pad_high = {1, 1};
  a.dtype = DType::f32;
  return b.convolution(x, w, a);
}
Value by_channel(Builder& b, Value small, Value like) { return b.broadcast_in_dim(small, b.shape(like), {1}); }
Value dot(Builder& b, Value x, Value w) { return contract(b, x, w, {}, b.rank(x) - 1, 0); }

TEST(Raise, FoldScales) {
  const std::vector<FoldRow> rows = {
      {"batch normalisation after a bias", true,
       [](Builder& b, Value x, Values w) {
         Value y = conv(b, x, w[0]);
         y = b.add(y, by_channel(b, w[1], y));
         const Value f = b.multiply(w[2], b.rsqrt(plus(b, b.multiply(w[1], w[1]), 1e-5)));
         return b.add(b.multiply(by_channel(b, f, y), y), by_channel(b, w[1], y));
       }},
      {"the mean subtracted, the deviation below", true,
       [](Builder& b, Value x, Values w) {
         Value y = conv(b, x, w[0]);
         y = b.divide(b.subtract(y, by_channel(b, w[1], y)), by_channel(b, b.exponential(w[2]), y));
         return y;
       }},
      {"a layer scale", true,
       [](Builder& b, Value x, Values w) {
         const Value y = dot(b, x, w[3]);
         return b.multiply(y, spread(b, w[4], y));
       }},
      {"by another axis", false,
       [](Builder& b, Value x, Values w) {
         const Value y = conv(b, x, w[0]);
         return b.multiply(y, b.broadcast_in_dim(b.reduce(w[3], kAdd, {1}), b.shape(y), {3}));
       }},
      {"by something that is no weight", false,
       [](Builder& b, Value x, Values w) {
         const Value y = conv(b, x, w[0]);
         return b.multiply(y, by_channel(b, b.slice_axis(b.reduce(x, kAdd, {0, 2, 3}), 0, 0, 3), y));
       }},
      {"what is read before the scale too", false, [](Builder& b, Value x, Values w) {
         const Value y = conv(b, x, w[0]);
         return b.add(b.multiply(y, by_channel(b, w[1], y)), b.tanh(y));
       }}};
  for (const FoldRow& row : rows) {
    for (const bool trainable : {false, true}) {
      SCOPED_TRACE(str(row.what, trainable ? ", trainable" : ""));
      Builder b(nullptr);
      const Value x = b.input({DType::f32, {2, 4, 5, 5}}, "x");
      std::vector<Value> weights;
      for (const Shape& shape : {Shape{3, 4, 3, 3}, Shape{3}, Shape{3}, Shape{5, 6}, Shape{6}})
        weights.push_back(b.weight(random(shape, static_cast<unsigned>(weights.size() + 1)), "w", trainable));
      const Program before = b.finish({row.fn(b, x, weights)}), after = raised(before);
      // Folded, all that follows the product is at most a bias.
      bool found = false, scaled = false;
      for (const Op& op : after.ops()) {
        found = found || op.primitive == &prim::convolution || op.primitive == &prim::dot_general;
        scaled = scaled || (found && op.primitive != &prim::add && op.primitive != &prim::broadcast_in_dim &&
                            op.primitive != &prim::convolution && op.primitive != &prim::dot_general);
      }
      EXPECT_EQ(!scaled, row.folds && !trainable);
      const std::vector<Tensor> inputs{random({2, 4, 5, 5}, 9)};
      const std::vector<double> wanted = numbers(evaluate(before, inputs)[0]);
      const std::vector<double> got = numbers(evaluate(after, inputs)[0]);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << i;
    }
  }
}

// ---- products of flattened rows

TEST(Raise, UnflattenProducts) {
  struct UnflattenRow {
    const char* what;
    bool changes;
    std::function<Value(Builder&, Values)> fn;  // x [2, 3, 4], w [4, 5], bias [5], residual [2, 3, 5]
  };
  const std::vector<UnflattenRow> rows = {
      {"a bias and an activation between", true,
       [](Builder& b, Values v) {
         const Value y = dot(b, b.reshape(v[0], {6, 4}), v[1]);
         return b.add(b.reshape(gelu(b, b.add(y, spread(b, v[2], y))), {2, 3, 5}), v[3]);
       }},
      {"with a flattened residual", true,
       [](Builder& b, Values v) {
         const Value y = dot(b, b.reshape(v[0], {6, 4}), v[1]);
         return b.reshape(b.multiply(b.add(b.reshape(v[3], {6, 5}), y), b.like(y, 2)), {2, 3, 5});
       }},
      {"other axes after", false,
       [](Builder& b, Values v) {
         return b.reshape(dot(b, b.reshape(v[0], {6, 4}), v[1]), {3, 2, 5});
       }},
      {"read between", false,
       [](Builder& b, Values v) {
         const Value y = dot(b, b.reshape(v[0], {6, 4}), v[1]);
         return b.add(b.reshape(y, {2, 3, 5}), b.reshape(b.tanh(y), {2, 3, 5}));
       }},
      {"a value for each row", false, [](Builder& b, Values v) {
         const Value y = dot(b, b.reshape(v[0], {6, 4}), v[1]);
         const Value rows = b.broadcast_in_dim(b.reshape(b.reduce(v[0], kAdd, {2}), {6}), {6, 5}, {0});
         return b.reshape(b.add(y, rows), {2, 3, 5});
       }}};
  for (const UnflattenRow& row : rows) {
    SCOPED_TRACE(row.what);
    Builder b(nullptr);
    std::vector<Value> values;
    std::vector<Tensor> inputs;
    for (const Shape& shape : {Shape{2, 3, 4}, Shape{4, 5}, Shape{5}, Shape{2, 3, 5}}) {
      values.push_back(b.input({DType::f32, Dims(shape.begin(), shape.end())}, "x"));
      inputs.push_back(random(shape, static_cast<unsigned>(inputs.size() + 1)));
    }
    const Program before = b.finish({row.fn(b, values)}), after = raised(before);
    bool flat = false;
    for (const Op& op : after.ops())
      flat = flat || (op.primitive == &prim::dot_general && after.type(op.results[0]).rank() == 2);
    EXPECT_EQ(!flat, row.changes);
    EXPECT_EQ(numbers(evaluate(after, inputs)[0]), numbers(evaluate(before, inputs)[0]));
  }
}

// ---- activations

TEST(Raise, ActivationsMoveUpToProducts) {
  Builder b(nullptr);
  const Value x = b.input({DType::f32, {2, 3, 4}}, "x"), w = b.input({DType::f32, {4, 6}}, "w");
  const Value bias = b.input({DType::f32, {6}}, "bias");
  const Value y = dot(b, x, w), sum = b.add(y, spread(b, bias, y));
  const Value moved = b.reshape(b.transpose(sum, {0, 2, 1}), {2, 2, 3, 3});
  const Program before = b.finish({b.maximum(moved, b.like(moved, 0.5))}), after = raised(before);
  const Op* last = nullptr;
  for (const Op& op : after.ops()) last = op.primitive == &prim::maximum ? &op : last;
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(after.type(last->results[0]).rank(), 3);
  const std::vector<Tensor> inputs{random({2, 3, 4}, 1), random({4, 6}, 2), random({6}, 3)};
  EXPECT_EQ(numbers(evaluate(after, inputs)[0]), numbers(evaluate(before, inputs)[0]));
}

// ---- repeats

// Of what `primitive` gives in the program: the number of its elements.
int64_t elements_of(const Program& program, const Primitive& primitive) {
  for (const Op& op : program.ops())
    if (op.primitive == &primitive) return product(program.type(op.results[0]).shape).hint();
  return -1;
}

TEST(Raise, WorkIsDoneBeforeHeadsAreRepeated) {
  Builder b(nullptr);
  const Value x = b.input({DType::f32, {1, 2, 3, 4}}, "x");
  const Value heads = b.reshape(b.broadcast_in_dim(x, {1, 2, 2, 3, 4}, {0, 1, 3, 4}), {1, 4, 3, 4});
  const Value turned = b.transpose(heads, {0, 1, 3, 2}), scaled = b.multiply(turned, b.like(turned, 0.25));
  const Value scale = b.scalar(DType::f32, 0.01), zero = b.scalar(DType::u8, 120);
  QuantizeAttributes to_u8, to_f32;
  to_u8.dtype = DType::u8;
  to_f32.dtype = DType::f32;
  const Value y = dequantize_linear(b, quantize_linear(b, scaled, scale, zero, to_u8), scale, zero, to_f32);
  const Program before = b.finish({y}), after = raised(before);
  EXPECT_EQ(elements_of(after, prim::multiply), 24);
  EXPECT_EQ(elements_of(after, composite::quantize_linear), 24);
  EXPECT_EQ(elements_of(after, composite::dequantize_linear), 24);
  EXPECT_EQ(after.type(after.results()[0]).shape.size(), 4U);
  const std::vector<Tensor> inputs{random({1, 2, 3, 4}, 1)};
  EXPECT_EQ(numbers(evaluate(after, inputs)[0]), numbers(evaluate(before, inputs)[0]));
}

// A broadcast alone is read by strides, and what others read is there anyway.
TEST(Raise, WorkOnRepeatedValuesStaysWhereNothingIsGained) {
  for (const bool joined : {false, true}) {
    Builder b(nullptr);
    const Value x = b.input({DType::f32, {2, 3}}, "x");
    Value many = b.broadcast_in_dim(x, {2, 2, 3}, {0, 2});
    if (joined) many = b.reshape(many, {4, 3});
    const Value y = b.sqrt(many);
    const Program before = b.finish(joined ? std::vector<Value>{y, many} : std::vector<Value>{y});
    EXPECT_EQ(elements_of(raised(before), prim::sqrt), 12) << joined;
  }
}

}  // namespace
}  // namespace transmuter::ir
