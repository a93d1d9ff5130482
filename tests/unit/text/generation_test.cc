// What a call of generation may say, on models whose answers are known by hand (tests/data/make_tiny_generators.py).
#include "transmuter/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <thread>

#include "../errors.h"
#include "../temporary_folder.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int64_t>;

// Words of tiny_chat.
enum : int64_t {
  kPad,
  kStart,
  kEnd,
  kUser,
  kAssistant,
  kSystem,
  kUnknown,
  kHello,
  kHi,
  kThere,
  kFriend,
  kDot,
  kGood,
  kDay
};

std::string data(const std::string& name) { return std::string(TRANSMUTER_TEST_DATA) + "/" + name; }

const TokenGenerator& chat() {
  static const TokenGenerator generator = TokenGenerator::load(data("tiny_chat"));
  return generator;
}

std::vector<GenerationPrompt> prompts_of(const std::vector<Ids>& texts) {
  std::vector<GenerationPrompt> prompts;
  for (const Ids& ids : texts) prompts.push_back({ids, {}, {}, {}});
  return prompts;
}

std::vector<GeneratedTokens> write(const std::vector<Ids>& texts, const GenerationConfig& config,
                                   const GenerationCall& call = {}) {
  return chat()(prompts_of(texts), config, call);
}

TEST(Generation, TakesTheBestTokenUntilTheEnd) {
  const GeneratedTokens answer = write({{kUser, kHello, kAssistant}}, chat().config())[0];
  EXPECT_THAT(answer.ids, ElementsAre(kHi, kThere, kFriend, kDot, kEnd));
  EXPECT_EQ(answer.reason, StopReason::eos);
  EXPECT_EQ(answer.prompt_tokens, 3);
  EXPECT_EQ(answer.padding, 0);
}

TEST(Generation, SaysWhatTheFolderSays) {
  const GenerationConfig& config = chat().config();
  EXPECT_THAT(config.eos_token_id, ElementsAre(kEnd));
  EXPECT_EQ(config.pad_token_id, kPad);
  EXPECT_EQ(config.max_new_tokens, 16);
  EXPECT_FALSE(config.do_sample);
  EXPECT_EQ(config.top_k, 50);
}

TEST(Generation, CountsLengths) {
  GenerationConfig config = chat().config();
  config.max_new_tokens = 2;
  EXPECT_THAT(write({{kAssistant}}, config)[0].ids, ElementsAre(kHi, kThere));
  EXPECT_EQ(write({{kAssistant}}, config)[0].reason, StopReason::length);
  config.max_new_tokens.reset();
  config.max_length = 4;
  EXPECT_THAT(write({{kAssistant}}, config)[0].ids, ElementsAre(kHi, kThere, kFriend));
  EXPECT_THAT(error_of([&] { write({{kUser, kHello, kHello, kAssistant}}, config); }), HasSubstr("max_length is 4"));
  // Without either 20, and no more than the model has places for: 64.
  config.max_length.reset();
  config.eos_token_id.clear();
  EXPECT_EQ(write({{kAssistant}}, config)[0].ids.size(), 20U);
  EXPECT_EQ(write({Ids(60, kAssistant)}, config)[0].ids.size(), 4U);
}

TEST(Generation, PadsPromptsOfDifferentLength) {
  const auto answers = write({{kUser, kGood, kDay, kHello}, {kAssistant}}, chat().config());
  EXPECT_THAT(answers[0].ids, ElementsAre(22, kDot, kEnd));  // world
  EXPECT_THAT(answers[1].ids, ElementsAre(kHi, kThere, kFriend, kDot, kEnd));
  EXPECT_EQ(answers[0].padding, 0);
  EXPECT_EQ(answers[1].padding, 3);
  EXPECT_EQ(answers[1].prompt_tokens, 1);
}

