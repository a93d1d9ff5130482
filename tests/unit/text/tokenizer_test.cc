// The expected ids are worked out by hand from the vocabulary in tests/data/tiny_embedder/tokenizer.json (WordPiece,
// BERT rules), which carries its own truncation to 4 and padding to 12, to be ignored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::load(TRANSMUTER_TEST_DATA "/tiny_embedder/tokenizer.json");
  return tokenizer;
}

std::vector<Encoding> encode(std::vector<std::string> texts, const EncodeOptions& options = {}) {
  return tiny().encode_batch(texts, options);
}

template <class Fn>
Error error_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "");
}

TEST(Tokenizer, SplitsIntoPiecesAndIgnoresTheFilesOwnPaddingAndTruncation) {
  const auto rows = encode({"The cats, sitting"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 4, 5, 7, 10, 6, 8, 3));
  EXPECT_THAT(rows[0].type_ids, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows[0].attention_mask, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(rows[0].special_tokens_mask, ElementsAre(1, 0, 0, 0, 0, 0, 0, 1));
}

TEST(Tokenizer, OffsetsAreBytesOfTheOriginalText) {
  const auto rows = encode({"Café cats"});  // é is two bytes and loses its accent
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 9, 5, 7, 3));
  EXPECT_THAT(rows[0].offsets,
              ElementsAre(ByteSpan{0, 0}, ByteSpan{0, 5}, ByteSpan{6, 9}, ByteSpan{9, 10}, ByteSpan{0, 0}));
}

TEST(Tokenizer, PadsToTheLongestOfTheBatch) {
  const auto rows = encode({"the cat sits", "dog"});
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 4, 5, 6, 7, 3));
  EXPECT_THAT(rows[1].ids, ElementsAre(2, 1, 3, 0, 0, 0));
  EXPECT_THAT(rows[1].attention_mask, ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_THAT(rows[1].special_tokens_mask, ElementsAre(1, 0, 1, 1, 1, 1));
}

TEST(Tokenizer, PadsLeftWithTheGivenToken) {
  const auto rows = encode({"the cat sits", "dog"}, {.pad_left = true, .pad_to_multiple_of = 4, .pad_id = 3});
  EXPECT_THAT(rows[0].ids, ElementsAre(3, 3, 2, 4, 5, 6, 7, 3));
  EXPECT_THAT(rows[1].ids, ElementsAre(3, 3, 3, 3, 3, 2, 1, 3));
}

TEST(Tokenizer, RowsKeepTheirLengthWithoutPadding) {
  const auto rows = encode({"the cat", "", "on"}, {.pad_to_longest = false});
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(rows[1].ids, ElementsAre(2, 3));
  EXPECT_THAT(rows[2].ids, ElementsAre(2, 11, 3));
}

TEST(Tokenizer, TruncationCountsSpecialTokensAndIsPerCall) {
  const std::string text = "the cat sits on the cat";
  EXPECT_THAT(encode({text}, {.max_length = 5})[0].ids, ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(encode({text}, {.max_length = 5, .truncate_left = true})[0].ids, ElementsAre(2, 11, 4, 5, 3));
  EXPECT_THAT(encode({text}, {.add_special_tokens = false, .max_length = 1})[0].ids, ElementsAre(4));
  EXPECT_EQ(encode({text})[0].ids.size(), 9u);
}

TEST(Tokenizer, RefusesALimitBelowTheSpecialTokens) {
  const Error error = error_of([] { encode({"cat"}, {.max_length = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_THAT(error.what(), HasSubstr("no room for the 2 special tokens"));
}

TEST(Tokenizer, EncodesPairsWithTheirTypes) {
  const std::vector<std::string> first = {"the cat"}, second = {"sits"};
  const auto rows = tiny().encode_pairs(first, second);
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 4, 5, 3, 6, 7, 3));
  EXPECT_THAT(rows[0].type_ids, ElementsAre(0, 0, 0, 0, 1, 1, 1));
  EXPECT_THROW(tiny().encode_pairs(first, {}), Error);
}

TEST(Tokenizer, DecodesWithAndWithoutSpecialTokens) {
  const std::vector<int64_t> ids = {2, 4, 5, 7, 10, 6, 8, 3};
  EXPECT_EQ(tiny().decode(ids), "the cats, sitting");
  EXPECT_EQ(tiny().decode(ids, false), "[CLS] the cats, sitting [SEP]");
  EXPECT_EQ(tiny().decode({}), "");
  EXPECT_THROW(tiny().decode(std::vector<int64_t>{-1}), Error);
}

TEST(Tokenizer, LooksTokensUp) {
  EXPECT_EQ(tiny().token_to_id("##ting"), 8);
  EXPECT_EQ(tiny().token_to_id("ting"), std::nullopt);
  EXPECT_EQ(tiny().id_to_token(8), "##ting");
  EXPECT_EQ(tiny().id_to_token(12), std::nullopt);
  EXPECT_EQ(tiny().id_to_token(-1), std::nullopt);
  EXPECT_EQ(tiny().vocabulary_size(), 12u);
}

TEST(Tokenizer, NamesTheTextThatIsNotUtf8) {
  const Error error = error_of([] { encode({"cat", "a\xff"}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_THAT(error.what(), HasSubstr("text 1 is not valid UTF-8 at byte 1"));
}

TEST(Tokenizer, BadFilesAreErrors) {
  EXPECT_EQ(error_of([] { Tokenizer::load("/nowhere/tokenizer.json"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(error_of([] { Tokenizer::parse("{}"); }).code(), ErrorCode::invalid_model);
  EXPECT_EQ(error_of([] { Tokenizer::parse(""); }).code(), ErrorCode::invalid_model);
}

TEST(Tokenizer, LargeBatchesEqualSingleTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) texts.push_back(i % 3 ? "the cats, sitting" : "on the café");
  const auto rows = encode(texts, {.pad_to_longest = false});
  ASSERT_EQ(rows.size(), texts.size());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i].ids, encode({texts[i]})[0].ids) << i;
}

TEST(Tokenizer, ThreadsMayAskForDifferentTruncations) {
  const std::vector<std::string> texts = {"the cat sits on the cat"};
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        if (tiny().encode_batch(texts, {.max_length = t + 3})[0].ids.size() != t + 3) ++wrong[t];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace transmuter
