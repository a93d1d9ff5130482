// Score processors beside those of transformers (tests/data/record_processors.py), and where these have no say by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "../errors.h"
#include "text/generation/process.h"
#include "text/generation/scores.h"
#include "text/generation/watermark.h"

namespace transmuter::generation {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const json& recorded() {
  static const json all = [] {
    std::ifstream file(std::string(TRANSMUTER_TEST_DATA) + "/generation/processors.json");
    return json::parse(file);
  }();
  return all;
}

std::vector<float> scores_of(const json& list) {
  std::vector<float> scores;
  for (const json& value : list) scores.push_back(value.is_null() ? kNever : value.get<float>());
  return scores;
}

void change(Scores x, const json& c) {
  const std::string name = c["name"];
  const auto ids = recorded()["ids"].get<std::vector<int64_t>>();
  const auto encoder = recorded()["encoder"].get<std::vector<int64_t>>();
  const auto eos = recorded()["eos"].get<std::vector<int64_t>>();
  const int64_t length = static_cast<int64_t>(ids.size()), keep = c.value("keep", int64_t{1});
  const auto number = [&](const char* field) { return c.at(field).get<double>(); };
  // Rules that are no functions of their own go through the settings.
  GenerationConfig config;
  config.eos_token_id = eos;
  int64_t prompt = length, longest = 1000;
  if (name == "repetition_penalty") return penalize_repetition(x, ids, number("penalty"));
  if (name == "encoder_repetition_penalty") return favour_encoder_ids(x, encoder, number("penalty"));
  if (name == "no_repeat_ngram") return ban_repeated_ngrams(x, ids, ids, c["n"]);
  if (name == "encoder_no_repeat_ngram") return ban_repeated_ngrams(x, ids, encoder, c["n"]);
  if (name == "suppress") return suppress(x, c["ids"].get<std::vector<int64_t>>());
  if (name == "normalize") return log_softmax(x);
  if (name == "top_k") return keep_top_k(x, c["value"], keep);
  if (name == "top_p") return keep_top_p(x, number("value"), keep);
  if (name == "min_p") return keep_min_p(x, number("value"), keep);
  if (name == "typical_p") return keep_typical(x, number("value"), keep);
  if (name == "epsilon") return cut_epsilon(x, number("value"), keep);
  if (name == "eta") return cut_eta(x, number("value"), keep);
  if (name == "top_h") return keep_top_h(x, number("value"));
  if (name == "watermark") {
    const Watermark mark{number("ratio"), number("bias"), c["key"], c["scheme"] == "selfhash", c["width"]};
    return Watermarker(mark).apply(x, ids);
  }
  if (name == "sequence_bias") {
    config.sequence_bias = c["bias"].get<std::vector<std::pair<std::vector<int64_t>, double>>>();
  } else if (name == "bad_words") {
    config.bad_words_ids = c["words"].get<std::vector<std::vector<int64_t>>>();
  } else if (name == "min_length") {
    config.min_length = c["least"];
  } else if (name == "forced_eos") {
    config.forced_eos_token_id = eos;
    longest = c["longest"];
  } else if (name == "decay") {
    config.exponential_decay_length_penalty = {c["start"], c["factor"]};
    prompt = c["prompt"];
  } else {
    FAIL() << "nobody knows " << name;
  }
  Processors(config, {}, prompt, longest).apply(x, {0, ids, encoder, length});
}

TEST(ScoreProcessors, AreThoseOfTransformers) {
  for (const json& c : recorded()["cases"]) {
    std::vector<float> x = scores_of(c["scores"]);
    const std::vector<float> after = scores_of(c["after"]);
    change(x, c);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::isinf(x[i]), std::isinf(after[i])) << c << " id " << i;
      if (!std::isinf(after[i])) {
        EXPECT_NEAR(x[i], after[i], 1e-5) << c["name"] << " id " << i;
      }
    }
  }
}

std::vector<float> processed(const GenerationConfig& config, std::vector<int64_t> ids, int64_t prompt, int64_t longest,
                             std::vector<float> x, const GenerationCall& call = {}) {
  Processors(config, call, prompt, longest).apply(x, {0, ids, {}, static_cast<int64_t>(ids.size())});
  return x;
}

