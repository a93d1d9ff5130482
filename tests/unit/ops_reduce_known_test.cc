// What is known of sums, products and extremes along axes.
#include <gtest/gtest.h>

#include "ops/reduce_known.h"

namespace transmuter::ops {
namespace {

using ir::ReduceKind;

class ReduceKnown : public testing::Test {
 protected:
  std::shared_ptr<ShapeScope> scope_ = ShapeScope::create();
  ShapeScope::Enter enter_{scope_};
  Dim n_ = scope_->input_extent(0, 0, 7, "n");  // 2 at least

  static Known matrix() { return Known::of(DType::i64, {2, 3}, {Dim(1), Dim(5), Dim(3), Dim(4), Dim(2), Dim(6)}); }
  static std::vector<int64_t> values(const Known& known) {
    std::vector<int64_t> out;
    for (const Scalar& s : known.elements) out.push_back(s.known() ? s.dim.hint() : -1);
    return out;
  }
};

TEST_F(ReduceKnown, ElementsAlongEachAxis) {
  EXPECT_EQ(values(reduce_known(matrix(), ReduceKind::add, {0}, false)), (std::vector<int64_t>{5, 7, 9}));
  EXPECT_EQ(values(reduce_known(matrix(), ReduceKind::max, {1}, false)), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(values(reduce_known(matrix(), ReduceKind::min, {0, 1}, false)), (std::vector<int64_t>{1}));
  EXPECT_EQ(values(reduce_known(matrix(), ReduceKind::mul, {1}, false)), (std::vector<int64_t>{15, 48}));
}

TEST_F(ReduceKnown, KeptAxesHaveExtentOne) {
  const Known kept = reduce_known(matrix(), ReduceKind::add, {1}, true);
  EXPECT_EQ(hints(kept.shape), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(values(kept), (std::vector<int64_t>{9, 12}));
}

TEST_F(ReduceKnown, SymbolsStaySymbols) {
  const Known shape = Known::vector(DType::i64, {n_, Dim(4)});
  const Known count = reduce_known(shape, ReduceKind::mul, {0}, false);
  ASSERT_TRUE(count.fully_known());
  EXPECT_TRUE(provably_eq(count.elements[0].dim, n_ * 4));
}

TEST_F(ReduceKnown, AnUnknownElementTouchesItsOwnResultOnly) {
  Known partly = matrix();
  partly.elements[0] = Scalar();
  const Known sums = reduce_known(partly, ReduceKind::add, {1}, false);
  EXPECT_EQ(values(sums), (std::vector<int64_t>{-1, 12}));
  EXPECT_FALSE(sums.fully_known());
}

TEST_F(ReduceKnown, SplatsAddUpOverSymbolicExtents) {
  const Known ones = Known::splat(DType::i64, {Dim(2), n_}, Scalar(Dim(3)));
  const Known sum = reduce_known(ones, ReduceKind::add, {1}, false);
  ASSERT_TRUE(sum.fully_known());
  const Scalar value = sum.kind == Known::Kind::splat ? sum.value : sum.elements[0];
  EXPECT_TRUE(provably_eq(value.dim, n_ * 3));
  EXPECT_FALSE(reduce_known(ones, ReduceKind::mul, {1}, false));
}

TEST_F(ReduceKnown, IotaIsGreatestAtTheEndItGrowsTo) {
  const auto only = [](const Known& known) {
    return known.kind == Known::Kind::splat ? known.value.dim : known.elements.at(0).dim;
  };
  const Known up = Known::iota(DType::i64, {n_}, 0, 2, 1), down = Known::iota(DType::i64, {n_}, 0, 2, -1);
  EXPECT_TRUE(provably_eq(only(reduce_known(up, ReduceKind::max, {0}, false)), n_ + 1));
  EXPECT_TRUE(provably_eq(only(reduce_known(up, ReduceKind::min, {0}, false)), 2));
  EXPECT_TRUE(provably_eq(only(reduce_known(down, ReduceKind::max, {0}, false)), 2));
  EXPECT_TRUE(provably_eq(only(reduce_known(down, ReduceKind::min, {0}, false)), 3 - n_));
}

TEST_F(ReduceKnown, NothingOfAnEmptyAxis) {
  EXPECT_FALSE(reduce_known(Known::of(DType::i64, {0}, {}), ReduceKind::max, {0}, false));
  EXPECT_FALSE(reduce_known(Known(), ReduceKind::add, {0}, false));
}

}  // namespace
}  // namespace transmuter::ops
