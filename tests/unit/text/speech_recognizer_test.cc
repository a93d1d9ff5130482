// Speech to text: what the folder's files decide, on the zoo's random Whisper, and folders that are none.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../errors.h"
#include "../temporary_folder.h"
#include "transmuter/audio.h"
#include "transmuter/speech.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Speech : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy_file(std::string(TRANSMUTER_TEST_DATA) + "/tiny_translator/tokenizer.json", folder_ / "tokenizer.json");
    write("preprocessor_config.json", R"({"feature_size": 16, "sampling_rate": 9600, "chunk_length": 1})");
    write("generation_config.json",
          R"({"decoder_start_token_id": 1, "eos_token_id": 2, "max_length": 8, "no_timestamps_token_id": 3,
              "lang_to_id": {"<|en|>": 5, "<|de|>": 9, "<|fr|>": 11}, "task_to_id": {"transcribe": 6, "translate": 7}})");
  }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  // False where the zoo isn't there.
  bool add_models() {
    const char* cases = std::getenv("TRANSMUTER_CASES");
    const fs::path zoo = fs::path(cases ? cases : "") / "zoo_vision";
    if (!fs::exists(zoo / "whisper_encoder_model")) return false;
    fs::copy_file(zoo / "whisper_encoder_model/model.onnx", folder_ / "encoder_model.onnx");
    fs::copy_file(zoo / "whisper_decoder_model_merged/model.onnx", folder_ / "decoder_model_merged.onnx");
    return true;
  }

  const TemporaryFolder folder_;
};

std::vector<float> sound(size_t size) {
  std::vector<float> samples(size);
  for (size_t i = 0; i < size; ++i) samples[i] = static_cast<float>(i % 40) / 40 - 0.5f;
  return samples;
}

TEST_F(Speech, FilesDecideHowAnAnswerBegins) {
  if (!add_models()) GTEST_SKIP() << "TRANSMUTER_CASES has no whisper models";
  const auto recognize = SpeechRecognizer::load(folder_.string());
  EXPECT_EQ(recognize.rate(), 9600);
  const std::vector<float> samples = sound(9600);
  // The same by hand.
  const TokenGenerator generate = TokenGenerator::load(folder_.string());
  GenerationPrompt prompt;
  prompt.encoder_inputs = {{"input_features", log_mel(samples, LogMelOptions::load(folder_.string()))}};
  for (const bool translate : {false, true}) {
    prompt.decoder_ids = {1, 9, translate ? 7 : 6, 3};
    const Transcript german = recognize(samples, {.language = "de", .translate = translate});
    EXPECT_EQ(german.language, "de");
    EXPECT_EQ(german.ids, generate({&prompt, 1}, generate.config())[0].ids);
    EXPECT_LE(german.ids.size(), 4u);
  }
  const Transcript heard = recognize(samples);
  EXPECT_THAT(heard.language, testing::AnyOf("en", "de", "fr"));
  EXPECT_EQ(heard.ids, recognize(samples, {.language = heard.language}).ids);
  // Twice as long: two pieces.
  const Transcript twice = recognize(sound(19200), {.language = "de"});
  EXPECT_GE(twice.ids.size(), recognize(samples, {.language = "de"}).ids.size());
  EXPECT_TRUE(recognize({}, {}).text.empty());
  EXPECT_THAT(error_of([&] { recognize(samples, {.language = "tlh"}); }), HasSubstr("\"tlh\""));
}

TEST_F(Speech, OneLanguageLeavesNoChoice) {
  if (!add_models()) GTEST_SKIP() << "TRANSMUTER_CASES has no whisper models";
  write("generation_config.json",
        R"({"decoder_start_token_id": 1, "max_length": 8, "forced_decoder_ids": [[1, 4], [2, null]]})");
  const auto recognize = SpeechRecognizer::load(folder_.string());
  EXPECT_EQ(recognize(sound(9600)).language, "");
  EXPECT_THAT(error_of([&] { recognize(sound(9600), {.language = "en"}); }), HasSubstr("one language"));
  EXPECT_THAT(error_of([&] { recognize(sound(9600), {.translate = true}); }), HasSubstr("cannot translate"));
  write("generation_config.json", R"({"max_length": 8})");
  EXPECT_THAT(error_of([&] { SpeechRecognizer::load(folder_.string()); }), HasSubstr("decoder_start_token_id"));
  write("generation_config.json", R"({"decoder_start_token_id": 1, "lang_to_id": {"<|en|>": "x"}})");
  EXPECT_THAT(error_of([&] { SpeechRecognizer::load(folder_.string()); }), HasSubstr("lang_to_id"));
}

TEST_F(Speech, FoldersThatHearSomethingElseAreRefused) {
  EXPECT_THAT(error_of([&] { SpeechRecognizer::load(folder_.string()); }), HasSubstr("there is no language model"));
  write("preprocessor_config.json", R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor"})");
  EXPECT_THAT(error_of([&] { SpeechRecognizer::load(folder_.string()); }), HasSubstr("Wav2Vec2FeatureExtractor"));
  fs::remove(folder_ / "preprocessor_config.json");
  EXPECT_THAT(error_of([&] { SpeechRecognizer::load(folder_.string()); }), HasSubstr("preprocessor_config.json"));
}

}  // namespace
}  // namespace transmuter
