// Prompts and conversations in, texts out, on models whose answers are known by hand
// (tests/data/make_tiny_generators.py).
#include "transmuter/text_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../errors.h"
#include "../temporary_folder.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string data(const std::string& name) { return std::string(TRANSMUTER_TEST_DATA) + "/" + name; }

const TextGenerator& chat() {
  static const TextGenerator generator = TextGenerator::load(data("tiny_chat"));
  return generator;
}

const char* const kHello = R"([{"role": "user", "content": "hello"}])";

TEST(TextGenerator, GoesOnFromAText) {
  const GeneratedText answer = chat()({.text = "<s>"});
  EXPECT_EQ(answer.text, "the world .");
  EXPECT_EQ(answer.token_summary.input, 1);
  EXPECT_EQ(answer.token_summary.output, 4);
  EXPECT_EQ(answer.token_summary.padding, 0);
  EXPECT_EQ(answer.reason, StopReason::eos);
  // An empty text begins as texts begin.
  EXPECT_EQ(chat()({.text = ""}).text, "the world .");
}

TEST(TextGenerator, AnswersConversations) {
  EXPECT_EQ(chat().prompt_of({.messages = kHello}), "<s><|user|> hello <|end|> <|assistant|>");
  const GeneratedText answer = chat()({.messages = kHello});
  EXPECT_EQ(answer.text, "hi there friend .");
  EXPECT_EQ(answer.token_summary.input, 5);
}

TEST(TextGenerator, StreamsWholeTexts) {
  const std::vector<GenerationRequest> requests = {{.messages = kHello}, {.text = "how"}};
  std::vector<std::string> pieces(2), texts(2);
  TextCall call;
  call.on_text = [&](size_t answer, std::string_view text) {
    pieces[answer] += std::string(text) + "|";
    texts[answer] += text;
    return true;
  };
  const auto answers = chat()(requests, chat().config(), call);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(texts[i], answers[i].text);
  EXPECT_EQ(pieces[0], "hi| there| friend| .|");
  EXPECT_EQ(answers[1].text, "are you today ?");
  EXPECT_EQ(answers[1].token_summary.padding, 4);
  call.on_text = [](size_t, std::string_view text) { return text != " there"; };
  const GeneratedText ended = chat()(requests[0], chat().config(), call);
  EXPECT_EQ(ended.text, "hi there");
  EXPECT_EQ(ended.reason, StopReason::caller);
}

TEST(TextGenerator, EndsAtStopStrings) {
  GenerationConfig config = chat().config();
  config.stop_strings = {"world", "re fr"};
  std::string told;
  TextCall call;
  call.on_text = [&](size_t, std::string_view text) {
    told += text;
    return true;
  };
  // It ends inside a token: what follows in that token is left out.
  const GeneratedText answer = chat()({.messages = kHello}, config, call);
  EXPECT_EQ(answer.text, "hi there fr");
  EXPECT_EQ(told, answer.text);
  EXPECT_EQ(answer.reason, StopReason::stop);
  EXPECT_EQ(answer.token_summary.output, 3);
  EXPECT_EQ(chat()({.text = "<s>"}, config).text, "the world");
  config.num_beams = 2;
  EXPECT_EQ(chat()({.text = "<s>"}, config).text, "the world");
  // What is in the prompt doesn't count.
  config.num_beams = 1;
  config.stop_strings = {"hello"};
  EXPECT_EQ(chat()({.messages = kHello}, config).text, "hi there friend .");
  config.stop_strings = {""};
  EXPECT_THAT(error_of([&] { chat()({.messages = kHello}, config); }), HasSubstr("stop string"));
}

TEST(TextGenerator, WritesSeveralAnswersBySeed) {
  GenerationConfig config = chat().config();
  config.do_sample = true;
  config.num_return_sequences = 3;
  const std::vector<GenerationRequest> requests = {{.messages = kHello, .seed = 3}, {.text = "<s>", .seed = 4}};
  const auto answers = chat()(requests, config);
  ASSERT_EQ(answers.size(), 6U);
  const auto alone = chat()(std::span(requests).subspan(1), config);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(alone[i].text, answers[3 + i].text);
}

TEST(TextGenerator, WritesAsLongAsThereArePlacesWhenNothingIsSaid) {
  GenerationConfig config = chat().config();
  config.max_new_tokens.reset();
  config.eos_token_id.clear();
  EXPECT_EQ(chat()({.text = "hello hello"}, config).token_summary.output, 62);  // of 64
}

TEST(TextGenerator, GoesOnWithAConversation) {
  PromptCache cache;
  TextCall call;
  call.cache = &cache;
  chat()({.messages = kHello}, chat().config(), call);
  const std::string more =
      R"([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi there friend ."},
                               {"role": "user", "content": "how are you ?"}])";
  const GeneratedText answer = chat()({.messages = more}, chat().config(), call);
  EXPECT_EQ(answer.reused, 9);  // all but the end of the first answer, which was never read
  EXPECT_EQ(answer.text, chat()({.messages = more}).text);
}

TEST(TextGenerator, SaysWhichFileIsMissingOrWrong) {
  EXPECT_THAT(error_of([] { TextGenerator::load(data("generation")); }), HasSubstr("no tokenizer.json in"));
  const TextGenerator silent = TextGenerator::load(data("tiny_translator"));
  EXPECT_FALSE(silent.has_chat());
  EXPECT_THAT(error_of([&] { silent({.messages = kHello}); }), HasSubstr("no chat template"));
  EXPECT_THAT(error_of([] { TextRewriter::load(data("tiny_chat"), "summarization"); }),
              HasSubstr("no encoder_model.onnx"));
  const TemporaryFolder broken;
  fs::copy(data("tiny_chat"), broken.path(), fs::copy_options::recursive);
  std::ofstream(broken / "generation_config.json") << R"({"eos_token_id": "end"})";
  EXPECT_THAT(error_of([&] { TextGenerator::load(broken.string()); }),
              AllOf(HasSubstr("eos_token_id"), HasSubstr("generation_config.json")));
  // Without settings the tokenizer's files say what ends a text.
  fs::remove(broken / "generation_config.json");
  const TextGenerator plain = TextGenerator::load(broken.string());
  EXPECT_EQ(plain.config().eos_token_id, std::vector<int64_t>{2});
  EXPECT_EQ(plain({.messages = kHello}).text, "hi there friend .");
}

TEST(TextRewriter, TranslatesAndSummarizes) {
  const TextRewriter translator = TextRewriter::load(data("tiny_translator"), "translation");
  const std::vector<std::string> texts = {"the cat sees a bird .", "the cat", ""};
  const auto answers = translator(texts, translator.config());
  EXPECT_EQ(answers[0].text, "die Katze sieht einen Vogel .");
  EXPECT_EQ(answers[1].text, "die Katze");
  EXPECT_EQ(answers[2].text, "");
  EXPECT_EQ(answers[0].token_summary.input, 7);
  EXPECT_EQ(answers[1].token_summary.padding, 4);
  EXPECT_EQ(translator.config().num_beams, 4);
  // "task_specific_params": what stands in front, and a length of its own.
  const TextRewriter summarizer = TextRewriter::load(data("tiny_translator"), "summarization");
  EXPECT_EQ(summarizer.config().max_length, 4);
  EXPECT_EQ(summarizer(std::vector<std::string>{"cat sees a bird"}, summarizer.config())[0].text, "die Katze sieht");
  EXPECT_THAT(error_of([] { TextRewriter::load(data("tiny_translator"), "translation", {}, "", "en", "fr"); }),
              HasSubstr("language \"fr\""));
}

}  // namespace
}  // namespace transmuter
