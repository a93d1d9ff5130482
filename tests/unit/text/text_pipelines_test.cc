// Texts that the pipelines of transformers write with decoders of the text zoo (tests/data/record_text_generation.py).
// TRANSMUTER_CASES names the folder that holds zoo_text/.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"
#include "transmuter/error.h"
#include "transmuter/text.h"
#include "transmuter/text_generator.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Strings = std::vector<std::string>;

const fs::path kData = fs::path(TRANSMUTER_TEST_DATA) / "text_generation";

json read(const char* name) {
  std::ifstream file(kData / name);
  return json::parse(file);
}

class TextPipelines : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* cases = std::getenv("TRANSMUTER_CASES");
    if (!cases) GTEST_SKIP() << "TRANSMUTER_CASES is not set";
    zoo_ = fs::path(cases) / "zoo_text";
  }
  fs::path zoo_;
};

Strings texts_of(const std::vector<GeneratedText>& answers) {
  Strings texts;
  for (const GeneratedText& answer : answers) texts.push_back(answer.text);
  return texts;
}

TEST_F(TextPipelines, WriteTheTextsOfTransformers) {
  const json all = read("texts.json");
  std::map<std::string, TextGenerator> generators;
  for (const json& record : all["records"]) {
    const std::string name = record["decoder"];
    SCOPED_TRACE(name + record["settings"].dump());
    if (!generators.contains(name)) {
      GenerationModels models;
      models.decoder = Model::load((zoo_ / name / "model.onnx").string());
      models.compile.threads = 1;
      GenerationConfig config;
      config.eos_token_id = {2};
      config.pad_token_id = 1;
      generators.emplace(
          name, TextGenerator(TokenGenerator(models, config), Tokenizer::load((kData / "tokenizer.json").string()),
                              ChatTemplate::parse(all["template"].get<std::string>())));
    }
    const TextGenerator& generator = generators.at(name);
    GenerationConfig config = generator.config();
    config.update(record["settings"].dump(), "settings");
    if (record.contains("texts")) {
      std::vector<GenerationRequest> requests;
      for (const json& text : record["texts"]) requests.push_back({.text = text});
      EXPECT_EQ(texts_of(generator(requests, config)), record["expected"].get<Strings>());
    } else {
      GenerationRequest request;
      if (record.contains("messages")) request.messages = record["messages"].dump();
      if (record.contains("text")) request.text = record["text"];
      EXPECT_EQ(generator(request, config).text, record["expected"].get<std::string>()) << request.text;
    }
  }
}

TEST_F(TextPipelines, SummarizeAndTranslateAsTransformersDoes) {
  for (const json& record : read("rewritten.json")) {
    const std::string name = record["model"], task = record["task"];
    SCOPED_TRACE(name + record["config"].dump());
    const TemporaryFolder folder;
    fs::copy(zoo_ / (name + "_merged") / "model.onnx", folder / "decoder_model_merged.onnx");
    fs::copy(zoo_ / (name + "_encoder") / "model.onnx", folder / "encoder_model.onnx");
    fs::copy(kData / "tokenizer.json", folder / "tokenizer.json");
    std::ofstream(folder / "config.json") << record["config"];
    const TextRewriter rewriter = TextRewriter::load(folder.string(), task, {.threads = 1});
    const auto texts = record["texts"].get<Strings>();
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(texts_of(rewriter({&texts[i], 1}, rewriter.config()))[0], record["expected"][i].get<std::string>());
    EXPECT_EQ(texts_of(rewriter(texts, rewriter.config())), record["batch"].get<Strings>());
  }
}

