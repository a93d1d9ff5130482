// Composites that run through their decompositions. Expected numbers by hand, from NumPy, or from the public bug
// reports that the comments name.
#include "ir/composites/composites.h"

#include <limits>

#include "prim_testing.h"

namespace transmuter::ir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Softmax, AlongAnyAxisAndOfLargeNumbers) {
  const auto run_softmax = [](const Tensor& x, int64_t axis) {
    return run1({x}, [&](Builder& build, const auto& in) { return softmax(build, in[0], axis); });
  };
  const std::vector<double> row{0.09003057317038046, 0.24472847105479764, 0.6652409557748219};
  expect_tensor(run_softmax(floats({1001, 1002, 1003}, {1, 3}), 1), {1, 3}, row);
  expect_tensor(run_softmax(floats({1, 2, 3}, {3, 1}), 0), {3, 1}, row);
  expect_tensor(run_softmax(floats({0, 0, 0, 0}, {1, 2, 2}), 1), {1, 2, 2}, {0.5, 0.5, 0.5, 0.5});
  const Tensor logs =
      run1({floats({1000, 0}, {2})}, [](Builder& build, const auto& in) { return log_softmax(build, in[0], 0); });
  expect_tensor(logs, {2}, {0, -1000});
}

TEST(LayerNorm, HalfComputesWide) {
  const Tensor x = floats({1000, -1000, 500, -500}, {1, 4}).cast(DType::f16);
  const auto out =
      run({x}, [](Builder& build, const auto& in) { return layer_norm(build, in[0], {}, {}, 1, 1e-5, true); });
  expect_tensor(out[0], {1, 4}, {1.265, -1.265, 0.6323, -0.6323}, 1e-3);
  EXPECT_EQ(out[0].dtype(), DType::f16);
  expect_tensor(out[1], {1, 1}, {0});
  expect_tensor(out[2], {1, 1}, {1 / std::sqrt(625000.0)});
  const Tensor rms = run1({x}, [](Builder& build, const auto& in) { return rms_norm(build, in[0], {}, 1, 1e-5)[0]; });
  expect_tensor(rms, {1, 4}, {1.265, -1.265, 0.6323, -0.6323}, 1e-3);
}

TEST(LayerNorm, ScaleAndBiasOverSeveralAxes) {
  const Tensor x = floats({1, 3, 3, 1}, {1, 2, 2}), scale = floats({1, 2, 3, 4}, {2, 2}),
               bias = floats({0, 0, 1, 1}, {2, 2});
  const Tensor y = run1({x, scale, bias},
                        [](Builder& build, const auto& in) { return layer_norm(build, in[0], in[1], in[2], 1, 0)[0]; });
  expect_tensor(y, {1, 2, 2}, {-1, 2, 4, -3});
}

TEST(GroupNorm, ScalePerChannel) {
  const Tensor y = run1({floats(counting(8), {1, 4, 2}), floats({1, 1, 2, 2}, {4}), floats({0, 1, 0, 0}, {4})},
                        [](Builder& build, const auto& in) { return group_norm(build, in[0], in[1], in[2], 2, 1e-5); });
  const double a = 1.341635419968927, b = 0.4472118066563090;
  expect_tensor(y, {1, 4, 2}, {-a, -b, 1 + b, 1 + a, -2 * a, -2 * b, 2 * b, 2 * a});
}

TEST(Activations, KnownValues) {
  const Tensor x = floats({-1, 0, 1, 2}, {4});
  const auto with = [&](auto body) {
    return run1({x}, [&](Builder& build, const auto& in) { return body(build, in[0]); });
  };
  expect_tensor(with([](Builder& b, Value v) { return gelu(b, v); }), {4},
                {-0.15865525393145707, 0, 0.8413447460685429, 1.9544997361036416});
  expect_tensor(with([](Builder& b, Value v) { return gelu(b, v, GeluKind::tanh); }), {4},
                {-0.15880800939172324, 0, 0.8411919906082768, 1.954597694087775});
  expect_tensor(with([](Builder& b, Value v) { return silu(b, v); }), {4},
                {-0.2689414213699951, 0, 0.7310585786300049, 1.7615941559557649});
  expect_tensor(with([](Builder& b, Value v) { return silu(b, v, 1.702); }), {4},
                {-0.15420423, 0, 0.84579577, 1.9356586});
}

