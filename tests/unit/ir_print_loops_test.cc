// Loops and branches as StableHLO text, and what they become on the way there.
#include <gmock/gmock.h>

#include "ir/composites/composites.h"
#include "ir/passes/loops_as_while.h"
#include "ir_printed.h"
#include "ir_programs.h"

namespace transmuter::ir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// x doubles a trip, from [1, 2]; each trip's number times w is stacked. With a condition while the sum is below 40.
std::vector<Value> doubling(Builder& b, Dim trips, bool conditional) {
  Builder body(b.scope());
  const Value t = body.input({DType::i64, {}}, "t"), x = body.input({DType::f32, {2}}, "x");
  const Value w = body.input({DType::f32, {3}}, "w");
  const Value next = body.add(x, x);
  std::vector<Value> results{next};
  if (conditional) {
    const Value sum = body.reduce(next, ReduceKind::add, {0});
    results.insert(results.begin(), body.compare(sum, body.scalar(DType::f32, 40), CompareDirection::lt));
  } else {
    results.push_back(body.multiply(w, body.broadcast_to(body.convert(t, DType::f32), {3})));
  }
  LoopAttributes attributes;
  attributes.trips = {trips};
  attributes.has_condition = conditional;
  attributes.carried = 1;
  if (!conditional) attributes.row_axes = {-1};
  std::vector<Value> operands{b.constant(make(DType::f32, {1, 2})), b.constant(make(DType::f32, {5, 6, 7}))};
  if (conditional) operands.insert(operands.begin(), b.constant(make(DType::boolean, {1}, {})));
  return loop(b, std::move(operands), attributes, std::make_shared<const Program>(body.finish(std::move(results))));
}

TEST(PrintingLoops, WhatKeepsItsSizesIsAWhile) {
  for (const int64_t trips : {3, 1, 0}) {
    for (const bool conditional : {false, true}) {
      auto scope = ShapeScope::create();
      const ShapeScope::Enter enter(scope);
      Builder alone(scope);
      const Program program = alone.finish(doubling(alone, trips, conditional));
      const Program rewritten = loops_as_while(program);
      for (const Op& op : rewritten.ops()) EXPECT_NE(op.primitive, &composite::loop);
      const std::vector<Tensor> expected = evaluate(program, {}), got = evaluate(rewritten, {});
      ASSERT_EQ(expected.size(), got.size());
      Builder both(scope);
      std::vector<Value> pairs = doubling(both, trips, conditional);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(got[i].shape(), expected[i].shape());
        EXPECT_EQ(got[i].to_vector<float>(), expected[i].to_vector<float>());
        pairs.insert(pairs.begin() + static_cast<ptrdiff_t>(2 * i + 1), both.constant(expected[i]));
      }
      const std::string text = printed("loop run", both.finish(std::move(pairs)));
      EXPECT_THAT(text, HasSubstr("stablehlo.while"));
      EXPECT_THAT(text, Not(HasSubstr("custom_call")));
    }
  }
}

}  // namespace
}  // namespace transmuter::ir
