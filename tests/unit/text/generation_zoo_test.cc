// What transformers writes with the decoders of the text zoo (tests/data/record_generation.py), token by token.
// TRANSMUTER_CASES names the folder that holds zoo_text/ and zoo_vision/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "../errors.h"
#include "transmuter/generation.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Texts = std::vector<std::vector<int64_t>>;

const json& records() {
  static const json all = [] {
    std::ifstream file(std::string(TRANSMUTER_TEST_DATA) + "/generation/zoo.json");
    return json::parse(file);
  }();
  return all;
}

fs::path cases() {
  const char* folder = std::getenv("TRANSMUTER_CASES");
  return folder ? folder : "";
}

TokenGenerator generator_of(const json& record, bool shared_buffers = false) {
  const auto load = [&](const char* part) -> std::optional<Model> {
    if (!record.contains(part)) return std::nullopt;
    return Model::load(
        (cases() / record["zoo"].get<std::string>() / record[part].get<std::string>() / "model.onnx").string());
  };
  GenerationModels models;
  models.decoder = load("decoder");
  models.with_past = load("past");
  models.encoder = load("encoder");
  models.embed_tokens = load("embeds");
  models.compile.threads = 1;
  models.caches.sizes = record["sizes"].get<std::map<std::string, int64_t>>();
  models.caches.shared_buffers = shared_buffers;
  models.caches.max_length = shared_buffers ? 96 : 0;
  GenerationConfig config;
  config.eos_token_id = {2};
  config.pad_token_id = 1;
  config.decoder_start_token_id = 2;
  return TokenGenerator(models, config);
}

std::vector<GenerationPrompt> prompts_of(const Texts& texts) {
  std::vector<GenerationPrompt> prompts;
  for (const auto& ids : texts) prompts.push_back({ids, {}, {}, {}});
  return prompts;
}

Texts texts_of(const std::vector<GeneratedTokens>& answers) {
  Texts texts;
  for (const GeneratedTokens& answer : answers) texts.push_back(answer.ids);
  return texts;
}

void expect_scores(const std::vector<GeneratedTokens>& answers, const json& scores) {
  ASSERT_EQ(answers.size(), scores.size());
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_NEAR(answers[i].score, scores[i].get<double>(), 2e-3);
}

class GenerationZoo : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (cases().empty()) GTEST_SKIP() << "TRANSMUTER_CASES is not set";
  }
  const json& record() const { return records()[GetParam()]; }
};

class GenerationFromCache : public GenerationZoo {};
class GenerationOfBatches : public GenerationZoo {};

TEST_P(GenerationZoo, WritesWhatTransformersWrites) {
  const TokenGenerator generator = generator_of(record());
  const auto prompts = prompts_of({record()["prompt"]});
  GenerationConfig config = generator.config();
  config.max_new_tokens = record()["new"];
  EXPECT_EQ(generator(prompts, config)[0].ids, record()["greedy"].get<std::vector<int64_t>>());
  if (!record().contains("beams")) return;
  config.num_beams = 3;
  config.num_return_sequences = 2;
  const auto answers = generator(prompts, config);
  EXPECT_EQ(texts_of(answers), record()["beams"].get<Texts>());
  expect_scores(answers, record()["scores"]);
}

TEST_P(GenerationFromCache, GoesOnFromThePromptThatItHasRead) {
  const TokenGenerator generator = generator_of(record());
  GenerationConfig config = generator.config();
  config.max_new_tokens = 8;
  config.eos_token_id.clear();
  PromptCache cache;
  GenerationCall call;
  call.cache = &cache;
  std::vector<int64_t> text = record()["prompt"];
  for (int turn = 0; turn < 4; ++turn) {
    if (turn == 3) text.resize(text.size() - 9);  // the conversation takes another way
    const auto prompt = prompts_of({text});
    const auto fresh = generator(prompt, config), cached = generator(prompt, config, call);
    EXPECT_EQ(cached[0].ids, fresh[0].ids) << "turn " << turn;
    if (turn == 1 || turn == 2) {
      EXPECT_EQ(cached[0].reused, static_cast<int64_t>(text.size()) - 4);
    }
    text.insert(text.end(), fresh[0].ids.begin(), fresh[0].ids.end());
    text.insert(text.end(), {21, 22, 23});
  }
}

TEST_P(GenerationOfBatches, WriteWhatThePromptsAloneGive) {
  const TokenGenerator generator = generator_of(record());
  const json& batch = record()["batch"];
  const auto prompts = prompts_of(batch["prompts"]);
  GenerationConfig config = generator.config();
  config.max_new_tokens = 16;
  EXPECT_EQ(texts_of(generator(prompts, config)), batch["greedy"].get<Texts>());
  config.num_beams = 2;
  auto answers = generator(prompts, config);
  EXPECT_EQ(texts_of(answers), batch["beams"].get<Texts>());
  expect_scores(answers, batch["scores"]);
  config.num_beams = config.num_return_sequences = 4;
  config.max_new_tokens = 20;
  config.early_stopping = GenerationConfig::EarlyStopping::yes;
  config.length_penalty = 0.5;
  answers = generator(prompts, config);
  EXPECT_EQ(texts_of(answers), batch["early"].get<Texts>());
  expect_scores(answers, batch["early_scores"]);
  config.early_stopping = GenerationConfig::EarlyStopping::never;
  config.length_penalty = 1.5;
  answers = generator(prompts, config);
  EXPECT_EQ(texts_of(answers), batch["never"].get<Texts>());
  expect_scores(answers, batch["never_scores"]);
}