TEST(Generation, TellsOfEachTokenAndLetsTheCallerEnd) {
  std::vector<std::pair<size_t, int64_t>> told;
  GenerationCall call;
  call.on_token = [&](size_t row, int64_t id) {
    told.emplace_back(row, id);
    return row == 1 || id != kThere;
  };
  const auto answers = write({{kAssistant}, {kGood}}, chat().config(), call);
  EXPECT_THAT(answers[0].ids, ElementsAre(kHi, kThere));
  EXPECT_EQ(answers[0].reason, StopReason::caller);
  EXPECT_THAT(answers[1].ids, ElementsAre(kDay, kDot, kEnd));
  EXPECT_THAT(told, ElementsAre(std::pair{size_t{0}, int64_t{kHi}}, std::pair{size_t{1}, int64_t{kDay}},
                                std::pair{size_t{0}, int64_t{kThere}}, std::pair{size_t{1}, int64_t{kDot}},
                                std::pair{size_t{1}, int64_t{kEnd}}));
}

TEST(Generation, StopsWhereTheCallerSays) {
  GenerationCall call;
  call.stop = [](size_t, std::span<const int64_t> ids) { return ids.back() == kFriend; };
  const GeneratedTokens answer = write({{kAssistant}}, chat().config(), call)[0];
  EXPECT_THAT(answer.ids, ElementsAre(kHi, kThere, kFriend));
  EXPECT_EQ(answer.reason, StopReason::stop);
}

TEST(Generation, EndsWhenItsTimeIsOver) {
  GenerationConfig config = chat().config();
  config.max_time = 0.001;
  GenerationCall call;
  call.on_token = [](size_t, int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return true;
  };
  const GeneratedTokens answer = write({{kAssistant}}, config, call)[0];
  EXPECT_EQ(answer.reason, StopReason::time);
  EXPECT_LT(answer.ids.size(), 3U);
}

TEST(Generation, IsCancelled) {
  CancelToken cancel;
  GenerationCall call;
  call.cancel = &cancel;
  call.on_token = [&](size_t, int64_t id) {
    if (id == kThere) cancel.cancel();
    return true;
  };
  try {
    write({{kAssistant}}, chat().config(), call);
    FAIL() << "it was not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
}

TEST(Generation, DrawsTheSameForTheSameSeedHoweverPromptsAreBatched) {
  GenerationConfig config = chat().config();
  config.do_sample = true;
  config.seed = 5;
  config.num_return_sequences = 8;
  const auto both = write({{kUser, kAssistant}, {kAssistant}}, config),
             again = write({{kUser, kAssistant}, {kAssistant}}, config);
  ASSERT_EQ(both.size(), 16U);
  std::map<Ids, int> seen;
  for (size_t i = 0; i < both.size(); ++i) {
    EXPECT_EQ(both[i].ids, again[i].ids);
    ++seen[both[i].ids];
  }
  EXPECT_GT(seen.size(), 3U);
  const auto alone = write({{kUser, kAssistant}}, config);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i].ids, both[i].ids);
  // A prompt with a seed of its own draws the same wherever it stands.
  std::vector<GenerationPrompt> prompts = prompts_of({{kUser, kAssistant}, {kAssistant}});
  prompts[1].seed = 7;
  const auto second = chat()(prompts, config);
  prompts.erase(prompts.begin());
  const auto first = chat()(prompts, config);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].ids, second[8 + i].ids);
  config.seed = 6;
  const auto other = write({{kUser, kAssistant}, {kAssistant}}, config);
  int different = 0;
  for (size_t i = 0; i < both.size(); ++i) different += both[i].ids != other[i].ids ? 1 : 0;
  EXPECT_GT(different, 4);
}

TEST(Generation, KeepsTheBestTextsOfABeamSearch) {
  GenerationConfig config = chat().config();
  config.num_beams = 3;
  config.num_return_sequences = 3;
  const auto answers = write({{kAssistant}}, config);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_GE(answers[0].score, answers[1].score);
  EXPECT_GE(answers[1].score, answers[2].score);
  EXPECT_THAT(answers[0].ids, ElementsAre(kHi, kThere, kFriend, kDot, kEnd));
  EXPECT_EQ(answers[0].reason, StopReason::eos);
}

