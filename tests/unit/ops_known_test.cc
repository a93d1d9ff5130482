// What lowerings know: arithmetic on known scalars, moved elements, and that shape arithmetic leaves neither IR nor
// guards behind.
#include <gtest/gtest.h>

#include "ops/known_math.h"
#include "ops/known_moves.h"
#include "ops/registry.h"

namespace transmuter::ops {
namespace {

// Lowers nodes one by one; inputs with symbolic extents become program inputs, constants stay constants.
class Lowering : public TraceHost {
 public:
  ir::Builder& build() override { return build_; }
  ir::Value materialise(Traced& traced) override {
    if (traced.value) return traced.value;
    if (traced.constant)
      traced.value = build_.constant(traced.constant);
    else if (traced.known.fully_known())
      traced.value = ops::materialise(build_, traced.known);
    else
      traced.value = build_.input(traced.type, "x");
    return traced.value;
  }
  bool make_known(Traced& traced) override { return traced.known.fully_known(); }
  std::vector<TracedPtr> inline_graph(const onnx::Graph&, const std::vector<TracedPtr>&) override { return {}; }
  ir::Value random_state() override { return build_.input({DType::u64, {2}}, "random_state"); }

  TracedPtr input(DType dtype, Dims shape) {
    auto traced = std::make_shared<Traced>();
    traced->type = {dtype, std::move(shape)};
    return traced;
  }
  TracedPtr constant(Tensor tensor) {
    auto traced = std::make_shared<Traced>();
    traced->type = {tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end())};
    traced->constant = std::move(tensor);
    return traced;
  }
  TracedPtr ints(const std::vector<int64_t>& values) {
    return constant(Tensor(values, {static_cast<int64_t>(values.size())}));
  }
  TracedPtr integer(int64_t value) { return constant(Tensor::scalar(value)); }

  std::vector<TracedPtr> run_all(const char* op_type, const std::vector<TracedPtr>& inputs, size_t outputs,
                                 const std::vector<std::pair<std::string, int64_t>>& attributes = {}) {
    onnx::Node node;
    node.op_type = node.label = op_type;
    node.version = 21;
    for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(inputs[i] ? str("i", i) : "");
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(str("o", i));
    for (const auto& [name, value] : attributes) {
      onnx::Attribute attribute;
      attribute.name = name;
      attribute.kind = onnx::Attribute::Kind::i;
      attribute.i = value;
      node.attributes.push_back(std::move(attribute));
    }
    OpContext context(*this, node, inputs);
    registry().find("", op_type)->lower(context);
    context.check_all_attributes_read();
    return context.outputs();
  }
  TracedPtr run(const char* op_type, const std::vector<TracedPtr>& inputs,
                const std::vector<std::pair<std::string, int64_t>>& attributes = {}) {
    return run_all(op_type, inputs, 1, attributes)[0];
  }

  Dim extent(int64_t hint) { return scope_->input_extent(inputs_++, 0, hint, ""); }
  // Ops emitted so far.
  size_t op_count() {
    const ir::Program program = std::move(build_).finish({});
    return program.ops().size();
  }
  const ShapeScope& scope() const { return *scope_; }

