#include "text/sentence_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "../temporary_folder.h"
#include "text/safetensors.h"
#include "transmuter/error.h"
#include "transmuter/text.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

const Tensor kTokens(std::vector<float>{9, 9, 1, -2, 3, 4, 90, 90}, {4, 2});
const std::vector<bool> kCounted = {false, true, true, false};

std::vector<float> pooled(PoolingMode mode) { return pool(kTokens, kCounted, {{mode}}); }

TEST(Pooling, EachModeByHand) {
  EXPECT_THAT(pooled(PoolingMode::cls), ElementsAre(1, -2));
  EXPECT_THAT(pooled(PoolingMode::last_token), ElementsAre(3, 4));
  EXPECT_THAT(pooled(PoolingMode::max), ElementsAre(3, 4));
  EXPECT_THAT(pooled(PoolingMode::mean), ElementsAre(2, 1));
  const float root = std::sqrt(2.0f);
  EXPECT_THAT(pooled(PoolingMode::mean_sqrt_length),
              ElementsAre(FloatNear(4 / root, 1e-6f), FloatNear(2 / root, 1e-6f)));
  // Weights 2 and 3: the places in the row.
  EXPECT_THAT(pooled(PoolingMode::weighted_mean), ElementsAre(FloatNear(2.2f, 1e-6f), FloatNear(1.6f, 1e-6f)));
}

TEST(Pooling, SeveralFollowEachOther) {
  EXPECT_THAT(pool(kTokens, kCounted, {{PoolingMode::cls, PoolingMode::mean}}), ElementsAre(1, -2, 2, 1));
}

TEST(Pooling, NothingCountedGivesZeros) {
  const Tensor tokens(std::vector<float>{NAN, 7}, {1, 2});
  for (const PoolingMode mode : {PoolingMode::cls, PoolingMode::max, PoolingMode::mean, PoolingMode::last_token})
    EXPECT_THAT(pool(tokens, {false}, {{mode}}), ElementsAre(0, 0));
}

TEST(Pooling, VectorsGetUnitLength) {
  std::vector<float> vector = {3, 4};
  normalize(vector);
  EXPECT_THAT(vector, ElementsAre(0.6f, 0.8f));
  vector = {0, 0};
  normalize(vector);
  EXPECT_THAT(vector, ElementsAre(0, 0));
}

TEST(Pooling, CosinesOfAngles) {
  const Tensor rows(std::vector<float>{1, 0, 5, 5, 0, 0}, {3, 2});
  const auto close = [](float x) { return FloatNear(x, 1e-6f); };
  const float diagonal = std::sqrt(0.5f);
  EXPECT_THAT(cosine_similarities(rows).to_vector<float>(),
              ElementsAre(close(1), close(diagonal), 0, close(diagonal), close(1), 0, 0, 0, 0));
}

class ModuleFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void write_dense(const std::string& folder, const std::string& config) {
    const float values[] = {1, 2, 3, 4, 0.5f, -1};
    const std::string header = R"({"linear.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                               R"("linear.bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})";
    uint64_t size = header.size();
    std::string bytes(sizeof size, '\0');
    std::memcpy(bytes.data(), &size, sizeof size);
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(values), sizeof values);
    write(folder + "/model.safetensors", bytes);
    write(folder + "/config.json", config);
  }
  std::string error() {
    try {
      read_sentence_modules(folder_.path());
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(ModuleFiles, WithoutAnyTheMeanAtUnitLength) {
  const SentenceModules modules = read_sentence_modules(folder_.path());
  EXPECT_FALSE(modules.listed);
  EXPECT_THAT(modules.poolings, ElementsAre(PoolingMode::mean));
  ASSERT_EQ(modules.steps.size(), 1u);
}

TEST_F(ModuleFiles, ReadsWhatModulesJsonLists) {
  write("modules.json", R"([{"idx": 1, "type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                           {"idx": 0, "type": "sentence_transformers.models.Transformer", "path": ""},
                           {"idx": 2, "type": "a.b.Dense", "path": "2_Dense"}])");
  write("sentence_bert_config.json", R"({"max_seq_length": 77, "do_lower_case": true})");
  write("config_sentence_transformers.json", R"({"prompts": {"query": "q: "}, "default_prompt_name": null})");
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})");
  write_dense("2_Dense", R"({"activation_function": "torch.nn.modules.linear.Identity", "bias": true})");
  const SentenceModules modules = read_sentence_modules(folder_.path());
  EXPECT_EQ(modules.max_length, 77u);
  EXPECT_TRUE(modules.lower_case);
  EXPECT_EQ(modules.prompts.at("query"), "q: ");
  EXPECT_FALSE(modules.default_prompt);
  EXPECT_THAT(modules.poolings, ElementsAre(PoolingMode::cls, PoolingMode::mean));
  ASSERT_EQ(modules.steps.size(), 1u);
  EXPECT_THAT(apply(modules.steps[0], {1, 10}), ElementsAre(21.5f, 42));
}

TEST_F(ModuleFiles, TheNewerFormNamesItsMode) {
  write("modules.json", R"([{"idx": 0, "type": "Pooling", "path": "p"}])");
  write("p/config.json", R"({"pooling_mode": ["max", "lasttoken"], "include_prompt": false})");
  const SentenceModules modules = read_sentence_modules(folder_.path());
  EXPECT_THAT(modules.poolings, ElementsAre(PoolingMode::max, PoolingMode::last_token));
  EXPECT_FALSE(modules.include_prompt);
  EXPECT_TRUE(modules.steps.empty());
}

TEST_F(ModuleFiles, ErrorsNameTheFile) {
  write("modules.json", "{}");
  EXPECT_THAT(error(), HasSubstr("modules.json does not hold a JSON list"));
  write("modules.json", R"([{"idx": 0, "type": "Pooling", "path": "p"}])");
  EXPECT_THAT(error(), HasSubstr("p/config.json is not there"));
  write("p/config.json", R"({"pooling_mode": "middle"})");
  EXPECT_THAT(error(), HasSubstr("the pooling \"middle\" in"));
  write("modules.json", R"([{"idx": 0, "type": "x.Router", "path": ""}])");
  EXPECT_THAT(error(), HasSubstr("the module x.Router in"));
  write("modules.json", R"([{"idx": 0, "type": "Dense", "path": "d"}])");
  write_dense("d", R"({"activation_function": "Swish"})");
  EXPECT_THAT(error(), HasSubstr("the activation swish in"));
}

TEST_F(ModuleFiles, BrokenSafetensorsAreErrors) {
  const auto load = [&] { read_safetensors(folder_ / "x"); };
  EXPECT_THROW(load(), Error);
  write("x", "abc");
  EXPECT_THROW(load(), Error);
  write("x", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_THROW(load(), Error);
  const std::string header = R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})";
  write("x", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header);
  EXPECT_THROW(load(), Error);
}

}  // namespace
}  // namespace transmuter
