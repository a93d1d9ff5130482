// Recurrences on the CPU engine against the interpreter: cells, directions, lengths, chunks of time, weights that are
// fixed, parts of fixed ones, or inputs.
#include <gtest/gtest.h>

#include <random>

#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir_testing.h"
#include "rnn_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

using ir::Builder;
using ir::RnnAttributes;
using ir::usual_rnn;
using ir::Value;
using Kind = RnnAttributes::Kind;
using Activation = RnnAttributes::Activation;

enum class Weights : uint8_t { fixed, part, input };

struct Case {
  RnnAttributes attributes;
  int64_t steps = 7, batch = 3, inputs = 5, hidden = 19;
  std::vector<int64_t> lengths;
  bool bias = true, peephole = false, batch_first = false;
  Weights weights = Weights::fixed;
};

Tensor random_floats(Shape shape, uint32_t seed, float bound) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> value(-bound, bound);
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (float& v : values) v = value(rng);
  return Tensor(values, std::move(shape));
}

void expect_same(const Case& c) {
  const auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  Builder b(scope);
  std::vector<Tensor> given;
  const auto input = [&](const Tensor& tensor) {
    given.push_back(tensor);
    return b.input({tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end())}, "x");
  };
  const int64_t width = (c.attributes.kind == Kind::lstm ? 4 : c.attributes.kind == Kind::gru ? 3 : 1) * c.hidden;
  const auto weight = [&](int64_t k, uint32_t seed) {
    if (c.weights == Weights::fixed) return b.constant(random_floats({width, k}, seed, 0.4f));
    if (c.weights == Weights::input) return input(random_floats({width, k}, seed, 0.4f));
    const Value both = b.constant(random_floats({2, width, k}, seed, 0.4f));
    return b.reshape(b.slice_axis(both, 0, 1, 2), {width, k});
  };
  ir::RnnOperands o;
  o.x = c.batch_first ? b.transpose(input(random_floats({c.batch, c.steps, c.inputs}, 1, 1)), {1, 0, 2})
                      : input(random_floats({c.steps, c.batch, c.inputs}, 1, 1));
  o.w = weight(c.inputs, 2);
  o.r = weight(c.hidden, 3);
  o.h0 = input(random_floats({c.batch, c.hidden}, 4, 1));
  if (c.attributes.kind == Kind::lstm) o.c0 = input(random_floats({c.batch, c.hidden}, 5, 1));
  if (c.bias) o.bias = input(random_floats({2 * width}, 6, 0.5f));
  if (!c.lengths.empty()) o.lengths = input(Tensor(c.lengths, {c.batch}));
  if (c.peephole) o.peephole = input(random_floats({3 * c.hidden}, 7, 0.5f));
  const ir::Program program = b.finish(ir::rnn(b, o, c.attributes));
  const std::vector<Tensor> want = ir::evaluate(program, given);
  for (const int threads : {1, 3}) {
    BackendOptions options;
    options.threads = threads;
    const auto executable = Backend::get("cpu")->compile(program, options);
    for (int run = 0; run < 2; ++run) {
      std::vector<Buffer> buffers;
      for (const Tensor& tensor : given) buffers.push_back({.host = tensor});
      Bindings bindings(scope);
      const std::vector<Buffer> got = executable->run(buffers, bindings);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(got[i].host.shape(), want[i].shape());
        const std::vector<double> is = ir::numbers(got[i].host), wanted = ir::numbers(want[i]);
        for (size_t j = 0; j < is.size(); ++j)
          ASSERT_NEAR(is[j], wanted[j], 2e-5) << "result " << i << ", element " << j << ", threads " << threads;
      }
    }
  }
}

std::vector<RnnAttributes> cells() {
  RnnAttributes after = usual_rnn(Kind::gru);
  after.linear_before_reset = true;
  return {usual_rnn(Kind::lstm), usual_rnn(Kind::gru), after, usual_rnn(Kind::rnn)};
}

TEST(CpuRecurrentStep, CellsAndDirections) {
  for (RnnAttributes cell : cells()) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(str("kind ", static_cast<int>(cell.kind), " after ", cell.linear_before_reset, " back ", reverse));
      cell.reverse = reverse;
      expect_same({.attributes = cell, .lengths = {}});
      expect_same({.attributes = cell, .lengths = {}, .bias = false});
      expect_same({.attributes = cell, .lengths = {3, 0, 7}});
    }
  }
}

TEST(CpuRecurrentStep, WeightsHoweverTheyCome) {
  for (const RnnAttributes& cell : cells()) {
    for (const Weights weights : {Weights::part, Weights::input}) {
      SCOPED_TRACE(str("kind ", static_cast<int>(cell.kind), " weights ", static_cast<int>(weights)));
      expect_same({.attributes = cell, .lengths = {}, .weights = weights});
    }
  }
}

// Chunks of time are 256 rows; with the batch first, rows of a chunk do not join: either axis may be the longer one.
TEST(CpuRecurrentStep, ChunksAndLayouts) {
  for (const bool reverse : {false, true}) {
    for (const bool batch_first : {false, true}) {
      SCOPED_TRACE(str("back ", reverse, " batch first ", batch_first));
      RnnAttributes cell = usual_rnn(Kind::lstm);
      cell.reverse = reverse;
      expect_same(
          {.attributes = cell, .steps = 600, .batch = 1, .hidden = 3, .lengths = {}, .batch_first = batch_first});
      expect_same(
          {.attributes = cell, .steps = 150, .batch = 4, .hidden = 3, .lengths = {}, .batch_first = batch_first});
      expect_same(
          {.attributes = cell, .steps = 5, .batch = 100, .hidden = 3, .lengths = {}, .batch_first = batch_first});
      expect_same(
          {.attributes = cell, .steps = 3, .batch = 300, .hidden = 33, .lengths = {}, .batch_first = batch_first});
    }
  }
}

TEST(CpuRecurrentStep, OptionsOfTheCells) {
  RnnAttributes lstm = usual_rnn(Kind::lstm);
  expect_same({.attributes = lstm, .lengths = {2, 7, 1}, .peephole = true});
  lstm.clip = 0.3;
  expect_same({.attributes = lstm, .lengths = {}, .peephole = true});
  lstm.input_forget = true;
  expect_same({.attributes = lstm, .lengths = {}});
  for (RnnAttributes cell : cells()) {
    cell.clip = 0.25;
    for (int kind = 0; kind <= static_cast<int>(Activation::softplus); ++kind) {
      SCOPED_TRACE(str("kind ", static_cast<int>(cell.kind), " activation ", kind));
      cell.activations.back() = static_cast<Activation>(kind);
      expect_same({.attributes = cell, .lengths = {}});
    }
  }
}

TEST(CpuRecurrentStep, NothingToDo) {
  for (const RnnAttributes& cell : cells()) {
    expect_same({.attributes = cell, .steps = 0, .lengths = {}});
    expect_same({.attributes = cell, .batch = 0, .lengths = {}});
    expect_same({.attributes = cell, .inputs = 0, .lengths = {}});
    expect_same({.attributes = cell, .steps = 1, .batch = 1, .inputs = 1, .hidden = 1, .lengths = {}});
  }
}

}  // namespace
}  // namespace transmuter
