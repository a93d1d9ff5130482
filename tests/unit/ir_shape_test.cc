// Ops that move elements, NumPy broadcasting over Dims, constants.
#include "ir_testing.h"

namespace transmuter::ir {
namespace {

using Numbers = std::vector<double>;

Tensor counting(Shape shape) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return make(DType::f32, values, std::move(shape));
}

template <class Fn>
void expect(const std::vector<Tensor>& inputs, Fn&& fn, Shape shape, const Numbers& expected) {
  const Tensor got = run(inputs, fn);
  EXPECT_EQ(got.shape(), shape);
  EXPECT_EQ(numbers(got), expected);
}

TEST(ShapeOps, MoveElements) {
  const Tensor x = counting({2, 3});
  expect({x}, [](Builder& b, auto& v) { return b.transpose(v[0], {1, 0}); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect({x}, [](Builder& b, auto& v) { return b.reshape(v[0], {3, 2}); }, {3, 2}, {0, 1, 2, 3, 4, 5});
  expect({x}, [](Builder& b, auto& v) { return b.reverse(v[0], {0, 1}); }, {2, 3}, {5, 4, 3, 2, 1, 0});
  expect({x}, [](Builder& b, auto& v) { return b.slice(v[0], {0, 0}, {2, 3}, {1, 2}); }, {2, 2}, {0, 2, 3, 5});
  expect({x}, [](Builder& b, auto& v) { return b.slice_axis(v[0], 1, 3, 3); }, {2, 0}, {});
  expect({x, counting({2, 1})},
         [](Builder& b, auto& v) {
           return b.concatenate({v[0], v[1], v[1]}, 1);
         },
         {2, 5}, {0, 1, 2, 0, 0, 3, 4, 5, 1, 1});
  expect({counting({2})},
         [](Builder& b, auto& v) {
           return b.broadcast_in_dim(v[0], {2, 3}, {0});
         },
         {2, 3}, {0, 0, 0, 1, 1, 1});
  expect({counting({1, 2})},
         [](Builder& b, auto& v) {
           return b.broadcast_in_dim(v[0], {2, 2}, {1, 0});
         },
         {2, 2}, {0, 0, 1, 1});
}

TEST(ShapeOps, PadsCropAndSpread) {
  auto pad = [](Dims low, Dims high, Dims interior) {
    return [=](Builder& b, auto& v) { return b.pad(v[0], b.scalar(DType::f32, 9), low, high, interior); };
  };
  expect({counting({3})}, pad({1}, {2}, {0}), {6}, {9, 0, 1, 2, 9, 9});
  expect({counting({3})}, pad({-1}, {1}, {0}), {3}, {1, 2, 9});
  expect({counting({3})}, pad({0}, {-1}, {1}), {4}, {0, 9, 1, 9});
  expect({counting({0})}, pad({1}, {1}, {3}), {2}, {9, 9});
}

TEST(ShapeOps, TakeEveryWidthAndPackedDtypes) {
  for (DType dtype : {DType::boolean, DType::u4, DType::i2, DType::f16, DType::f64, DType::i64}) {
    const Tensor x = make(dtype, {0, 1, 1, 0}, {2, 2});
    const Tensor got = run({x}, [](Builder& b, auto& v) { return b.transpose(b.reverse(v[0], {0}), {1, 0}); });
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_EQ(numbers(got), (Numbers{1, 0, 0, 1})) << name(dtype);
  }
  const Tensor z = run({make(DType::f32, {1, 2}), make(DType::f32, {3, 4})},
                       [](Builder& b, auto& v) { return b.imag(b.reverse(b.complex(v[0], v[1]), {0})); });
  EXPECT_EQ(numbers(z), (Numbers{4, 3}));
}

TEST(ShapeOps, NoOpsGiveTheirOperand) {
  Builder b(nullptr);
  Value x = b.input({DType::f32, {2, 3}}, "x");
  EXPECT_EQ(b.reshape(x, {2, 3}), x);
  EXPECT_EQ(b.transpose(x, {0, 1}), x);
  EXPECT_EQ(b.broadcast_to(x, {2, 3}), x);
  EXPECT_EQ(b.convert(x, DType::f32), x);
  EXPECT_EQ(b.concatenate({x}, 0), x);
}

TEST(Constants, AreExact) {
  expect({}, [](Builder& b, auto&) { return b.iota(DType::i8, {2, 3}, 1); }, {2, 3}, {0, 1, 2, 0, 1, 2});
  expect({}, [](Builder& b, auto&) { return b.splat(DType::bf16, 1.5, {2}); }, {2}, {1.5, 1.5});
  const Tensor big = run({}, [](Builder& b, auto&) { return b.integer(DType::i64, (int64_t{1} << 62) + 1); });
  EXPECT_EQ(big.to_vector<int64_t>()[0], (int64_t{1} << 62) + 1);
}

struct Traced {
  std::shared_ptr<ShapeScope> scope = ShapeScope::create();
  ShapeScope::Enter enter{scope};
  Dim batch = scope->input_extent(0, 0, 4, "batch"), length = scope->input_extent(0, 1, 7, "length");
};

TEST(Broadcasting, OfSymbolsNeedsNoGuard) {
  Traced t;
  size_t guards = t.scope->guards().size();
  EXPECT_TRUE(provably_eq(broadcast_dim(t.batch, 1, "x"), t.batch));
  EXPECT_TRUE(provably_eq(broadcast_dim(1, t.batch, "x"), t.batch));
  EXPECT_TRUE(provably_eq(broadcast_dim(t.batch, t.batch, "x"), t.batch));
  EXPECT_EQ(t.scope->guards().size(), guards);
  EXPECT_TRUE(t.scope->assertions().empty());
  // Extents of inputs are at least 2, so unequal ones are an error of the run, not a new trace.
  Dim other = t.scope->input_extent(1, 0, 4, "");
  guards = t.scope->guards().size();
  EXPECT_EQ(broadcast_dim(t.batch, other, "x").hint(), 4);
  EXPECT_EQ(t.scope->guards().size(), guards);
  EXPECT_EQ(t.scope->assertions().size(), 1u);
  EXPECT_TRUE(provably_eq(t.batch, other));
  EXPECT_THROW(broadcast_dim(t.batch, t.length, "x"), Error);
}

TEST(Broadcasting, OfAnExpressionThatIsOneIsGuarded) {
  Traced t;
  size_t guards = t.scope->guards().size();
  Dim one = t.length - 6;
  EXPECT_TRUE(provably_eq(broadcast_dim(one, t.batch, "x"), t.batch));
  EXPECT_EQ(t.scope->guards().size(), guards + 1);
}

TEST(Broadcasting, OfDataDependentExtentsIsDecidedWhenBound) {
  Traced t;
  Dim count = t.scope->data_dependent(t.length, "count");
  size_t guards = t.scope->guards().size();
  EXPECT_TRUE(provably_eq(broadcast_dim(count, 1, "x"), count));
  EXPECT_TRUE(provably_eq(broadcast_dim(count, count, "x"), count));
  EXPECT_TRUE(provably_eq(broadcast_dim(count, 5, "x"), 5));  // 5 or 1 against 5
  EXPECT_EQ(t.scope->guards().size(), guards);
  Dim other = t.scope->data_dependent(t.length, "other");
  Dim both = broadcast_dim(count, other, "x");
  Bindings bindings(t.scope);
  for (size_t s = 0; s < t.scope->symbols().size(); ++s) {
    ExprId expr = t.scope->symbols()[s].expr;
    bindings.set(static_cast<int32_t>(s), expr == count.expr() ? 1 : expr == other.expr() ? 3 : 7);
  }
  EXPECT_EQ(bindings.evaluate(both), 3);
}

TEST(Broadcasting, EvaluatesWithBindings) {
  Traced t;
  Builder b(t.scope);
  Value x = b.input({DType::f32, {t.batch, t.length}}, "x");
  auto [wide, bias] = b.numpy_broadcast(x, b.input({DType::f32, {t.length}}, "bias"));
  Value sum = b.add(b.add(wide, bias), b.broadcast_to(b.dim_value(t.batch * 2, DType::f32), b.shape(x)));
  const Program program = b.finish({sum});
  Bindings bindings(t.scope);
  bindings.set(0, 2);
  bindings.set(1, 3);
  const Tensor got = evaluate(program, std::vector<Tensor>{counting({2, 3}), counting({3})}, &bindings)[0];
  EXPECT_EQ(numbers(got), (Numbers{4, 6, 8, 7, 9, 11}));
}

}  // namespace
}  // namespace transmuter::ir
