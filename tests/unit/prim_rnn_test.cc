// rnn by its evaluation and by its decomposition. Expected numbers from ONNX Runtime.
#include "ir/composites/composites.h"
#include "prim_testing.h"
#include "rnn_testing.h"

namespace transmuter::ir {
namespace {

using Kind = RnnAttributes::Kind;
using Activation = RnnAttributes::Activation;

Tensor ramp(Shape shape, double seed) {
  Tensor tensor(DType::f32, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.mutable_data<float>()[i] = static_cast<float>(std::sin(seed + 1.3 * static_cast<double>(i)) * 0.5);
  return tensor;
}

// 3 steps, batch 2, 2 inputs, 2 hidden.
std::vector<Tensor> run_rnn(const RnnAttributes& a, std::vector<int64_t> lengths, bool peephole, bool inlined) {
  const int64_t g = a.kind == Kind::lstm ? 4 : a.kind == Kind::gru ? 3 : 1;
  const std::vector<Tensor> inputs{ramp({3, 2, 2}, 0.1),   ramp({g * 2, 2}, 0.2), ramp({g * 2, 2}, 0.3),
                                   ramp({2 * g * 2}, 0.4), ramp({2, 2}, 0.5),     ramp({2, 2}, 0.6),
                                   ramp({6}, 0.7)};
  return run(inputs, [&](Builder& build, const auto& in) {
    RnnOperands o{in[0], in[1], in[2], in[4], {}, in[3], {}, {}};
    if (a.kind == Kind::lstm) o.c0 = in[5];
    if (!lengths.empty()) o.lengths = build.constant(ints(lengths, {2}));
    if (peephole) o.peephole = in[6];
    const auto results = rnn(build, o, a);
    if (!inlined) return results;
    const Op op = *build.definition(results[0]);
    return op.primitive->decompose(build, op.operands, op.attributes.get());
  });
}

TEST(Rnn, LstmWithPeephole) {
  for (const bool inlined : {false, true}) {
    const auto out = run_rnn(usual_rnn(Kind::lstm), {}, true, inlined);
    expect_tensor(out[0], {3, 2, 2},
                  {-0.009110811, 0.2539343, 0.1051549, -0.08082049, 0.04637673, 0.2097033, 0.1065708, 0.04523887,
                   0.1225928, 0.190388, 0.05590385, 0.1481051});
    expect_tensor(out[1], {2, 2}, {0.1225928, 0.190388, 0.05590385, 0.1481051});
    expect_tensor(out[2], {2, 2}, {0.195014, 0.5687625, 0.09340786, 0.301672});
  }
}

TEST(Rnn, ReverseLstmWithLengths) {
  RnnAttributes a = usual_rnn(Kind::lstm);
  a.reverse = true;
  for (const bool inlined : {false, true}) {
    const auto out = run_rnn(a, {3, 1}, false, inlined);
    expect_tensor(
        out[0], {3, 2, 2},
        {0.03004356, 0.2604603, 0.1066328, -0.08840144, 0.1106275, 0.2123525, 0, 0, 0.145319, 0.2021832, 0, 0});
    expect_tensor(out[1], {2, 2}, {0.03004356, 0.2604603, 0.1066328, -0.08840144});
    expect_tensor(out[2], {2, 2}, {0.04768163, 0.5516516, 0.2004415, -0.1741347});
  }
}

TEST(Rnn, GruResetBeforeAndAfter) {
  for (const bool inlined : {false, true}) {
    RnnAttributes a = usual_rnn(Kind::gru);
    a.linear_before_reset = true;
    expect_tensor(run_rnn(a, {}, false, inlined)[0], {3, 2, 2},
                  {0.08824538, 0.5733758, -0.04691942, -0.2605671, 0.04046398, 0.5025369, -0.1684936, 0.02178502,
                   0.05714357, 0.3689359, -0.2285997, 0.279628});
    const auto out = run_rnn(usual_rnn(Kind::gru), {3, 2}, false, inlined);
    expect_tensor(out[0], {3, 2, 2},
                  {0.1339722, 0.632617, 0.06150119, -0.190843, 0.1291021, 0.6395916, -0.02526712, 0.1306647, 0.1757167,
                   0.5708272, 0, 0});
    expect_tensor(out[1], {2, 2}, {0.1757167, 0.5708272, -0.02526712, 0.1306647});
  }
}

TEST(Rnn, ReluWithClip) {
  RnnAttributes a = usual_rnn(Kind::rnn);
  a.activations = {Activation::relu};
  a.clip = 0.3;
  for (const bool inlined : {false, true}) {
    expect_tensor(run_rnn(a, {}, false, inlined)[0], {3, 2, 2},
                  {0.3, 0, 0, 0.3, 0.3, 0, 0.3, 0, 0.09295811, 0.1418388, 0.3, 0});
  }
}

TEST(Rnn, EveryActivationIsTheSameInIr) {
  for (int which = 0; which <= static_cast<int>(Activation::softplus); ++which) {
    SCOPED_TRACE(which);
    RnnAttributes a = usual_rnn(Kind::rnn);
    a.activations = {static_cast<Activation>(which)};
    expect_tensor(run_rnn(a, {}, false, true)[0], {3, 2, 2}, numbers(run_rnn(a, {}, false, false)[0]));
  }
  RnnAttributes coupled = usual_rnn(Kind::lstm);
  coupled.input_forget = true;
  coupled.clip = 0.2;
  expect_tensor(run_rnn(coupled, {2, 3}, true, true)[0], {3, 2, 2}, numbers(run_rnn(coupled, {2, 3}, true, false)[0]));
}

}  // namespace
}  // namespace transmuter::ir
