// The model in tests/data/tiny_embedder gives token i the vector (i, 1, 0), so embeddings can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

TextEmbedder tiny(TextTaskOptions options = {}) {
  options.compile.backend = "reference";
  return TextEmbedder::load(TRANSMUTER_TEST_DATA "/tiny_embedder", options);
}

// The unit vector along (mean of the ids, 1, 0).
std::vector<float> direction(std::vector<int> ids) {
  double sum = 0;
  for (int id : ids) sum += id;
  const double mean = sum / static_cast<double>(ids.size()), length = std::sqrt(mean * mean + 1);
  return {static_cast<float>(mean / length), static_cast<float>(1 / length), 0};
}

std::vector<float> row(const Tensor& rows, int64_t r) {
  const float* first = rows.data<float>() + r * rows.dim(1);
  return std::vector<float>(first, first + rows.dim(1));
}

TEST(TextEmbedder, MeanOfTheTokensAtUnitLengthInTheOrderOfTheTexts) {
  const std::vector<std::string> texts = {"cat", "the cats sit on the cat", "on"};
  const Tensor rows = tiny()(texts);
  ASSERT_EQ(rows.shape(), (Shape{3, 3}));
  EXPECT_THAT(row(rows, 0), Pointwise(FloatNear(1e-6f), direction({2, 5, 3})));
  EXPECT_THAT(row(rows, 1), Pointwise(FloatNear(1e-6f), direction({2, 4, 5, 7, 6, 11, 4, 5, 3})));
  EXPECT_THAT(row(rows, 2), Pointwise(FloatNear(1e-6f), direction({2, 11, 3})));
}

TEST(TextEmbedder, BatchesDoNotChangeResults) {
  std::vector<std::string> texts;
  for (int i = 0; i < 9; ++i) texts.push_back(i % 3 == 0 ? "the" : i % 3 == 1 ? "the cat sits" : "cat , cat , on");
  const Tensor all = tiny()(texts);
  TextTaskOptions options;
  options.batch_tokens = 12;
  EXPECT_THAT(tiny(options)(texts).to_vector<float>(), Pointwise(FloatNear(1e-6f), all.to_vector<float>()));
}

TEST(TextEmbedder, TruncatesAsAsked) {
  TextTaskOptions options;
  options.max_length = 3;
  const std::vector<std::string> texts = {"cat on on on"};
  EXPECT_THAT(row(tiny(options)(texts), 0), Pointwise(FloatNear(1e-6f), direction({2, 5, 3})));
}

TEST(TextEmbedder, NoTextsGiveNoRows) { EXPECT_EQ(tiny()({}).dim(0), 0); }

TEST(TextEmbedder, FolderWithoutAModelIsAnError) {
  EXPECT_THROW(TextEmbedder::load(TRANSMUTER_TEST_DATA "/nowhere"), Error);
  EXPECT_THROW(TextEmbedder::load(TRANSMUTER_TEST_DATA), Error);
}

}  // namespace
}  // namespace transmuter
