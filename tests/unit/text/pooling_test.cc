#include "text/pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

TEST(Pooling, MeanCountsOnlyTheMaskedTokens) {
  const Tensor hidden(std::vector<float>{1, 2, 3, 4, 90, 90, /**/ 5, 6, 70, 70, 70, 70}, {2, 3, 2});
  const Tensor mask(std::vector<int64_t>{1, 1, 0, 1, 0, 0}, {2, 3});
  EXPECT_THAT(mean_pool(hidden, mask).to_vector<float>(), ElementsAre(2, 3, 5, 6));
}

TEST(Pooling, NothingCountedGivesZeros) {
  const Tensor hidden(std::vector<float>{NAN, 7}, {1, 1, 2});
  EXPECT_THAT(mean_pool(hidden, Tensor(std::vector<int64_t>{0}, {1, 1})).to_vector<float>(), ElementsAre(0, 0));
}

TEST(Pooling, RefusesShapesThatDisagree) {
  const Tensor hidden = Tensor::zeros(DType::f32, {2, 3, 4});
  EXPECT_THROW(mean_pool(hidden, Tensor::zeros(DType::i64, {2, 4})), Error);
  EXPECT_THROW(mean_pool(Tensor::zeros(DType::f32, {2, 3}), Tensor::zeros(DType::i64, {2, 3})), Error);
}

TEST(Pooling, RowsGetUnitLength) {
  const Tensor rows(std::vector<float>{3, 4, 0, 0, 0, -2}, {3, 2});
  EXPECT_THAT(normalize_rows(rows).to_vector<float>(), ElementsAre(0.6f, 0.8f, 0, 0, 0, -1));
}

TEST(Pooling, CosinesOfAngles) {
  const Tensor rows(std::vector<float>{1, 0, 5, 5, 0, 0}, {3, 2});
  const auto close = [](float x) { return FloatNear(x, 1e-6f); };
  const float diagonal = std::sqrt(0.5f);
  EXPECT_THAT(cosine_similarities(rows).to_vector<float>(),
              ElementsAre(close(1), close(diagonal), 0, close(diagonal), close(1), 0, 0, 0, 0));
}

}  // namespace
}  // namespace transmuter