TEST(Generation, GuidanceChangesNothingWhenBothTextsAreTheSame) {
  GenerationConfig config = chat().config();
  config.guidance_scale = 2;
  // This model looks at the last token alone, and without a negative prompt the other text is that token.
  EXPECT_EQ(write({{kUser, kAssistant}}, config)[0].ids, write({{kUser, kAssistant}}, chat().config())[0].ids);
  // Led away from what follows "hi", hi stays the best.
  std::vector<GenerationPrompt> prompts = prompts_of({{kAssistant}});
  prompts[0].negative_ids = {kHi};
  config.guidance_scale = 1.5;
  EXPECT_EQ(chat()(prompts, config)[0].ids.front(), kHi);
}

TEST(Generation, ServesSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<Ids> texts(4);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round)
        texts[i] = write({{kUser, i % 2 == 0 ? kAssistant : kGood}}, chat().config())[0].ids;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i) {
    const Ids expected = i % 2 == 0 ? Ids{kHi, kThere, kFriend, kDot, kEnd} : Ids{kDay, kDot, kEnd};
    EXPECT_EQ(texts[i], expected);
  }
}

TEST(Generation, RefusesWhatContradictsItself) {
  const auto says = [](auto change, const std::vector<Ids>& texts = {{kAssistant}}, GenerationCall call = {}) {
    GenerationConfig config = chat().config();
    change(config);
    return error_of([&] { write(texts, config, call); });
  };
  EXPECT_THAT(says([](auto& c) { c.num_return_sequences = 2; }), HasSubstr("num_return_sequences"));
  EXPECT_THAT(says([](auto& c) { c.num_beams = 2, c.num_return_sequences = 3; }), HasSubstr("more than num_beams"));
  EXPECT_THAT(says([](auto& c) { c.do_sample = true, c.temperature = 0; }), HasSubstr("temperature"));
  EXPECT_THAT(says([](auto& c) { c.num_beams = 2, c.guidance_scale = 2; }), HasSubstr("guidance_scale"));
  EXPECT_THAT(says([](auto& c) { c.max_new_tokens = 0; }), HasSubstr("max_new_tokens"));
  EXPECT_THAT(says([](auto&) {}, {{}}), HasSubstr("prompt 0 has no tokens"));
  PromptCache cache;
  GenerationCall call;
  call.cache = &cache;
  EXPECT_THAT(says([](auto&) {}, {{kHi}, {kHi}}, call), HasSubstr("PromptCache"));
}

