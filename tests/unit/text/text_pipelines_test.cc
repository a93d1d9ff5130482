// Texts that the pipelines of transformers write with decoders of the text zoo (tests/data/record_text_generation.py).
// TRANSMUTER_CASES names the folder that holds zoo_text/.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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
  const fs::path folder = fs::temp_directory_path() / "transmuter_rewriter";
  for (const json& record : read("rewritten.json")) {
    const std::string name = record["model"], task = record["task"];
    SCOPED_TRACE(name + record["config"].dump());
    fs::remove_all(folder);
    fs::create_directories(folder);
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
  fs::remove_all(folder);
}

}  // namespace
}  // namespace transmuter