Tensor run_attention(const std::vector<Tensor>& qkv, AttentionAttributes a, const Tensor& mask = {},
                     const Tensor& lengths = {}, const Tensor& sink = {}) {
  std::vector<Tensor> inputs = qkv;
  for (const Tensor& extra : {mask, lengths, sink}) {
    if (extra) inputs.push_back(extra);
  }
  return run1(inputs, [&](Builder& build, const auto& in) {
    size_t next = 3;
    AttentionExtras extras;
    if (mask) extras.mask = in[next++];
    if (lengths) extras.lengths = in[next++];
    if (sink) extras.sink = in[next++];
    return attention(build, in[0], in[1], in[2], extras, a)[0];
  });
}

TEST(Attention, CausalOffsets) {  // the uniform scores of ORT#29020
  const auto of = [](int64_t queries, int64_t offset) {
    AttentionAttributes a;
    a.causal = true;
    a.offset = offset;
    return run_attention({floats(std::vector<float>(static_cast<size_t>(queries), 0), {1, 1, queries, 1}),
                          floats({0, 0, 0}, {1, 1, 3, 1}), floats({1, 2, 4}, {1, 1, 3, 1})},
                         a);
  };
  expect_tensor(of(1, 0), {1, 1, 1, 1}, {1});
  expect_tensor(of(2, 0), {1, 1, 2, 1}, {1, 1.5});
  expect_tensor(of(1, 2), {1, 1, 1, 1}, {7.0 / 3});
}

TEST(Attention, GroupedHeadsRepeatInPlace) {
  std::vector<float> zeros(4, 0);
  const Tensor y =
      run_attention({floats(zeros, {1, 4, 1, 1}), floats({0, 0}, {1, 2, 1, 1}), floats({1, 2}, {1, 2, 1, 1})}, {});
  expect_tensor(y, {1, 4, 1, 1}, {1, 1, 2, 2});
}

TEST(Attention, SoftcapBeforeTheMask) {  // onnx#7865
  AttentionAttributes a;
  a.softcap = 1;
  expect_tensor(
      run_attention({floats({4}, {1, 1, 1, 1}), floats({1, 2, 3}, {1, 1, 3, 1}), floats({1, 2, 3}, {1, 1, 3, 1})}, a,
                    floats({0, 0, -kInf}, {1, 1, 1, 3})),
      {1, 1, 1, 1}, {1.500168}, 1e-6);
}

TEST(Attention, FullyMaskedRowsGiveZero) {
  Tensor mask(DType::boolean, {1, 1, 2, 2});
  for (int i = 0; i < 4; ++i) mask.mutable_data<bool>()[i] = i == 3;
  expect_tensor(
      run_attention({floats({1, 1}, {1, 1, 2, 1}), floats({1, 2}, {1, 1, 2, 1}), floats({5, 7}, {1, 1, 2, 1})}, {},
                    mask),
      {1, 1, 2, 1}, {0, 7});
}

TEST(Attention, LengthsWindowsAndSinks) {
  const std::vector<Tensor> qkv{floats(std::vector<float>(4, 0), {2, 1, 2, 1}),
                                floats(std::vector<float>(8, 0), {2, 1, 4, 1}),
                                floats({1, 2, 4, 8, 1, 2, 4, 8}, {2, 1, 4, 1})};
  const Tensor lengths = ints({2, 4}, {2});
  AttentionAttributes a;
  expect_tensor(run_attention(qkv, a, {}, lengths), {2, 1, 2, 1}, {1.5, 1.5, 3.75, 3.75});
  a.causal = true;  // offsets 0 and 2
  expect_tensor(run_attention(qkv, a, {}, lengths), {2, 1, 2, 1}, {1, 1.5, 7.0 / 3, 3.75});
  a.left_window = 1;
  expect_tensor(run_attention(qkv, a, {}, lengths), {2, 1, 2, 1}, {1, 1.5, 3, 6});
  AttentionAttributes plain;
  plain.right_window = 0;
  plain.left_window = 0;
  plain.offset = 1;
  expect_tensor(run_attention(qkv, plain), {2, 1, 2, 1}, {2, 4, 2, 4});
  AttentionAttributes smooth;
  smooth.smooth_softmax = true;
  expect_tensor(run_attention(qkv, smooth), {2, 1, 2, 1}, {3, 3, 3, 3});
  expect_tensor(run_attention(qkv, {}, {}, {}, floats({std::log(6.0f)}, {1})), {2, 1, 2, 1}, {1.5, 1.5, 1.5, 1.5});
}

