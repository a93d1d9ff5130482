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

TEST(Tokenizer, WhatIsCutOffComesAsFurtherRows) {
  const auto rows = encode({"the cat sits on the cat", "on"}, {.max_length = 5, .keep_overflow = true, .stride = 1});
  ASSERT_EQ(rows.size(), 4u);  // pieces: the cat sit ##s on the cat
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(rows[1].ids, ElementsAre(2, 6, 7, 11, 3));
  EXPECT_THAT(rows[2].ids, ElementsAre(2, 11, 4, 5, 3));
  EXPECT_THAT(rows[3].ids, ElementsAre(2, 11, 3, 0, 0));
  EXPECT_EQ(rows[2].text, 0u);
  EXPECT_EQ(rows[3].text, 1u);
  EXPECT_THAT(rows[2].offsets[3], (ByteSpan{20, 23}));
}

TEST(Tokenizer, RefusesAStrideThatNeverMovesOn) {
  const Error error = error_of([] { encode({"cat"}, {.max_length = 5, .keep_overflow = true, .stride = 3}); });
  EXPECT_THAT(error.what(), HasSubstr("stride 3 must be below max_length 5 less the 2 special tokens"));
}

TEST(Tokenizer, CutsTheWantedSideOfAPair) {
  const std::vector<std::string> first = {"the cat"}, second = {"the cat sits on"};
  const auto ids = [&](TruncateSide side) {
    return tiny().encode_pairs(first, second, {.max_length = 7, .truncate_side = side})[0].ids;
  };
  EXPECT_THAT(ids(TruncateSide::longest), ElementsAre(2, 4, 5, 3, 4, 5, 3));
  EXPECT_THAT(ids(TruncateSide::second), ElementsAre(2, 4, 5, 3, 4, 5, 3));
  EXPECT_THAT(error_of([&] { ids(TruncateSide::first); }).what(), HasSubstr("too short"));
}

TEST(Tokenizer, SaysWordsAndSequences) {
  const std::vector<std::string> first = {"cats"}, second = {"the cats"};
  const Encoding row = tiny().encode_pairs(first, second, {.pad_to_multiple_of = 9})[0];
  EXPECT_THAT(row.ids, ElementsAre(2, 5, 7, 3, 4, 5, 7, 3, 0));
  EXPECT_THAT(row.words, ElementsAre(-1, 0, 0, -1, 0, 1, 1, -1, -1));
  EXPECT_THAT(row.sequences, ElementsAre(-1, 0, 0, -1, 1, 1, 1, -1, -1));
}

TEST(Tokenizer, TakesWordsThatAreSplitAlready) {
  const std::vector<std::vector<std::string>> texts = {{"the cats", "on"}, {}};
  const auto rows = tiny().encode_words(texts, {.pad_to_longest = false});
  EXPECT_THAT(rows[0].ids, ElementsAre(2, 4, 5, 7, 11, 3));
  EXPECT_THAT(rows[0].words, ElementsAre(-1, 0, 0, 0, 1, -1));
  EXPECT_THAT(rows[0].offsets[3], (ByteSpan{7, 8}));
  EXPECT_THAT(rows[0].offsets[4], (ByteSpan{0, 2}));
  EXPECT_THAT(rows[1].ids, ElementsAre(2, 3));
}

TEST(Tokenizer, SpecialTokensInATextMayBeText) {
  EXPECT_THAT(encode({"cat [SEP]"})[0].ids, ElementsAre(2, 5, 3, 3));
  EXPECT_THAT(encode({"cat [SEP]"}, {.special_tokens_as_text = true})[0].ids, ElementsAre(2, 5, 1, 1, 1, 3));
  EXPECT_THAT(encode({"cat [SEP]"})[0].ids, ElementsAre(2, 5, 3, 3));
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

TEST(Tokenizer, JoinsPieces) {
  const std::vector<std::string> pieces = {"cat", "##s", "Rome"};
  EXPECT_EQ(tiny().join(pieces), "cats Rome");
}

TEST(Tokenizer, SaysWhatItsVocabularyIsLike) {
  EXPECT_EQ(tiny().unknown_token(), "[UNK]");
  EXPECT_EQ(tiny().continuing_prefix(), "##");
}

TEST(DecodeStream, PiecesMakeTheWholeText) {
  const std::vector<int64_t> ids = {2, 4, 5, 7, 10, 6, 8, 3};
  for (const bool skip : {true, false}) {
    DecodeStream stream(tiny(), skip);
    std::string text;
    for (const int64_t id : ids) text += stream.push(id);
    text += stream.finish();
    EXPECT_EQ(text, tiny().decode(ids, skip));
  }
  DecodeStream stream(tiny());
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(4), "the");
  EXPECT_EQ(stream.push(5), " cat");
  EXPECT_EQ(stream.push(7), "s");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(5), "cat");
  EXPECT_THROW(stream.push(-1), Error);
}

// Bytes as tokens: é is two of them.
TEST(DecodeStream, WaitsForAWholeCharacter) {
  const Tokenizer bytes = Tokenizer::parse(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
    "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "ByteFallback"},
    "model": {"type": "BPE", "vocab": {"<0xC3>": 0, "<0xA9>": 1, "a": 2}, "merges": [], "byte_fallback": true}})");
  DecodeStream stream(bytes);
  EXPECT_EQ(stream.push(2), "a");
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.push(1), "é");
  EXPECT_EQ(stream.push(2), "a");
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
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