// Any number in any field: an answer, or one sentence that names the field.
TEST(Generation, TakesOrRefusesAnyNumber) {
  using Config = GenerationConfig;
  const std::pair<const char*, double Config::*> reals[] = {
      {"length_penalty", &Config::length_penalty},
      {"guidance_scale", &Config::guidance_scale},
      {"encoder_repetition_penalty", &Config::encoder_repetition_penalty},
      {"repetition_penalty", &Config::repetition_penalty},
      {"temperature", &Config::temperature},
      {"top_h", &Config::top_h},
      {"top_p", &Config::top_p},
      {"min_p", &Config::min_p},
      {"typical_p", &Config::typical_p},
      {"epsilon_cutoff", &Config::epsilon_cutoff},
      {"eta_cutoff", &Config::eta_cutoff}};
  const std::pair<const char*, int64_t Config::*> integers[] = {
      {"min_length", &Config::min_length},
      {"min_new_tokens", &Config::min_new_tokens},
      {"num_beams", &Config::num_beams},
      {"num_return_sequences", &Config::num_return_sequences},
      {"no_repeat_ngram_size", &Config::no_repeat_ngram_size},
      {"encoder_no_repeat_ngram_size", &Config::encoder_no_repeat_ngram_size},
      {"top_k", &Config::top_k}};
  const auto expect_sense = [](const char* name, const Config& config) {
    SCOPED_TRACE(name);
    try {
      EXPECT_FALSE(write({{kAssistant}}, config)[0].ids.empty());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_TRUE(std::string(error.what()).find(name) != std::string::npos ||
                  std::string(error.what()).find("no token is left") != std::string::npos)
          << error.what();
    }
  };
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  for (const bool sample : {false, true}) {
    for (const int64_t beams : {1, 2}) {
      Config base = chat().config();
      base.do_sample = sample;
      base.num_beams = beams;
      for (const auto& [name, field] : reals) {
        for (const double value : {-kInf, -1.0, 0.0, 1e-300, 0.5, 1.0, 1.5, 1e300, kInf, kNan}) {
          Config config = base;
          config.*field = value;
          expect_sense(name, config);
        }
      }
      for (const auto& [name, field] : integers) {
        for (const int64_t value : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{1000000}, INT64_MAX}) {
          Config config = base;
          config.*field = value;
          expect_sense(name, config);
        }
      }
      for (const int64_t value : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
        Config config = base;
        config.max_new_tokens = value;
        expect_sense("max_new_tokens", config);
        config.max_new_tokens.reset();
        config.max_length = value;
        expect_sense("max_length", config);
        config = base;
        config.suppress_tokens = config.begin_suppress_tokens = config.forced_eos_token_id = {value};
        config.bad_words_ids = {{value}};
        config.sequence_bias = {{{value, value}, 1}};
        expect_sense("any id", config);
      }
    }
  }
  for (const int64_t id : {INT64_MIN, int64_t{-1}, int64_t{1000}, INT64_MAX})
    EXPECT_NE(error_of([&] { write({{kAssistant, id}}, chat().config()); }), "") << id;
}

TEST(Generation, ManyPromptsRunInSeveralBatches) {
  GenerationConfig config = chat().config();
  config.do_sample = true;
  std::vector<Ids> texts;
  for (size_t i = 0; i < 150; ++i) texts.push_back(Ids(1 + i % 7, i % 2 == 0 ? kAssistant : kHi));
  GenerationCall call;
  // A batch is told of token by token: never of more than 64 rows in a row.
  std::vector<size_t> rows;
  call.on_token = [&](size_t row, int64_t) {
    rows.push_back(row);
    return true;
  };
  const auto answers = write(texts, config, call);
  ASSERT_EQ(answers.size(), texts.size());
  EXPECT_EQ(rows[63], 63U);
  EXPECT_LT(rows[64], 64U);
  for (const GeneratedTokens& answer : answers) EXPECT_FALSE(answer.ids.empty());
  EXPECT_EQ(write(texts, config)[149].ids, answers[149].ids);
}

TEST(Generation, RefusesScoresThatAreNoNumbers) {
  GenerationCall call;
  call.processors = {[](std::span<const int64_t>, std::span<float> scores) { scores[3] = NAN; }};
  for (const int64_t beams : {1, 2}) {
    GenerationConfig config = chat().config();
    config.num_beams = beams;
    EXPECT_THAT(error_of([&] { write({{kAssistant}}, config, call); }), HasSubstr("NaN"));
  }
}