TEST(Attention, AgreesWithNumpy) {
  std::vector<float> q = counting(16), k = counting(12);
  for (float& value : q) value = value / 8 - 1;
  for (float& value : k) value = value / 6 - 1;
  AttentionAttributes a;
  a.scale = 0.7;
  a.causal = true;
  a.offset = 1;
  expect_tensor(
      run_attention({floats(q, {1, 4, 2, 2}), floats(k, {1, 2, 3, 2}), floats(counting(12), {1, 2, 3, 2})}, a),
      {1, 4, 2, 2},
      {0.78467366, 1.78467366, 1.57940107, 2.57940107, 0.898269798, 1.8982698, 1.88348196, 2.88348196, 7.0145823,
       8.0145823, 8.19375839, 9.19375839, 7.1305015, 8.1305015, 8.49380733, 9.49380733});
}

TEST(Attention, ScoresAtEachStage) {
  for (const auto& [stage, expected] :
       {std::pair{AttentionAttributes::Scores::scaled, std::vector<double>{4, 8}},
        std::pair{AttentionAttributes::Scores::capped, std::vector<double>{2 * std::tanh(2.0), 2 * std::tanh(4.0)}},
        std::pair{AttentionAttributes::Scores::masked, std::vector<double>{2 * std::tanh(2.0), -kInf}},
        std::pair{AttentionAttributes::Scores::softmax, std::vector<double>{1, 0}}}) {
    AttentionAttributes a;
    a.scale = 2.0;
    a.softcap = 2;
    a.causal = true;
    a.scores = stage;
    const Tensor got =
        run1({floats({2}, {1, 1, 1, 1}), floats({1, 2}, {1, 1, 2, 1})},
             [&](Builder& build, const auto& in) { return attention(build, in[0], in[1], in[1], {}, a)[1]; });
    expect_tensor(got, {1, 1, 1, 2}, expected);
  }
}

TEST(Attention, RefusesWithTheConstraint) {
  const Tensor q = floats(std::vector<float>(3, 0), {1, 3, 1, 1}), k = floats({0, 0}, {1, 2, 1, 1});
  EXPECT_THAT(error_of([&] { run_attention({q, k, k}, {}); }), testing::HasSubstr("C7"));
  EXPECT_THAT(error_of([&] { run_attention({k, k, floats({0}, {1, 1, 1, 1})}, {}); }), testing::HasSubstr("C4"));
}

TEST(RotaryEmbedding, HalvesInterleavedAndPartial) {
  const auto rotate = [](int64_t half, bool interleaved) {
    const std::vector<float> zero(static_cast<size_t>(half), 0), one(static_cast<size_t>(half), 1);
    return run1(
        {floats({1, 2, 3, 4}, {1, 1, 1, 4}), floats(zero, {1, 1, half}), floats(one, {1, 1, half})},
        [&](Builder& build, const auto& in) { return rotary_embedding(build, in[0], in[1], in[2], interleaved); });
  };
  expect_tensor(rotate(2, false), {1, 1, 1, 4}, {-3, -4, 1, 2});
  expect_tensor(rotate(2, true), {1, 1, 1, 4}, {-2, 1, -4, 3});
  expect_tensor(rotate(1, false), {1, 1, 1, 4}, {-2, 1, 3, 4});
}