 private:
  std::shared_ptr<ShapeScope> scope_ = ShapeScope::create();
  ShapeScope::Enter enter_{scope_};
  ir::Builder build_{scope_};
  int32_t inputs_ = 0;
};

TEST(KnownMath, IntegersWrapAsTheirDtypeDoes) {
  EXPECT_EQ(add_scalars(Scalar(Dim(INT64_MAX)), Scalar(Dim(1)), DType::i64).dim.hint(), INT64_MIN);
  EXPECT_EQ(multiply_scalars(Scalar(Dim(200)), Scalar(Dim(2)), DType::u8).dim.hint(), 144);
  EXPECT_EQ(subtract_scalars(Scalar(Dim(-128)), Scalar(Dim(1)), DType::i8).dim.hint(), 127);
  EXPECT_FALSE(subtract_scalars(Scalar(Dim(0)), Scalar(Dim(1)), DType::u64).known());  // does not fit int64
}

TEST(KnownMath, DivisionTruncatesAndNeverTraps) {
  EXPECT_EQ(divide_scalars(Scalar(Dim(-7)), Scalar(Dim(2)), DType::i64).dim.hint(), -3);
  EXPECT_EQ(divide_scalars(Scalar(Dim(7)), Scalar(Dim(0)), DType::i64).dim.hint(), -1);
  EXPECT_EQ(divide_scalars(Scalar(Dim(INT64_MIN)), Scalar(Dim(-1)), DType::i64).dim.hint(), INT64_MIN);
  EXPECT_EQ(floor_mod_scalars(Scalar(Dim(-7)), Scalar(Dim(3)), DType::i64).dim.hint(), 2);
  EXPECT_EQ(floor_mod_scalars(Scalar(Dim(7)), Scalar(Dim(-3)), DType::i64).dim.hint(), -2);
  EXPECT_EQ(remainder_scalars(Scalar(Dim(-7)), Scalar(Dim(3)), DType::i64).dim.hint(), -1);
  EXPECT_EQ(floor_mod_scalars(Scalar(Dim(5)), Scalar(Dim(0)), DType::i64).dim.hint(), 5);
}

TEST(KnownMath, CastsSaturateAndTruncate) {
  EXPECT_EQ(cast_scalar(Scalar(Real(-1.9)), DType::i64).dim.hint(), -1);
  EXPECT_EQ(cast_scalar(Scalar(Real(300.0)), DType::u8).dim.hint(), 255);
  EXPECT_EQ(cast_scalar(Scalar(Dim(300)), DType::u8).dim.hint(), 44);
  EXPECT_EQ(cast_scalar(Scalar(Dim(7)), DType::boolean).dim.hint(), 1);
  EXPECT_FALSE(cast_scalar(Scalar(Dim(7)), DType::f8e5m2).known());
}

TEST(KnownMoves, ElementsFollowTheirTensor) {
  const Known x = reshape_known(Known::vector(DType::i64, {0, 1, 2, 3, 4, 5}), {2, 3});
  EXPECT_EQ(transpose_known(x, {1, 0}).elements[1].dim.hint(), 3);
  EXPECT_EQ(reverse_known(x, 1).elements[0].dim.hint(), 2);
  const Known row = slice_known(x, {1, 0}, {2, 3}, {1, 2}, {1, 2});
  ASSERT_EQ(row.size(), 2);
  EXPECT_EQ(row.elements[1].dim.hint(), 5);
  EXPECT_EQ(broadcast_known(row, {3, 2}).elements[5].dim.hint(), 5);
  EXPECT_EQ(concat_known({x, row}, {{2, 3}, {1, 2}}, 0, {3, 3}).kind, Known::Kind::elements);
}

TEST(KnownMoves, IotasMoveByTheirStart) {
  Lowering l;
  const Dim n = l.extent(300);
  const Known x = Known::iota(DType::i64, {n}, 0, 5, 2);
  const Known cut = slice_known(x, {3}, {n}, {2}, {ceil_div(n - 3, 2)});
  EXPECT_EQ(cut.value.dim.hint(), 11);
  EXPECT_EQ(cut.step.hint(), 4);
  const Known back = reverse_known(x, 0);
  EXPECT_EQ(back.value.dim.hint(), 5 + 2 * 299);
  EXPECT_EQ(back.step.hint(), -2);
  EXPECT_EQ(broadcast_known(x, {4, n}).axis, 1);
}

TEST(KnownValues, ShapeArithmeticLeavesNoProgramAndNoGuard) {
  Lowering l;
  const Dim batch = l.extent(2), length = l.extent(7);
  const TracedPtr x = l.input(DType::f32, {batch, length, 64});
  const TracedPtr shape = l.run("Shape", {x});
  const TracedPtr b = l.run("Unsqueeze", {l.run("Gather", {shape, l.integer(0)}), l.ints({0})});
  const TracedPtr n = l.run("Slice", {shape, l.ints({1}), l.ints({2})});
  const TracedPtr target = l.run("Concat", {b, n, l.ints({4, -1})}, {{"axis", 0}});
  const TracedPtr negative = l.run("Equal", {target, l.ints({-1, -1, -1, -1})});
  const TracedPtr safe = l.run("Where", {negative, l.ints({16, 16, 16, 16}), target});
  const TracedPtr doubled = l.run("Div", {l.run("Mul", {safe, l.integer(6)}), l.integer(3)});
  EXPECT_EQ(to_string(doubled->known.elements[0].dim), to_string(batch * 2));
  EXPECT_EQ(doubled->known.elements[3].dim.hint(), 32);
  const TracedPtr y = l.run("Reshape", {x, target});
  EXPECT_EQ(hints(y->type.shape), (std::vector<int64_t>{2, 7, 4, 16}));
  EXPECT_EQ(l.scope().guards().size(), 2u);  // that batch and length are at least 2
  EXPECT_EQ(l.scope().assertions().size(), 0u);
  EXPECT_EQ(l.op_count(), 1u);  // the reshape
}

TEST(KnownValues, SliceBoundsBeyondTheEndDoNotEnterArithmetic) {
  Lowering l;
  const Dim n = l.extent(5);
  const TracedPtr x = l.input(DType::f32, {n});
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return l.run("Slice", {x, l.ints({start}), l.ints({end}), l.ints({0}), l.ints({step})})->type.shape[0];
  };
  EXPECT_TRUE(provably_eq(slice(0, INT64_MAX, 1), n));
  EXPECT_TRUE(provably_eq(slice(1, INT64_MAX, 1), n - 1));
  EXPECT_TRUE(provably_eq(slice(0, -1, 1), n - 1));
  EXPECT_TRUE(provably_eq(slice(-1, INT64_MIN, -1), n));
  EXPECT_EQ(slice(-1, INT64_MAX, -1).hint(), 0);
  EXPECT_EQ(slice(10, -10, -2).hint(), 3);
}

