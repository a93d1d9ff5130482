// Loops and branches as StableHLO text, and what they become on the way there.
#include <gmock/gmock.h>

#include "ir/composites/composites.h"
#include "ir/passes/counts_as_sorts.h"
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

// A program around one op of a scope of its own.
template <class Body>
std::string printed_with(const std::string& name, const Body& body) {
  auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  Builder b(scope);
  return printed(name, b.finish(body(b)));
}

ProgramPtr region(Builder& b, std::vector<Value> results) {
  return std::make_shared<const Program>(b.finish(std::move(results)));
}

// A state that grows by a row a trip, and the sum of each; the sizes that come out are read by what follows.
TEST(PrintingLoops, AStateThatGrowsIsAWhileOverTensorsOfAnySize) {
  const std::string text = printed_with("growing", [](Builder& b) {
    const Value x = b.input({DType::f32, {2, 3}}, "x"), row = b.input({DType::f32, {1, 3}}, "row");
    Builder body(b.scope());
    body.input({DType::i64, {}}, "t");
    const Dim rows = b.scope()->data_value(2, {0, INT64_MAX});
    const Value state = body.input({DType::f32, {rows, 3}}, "state"), fixed = body.input({DType::f32, {1, 3}}, "row");
    const Value grown = body.concatenate({state, fixed}, 0);
    const Value sum = body.reduce(grown, ReduceKind::add, {0, 1});
    LoopAttributes attributes;
    attributes.trips = {4};
    attributes.carried = 1;
    attributes.row_axes = {-1};
    const std::vector<Value> out = loop(b, {x, row}, attributes, region(body, {grown, sum}));
    const Dims& shape = b.shape(out[0]);
    const Value flat = b.reshape(out[0], {shape[0] * 3});
    const Value half = b.slice_axis(flat, 0, 0, floor_div(shape[0] * 3, 2), 1);
    const Value counted = b.add(b.iota(DType::i64, {shape[0]}, 0),
                                b.broadcast_in_dim(b.dim_value(max(shape[0] - 5, 1), DType::i64), {shape[0]}, {}));
    return std::vector<Value>{half, counted, out[1]};
  });
  for (const char* part : {"stablehlo.while", "(tensor<i64>, tensor<?x3xf32>, tensor<?xf32>)", "get_dimension_size",
                           "dynamic_reshape", "real_dynamic_slice", "dynamic_iota", "dynamic_broadcast_in_dim"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("custom_call")));
}

// Rows of different lengths one after another, as many as a condition makes, in a loop in a branch.
TEST(PrintingLoops, ABranchOfItsOwnSizeHoldsALoopThatItsDataEnds) {
  const std::string text = printed_with("branches", [](Builder& b) {
    const Value x = b.input({DType::f32, {6}}, "x"), which = b.input({DType::i32, {}}, "which");
    Builder then_branch(b.scope()), else_branch(b.scope()), body(b.scope());
    const Value outside = then_branch.input({DType::f32, {6}}, "x");
    const Value other = else_branch.input({DType::f32, {6}}, "x");
    const Value t = body.input({DType::i64, {}}, "t"), fixed = body.input({DType::f32, {6}}, "x");
    const Dim length = b.scope()->data_value(1, {0, 6});
    read_values(body, body.expand_dims(t, {0}), {length});
    const Value part = body.slice_axis(fixed, 0, 0, length, 1);
    const Value more = body.compare(t, body.integer(DType::i64, 3), CompareDirection::lt);
    LoopAttributes attributes;
    attributes.has_condition = true;
    attributes.row_axes = {0};
    const Value go = then_branch.constant(make(DType::boolean, {1}, {}));
    const Value parts = loop(then_branch, {go, outside}, attributes, region(body, {more, part}))[0];
    return b.case_of(which, {x}, {region(then_branch, {parts}), region(else_branch, {other})});
  });
  EXPECT_THAT(text, HasSubstr("stablehlo.case"));
  EXPECT_THAT(text, HasSubstr("stablehlo.while"));
  EXPECT_THAT(text, HasSubstr("-> tensor<?xf32>"));
  EXPECT_THAT(text, Not(HasSubstr("custom_call")));
}

// What is found comes to the front of a sort; the count is a size from there on.
TEST(PrintingLoops, WhatIsFoundIsSortedToTheFront) {
  auto scope = ShapeScope::create();
  const ShapeScope::Enter enter(scope);
  Builder b(scope);
  const Dim n = scope->input_extent(0, 0, 4, "n");
  const Value x = b.input({DType::f32, {n, 3}}, "x");
  const Value keep = b.compare(b.reduce(x, ReduceKind::add, {1}), b.splat(DType::f32, 1, {n}), CompareDirection::gt);
  const Value found = nonzero(b, x), rows = compress(b, x, keep, 0), flat = compress(b, x, keep, -1);
  const Program program = b.finish({found, b.reduce(rows, ReduceKind::add, {0}), flat});
  const Program sorted = counts_as_sorts(program);
  const std::vector<Tensor> inputs{make(DType::f32, {0, 2, 0, 0, 0, 0, 1, NAN, -3, 5, 0, 0}, {4, 3})};
  Bindings bindings(scope), same(scope);
  bindings.set(0, 4), same.set(0, 4);
  const std::vector<Tensor> expected = evaluate(program, inputs, &bindings), got = evaluate(sorted, inputs, &same);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i].shape(), expected[i].shape());
    EXPECT_EQ(got[i].cast(DType::f64).to_vector<double>(), expected[i].cast(DType::f64).to_vector<double>());
  }
  const std::string text = printed("found", program);
  EXPECT_THAT(text, HasSubstr("stablehlo.sort"));
  EXPECT_THAT(text, HasSubstr("tensor<2x?xi64>"));
  EXPECT_THAT(text, Not(HasSubstr("custom_call")));
}

}  // namespace
}  // namespace transmuter::ir
