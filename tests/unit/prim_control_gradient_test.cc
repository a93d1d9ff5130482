// Gradients through while and case, against central differences.
#include "ir/autodiff.h"
#include "ir/composites/composites.h"
#include "ir/counted_loop.h"
#include "prim_testing.h"

namespace transmuter::ir {
namespace {

TEST(ControlGradient, CountedLoop) {
  // x <- tanh(x * w) + t, three times
  check_gradient({spread({2}), spread({2}, 0.9)}, [](Builder& build, const auto& in) {
    const std::vector<Value> state{in[0]}, fixed{in[1]};
    return counted_loop(build, 3, state, fixed,
                        [](Builder& b, Value t, std::span<const Value> now, std::span<const Value> outside) {
                          const Value turned = b.tanh(b.multiply(now[0], outside[0]));
                          const Value shift = b.broadcast_in_dim(b.convert(t, DType::f64), {2}, {});
                          return std::vector<Value>{b.add(turned, shift)};
                        })[0];
  });
}

TEST(ControlGradient, UnknownTripCountIsRefused) {
  Builder condition(nullptr), body(nullptr);
  const Type scalar{DType::f64, {}};
  const Value x = condition.input(scalar, "x");
  const auto test = std::make_shared<const Program>(
      condition.finish({condition.compare(x, condition.scalar(DType::f64, 9), CompareDirection::lt)}));
  const Value y = body.input(scalar, "x");
  const auto step = std::make_shared<const Program>(body.finish({body.add(y, y)}));
  Builder build(nullptr);
  const Value in = build.input(scalar, "x");
  const Program program = build.finish({build.while_loop({in}, test, step)[0]});
  const std::vector<size_t> parameters{0};
  EXPECT_THAT(error_of([&] { with_gradients(program, 0, parameters); }), testing::HasSubstr("trip count"));
}

TEST(ControlGradient, Case) {
  std::vector<ProgramPtr> branches;
  for (int power = 1; power <= 2; ++power) {
    Builder branch(nullptr);
    const Value x = branch.input({DType::f64, {2}}, "x"), y = branch.input({DType::f64, {2}}, "y");
    const Value product = branch.multiply(x, y);
    branches.push_back(
        std::make_shared<const Program>(branch.finish({power == 1 ? product : branch.multiply(x, product)})));
  }
  for (const int32_t index : {0, 1}) {
    check_gradient({Tensor(std::vector<int32_t>{index}, {}), spread({2}), spread({2}, 0.9)},
                   [&](Builder& build, const auto& in) {
                     return build.case_of(in[0], {in[1], in[2]}, branches)[0];
                   });
  }
}

// The gradient of sum(y^2) of a whole recurrent layer.
TEST(ControlGradient, RecurrentLayers) {
  using Kind = RnnAttributes::Kind;
  for (const Kind kind : {Kind::lstm, Kind::gru, Kind::rnn}) {
    RnnAttributes a;
    a.kind = kind;
    using Activation = RnnAttributes::Activation;
    if (kind != Kind::rnn) a.activations.push_back(Activation::sigmoid);
    a.activations.push_back(Activation::tanh);
    if (kind == Kind::lstm) a.activations.push_back(Activation::tanh);
    a.alpha.assign(a.activations.size(), 0);
    a.beta.assign(a.activations.size(), 0);
    a.reverse = kind == Kind::gru;
    const int64_t g = kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1;
    const std::vector<Tensor> inputs{spread({3, 2, 2}),        spread({g * 2, 2}, 0.2), spread({g * 2, 2}, 0.5),
                                     spread({2 * g * 2}, 0.7), spread({2, 2}, 0.8),     spread({2, 2}, 0.9)};
    Builder build(nullptr);
    std::vector<Value> in;
    for (const Tensor& input : inputs)
      in.push_back(build.input({input.dtype(), Dims(input.shape().begin(), input.shape().end())}, "x"));
    RnnOperands o{in[0], in[1], in[2], in[4], {}, in[3], {}, {}};
    if (kind == Kind::lstm) o.c0 = in[5];
    o.lengths = build.constant(ints({3, 2}, {2}));
    const Value y = rnn(build, o, a)[0];
    const Value loss = build.reduce(build.multiply(y, y), ReduceKind::add, {0, 1, 2});
    const std::vector<size_t> parameters{0, 1, 2, 3, 4, 5};
    const Program program = build.finish({loss});
    const auto out = evaluate(with_gradients(program, 0, parameters), inputs);
    for (const size_t p : parameters) {
      for (int64_t i = 0; i < inputs[p].size(); i += 3) {
        const auto at = [&](double step) {
          std::vector<Tensor> moved = inputs;
          moved[p] = moved[p].clone();
          moved[p].mutable_data<double>()[i] += step;
          return numbers(evaluate(program, moved)[0])[0];
        };
        EXPECT_NEAR(out[p + 1].data<double>()[i], (at(1e-5) - at(-1e-5)) / 2e-5, 1e-6) << "parameter " << p;
      }
    }
  }
}

}  // namespace
}  // namespace transmuter::ir