TEST(Topk, NanTiesAndNone) {
  const auto top = [](const Tensor& x, int64_t k, bool largest) {
    return run({x}, [&](Builder& build, const auto& in) {
      const auto [values, positions] = topk(build, in[0], 0, k, largest);
      return std::vector<Value>{values, positions};
    });
  };
  const Tensor x = floats({1, NAN, 3, kInf, 2}, {5});
  expect_tensor(top(x, 3, true)[0], {3}, {NAN, kInf, 3});
  expect_tensor(top(x, 3, true)[1], {3}, {1, 3, 2});
  expect_tensor(top(x, 5, false)[1], {5}, {0, 4, 2, 3, 1});
  expect_tensor(top(floats({2, 1, 2, 2}, {4}), 3, true)[1], {3}, {0, 2, 3});
  expect_tensor(top(x, 0, true)[0], {0}, {});
  EXPECT_THAT(error_of([&] { top(x, 6, true); }), testing::HasSubstr("C3"));
}

TEST(ArgExtreme, TiesAndNan) {
  const Tensor x = floats({1, 5, 5, 0, 0, 3}, {2, 3});
  const auto arg = [](const Tensor& t, auto body) {
    return run1({t}, [&](Builder& build, const auto& in) { return body(build, in[0]); });
  };
  expect_tensor(arg(x, [](Builder& b, Value v) { return argmax(b, v, 1); }), {2}, {1, 2});
  expect_tensor(arg(x, [](Builder& b, Value v) { return argmax(b, v, 1, true); }), {2}, {2, 2});
  expect_tensor(arg(x, [](Builder& b, Value v) { return argmin(b, v, 1, true); }), {2}, {0, 1});
  expect_tensor(arg(x, [](Builder& b, Value v) { return argmin(b, v, 0); }), {3}, {1, 1, 1});
  expect_tensor(arg(floats({1, NAN, 3}, {3}), [](Builder& b, Value v) { return argmax(b, v, 0); }), {}, {1});
}

TEST(Cumulative, EveryDirectionBothWays) {
  struct Row {
    bool exclusive, reverse;
    std::vector<double> sums, products;
  };
  for (const Row& row : {Row{false, false, {1, 3, 6}, {1, 2, 6}}, Row{true, false, {0, 1, 3}, {1, 1, 2}},
                         Row{false, true, {6, 5, 3}, {6, 6, 3}}, Row{true, true, {5, 3, 0}, {6, 3, 1}}}) {
    for (const bool inlined : {false, true}) {
      const auto with = [&](ReduceKind kind) {
        return run1({floats({1, 2, 3}, {3, 1})}, [&](Builder& build, const auto& in) {
          const Value y = cumulative(build, in[0], kind, 0, row.exclusive, row.reverse);
          if (!inlined) return y;
          const Op op = *build.definition(y);
          return op.primitive->decompose(build, op.operands, op.attributes.get())[0];
        });
      };
      expect_tensor(with(ReduceKind::add), {3, 1}, row.sums);
      expect_tensor(with(ReduceKind::mul), {3, 1}, row.products);
    }
  }
}

TEST(ConvTranspose, PadsAndGroups) {
  const Tensor x = floats(counting(9), {1, 1, 3, 3}), ones = floats(std::vector<float>(9, 1), {1, 1, 3, 3});
  ConvTransposeAttributes a;
  a.strides = {2, 2};
  a.dilations = {1, 1};
  a.pad_low = {1, 1};
  a.pad_high = {0, 0};  // 7x7 cut to 6x6 at the start
  const Tensor y =
      run1({x, ones}, [&](Builder& build, const auto& in) { return conv_transpose(build, in[0], in[1], a); });
  EXPECT_EQ(y.shape(), (Shape{1, 1, 6, 6}));
  const auto values = numbers(y);
  EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 6), (std::vector<double>{0, 1, 1, 3, 2, 2}));
  ConvTransposeAttributes grouped;
  grouped.strides = {1};
  grouped.dilations = {2};
  grouped.pad_low = grouped.pad_high = {0};
  grouped.groups = 2;
  // two channels of one element; kernel [c, 1, 2]
  expect_tensor(run1({floats({1, 10}, {1, 2, 1}), floats({1, 2, 3, 4}, {2, 1, 2})},
                     [&](Builder& build, const auto& in) { return conv_transpose(build, in[0], in[1], grouped); }),
                {1, 2, 3}, {1, 0, 2, 30, 0, 40});
}

}  // namespace
}  // namespace transmuter::ir
