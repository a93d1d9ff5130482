#include "base/dim.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/float_types.h"

namespace transmuter {
namespace {

constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;

// A scope that is current while the test runs, with a shorthand for symbols.
class DimTest : public ::testing::Test {
 protected:
  Dim extent(int64_t hint, const char* name = "") { return scope->input_extent(inputs++, 0, hint, name); }
  Dim value(int64_t hint) { return scope->input_value(inputs++, 0, hint); }
  // Bindings with these values for the symbols in their order.
  Bindings bind(const std::vector<int64_t>& values) {
    Bindings bindings(scope);
    for (size_t i = 0; i < values.size(); ++i) bindings.set(static_cast<int32_t>(i), values[i]);
    return bindings;
  }
  size_t facts() const { return scope->guards().size() + scope->assertions().size(); }

  std::shared_ptr<ShapeScope> scope = ShapeScope::create();
  ShapeScope::Enter enter{scope};
  int32_t inputs = 0;
};

TEST(DimWithoutScope, IsPlainArithmetic) {
  EXPECT_EQ((Dim(3) * 4 + 2 - 1).hint(), 13);
  EXPECT_EQ(floor_div(-7, 2).hint(), -4);
  EXPECT_EQ(ceil_div(-7, 2).hint(), -3);
  EXPECT_EQ(ceil_div(7, 2).hint(), 4);
  EXPECT_EQ(trunc_div(-7, 2).hint(), -3);
  EXPECT_EQ(mod(-7, 3).hint(), 2);
  EXPECT_EQ(mod(7, -3).hint(), -2);
  EXPECT_EQ(mod(kMin, -1).hint(), 0);
  EXPECT_TRUE(decide_lt(3, 4, "test"));
  EXPECT_THROW(floor_div(1, 0), Error);
  EXPECT_THROW(mod(1, 0), Error);
  EXPECT_THROW(Dim(kMax) + 1, Error);
  EXPECT_THROW(Dim(kMax) * 2, Error);
  EXPECT_THROW(floor_div(kMin, -1), Error);
  EXPECT_THROW(require_eq(3, 4, "test"), Error);
  EXPECT_EQ(to_string({2, 3}), "[2, 3]");
  EXPECT_EQ(product({2, 3, 4}).hint(), 24);
}

TEST_F(DimTest, PolynomialsNormalise) {
  const Dim b = extent(2), s = extent(5), h = extent(8);
  EXPECT_TRUE(same_expression(floor_div(b * s * h, s * h), b));
  EXPECT_TRUE(same_expression((b + s) * (b - s), b * b - s * s));
  EXPECT_TRUE(same_expression(floor_div(b * b - s * s, b + s), b - s));
  EXPECT_TRUE(same_expression(floor_div(h, 7) * 7 + mod(h, 7), h));
  EXPECT_TRUE(same_expression(floor_div(b * s * 64, b * 4), s * 16));
  EXPECT_TRUE(same_expression(floor_div(b * s * 64, b * 12), floor_div(s * 16, 3)));
  EXPECT_TRUE(same_expression(floor_div(h * 6 + 7, 3), h * 2 + 2));
  EXPECT_TRUE(same_expression(ceil_div(h * 4, 4), h));
  EXPECT_TRUE((s - s).is_constant());
  EXPECT_EQ(to_string(s * 2 + 1), "2*s1 + 1");
  EXPECT_EQ(to_string(b - s), "s0 - s1");
  EXPECT_EQ(facts(), 3u);  // the three inputs are at least 2; nothing else
}

TEST_F(DimTest, FloorsOfFloorsMerge) {
  const Dim s = extent(100);
  const Dim once = floor_div(s - 1, 2) + 1;
  const Dim twice = floor_div(once - 1, 2) + 1;
  EXPECT_TRUE(same_expression(twice, floor_div(s - 1, 4) + 1));
  EXPECT_TRUE(same_expression(floor_div(mod(s, 8), 8), 0));
  EXPECT_TRUE(same_expression(mod(mod(s, 8), 8), mod(s, 8)));
}

TEST_F(DimTest, RangesSettleWithoutGuards) {
  const Dim s = extent(5), b = extent(3);
  const size_t before = facts();
  EXPECT_EQ(min(2, s).hint(), 2);
  EXPECT_TRUE(min(2, s).is_constant());
  EXPECT_TRUE(same_expression(max(s, 0), s));
  EXPECT_TRUE(same_expression(max(s, min(s, b)), s));
  EXPECT_TRUE(same_expression(abs(s - 2), s - 2));
  EXPECT_TRUE(same_expression(abs(-s), s));
  EXPECT_FALSE(decide_eq(s, 1, "test"));
  EXPECT_FALSE(decide_eq(s, -1, "test"));
  EXPECT_TRUE(decide_lt(s, s + b, "test"));
  EXPECT_FALSE(decide_eq(s * 2, b * 4 + 1, "parity"));
  EXPECT_TRUE(provably_le(s, b * s));
  EXPECT_TRUE(provably_le(0, b * s - s - b + 3));
  EXPECT_TRUE(provably_le(floor_div(s, 2) * 2, s));
  EXPECT_TRUE(provably_lt(s - 2, floor_div(s, 2) * 2));
  EXPECT_FALSE(provably_le(s, b));
  EXPECT_FALSE(provably_eq(s, b));
  EXPECT_TRUE(provably_le(1, ceil_div(s, 16)));
  const Interval m = interval(mod(s * 3 + b, 7));
  EXPECT_EQ(m.low, 0);
  EXPECT_EQ(m.high, 6);
  EXPECT_EQ(interval(s + 1).low, 3);
  EXPECT_EQ(interval(s).high, kMax);
  EXPECT_EQ(interval(-s).high, -2);
  EXPECT_EQ(interval(-s).low, kMin);
  EXPECT_EQ(facts(), before);
}

TEST_F(DimTest, EndsOfTheIntegerRangeSaturate) {
  const Dim d = extent(10), v = value(4);
  EXPECT_TRUE(same_expression(min(max(Dim(kMax), 0), d), d));
  EXPECT_TRUE(same_expression(max(Dim(kMin), d), d));
  EXPECT_TRUE(same_expression(min(Dim(kMax), v), v));
  EXPECT_TRUE(same_expression(max(Dim(kMin), v), v));
  EXPECT_TRUE(min(Dim(kMin + 1), d).is_constant());
  EXPECT_TRUE(same_expression(min(Dim(kMax - 1), floor_div(d, 2)), min(Dim(kMax - 1), floor_div(d, 2))));
  EXPECT_EQ(settled(less(d, kMin)), false);
  EXPECT_EQ(settled(less_equal(v, kMax)), true);
  EXPECT_EQ(settled(less(Dim(kMax), v)), false);
  EXPECT_FALSE(decide_eq(v, kMin, "is the lowest"));
  EXPECT_FALSE(decide_eq(v, kMax, "is the highest"));
  EXPECT_FALSE(decide_lt(v, kMin + 1, "is the lowest"));
  EXPECT_TRUE(bind({10, 7}).guards_hold());
  EXPECT_FALSE(bind({10, kMin}).guards_hold());
  EXPECT_FALSE(bind({10, kMax}).guards_hold());
}

TEST_F(DimTest, ZeroAndOneAreSpecialised) {
  const Dim one = extent(1), zero = extent(0), many = extent(3);
  EXPECT_TRUE(one.is_constant());
  EXPECT_TRUE(zero.is_constant());
  EXPECT_FALSE(many.is_constant());
  EXPECT_TRUE(bind({1, 0, 7}).guards_hold());
  EXPECT_FALSE(bind({2, 0, 7}).guards_hold());
  EXPECT_FALSE(bind({1, 1, 7}).guards_hold());
  EXPECT_FALSE(bind({1, 0, 1}).guards_hold());
  EXPECT_NE(bind({1, 0, 1}).explain()->find("extent 0 of input 2"), std::string::npos);
  EXPECT_THROW(extent(-1), Error);
}

TEST_F(DimTest, GuardsReplayOnOtherSizes) {
  const Dim s = extent(5), t = extent(9);
  EXPECT_TRUE(decide_lt(s, 10, "short"));
  EXPECT_EQ(interval(s).high, 9);
  EXPECT_TRUE(decide_lt(s, 12, "implied"));
  EXPECT_FALSE(decide_eq(s, t, "same"));
  EXPECT_FALSE(decide_eq(t, s, "same again"));
  EXPECT_FALSE(decide(equal(s, t), "and again"));
  EXPECT_EQ(scope->guards().size(), 4u);
  EXPECT_TRUE(bind({9, 10}).guards_hold());
  EXPECT_FALSE(bind({10, 11}).guards_hold());
  EXPECT_FALSE(bind({7, 7}).guards_hold());
  EXPECT_EQ(*bind({10, 11}).explain(), "short: not (s0 >= 10) fails with s0 = 10");
  Bindings bindings = bind({9, 10});
  EXPECT_EQ(bindings.evaluate(s * t + 1), 91);
  bindings.reset();
  bindings.set(0, 2);
  bindings.set(1, 3);
  EXPECT_EQ(bindings.evaluate({s, t * 2}), (std::vector<int64_t>{2, 6}));
}

TEST_F(DimTest, LogicOfTruthValues) {
  const Dim s = extent(5), t = extent(9);
  EXPECT_TRUE(decide(min(less(s, t), less(t, 20)), "and"));
  EXPECT_EQ(settled(less(s, t)), true);
  EXPECT_EQ(settled(less(t, 20)), true);
  EXPECT_EQ(settled(Dim(1) - less(t, 20)), false);
  EXPECT_EQ(settled(less_equal(t, s)), false);
  EXPECT_TRUE(provably_lt(s, t));
  EXPECT_FALSE(decide(Dim(1) - less(s, 6), "not"));
  EXPECT_EQ(interval(s).high, 5);
}

TEST_F(DimTest, UnificationIsSeenLater) {
  const Dim past = extent(4, "past"), seq = extent(3, "seq"), total = extent(7, "total");
  const Dim before = total * 2;
  require_eq(past + seq, total, "attention: mask length");
  EXPECT_EQ(scope->assertions().size(), 1u);
  EXPECT_TRUE(same_expression(total - seq, past));
  EXPECT_TRUE(provably_eq(before, past * 2 + seq * 2));
  EXPECT_EQ(to_string(total), "past + seq");
  require_eq(total, seq + past, "again");
  EXPECT_EQ(scope->assertions().size(), 1u);
  EXPECT_TRUE(bind({5, 6, 11}).guards_hold());
  EXPECT_NO_THROW(bind({5, 6, 11}).check_assertions());
  try {
    bind({5, 6, 12}).check_assertions();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_NE(error.sentence().find("mask length"), std::string::npos) << error.what();
  }
}

TEST_F(DimTest, UnificationOfProductsAndQuotients) {
  const Dim b = extent(4), s = extent(6), t = extent(6), u = extent(3);
  require_eq(b * s, b * t, "rows");  // b is never zero
  EXPECT_TRUE(provably_eq(s, t));
  require_eq(floor_div(s, 2), u, "half");
  EXPECT_TRUE(provably_eq(floor_div(t, 2) * 5, u * 5));
  EXPECT_EQ(interval(u).low, 2);
  const Dim v = extent(2), w = extent(12);
  require_eq(v * w, b * s, "count");
  EXPECT_TRUE(provably_eq(b * t, v * w));
  EXPECT_NO_THROW(bind({4, 6, 6, 3, 2, 12}).check_assertions());
  EXPECT_THROW(bind({4, 6, 7, 3, 2, 12}).check_assertions(), Error);
  EXPECT_THROW(bind({4, 6, 6, 3, 3, 12}).check_assertions(), Error);
}

TEST_F(DimTest, DecidedEqualityUnifies) {
  const Dim a = extent(4), b = extent(4);
  EXPECT_TRUE(decide_eq(a, b, "broadcast"));
  EXPECT_TRUE(provably_eq(a * 3, b * 3));
  EXPECT_TRUE(bind({5, 5}).guards_hold());
  EXPECT_FALSE(bind({5, 6}).guards_hold());
}

TEST_F(DimTest, IllegalSizesNameBothSides) {
  const Dim a = extent(4, "rows"), b = extent(5, "columns");
  try {
    require_eq(a + 1, b * 2, "MatMul: inner extents");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_EQ(error.sentence(), "MatMul: inner extents: rows + 1 (= 5) and 2*columns (= 10) differ");
  }
  EXPECT_THROW(require(less(b, a), "order"), Error);
  EXPECT_EQ(scope->assertions().size(), 0u);
}

// Where(Equal(shape, -1), replacement, shape), as exports of Expand have it.
TEST_F(DimTest, WhereEqualChainsSettle) {
  const Dim b = extent(2), s = extent(8);
  const size_t before = facts();
  Dims shape;
  for (const Dim& d : Dims{b, Dim(-1), s}) shape.push_back(select(equal(d, -1), Dim(64), d));
  EXPECT_TRUE(same_expression(shape[0], b));
  EXPECT_TRUE(same_expression(shape[1], 64));
  EXPECT_TRUE(same_expression(shape[2], s));
  EXPECT_TRUE(same_expression(select(equal(b, s), b, s), s));
  EXPECT_TRUE(same_expression(select(equal(b, s), 1, 0), equal(b, s)));
  EXPECT_TRUE(same_expression(equal(select(less(b, s), 3, 5), 3), less(b, s)));
  EXPECT_EQ(facts(), before);
  const Dim chosen = select(less(b, s), b * 10, floor_div(100, s - 7));
  EXPECT_EQ(bind({2, 7}).evaluate(chosen), 20);  // the other arm divides by zero
}

TEST_F(DimTest, SpecialisationIsRecorded) {
  const Dim s = extent(6);
  EXPECT_EQ(specialize(s * 2, "TopK: k"), 12);
  EXPECT_TRUE(provably_eq(s, 6));
  ASSERT_EQ(scope->specializations().size(), 1u);
  EXPECT_EQ(scope->specializations()[0], "TopK: k: 2*s0 = 12");
  EXPECT_EQ(specialize(s, "again"), 6);
  EXPECT_EQ(scope->specializations().size(), 1u);
  EXPECT_TRUE(bind({6}).guards_hold());
  EXPECT_FALSE(bind({7}).guards_hold());
}

TEST_F(DimTest, NamedExtentsAreShared) {
  const Dim a = extent(4, "batch"), b = extent(4, "batch"), c = extent(5, "batch");
  EXPECT_TRUE(same_expression(a, b));
  EXPECT_FALSE(provably_eq(a, c));
  EXPECT_TRUE(bind({6, 6, 5}).guards_hold());
  EXPECT_FALSE(bind({6, 7, 5}).guards_hold());
}

TEST_F(DimTest, GuardsOfUnusedInputsAreDropped) {
  extent(4, "batch");
  const Dim b = extent(4, "batch");
  extent(1);
  const Dim c = extent(3);
  EXPECT_FALSE(decide_eq(c, 9, "unused"));
  EXPECT_EQ(scope->guards().size(), 5u);
  scope->drop_guards_of_unused_inputs({false, true, false, false});
  // Input 0 goes on standing for the batch of input 1.
  EXPECT_EQ(scope->guards().size(), 2u);
  EXPECT_TRUE(bind({6, 6, 8, 9}).guards_hold());
  EXPECT_FALSE(bind({6, 7, 8, 9}).guards_hold());
  EXPECT_EQ(bind({6, 6, 1, 1}).evaluate(b), 6);
}

TEST_F(DimTest, DataDependentCountsStayOpen) {
  const Dim s = extent(10), u = scope->data_dependent(s * 2, "NonZero");
  EXPECT_EQ(u.hint(), 20);
  EXPECT_EQ(interval(u).low, 0);
  EXPECT_TRUE(provably_le(u, s * 2));
  EXPECT_TRUE(provably_le(u, s * 3));
  EXPECT_FALSE(provably_le(u, s));
  EXPECT_TRUE(depends_on_data(u + s));
  EXPECT_THROW(decide_eq(u, 7, "count"), DataDependentDecision);
  EXPECT_THROW(specialize(u, "count"), DataDependentDecision);
  EXPECT_EQ(settled(equal(u, 1)), std::nullopt);
  // Its hint is not its value: legality waits for the run.
  const Dim t = extent(3);
  require_eq(u, t, "rows");
  EXPECT_TRUE(provably_eq(u, t));
  Bindings bindings(scope);
  bindings.set(0, 10);
  bindings.set(2, 4);
  EXPECT_TRUE(bindings.guards_hold());
  EXPECT_NO_THROW(bindings.check_assertions());  // u is not known yet
  bindings.set(1, 5);
  EXPECT_THROW(bindings.check_assertions(), Error);
  const Dim fixed = scope->data_dependent(64, "NMS");
  EXPECT_EQ(interval(fixed).high, 64);
}

TEST_F(DimTest, BrokenExtentsMayBeEmpty) {
  const Dim e = scope->break_extent(0, 0, 1);
  EXPECT_FALSE(e.is_constant());
  EXPECT_EQ(interval(e).low, 0);
  EXPECT_FALSE(same_expression(max(e, 1), e));
  EXPECT_FALSE(decide_eq(e, 0, "empty"));
  EXPECT_EQ(interval(e).low, 1);
}

TEST_F(DimTest, OverflowIsAnError) {
  const Dim a = extent(int64_t{1} << 40), b = extent(1 << 20);
  EXPECT_THROW(a * a, Error);
  const Dim p = a * b;
  EXPECT_EQ(bind({3, 4}).evaluate(p), 12);
  EXPECT_THROW(bind({int64_t{1} << 50, 1 << 20}).evaluate(p), Error);
  EXPECT_THROW(bind({3}).evaluate(p), Error);  // b is not set
  EXPECT_THROW(bind({3, 4}).set(0, 5), Error);
}

TEST_F(DimTest, ScopesDoNotMix) {
  const Dim a = extent(4);
  const auto other = ShapeScope::create();
  const ShapeScope::Enter inner(other);
  const Dim b = other->input_extent(0, 0, 4, "");
  try {
    to_string(a + b);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
  }
  EXPECT_THROW(a + 1, Error);
}

TEST_F(DimTest, TruncatedDivisionOfEitherSign) {
  const Dim v = value(7), w = value(2);
  const Dim q = trunc_div(v, w), r = trunc_div(v, 2);
  for (const int64_t x : {-7, -6, -1, 0, 1, 6, 7})
    for (const int64_t y : {-3, -2, -1, 1, 2, 3}) {
      EXPECT_EQ(bind({x, y}).evaluate(q), x / y) << x << " " << y;
      EXPECT_EQ(bind({x, y}).evaluate(r), x / 2);
      const int64_t m = bind({x, y}).evaluate(mod(v, w));
      EXPECT_EQ(m, ((x % y) + y) % y) << x << " " << y;
    }
  EXPECT_THROW(bind({1, 0}).evaluate(q), Error);
  const Dim s = extent(9);
  EXPECT_TRUE(same_expression(trunc_div(s, 2), floor_div(s, 2)));
}

TEST_F(DimTest, RealsRoundInTheirDtype) {
  const Dim s = extent(1001);
  const Real scale = real_binary(RealOp::div, Real(1.0), real_from(s, RealDType::f32), RealDType::f32);
  EXPECT_EQ(scale.hint(), static_cast<double>(1.0f / 1001.0f));
  const Real half = real_binary(RealOp::div, Real(1.0), real_from(s, RealDType::f16), RealDType::f16);
  EXPECT_EQ(half.hint(), static_cast<double>(to_float(to_f16(1.0f / 1001.0f))));
  Bindings bindings = bind({3});
  EXPECT_EQ(bindings.evaluate(scale), static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(bindings.evaluate(half), static_cast<double>(to_float(to_f16(1.0f / 3.0f))));
  EXPECT_EQ(real_from(4097, RealDType::f16).hint(), 4096.0);
  EXPECT_EQ(real_from(257, RealDType::bf16).hint(), 256.0);
  // Resize: floor(s * 1.5)
  const Dim resized = dim_from(real_unary(
      RealOp::floor, real_binary(RealOp::mul, real_from(s, RealDType::f32), 1.5, RealDType::f32), RealDType::f32));
  EXPECT_EQ(resized.hint(), 1501);
  EXPECT_EQ(interval(resized).low, 3);
  EXPECT_EQ(bindings.evaluate(resized), 4);
  EXPECT_EQ(dim_from(std::nan("")).hint(), 0);
  EXPECT_EQ(dim_from(1e30).hint(), kMax);
  EXPECT_EQ(dim_from(-2.7).hint(), -2);
  EXPECT_TRUE(decide_lt(s, 5000, "small"));
  EXPECT_TRUE(same_expression(dim_from(real_from(s, RealDType::f32)), s));
  EXPECT_FALSE(same_expression(dim_from(real_from(s, RealDType::f16)), s));
  EXPECT_EQ(settled(less(real_from(s, RealDType::f32), 2.0)), std::nullopt);
  EXPECT_EQ(settled(less(real_from(s, RealDType::f32), 1.5)), false);
  EXPECT_TRUE(decide(less(Real(0.5), scale), "big scale") == false);
  EXPECT_FALSE(bind({1000}).evaluate(less(Real(0.5), scale)));
}

TEST_F(DimTest, DeepExpressionsDoNotRecurse) {
  Dim d = extent(5);
  const Dim other = extent(7);
  for (int i = 0; i < 20000; ++i) d = floor_div(max(d * 3 + other, 9), 4);
  const Dim last = d;
  EXPECT_EQ(bind({5, 7}).evaluate(last), last.hint());
  EXPECT_TRUE(decide_eq(other, 7, "pin"));  // everything is brought up to date
  EXPECT_EQ((last + 0).hint(), last.hint());
  EXPECT_EQ(interval(last + 1).low, interval(last).low + 1);
}

TEST_F(DimTest, CyclesAreNotMade) {
  const Dim s = extent(4), t = extent(4);
  EXPECT_TRUE(decide_eq(s, floor_div(s * s, 4), "fixed point"));
  EXPECT_TRUE(provably_eq(s, floor_div(s * s, 4)));
  EXPECT_TRUE(decide_eq(floor_div(s, 3), floor_div(t, 3), "f(s) = f(t)"));
  EXPECT_TRUE(decide_eq(s, t, "s = t"));
  EXPECT_TRUE(provably_eq(floor_div(s, 3), floor_div(t, 3)));
  EXPECT_TRUE(bind({4, 4}).guards_hold());
  EXPECT_FALSE(bind({5, 5}).guards_hold());
}

TEST_F(DimTest, AMinimumThatIsOneSaysLittleOfItsParts) {
  const Dim count = floor_div(extent(40), 8);
  EXPECT_TRUE(decide_eq(min(count, 1), 1, "one at least"));
  EXPECT_FALSE(provably_eq(count, 1));
  EXPECT_TRUE(provably_le(1, count));
  EXPECT_TRUE(bind({16}).guards_hold());
  EXPECT_FALSE(bind({7}).guards_hold());
}

}  // namespace
}  // namespace transmuter
