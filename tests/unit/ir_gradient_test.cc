// Every gradient rule against central differences of the plain interpreter, in f64.
#include <cmath>
#include <random>

#include "ir/autodiff.h"
#include "ir_programs.h"

namespace transmuter::ir {
namespace {

// loss = sum(weights * f(x)), with weights that tell the elements apart.
Program loss_program(const ProgramRow& row) {
  Builder b(nullptr);
  std::vector<Value> inputs;
  for (const Shape& shape : row.inputs) inputs.push_back(b.input({DType::f64, Dims(shape.begin(), shape.end())}, "x"));
  Value y = row.fn(b, inputs);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.rank(y); ++i) axes.push_back(i);
  int64_t count = product(b.shape(y)).hint();
  std::vector<double> weights(static_cast<size_t>(count));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::cos(static_cast<double>(i) + 0.5);
  Value weighted = b.multiply(y, b.constant(Tensor(weights, hints(b.shape(y)))));
  return b.finish({b.reduce(weighted, ReduceKind::add, axes)});
}

TEST(Gradients, AgreeWithFiniteDifferences) {
  for (const ProgramRow& row : differentiable_rows()) {
    SCOPED_TRACE(row.name);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> draw(row.low, row.high);
    std::vector<Tensor> inputs;
    std::vector<size_t> parameters;
    for (const Shape& shape : row.inputs) {
      std::vector<double> values(static_cast<size_t>(element_count(shape)));
      for (double& value : values) value = draw(random);
      parameters.push_back(inputs.size());
      inputs.push_back(Tensor(values, shape));
    }
    const Program loss = loss_program(row);
    const std::vector<Tensor> got = evaluate(with_gradients(loss, 0, parameters), inputs);
    ASSERT_EQ(got.size(), inputs.size() + 1);
    for (size_t p = 0; p < inputs.size(); ++p) {
      ASSERT_EQ(got[p + 1].shape(), inputs[p].shape());
      for (int64_t i = 0; i < inputs[p].size(); ++i) {
        constexpr double kStep = 1e-5;
        auto loss_at = [&](double step) {
          std::vector<Tensor> moved = inputs;
          moved[p] = inputs[p].clone();
          moved[p].mutable_data<double>()[i] += step;
          return evaluate(loss, moved)[0].data<double>()[0];
        };
        double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
        EXPECT_NEAR(got[p + 1].data<double>()[i], slope, 1e-6 * (1 + std::fabs(slope))) << "input " << p << " at " << i;
      }
    }
  }
}

TEST(Gradients, AreZeroWhereTheLossDoesNotReach) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x"), unused = b.input({DType::f32, {3}}, "unused");
  const Program loss = b.finish({b.reduce(b.floor(x), ReduceKind::add, {0})});
  const std::vector<size_t> parameters = {0, 1};
  const std::vector<Tensor> got = evaluate(with_gradients(loss, 0, parameters),
                                           std::vector<Tensor>{make(DType::f32, {1, 2}), make(DType::f32, {1, 2, 3})});
  EXPECT_EQ(numbers(got[1]), (std::vector<double>{0, 0}));
  EXPECT_EQ(numbers(got[2]), (std::vector<double>{0, 0, 0}));
  (void)unused;
}

TEST(Gradients, NameWhatIsNotDifferentiable) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x");
  b.set_location("node \"/bits\" (Cast)");
  Value bits = b.bitcast_convert(b.bitcast_convert(x, DType::i32), DType::f32);
  const Program program = b.finish({b.reduce(bits, ReduceKind::add, {0})});
  try {
    with_gradients(program, 0, std::vector<size_t>{0});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "bitcast_convert is not differentiable, in node \"/bits\" (Cast)");
  }
}

TEST(Gradients, TakeAGradientFromOutside) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2}}, "x");
  const Program program = with_vjp(b.finish({b.multiply(x, x)}), 0, std::vector<size_t>{0});
  const std::vector<Tensor> got =
      evaluate(program, std::vector<Tensor>{make(DType::f32, {3, 4}), make(DType::f32, {1, 10})});
  EXPECT_EQ(numbers(got[1]), (std::vector<double>{6, 80}));
}

}  // namespace
}  // namespace transmuter::ir