TEST_P(GenerationOfBatches, KeepToAllConstraintsTogether) {
  const TokenGenerator generator = generator_of(record());
  const json& batch = record()["batch"];
  GenerationConfig config = generator.config();
  config.update(batch["settings"].dump(), "settings");
  const auto prompts = prompts_of({batch["prompts"][1]});
  EXPECT_EQ(texts_of(generator(prompts, config)), batch["constrained"].get<Texts>());
}

class GenerationInSharedBuffers : public GenerationZoo {};

TEST_P(GenerationInSharedBuffers, WritesTheSame) {
  const TokenGenerator generator = generator_of(record(), true);
  const auto prompts = prompts_of({record()["prompt"]});
  GenerationConfig config = generator.config();
  config.max_new_tokens = record()["new"];
  EXPECT_EQ(generator(prompts, config)[0].ids, record()["greedy"].get<std::vector<int64_t>>());
  config.prompt_lookup_num_tokens = 3;
  EXPECT_EQ(generator(prompts, config)[0].ids, record()["greedy"].get<std::vector<int64_t>>());
  config.num_beams = 3;
  config.num_return_sequences = 2;
  EXPECT_EQ(texts_of(generator(prompts, config)), record()["beams"].get<Texts>());
  config = generator.config();
  config.max_new_tokens = 9;
  PromptCache cache;
  GenerationCall call;
  call.cache = &cache;
  std::vector<int64_t> text = record()["prompt"];
  const auto first = generator(prompts_of({text}), config, call)[0];
  text.insert(text.end(), first.ids.begin(), first.ids.end() - 3);
  const auto second = generator(prompts_of({text}), config, call)[0];
  EXPECT_EQ(second.reused, static_cast<int64_t>(text.size()) - 1);
  EXPECT_EQ(second.ids, generator(prompts_of({text}), config)[0].ids);
}

class GenerationGuessing : public GenerationZoo {};

TEST_P(GenerationGuessing, ChangesNoToken) {
  const TokenGenerator generator = generator_of(record());
  const auto prompts = prompts_of({record()["prompt"]});
  GenerationConfig config = generator.config();
  config.max_new_tokens = record()["new"];
  const auto expected = record()["greedy"].get<std::vector<int64_t>>();
  config.prompt_lookup_num_tokens = 3;
  EXPECT_EQ(generator(prompts, config)[0].ids, expected);
  // Itself as its assistant: nearly all is right, and each step is checked with others beside it.
  if (generator.has_encoder()) return;
  config.num_assistant_tokens = 4;
  config.assistant_confidence_threshold = 0;
  GenerationCall call;
  call.assistant = &generator;
  const auto state = [](const Decoder::Cache& cache) { return cache.kind == Decoder::Cache::Kind::state; };
  const Model model = Model::load(
      (cases() / record()["zoo"].get<std::string>() / record()["decoder"].get<std::string>() / "model.onnx").string());
  GeneratedTokens answer;
  try {
    answer = generator(prompts, config, call)[0];
  } catch (const Error& error) {
    const Decoder decoder(model.compile({.threads = 1}), {.sizes = record()["sizes"]});
    EXPECT_TRUE(std::any_of(decoder.caches().begin(), decoder.caches().end(), state)) << error.what();
    return;
  }
  EXPECT_EQ(answer.ids, expected);
}

// The records that hold `part`, or lack it.
std::vector<size_t> records_with(const char* part, bool held = true) {
  std::vector<size_t> places;
  for (size_t i = 0; i < records().size(); ++i) {
    if (records()[i].contains(part) == held) places.push_back(i);
  }
  return places;
}

std::string name_of(const ::testing::TestParamInfo<size_t>& info) {
  return records()[info.param]["decoder"].get<std::string>();
}
INSTANTIATE_TEST_SUITE_P(Recorded, GenerationZoo, ::testing::ValuesIn(records_with("greedy")), name_of);
INSTANTIATE_TEST_SUITE_P(Recorded, GenerationFromCache, ::testing::ValuesIn(records_with("encoder", false)), name_of);
// Of most kinds one: 8-bit activations are scaled by all tokens of a step, so they see who is beside them.
INSTANTIATE_TEST_SUITE_P(Recorded, GenerationGuessing, ::testing::ValuesIn([] {
                           const std::set<std::string> names = {"gpt2_past",
                                                                "gpt2_merged",
                                                                "gpt2_nopast",
                                                                "llama_past",
                                                                "bloom_past",
                                                                "opt_past",
                                                                "falcon_past",
                                                                "qwen2_past",
                                                                "gemma2_past",
                                                                "gptj_past",
                                                                "mistral_sw_past",
                                                                "dyn_llama_op23",
                                                                "op24_llama",
                                                                "ortopt_llama",
                                                                "rwkv4_loop",
                                                                "scan_ssm",
                                                                "bart_merged",
                                                                "t5_merged",
                                                                "bart_decoder",
                                                                "genai_llama_fp32",
                                                                "genai_phi_fp32",
                                                                "genai_lfm2_fp32",
                                                                "genai_gemma3_fp32",
                                                                "genai_llama_prunehead_fp32",
                                                                "f16_llama_keeplogits",
                                                                "smolvlm_decoder_model_merged"};
                           std::vector<size_t> places = records_with("greedy");
                           std::erase_if(places, [&](size_t i) { return !names.contains(records()[i]["decoder"]); });
                           return places;
                         }()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Recorded, GenerationInSharedBuffers, ::testing::ValuesIn([] {
                           std::vector<size_t> places = records_with("greedy");
                           std::erase_if(places, [](size_t i) {
                             const std::string name = records()[i]["decoder"];
                             return name != "genai_llama_fp32" && name != "genai_llama_kvint8";
                           });
                           return places;
                         }()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Recorded, GenerationOfBatches, ::testing::ValuesIn(records_with("batch")), name_of);

}  // namespace
}  // namespace transmuter