// Makes `folder` a language model that ranks, as sentence-transformers saves one. `graph`: its model.
void save_ranker(const fs::path& folder, const fs::path& tokenizer, const fs::path& graph, const std::string& chat,
                 int yes, int no) {
  fs::create_directories(folder / "1_LogitScore");
  fs::copy(graph, folder / "model.onnx");
  fs::copy(tokenizer, folder / "tokenizer.json");
  std::ofstream(folder / "chat_template.jinja") << chat;
  std::ofstream(folder / "modules.json") << R"([
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
    {"idx": 1, "name": "1", "path": "1_LogitScore",
     "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}])";
  std::ofstream(folder / "1_LogitScore" / "config.json") << json{{"true_token_id", yes}, {"false_token_id", no}};
  std::ofstream(folder / "config_sentence_transformers.json")
      << R"({"prompts": {"query": "hi"}, "default_prompt_name": "query", "activation_fn": "torch.nn.modules.linear.Identity"})";
}

constexpr const char* kAsk =
    "{{ (messages | selectattr('role', 'eq', 'system') | first).content }} "
    "{{ (messages | selectattr('role', 'eq', 'query') | first).content }} "
    "{{ (messages | selectattr('role', 'eq', 'document') | first).content }}{% if asked %} {{ asked }}{% endif %}";

TEST(AskedReranker, TakesTheScoresBehindTheConversation) {
  const fs::path tiny = fs::path(TRANSMUTER_TEST_DATA) / "tiny_chat";
  // Of tiny_chat's words: what follows "hello" and "the" is world or, by 1 less, friend; what follows "there" is
  // friend.
  const TemporaryFolder folder;
  save_ranker(folder.path(), tiny / "tokenizer.json", tiny / "model.onnx", kAsk, 22, 10);
  const Reranker reranker = Reranker::load(folder.string());
  const Strings documents = {"how are you there", "good hello", "the"};
  const std::vector<double> scores = reranker.scores("today", documents);
  EXPECT_NEAR(scores[0], -12.22, 1e-4);
  EXPECT_NEAR(scores[1], 1, 1e-6);
  EXPECT_NEAR(scores[2], 1, 1e-6);
  EXPECT_EQ(reranker.rank("today", documents)[2].index, 0U);
  // Nothing else said: a sigmoid. What the template is told, and what stays of it when a text is cut.
  fs::remove(folder / "config_sentence_transformers.json");
  std::ofstream(folder / "chat_template.jinja")
      << "{{ (messages | selectattr('role', 'eq', 'document') | first).content }} {{ asked }}";
  std::ofstream(folder / "sentence_bert_config.json")
      << R"({"max_seq_length": 3, "processing_kwargs": {"chat_template": {"asked": "hello"}}})";
  for (const double score : Reranker::load(folder.string()).scores("today", documents))
    EXPECT_NEAR(score, 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(Reranker::load(folder.string()).scores("today", documents, true)[0], 1, 1e-6);
  const auto says = [&](const char* text) {
    std::ofstream(folder / "1_LogitScore" / "config.json") << text;
    try {
      Reranker::load(folder.string()).scores("today", documents);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(says("{}").find("no \"true_token_id\" in"), std::string::npos);
  EXPECT_NE(says(R"({"true_token_id": 999})").find("asks for the token 999"), std::string::npos);
  EXPECT_EQ(says(R"({"true_token_id": 22})"), "");
  EXPECT_THROW(TextEmbedder::load(folder.string()), Error);
}

TEST_F(TextPipelines, AskedRerankersScoreABatchAsTheyScoreOne) {
  const TemporaryFolder folder;
  save_ranker(folder.path(), kData / "tokenizer.json", zoo_ / "llama_past" / "model.onnx", kAsk, 40, 60);
  const Reranker reranker = Reranker::load(folder.string(), {.compile = {.threads = 1}});
  const Strings documents = {"the river is in Berlin", "a", "What is the capital of France? Paris is.", "the dog",
                             "foxes"};
  const std::vector<double> scores = reranker.scores("the quick fox", documents);
  GenerationModels models;
  models.decoder = Model::load((zoo_ / "llama_past" / "model.onnx").string());
  models.compile.threads = 1;
  const TokenGenerator decoder(models);
  const Tokenizer tokenizer = Tokenizer::load((kData / "tokenizer.json").string());
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::string text = "hi the quick fox " + documents[i];
    GenerationPrompt prompt;
    prompt.ids = tokenizer.encode_batch({&text, 1}, {.add_special_tokens = false})[0].ids;
    GenerationCall call;
    double expected = 0;
    call.processors = {[&](std::span<const int64_t>, std::span<float> x) { expected = double{x[40]} - x[60]; }};
    GenerationConfig config;
    config.max_new_tokens = 1;
    decoder({&prompt, 1}, config, call);
    EXPECT_NEAR(scores[i], expected, 1e-4) << documents[i];
  }
}

}  // namespace
}  // namespace transmuter