TEST(KnownValues, EmptyTensorsKeepTheirSymbols) {
  Lowering l;
  const Dim n = l.extent(9);
  const TracedPtr empty = l.run("ConstantOfShape", {l.run("Shape", {l.input(DType::f32, {0, n})})});
  EXPECT_TRUE(provably_eq(l.build().shape(l.materialise(*empty))[1], n));
}

TEST(KnownValues, PositionsOfAMaskOfOnesAreCounted) {
  Lowering l;
  const Dim n = l.extent(400);
  const TracedPtr ones = l.run("ConstantOfShape", {l.run("Shape", {l.input(DType::f32, {n})})});
  const TracedPtr all = l.run("Not", {l.run("Cast", {ones}, {{"to", 9}})});
  const TracedPtr where = l.run("NonZero", {all});
  EXPECT_EQ(where->known.kind, Known::Kind::iota);
  const TracedPtr positions = l.run("Range", {l.integer(0), l.run("Size", {ones}), l.integer(1)});
  const TracedPtr before = l.run("Less", {positions, l.run("Size", {ones})});
  ASSERT_EQ(before->known.kind, Known::Kind::splat);
  EXPECT_EQ(settled(before->known.value.dim), true);
  EXPECT_EQ(l.op_count(), 0u);
}

TEST(KnownValues, PartlyKnownElementsStayKnown) {
  Lowering l;
  const TracedPtr unknown = l.input(DType::i64, {1});
  const TracedPtr mixed = l.run("Concat", {l.ints({3}), unknown}, {{"axis", 0}});
  EXPECT_TRUE(mixed->value);
  EXPECT_TRUE(mixed->known.elements[0].known());
  EXPECT_FALSE(mixed->known.elements[1].known());
  EXPECT_EQ(l.run("Gather", {mixed, l.integer(0)})->known.elements[0].dim.hint(), 3);
  EXPECT_THROW(l.run("Reshape", {l.input(DType::f32, {6}), mixed}), GraphBreak);
}

TEST(KnownValues, ConstantIndicesOutOfRangeAreRefused) {
  Lowering l;
  const TracedPtr x = l.input(DType::f32, {3});
  EXPECT_THROW(l.run("Gather", {x, l.ints({0, 3, 1})}), Error);
  EXPECT_THROW(l.run("GatherElements", {x, l.ints({-4})}), Error);
  EXPECT_NO_THROW(l.run("Gather", {x, l.ints({-3, 2})}));
}

TEST(Lowerings, AnAttributeThatIsNotReadIsRefusedByName) {
  Lowering l;
  try {
    l.run("Abs", {l.input(DType::f32, {3})}, {{"surprise", 1}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.sentence().find("surprise"), std::string::npos);
  }
}

}  // namespace
}  // namespace transmuter::ops
