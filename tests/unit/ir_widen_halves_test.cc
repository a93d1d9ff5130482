// Half-precision programs that compute in f32.
#include "ir/passes/widen_halves.h"

#include <functional>

#include "ir/composites/composites.h"
#include "ir/passes/verify.h"
#include "ir/primitives/primitives.h"
#include "ir_testing.h"

namespace transmuter::ir {
namespace {

Program of(const std::function<Value(Builder&, Value)>& fn, DType input = DType::f16) {
  Builder b(nullptr);
  return b.finish({fn(b, b.input({input, {2, 3}}, "x"))});
}

size_t count(const Program& program, const Primitive& primitive) {
  size_t n = 0;
  for (const Op& op : program.ops()) n += op.primitive == &primitive;
  return n;
}

const Tensor kX = make(DType::f16, {1, 2, 3, 4, 5, 6}, {2, 3});

TEST(WidenHalves, RoundsOnceAtTheEnd) {
  // 2048 + 1 - 2048: 0 where every step is rounded.
  const auto there_and_back = [](Builder& b, Value x) {
    const Value big = b.like(x, 2048);
    return b.subtract(b.add(b.subtract(x, x), b.add(big, b.like(x, 1))), big);
  };
  const Program before = of(there_and_back), after = widen_halves(before);
  verify(after);
  EXPECT_EQ(after.type(after.results()[0]).dtype, DType::f16);
  EXPECT_EQ(numbers(evaluate(before, std::vector{kX})[0]), std::vector<double>(6, 0));
  EXPECT_EQ(numbers(evaluate(after, std::vector{kX})[0]), std::vector<double>(6, 1));
}

TEST(WidenHalves, CastsToHalfDoNothing) {
  const Program after = widen_halves(
      of([](Builder& b, Value x) { return b.convert(b.exponential(b.convert(b.tanh(x), DType::f32)), DType::f16); }));
  verify(after);
  EXPECT_EQ(count(after, prim::convert), 2u);  // of the input and of the result
}

TEST(WidenHalves, CachesStayStored) {
  Builder b(nullptr);
  const Value past = b.input({DType::f16, {2, 3}}, "past"), x = b.input({DType::f16, {2, 1}}, "x");
  const Value present = b.concatenate({past, b.tanh(x)}, 1);
  const Value padded = b.pad(past, b.constant(make(DType::f16, {0}, {})), {0, 0}, {0, 1}, {0, 0});
  const Program after = widen_halves(b.finish({present, b.exponential(present), b.add(padded, padded)}));
  verify(after);
  for (const Op& op : after.ops()) {
    if (op.primitive == &prim::concatenate || op.primitive == &prim::pad) {
      EXPECT_EQ(op.operands[0], after.parameters()[0].value);
    }
  }
  EXPECT_EQ(after.type(after.results()[0]).dtype, DType::f16);
}

TEST(WidenHalves, ProductsReadStoredWeights) {
  const Program after = widen_halves(of([](Builder& b, Value x) {
    const Value w = b.transpose(b.weight(make(DType::f16, {1, 2, 3, 4, 5, 6}, {2, 3}), "w"), {1, 0});
    DotGeneralAttributes dot;
    dot.lhs_contracting = {1};
    dot.rhs_contracting = {0};
    dot.dtype = DType::f16;
    return b.dot_general(x, w, dot);
  }));
  verify(after);
  for (const Op& op : after.ops()) {
    if (op.primitive != &prim::dot_general) continue;
    EXPECT_EQ(after.type(op.operands[0]).dtype, DType::f32);
    EXPECT_EQ(after.type(op.operands[1]).dtype, DType::f16);
    EXPECT_EQ(after.type(op.results[0]).dtype, DType::f32);
  }
  EXPECT_EQ(numbers(evaluate(after, std::vector{kX})[0]), (std::vector<double>{14, 32, 32, 77}));
}

TEST(WidenHalves, BitsStayBits) {
  const auto bits = [](Builder& b, Value x) { return b.bitcast_convert(b.add(x, x), DType::u16); };
  const Program before = of(bits), after = widen_halves(before);
  verify(after);
  EXPECT_EQ(numbers(evaluate(after, std::vector{kX})[0]), numbers(evaluate(before, std::vector{kX})[0]));
}

TEST(WidenHalves, RegionsComputeInF32Too) {
  const Program after = widen_halves(of([](Builder& b, Value x) {
    Builder branch(nullptr);
    const Value y = branch.input({DType::f16, {2, 3}}, "y");
    const auto body = std::make_shared<const Program>(branch.finish({branch.add(y, branch.like(y, 0.5))}));
    return b.case_of(b.integer(DType::i32, 0), {x}, {body, body})[0];
  }));
  verify(after);
  EXPECT_EQ(numbers(evaluate(after, std::vector{kX})[0]), (std::vector<double>{1.5, 2.5, 3.5, 4.5, 5.5, 6.5}));
}

TEST(WidenHalves, WhatOnlyRoundsToHalfStays) {
  const Program after = widen_halves(
      of([](Builder& b, Value x) { return b.convert(b.convert(b.add(x, b.like(x, 2048)), DType::f16), DType::f32); },
         DType::f32));
  EXPECT_EQ(count(after, prim::convert), 2u);
  const Tensor x = make(DType::f32, {1, 1, 1, 1, 1, 1}, {2, 3});
  EXPECT_EQ(numbers(evaluate(after, std::vector{x})[0]), std::vector<double>(6, 2048));
}

}  // namespace
}  // namespace transmuter::ir