TEST(Generation, GuessesChangeStepsAndNoToken) {
  // Every sampled answer of every seed, each token told of once and in order, stops and lengths included.
  const TokenGenerator assistant = chat();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    GenerationConfig config = chat().config();
    config.do_sample = seed % 3 != 0;
    config.seed = seed;
    config.max_new_tokens = 1 + static_cast<int64_t>(seed % 9);
    config.repetition_penalty = seed % 2 == 0 ? 1 : 1.2;
    const std::vector<Ids> prompt = {{kHi, kThere, kFriend, kDot, kUser, kHi, kAssistant}};
    const GeneratedTokens expected = write(prompt, config)[0];
    for (const bool lookup : {false, true}) {
      Ids told;
      GenerationCall call;
      call.on_token = [&](size_t, int64_t id) {
        told.push_back(id);
        return true;
      };
      GenerationConfig guessing = config;
      guessing.prompt_lookup_num_tokens = lookup ? 3 : 0;
      guessing.assistant_confidence_threshold = 0;
      if (!lookup) call.assistant = &assistant;
      const GeneratedTokens answer = write(prompt, guessing, call)[0];
      EXPECT_EQ(answer.ids, expected.ids) << seed;
      EXPECT_EQ(answer.reason, expected.reason);
      EXPECT_EQ(told, expected.ids);
      if (!config.do_sample && config.repetition_penalty == 1 && !lookup) {
        EXPECT_GE(answer.guessed + 1, static_cast<int64_t>(std::min<size_t>(expected.ids.size(), 3)));
      }
    }
  }
  // Several prompts, and a cache of the conversation.
  GenerationConfig config = chat().config();
  PromptCache cache;
  GenerationCall call;
  call.assistant = &assistant;
  const std::vector<Ids> prompts = {{kUser, kAssistant}, {kGood}};
  const auto plain = write(prompts, config), guessed = write(prompts, config, call);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(plain[i].ids, guessed[i].ids);
  call.cache = &cache;
  Ids text = {kUser, kAssistant};
  write({text}, config, call);
  text.insert(text.end(), {kHi, kThere, kUser, kGood});
  EXPECT_EQ(write({text}, config, call)[0].ids, write({text}, config)[0].ids);
  EXPECT_EQ(cache.tokens(), 8);  // all but the end
  config.num_beams = 2;
  call.cache = nullptr;
  EXPECT_THAT(error_of([&] { write(prompts, config, call); }), HasSubstr("an assistant guesses"));
}

TEST(Generation, PromptCachesSurviveACancelledCall) {
  PromptCache cache;
  CancelToken cancel;
  GenerationCall call;
  call.cache = &cache;
  call.cancel = &cancel;
  call.on_token = [&](size_t, int64_t id) {
    if (id == kThere) cancel.cancel();
    return true;
  };
  EXPECT_THROW(write({{kUser, kAssistant}}, chat().config(), call), Error);
  EXPECT_EQ(cache.tokens(), 3);  // the prompt and "hi"
  call = {};
  call.cache = &cache;
  const GeneratedTokens answer = write({{kUser, kAssistant, kHi, kThere}}, chat().config(), call)[0];
  EXPECT_EQ(answer.reused, 3);
  EXPECT_THAT(answer.ids, ElementsAre(kFriend, kDot, kEnd));
  cache.clear();
  EXPECT_EQ(cache.tokens(), 0);
}

TEST(Generation, ReadsWhatIsBeforeAnEncoder) {
  const TokenGenerator translator = TokenGenerator::load(data("tiny_translator"));
  EXPECT_TRUE(translator.has_encoder());
  EXPECT_EQ(translator.config().decoder_start_token_id, 1);
  EXPECT_EQ(translator.config().max_length, 40);
  const auto answers = translator(prompts_of({{4, 5, 2}, {4, 8, 6, 7, 5, 2}}), translator.config());
  EXPECT_THAT(answers[0].ids, ElementsAre(10, 11, 2));
  EXPECT_THAT(answers[1].ids, ElementsAre(10, 14, 12, 13, 11, 2));
  EXPECT_EQ(answers[0].padding, 3);
}

TEST(Generation, APromptMayBringWhatItsEncoderTakes) {
  const TokenGenerator translator = TokenGenerator::load(data("tiny_translator"));
  const std::vector<int64_t> ids{4, 8, 6, 7, 5, 2}, mask(ids.size(), 1);
  GenerationPrompt given;
  given.encoder_inputs = {{"input_ids", Tensor(ids, {1, 6})}, {"attention_mask", Tensor(mask, {1, 6})}};
  std::vector<GenerationPrompt> prompts = prompts_of({{4, 5, 2}});
  prompts.push_back(given);
  const auto answers = translator(prompts, translator.config());
  EXPECT_THAT(answers[0].ids, ElementsAre(10, 11, 2));
  EXPECT_THAT(answers[1].ids, ElementsAre(10, 14, 12, 13, 11, 2));
  given.encoder_inputs = {{"input_features", Tensor::zeros(DType::f32, {1, 80, 10})}};
  EXPECT_THAT(error_of([&] { translator({&given, 1}, translator.config()); }), HasSubstr("input_ids: missing"));
  EXPECT_THAT(error_of([&] { chat()({&given, 1}, chat().config()); }), HasSubstr("there is no encoder"));
}