TEST(ScoreProcessors, ForcedTokensReplaceAllOthers) {
  GenerationConfig config;
  config.forced_bos_token_id = 1;
  EXPECT_THAT(processed(config, {7}, 1, 9, {3, 2, 1}), ElementsAre(kNever, 0, kNever));
  EXPECT_THAT(processed(config, {7, 1}, 1, 9, {3, 2, 1}), ElementsAre(3, 2, 1));
  config.forced_eos_token_id = {2};
  EXPECT_THAT(processed(config, {7, 1}, 1, 3, {3, 2, 1}), ElementsAre(kNever, kNever, 0));
}

TEST(ScoreProcessors, WhatMayNotBeginIsSuppressedAtTheFirstTokenAlone) {
  GenerationConfig config;
  config.begin_suppress_tokens = {0};
  EXPECT_THAT(processed(config, {7, 8}, 2, 9, {3, 2, 1}), ElementsAre(kNever, 2, 1));
  EXPECT_THAT(processed(config, {7, 8, 2}, 2, 9, {3, 2, 1}), ElementsAre(3, 2, 1));
  // Behind a forced first token the text begins one later.
  config.forced_bos_token_id = 2;
  EXPECT_THAT(processed(config, {7}, 1, 9, {3, 2, 1}), ElementsAre(kNever, kNever, 0));
  EXPECT_THAT(processed(config, {7, 2}, 1, 9, {3, 2, 1}), ElementsAre(kNever, 2, 1));
}

TEST(ScoreProcessors, InvalidScoresBecomeFinite) {
  GenerationConfig config;
  config.remove_invalid_values = true;
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_THAT(processed(config, {7}, 1, 9, {NAN, INFINITY, kNever, 4}), ElementsAre(0, kMost, -kMost, 4));
}

TEST(ScoreProcessors, TheEndMustWaitForNewTokens) {
  GenerationConfig config;
  config.eos_token_id = {1};
  config.min_new_tokens = 2;
  EXPECT_THAT(processed(config, {7, 7, 7}, 2, 9, {3, 2, 1}), ElementsAre(3, kNever, 1));
  EXPECT_THAT(processed(config, {7, 7, 7, 7}, 2, 9, {3, 2, 1}), ElementsAre(3, 2, 1));
}

TEST(ScoreProcessors, CallersComeBeforeTheFiltersOfSampling) {
  GenerationConfig config;
  config.do_sample = true;
  config.top_k = 1;
  GenerationCall call;
  call.processors.push_back(
      [](std::span<const int64_t> ids, std::span<float> x) { x[2] += static_cast<float>(ids.back()); });
  EXPECT_THAT(processed(config, {7}, 1, 9, {3, 2, 1}, call), ElementsAre(kNever, kNever, 8));
  call.allowed_tokens = [](size_t, std::span<const int64_t>) { return std::vector<int64_t>{1}; };
  EXPECT_THAT(processed(config, {7}, 1, 9, {3, 2, 1}, call), ElementsAre(kNever, 2, kNever));
  call.allowed_tokens = [](size_t, std::span<const int64_t>) { return std::vector<int64_t>(); };
  EXPECT_THAT(error_of([&] { processed(config, {7}, 1, 9, {3, 2, 1}, call); }), HasSubstr("no token"));
}

TEST(ScoreProcessors, GuidanceLeadsAwayFromTheOtherText) {
  std::vector<float> with = {1, 2, 3}, without = {3, 2, 1};
  guide(with, without, 2);
  // Twice the difference of the log probabilities, which are off by the same amount.
  EXPECT_NEAR(with[2] - with[1], 3, 1e-6);
  EXPECT_NEAR(with[1] - with[0], 3, 1e-6);
}

TEST(ScoreProcessors, TheBestOfEqualsIsTheFirst) {
  EXPECT_EQ(best_of(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(best_of(std::vector<float>{NAN, -1, kNever}), 1);
}

}  // namespace
}  // namespace transmuter::generation