TEST(GenerationSettings, AreReadByTheirNames) {
  GenerationConfig config;
  config.update(
      R"({"eos_token_id": 7, "early_stopping": "never", "top_p": 0.9, "num_beams": null, "forced_eos_token_id": 3,
                    "exponential_decay_length_penalty": [5, 1.1], "watermarking_config": {"bias": 3.5},
                    "stop_strings": "end", "unknown": 4})",
      "some.json");
  EXPECT_THAT(config.eos_token_id, ElementsAre(7));
  EXPECT_EQ(config.early_stopping, GenerationConfig::EarlyStopping::never);
  EXPECT_EQ(config.num_beams, 1);
  EXPECT_THAT(config.forced_eos_token_id, ElementsAre(3));
  EXPECT_EQ(config.exponential_decay_length_penalty->second, 1.1);
  EXPECT_EQ(config.watermark->bias, 3.5);
  EXPECT_THAT(config.stop_strings, ElementsAre("end"));
  EXPECT_THAT(error_of([&] { config.update(R"({"top_k": "many"})", "some.json"); }),
              testing::AllOf(HasSubstr("top_k"), HasSubstr("some.json")));
  EXPECT_THAT(error_of([&] { config.update("[1", "some.json"); }), HasSubstr("some.json"));
  EXPECT_THAT(error_of([&] { config.update(R"({"num_beam_groups": 2})", "some.json"); }), HasSubstr("group beam"));
  EXPECT_THAT(error_of([&] { config.update(R"({"penalty_alpha": 0.6})", "some.json"); }), HasSubstr("contrastive"));
}

TEST(GenerationFiles, OfTheGenaiBuilderAreRead) {
  const TemporaryFolder folder;
  fs::copy(data("tiny_chat/model.onnx"), folder / "small.onnx");
  std::ofstream(folder / "config.json") << R"({"eos_token_id": 22})";
  std::ofstream(folder / "genai_config.json") << R"({
    "model": {"bos_token_id": 1, "context_length": 64, "decoder": {"filename": "small.onnx", "head_size": 8},
              "eos_token_id": [2, 11], "pad_token_id": 0},
    "search": {"do_sample": true, "max_length": 64, "min_length": 0, "num_beams": 1, "temperature": 0.6, "top_p": 0.9,
               "diversity_penalty": 0.0}})";
  const TokenGenerator generator = TokenGenerator::load(folder.string());
  EXPECT_THAT(generator.config().eos_token_id, ElementsAre(2, 11));
  EXPECT_FALSE(generator.config().max_length);
  EXPECT_EQ(generator.config().temperature, 0.6);
  EXPECT_EQ(GenerationModels::load(folder.string()).caches.sizes.at("kv_cache_dim"), 8);
  EXPECT_EQ(GenerationModels::load(folder.string()).max_positions, 64);
  GenerationConfig config = generator.config();
  config.do_sample = false;
  EXPECT_THAT(generator(prompts_of({{kAssistant}}), config)[0].ids, ElementsAre(kHi, kThere, kFriend, kDot));
}

TEST(GenerationFiles, SayWhatIsMissing) {
  EXPECT_THAT(error_of([] { GenerationModels::load(data("generation")); }), HasSubstr("no language model in"));
  EXPECT_THAT(error_of([] { GenerationModels::load(data("nowhere")); }), HasSubstr("no folder"));
  EXPECT_THAT(error_of([] { GenerationModels::load(data("tiny_chat"), {}, "q4"); }), HasSubstr("dtype q4"));
  EXPECT_THAT(error_of([] { TokenGenerator::load(data("tiny_embedder")); }), HasSubstr("no logits"));
}

}  // namespace
}  // namespace transmuter
